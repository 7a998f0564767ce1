"""Scheduling: from a graph to steps over buffers."""

from __future__ import annotations

import math
from collections.abc import Sequence

from ...ir.body import (
    Blocks,
    Branch,
    Concat,
    Contract,
    FromParts,
    Repeat,
    Scan,
    Scatter,
    Sort,
    TopK,
    View,
    While,
)
from ...ir.dims import likely
from ...ir.graph import Graph, Node, Value
from ...ir.types import Size, Type, as_dtype
from ..lir import expr as scalar, program as lir
from ..lir.access import reads, writes
from ..lir.expr import Load
from ..lir.index import Variable, as_index
from ..lir.program import (
    BranchStep,
    Buffer,
    Carry,
    Copy,
    Kernel,
    LibraryCall,
    Program,
    RepeatStep,
    Step,
    Store,
    WhileStep,
)
from ..target import Target
from .blocks import pass_kernels
from .contraction import contraction_steps
from .elements import flatten, loops_of
from .fuse import Fusion, fuse, maker, memory_of
from .merge import MOST_STORES
from .scheduler import Scheduler
from .sorting import sort_steps
from .split import loops_apart

# -- what is worth knowing about a schedule: library calls and missed fusions ----------------------


def notes_of(graph: Graph, target: Target, fusion: Fusion) -> list[str]:
    """One line for each library call and for each fusion that was missed."""
    notes = []
    results = set(graph.results)
    for node in graph.nodes:
        if node in fusion.library:
            notes.append(f"{node.op.name}: library (NumPy), {_lack(node, target)}{_at(node)}")
        for value in node.results:
            reason = fusion.missed.get(value)
            if reason and value not in results:
                notes.append(f"{node.op.name} {value.type}: stored, {reason}{_at(node)}")
    return notes


def missed_in(graph: Graph, fusion: Fusion) -> list[str]:
    """The notes of values that nobody needs in memory, but that are stored."""
    values = [value for node in graph.nodes for value in node.results]
    found = [v for v in values if v in fusion.missed and v not in fusion.forced]
    return [f"{v.node.op.name} {v.type}: {fusion.missed[v]}{_at(v.node)}" for v in found]  # type: ignore[union-attr,arg-type]


def _lack(node: Node, target: Target) -> str:
    for value in (*node.args, *node.results):
        if not target.computes(value.dtype):
            return f"{target.name} has no arithmetic for {value.dtype.name}"
    if isinstance(node.op.rules.body, TopK):
        return f"more than {target.most_ranked} numbers, or rows of any length"
    return "the op has no loop body"


def _at(node: Node) -> str:
    return f"   {node.source}" if node.source else ""


# -- control flow: nested programs bound to buffers of the caller ----------------------------------


BYTES = Type(as_dtype("uint8"), (0,))


def branch_step(scheduler: Scheduler, node: Node) -> BranchStep:
    """Make the step that runs one of several programs."""
    selector, *args = node.args
    return BranchStep(
        selector=scheduler.buffer(selector),
        programs=tuple(schedule(graph, scheduler.target) for graph in node.attrs["branches"]),
        inputs=tuple(scheduler.buffer(a) for a in args),
        outputs=tuple(scheduler.result_buffer(r) for r in node.results),
        scratch=scheduler.new_buffer(BYTES),
    )


def while_step(scheduler: Scheduler, node: Node) -> WhileStep:
    """Make the step that runs a program while another one gives True."""
    n_condition, n_body = node.attrs["n_condition"], node.attrs["n_body"]
    buffers = [scheduler.buffer(a) for a in node.args]
    start = n_condition + n_body
    body = schedule(node.attrs["body"], scheduler.target)
    return WhileStep(
        condition=schedule(node.attrs["condition"], scheduler.target),
        body=body,
        condition_constants=tuple(buffers[:n_condition]),
        body_constants=tuple(buffers[n_condition:start]),
        carries=_carries(scheduler, node, buffers[start:], body, n_body),
        flag=scheduler.new_buffer(Type(as_dtype("bool"))),
        scratch=scheduler.new_buffer(BYTES),
    )


def repeat_step(scheduler: Scheduler, node: Node) -> RepeatStep:
    """Make the step that runs a program for each row of arrays."""
    n_constants, n_carry = node.attrs["n_constants"], node.attrs["n_carry"]
    buffers = [scheduler.buffer(a) for a in node.args]
    end = n_constants + n_carry
    body = schedule(node.attrs["body"], scheduler.target)
    return RepeatStep(
        body=body,
        length=node.attrs["length"],
        reverse=node.attrs["reverse"],
        constants=tuple(buffers[:n_constants]),
        carries=_carries(scheduler, node, buffers[n_constants:end], body, n_constants),
        slices=tuple(buffers[end:]),
        stacks=tuple(scheduler.result_buffer(r) for r in node.results[n_carry:]),
        scratch=scheduler.new_buffer(BYTES),
    )


def _carries(
    scheduler: Scheduler, node: Node, initial: Sequence[Buffer], body: Program, first: int
) -> tuple[Carry, ...]:
    """The carried arrays of a loop, in place where the body only updates them."""
    carries = []
    for number, buffer in enumerate(initial):
        result = scheduler.result_buffer(node.results[number])
        before, after = body.inputs[first + number], body.outputs[number]
        if scheduler.target.in_place_carries and _shares(body, before, after):
            carries.append(Carry(buffer, result, None, in_place=True))
        else:
            spare = scheduler.new_buffer(node.results[number].type)
            carries.append(Carry(buffer, result, spare))
    return tuple(carries)


def _shares(body: Program, before: Buffer, after: Buffer) -> bool:
    """Drop an output's initial copy of an input that nothing reads later: they share memory."""
    at = next((n for n, step in enumerate(body.steps) if after in writes(step)), None)
    if at is None or not _is_copy(body.steps[at], before, after):
        return False
    if any(before in reads(step) for step in body.steps[at + 1 :]):
        return False
    del body.steps[at]
    body.shared[after] = before
    return True


def _is_copy(step: Step, before: Buffer, after: Buffer) -> bool:
    """Whether a step copies a whole buffer into another."""
    if isinstance(step, Copy):
        return step.origin is before and step.target is after
    if not isinstance(step, Kernel) or len(step.stores) != 1:
        return False
    (store,) = step.stores
    is_load = isinstance(store.expr, Load) and store.expr.buffer is before
    is_whole = math.prod(v.extent for v in step.loops) == before.count
    return is_load and is_whole and store.expr.index == store.index  # type: ignore[attr-defined]


# -- one step after another ------------------------------------------------------------------------


def schedule(graph: Graph, target: Target) -> Program:
    """Turn a graph into steps over buffers, one kernel for each stored value.

    before: `a = exp(x); b = add(a, y); return b`; after: one output buffer and
    `kernel i < n: b2[i] = exp(b0[i]) + b1[i]`. Temporaries have no place in memory yet.
    """
    fusion = fuse(graph, target)
    scheduler = Scheduler(graph, target, fusion)
    inputs = [scheduler.new_buffer(p.type, "input") for p in graph.params]
    scheduler.buffers.update(zip(graph.params, inputs, strict=True))
    outputs, copied = scheduler.make_outputs()
    in_epilogues = set(fusion.epilogues.values())
    for node in graph.nodes:
        if node.op.is_constant or any(r in in_epilogues for r in node.results):
            continue
        scheduler.steps += steps_of(scheduler, node)
    steps = [*scheduler.steps, *(Copy(scheduler.buffer(x), output) for output, x in copied)]
    constants, notes = tuple(scheduler.constants.values()), notes_of(graph, target, fusion)
    made = Program(graph.name, tuple(inputs), tuple(outputs), constants, steps, notes=notes)
    made.missed = missed_in(graph, fusion)
    if target.timed:
        for value, buffer in scheduler.buffers.items():  # views follow what they are views of
            made.origins.setdefault(buffer.name, value)
    return made


def steps_of(scheduler: Scheduler, node: Node) -> list[Step]:
    """The steps of a node; none if its results are computed in other kernels."""
    body, fusion = node.op.rules.body, scheduler.fusion
    if node in fusion.library or node.op.name in scheduler.target.wants:
        return [library_call(scheduler, node)]
    if isinstance(body, Branch):
        return [branch_step(scheduler, node)]
    if isinstance(body, While):
        return [while_step(scheduler, node)]
    if isinstance(body, Repeat):
        return [repeat_step(scheduler, node)]
    if isinstance(body, TopK):
        return top_k_steps(scheduler, node)
    if isinstance(body, Sort):
        return sort_steps(scheduler, node)
    if isinstance(body, Blocks):
        return pass_kernels(scheduler, node, body)
    if node.result.type.size == 0:
        scheduler.result_buffer(node.result)
    elif isinstance(body, Contract):
        return contraction_steps(scheduler, node, node.result)
    elif isinstance(body, Scan):
        return [scan_step(scheduler, node, body)]
    elif isinstance(body, Scatter):
        return scatter_steps(scheduler, node, body)
    elif isinstance(body, Concat):
        return [*concat_kernels(scheduler, node)]
    elif isinstance(body, FromParts):
        return [parts_kernel(scheduler, node)]
    elif isinstance(body, View) and node.args[0] in scheduler.buffers:
        scheduler.buffers[node.result] = scheduler.buffers[node.args[0]]
    elif node.result in fusion.epilogues:
        return contraction_steps(scheduler, maker(fusion.epilogues[node.result]), node.result)
    elif node.result in fusion.stored:
        return [scheduler.stored(node.result, node)]
    return []


def library_call(scheduler: Scheduler, node: Node) -> LibraryCall:
    """Make the call of an op's NumPy reference."""
    inputs = tuple(scheduler.buffer(a) for a in node.args)
    outputs = tuple(scheduler.result_buffer(r) for r in node.results)
    types = tuple(a.type for a in node.args)
    is_wanted = node.op.name in scheduler.target.wants
    return LibraryCall(node.op, node.attrs, inputs, outputs, types, node.source, is_wanted)


def parts_kernel(scheduler: Scheduler, node: Node) -> Kernel:
    """Make the kernel that stores both parts of complex numbers."""
    loops, place = loops_of(node.result.shape)
    parts = [scheduler.elements.at(arg, place) for arg in node.args]
    buffer, offset = scheduler.result_buffer(node.result), flatten(place, node.result.shape)
    stores = tuple(Store(buffer, offset * 2 + i, part) for i, part in enumerate(parts))
    return Kernel(loops, stores, node.source)


def scan_step(scheduler: Scheduler, node: Node, body: Scan) -> Step:
    """Make a prefix scan; along an axis of size 1 it is a copy."""
    (arg,) = node.args
    axis = node.attrs["axis"]
    if arg.shape[axis] == 1:
        return scheduler.stored(arg, node, scheduler.result_buffer(node.result))
    loops, place = loops_of(arg.shape)
    along = next(v for v in loops if place[axis] == as_index(v))
    wide = scheduler.target.arithmetic(arg.dtype)
    element = scalar.apply("convert", wide, scheduler.elements.at(arg, place))
    return lir.Scan(
        loops=tuple(v for v in loops if v is not along),
        along=along,
        reverse=node.attrs.get("reverse", False),
        combine=body.combine,
        expr=element,
        buffer=scheduler.result_buffer(node.result),
        index=flatten(place, arg.shape),
        source=node.source,
    )


def top_k_steps(scheduler: Scheduler, node: Node) -> list[Step]:
    """Make a top-k step, if there is anything to find."""
    (arg,) = node.args
    values, places = (scheduler.result_buffer(result) for result in node.results)
    if values.size == 0:
        return []
    loops, place = loops_of(arg.shape[:-1])
    along, rank = Variable(arg.shape[-1]), Variable(node.attrs["k"])
    step = lir.TopK(
        loops=loops,
        along=along,
        rank=rank,
        expr=scheduler.elements.at(arg, (*place, as_index(along))),
        values=values,
        places=places,
        index=flatten((*place, as_index(rank)), node.results[0].shape),
        source=node.source,
    )
    return [step]


def scatter_steps(scheduler: Scheduler, node: Node, body: Scatter) -> list[Step]:
    """Make a scatter, after the kernel that stores its target."""
    target, updates = node.args[0], node.args[body.updates]
    steps: list[Step] = []
    if scheduler.target.in_place_carries and reads_from(scheduler, updates, target):
        # made before the target changes, so that a loop can change it in place
        early = scheduler.new_buffer(updates.type)
        steps.append(scheduler.stored(updates, node, early))
        scheduler.buffers[updates] = early
    buffer = scheduler.result_buffer(node.result)
    steps.append(scheduler.stored(target, node, buffer))
    if updates.type.size == 0:
        return steps
    loops, place = loops_of(updates.shape)
    types = [a.type for a in node.args]
    read = body.place(place, scheduler.elements.loader(node), types, **node.attrs)
    assert not read.strides, "a scatter has no strides"
    index = flatten([as_index(i) for i in read.index], target.shape)
    step = lir.Scatter(
        loops=loops,
        combine=body.combine,
        buffer=buffer,
        index=index,
        bounds=tuple((as_index(i), low, high) for i, low, high in read.guards),
        expr=scheduler.elements.at(updates, place),
        apart=loops if node.attrs.get("unique") else loops_apart(loops, index),
        source=node.source,
    )
    return [*steps, step]


def reads_from(scheduler: Scheduler, value: Value, origin: Value) -> bool:
    """Whether a value that is not stored reads another, much larger one."""
    root = memory_of(origin, scheduler.target)
    if value in scheduler.buffers or root not in scheduler.buffers or not value.type.size:
        return False
    _, place = loops_of(value.shape)
    loads = scheduler.elements.at(value, place).loads
    is_small = 2 * likely(value.type.size) <= likely(origin.type.size)
    return is_small and any(load.buffer is scheduler.buffers[root] for load in loads)


def concat_kernels(scheduler: Scheduler, node: Node) -> list[Kernel]:
    """Make a kernel for each operand, which writes its part of the result.

    Operands whose elements alternate in the result have one kernel, which writes whole lines.
    """
    buffer, axis = scheduler.result_buffer(node.result), node.attrs["axis"]
    start: Size = 0
    kernels: list[Kernel] = []
    loops, place = loops_of(node.args[0].shape)
    is_side_by_side = _lies_side_by_side(node.args, axis)
    for arg in node.args:
        if arg.type.size == 0:
            continue
        if not is_side_by_side:
            loops, place = loops_of(arg.shape)
        there = (*place[:axis], place[axis] + start, *place[axis + 1 :])
        index = flatten(there, node.result.shape)
        store = Store(buffer, index, scheduler.elements.at(arg, place))
        kernels.append(Kernel(loops, (store,), node.source))
        start += arg.shape[axis]
    if is_side_by_side:
        stores = tuple(store for kernel in kernels for store in kernel.stores)
        return [Kernel(loops, stores, node.source)]
    return kernels


def _lies_side_by_side(args: Sequence[Value], axis: int) -> bool:
    """Whether the elements of a concatenation's operands alternate in memory."""
    shape = args[0].shape
    is_one = all(n == 1 for n in shape[axis:]) and args[0].type.size != 0
    return is_one and len(args) <= MOST_STORES and all(a.shape == shape for a in args)
