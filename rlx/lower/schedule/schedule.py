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
from ...ir.graph import Constant, Graph, Node, Value
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
    Kind,
    Program,
    RepeatStep,
    Step,
    Store,
    WhileStep,
)
from ..target import Target
from .blocks import pass_kernels
from .contraction import contraction_steps
from .elements import Elements, flatten, loops_of
from .fuse import Fusion, fuse, maker, memory_of
from .merge import MOST_STORES
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
        programs=tuple(scheduler.nested(graph) for graph in node.attrs["branches"]),
        inputs=tuple(scheduler.buffer(a) for a in args),
        outputs=tuple(scheduler.result_buffer(r) for r in node.results),
        scratch=scheduler.new_buffer(BYTES),
    )


def while_step(scheduler: Scheduler, node: Node) -> WhileStep:
    """Make the step that runs a program while another one gives True."""
    n_condition, n_body = node.attrs["n_condition"], node.attrs["n_body"]
    buffers = [scheduler.buffer(a) for a in node.args]
    start = n_condition + n_body
    body = scheduler.nested(node.attrs["body"])
    return WhileStep(
        condition=scheduler.nested(node.attrs["condition"]),
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
    body = scheduler.nested(node.attrs["body"])
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


SHARED = 8  # steps within which a padded copy is used again


def schedule(graph: Graph, target: Target) -> Program:
    """Turn a graph into steps over buffers, one kernel for each stored value.

    before: `a = exp(x); b = add(a, y); return b`; after: one output buffer and
    `kernel i < n: b2[i] = exp(b0[i]) + b1[i]`. Temporaries have no place in memory yet.
    """
    return Scheduler(graph, target, fuse(graph, target)).run()


class Scheduler:
    """The state of scheduling a graph: buffers of values, steps so far."""

    def __init__(self, graph: Graph, target: Target, fusion: Fusion) -> None:
        self.graph, self.target, self.fusion = graph, target, fusion
        self.buffers: dict[Value, Buffer] = {}  # of values computed so far
        self.reserved: dict[Value, Buffer] = {}  # outputs, for values to come
        self.constants: dict[Constant, Buffer] = {}
        self.steps: list[Step] = []
        self.elements = Elements(target, self.buffers, self.constant_buffer)
        self.padded: dict[Value, tuple[Buffer, int]] = {}  # copies, and after how many steps
        self.count = 0

    def run(self) -> Program:
        """Schedule all nodes of the graph."""
        inputs = [self.new_buffer(p.type, "input") for p in self.graph.params]
        self.buffers.update(zip(self.graph.params, inputs, strict=True))
        outputs, copied = self.make_outputs()
        in_epilogues = set(self.fusion.epilogues.values())
        for node in self.graph.nodes:
            if node.op.is_constant or any(r in in_epilogues for r in node.results):
                continue
            self.emit(node)
        for output, value in copied:
            self.steps.append(lir.Copy(self.buffer(value), output))
        constants = tuple(self.constants.values())
        name = self.graph.name
        notes = notes_of(self.graph, self.target, self.fusion)
        return Program(name, tuple(inputs), tuple(outputs), constants, self.steps, notes=notes)

    def nested(self, graph: Graph) -> Program:
        """The program of a nested graph."""
        return schedule(graph, self.target)

    # -- buffers ---------------------------------------------------------------------------------

    def new_buffer(self, type: Type, kind: Kind = "temporary") -> Buffer:
        """A buffer with the next name."""
        self.count += 1
        return Buffer(f"b{self.count - 1}", type, kind)

    def make_outputs(self) -> tuple[list[Buffer], list[tuple[Buffer, Value]]]:
        """Make the output buffers; those not computed in place are copied at the end."""
        outputs, copied = [], []
        for result in self.graph.results:
            output = self.new_buffer(result.type, "output")
            outputs.append(output)
            root = memory_of(result, self.target)
            if root in self.reserved or root.node is None or root.node.op.is_constant:
                copied.append((output, result))
            else:
                self.reserved[root] = output
        return outputs, copied

    def buffer(self, value: Value) -> Buffer:
        """The buffer that holds a stored value, an argument or a constant."""
        root = memory_of(value, self.target)
        if root.node is not None and root.node.op.is_constant:
            return self.constant_buffer(root)
        return self.buffers[root]

    def constant_buffer(self, value: Value) -> Buffer:
        """The buffer of a constant; equal constants share one."""
        constant = maker(value).attrs["value"]
        if constant not in self.constants:
            buffer = self.new_buffer(value.type, "constant")
            buffer.array = constant.array
            self.constants[constant] = buffer
        return self.constants[constant]

    def result_buffer(self, value: Value) -> Buffer:
        """The buffer that a step writes a value to: an output, or a new temporary.

        Later uses load the value, so its own expression must have been made before.
        """
        if value not in self.buffers:
            self.buffers[value] = self.reserved.get(value) or self.new_buffer(value.type)
        return self.buffers[value]

    # -- steps -----------------------------------------------------------------------------------

    def emit(self, node: Node) -> None:
        """Add the steps of a node whose results are stored."""
        body = node.op.rules.body
        if node in self.fusion.library or node.op.name in self.target.wants:
            self.emit_library(node)
        elif isinstance(body, Branch):
            self.steps.append(branch_step(self, node))
        elif isinstance(body, While):
            self.steps.append(while_step(self, node))
        elif isinstance(body, Repeat):
            self.steps.append(repeat_step(self, node))
        elif isinstance(body, TopK):
            self.emit_top_k(node)
        elif isinstance(body, Sort):
            self.steps += sort_steps(self, node)
        elif isinstance(body, Blocks):
            self.steps += pass_kernels(self, node, body)
        elif node.result.type.size == 0:
            self.result_buffer(node.result)
        elif isinstance(body, Contract):
            self.steps += contraction_steps(self, node, node.result)
        elif isinstance(body, Scan):
            self.emit_scan(node, body)
        elif isinstance(body, Scatter):
            self.emit_scatter(node, body)
        elif isinstance(body, Concat):
            self.emit_concat(node)
        elif isinstance(body, FromParts):
            self.emit_parts(node)
        elif isinstance(body, View) and node.args[0] in self.buffers:
            self.buffers[node.result] = self.buffers[node.args[0]]
        elif node.result in self.fusion.epilogues:
            contraction = self.fusion.epilogues[node.result]
            self.steps += contraction_steps(self, maker(contraction), node.result)
        elif node.result in self.fusion.stored:
            self.steps.append(self.stored(node.result, node))

    def emit_library(self, node: Node) -> None:
        """Append a library call."""
        inputs = tuple(self.buffer(a) for a in node.args)
        outputs = tuple(self.result_buffer(r) for r in node.results)
        types = tuple(a.type for a in node.args)
        step = lir.LibraryCall(node.op, node.attrs, inputs, outputs, types, node.source)
        self.steps.append(step)

    def stored(self, value: Value, node: Node, buffer: Buffer | None = None) -> Kernel:
        """The kernel that stores a value, in a buffer of its own if none is given."""
        loops, place = loops_of(value.shape)
        element = self.elements.at(value, place)
        store = Store(buffer or self.result_buffer(value), flatten(place, value.shape), element)
        return Kernel(loops, (store,), node.source)

    def emit_parts(self, node: Node) -> None:
        """The kernel that computes both parts of complex numbers."""
        loops, place = loops_of(node.result.shape)
        parts = [self.elements.at(arg, place) for arg in node.args]
        buffer, offset = self.result_buffer(node.result), flatten(place, node.result.shape)
        stores = tuple(Store(buffer, offset * 2 + i, part) for i, part in enumerate(parts))
        self.steps.append(lir.Kernel(loops, stores, node.source))

    def padded_copy(self, value: Value, node: Node) -> tuple[Buffer, list[Step]]:
        """A copy of a padded array, with the step that makes it.

        It pays for steps that read each element often. Steps soon after share it, later ones make
        their own: memory is dearer than a copy.
        """
        buffer, number = self.padded.get(value, (None, -SHARED))
        made: list[Step] = []
        if buffer is None or len(self.steps) - number > SHARED:
            buffer = self.new_buffer(value.type)
            made.append(self.stored(value, node, buffer))
        self.padded[value] = buffer, len(self.steps)
        return buffer, made

    def reads_from(self, value: Value, origin: Value) -> bool:
        """Whether a value that is not stored reads another, much larger one."""
        root = memory_of(origin, self.target)
        if value in self.buffers or root not in self.buffers or not value.type.size:
            return False
        _, place = loops_of(value.shape)
        loads = self.elements.at(value, place).loads
        is_small = 2 * likely(value.type.size) <= likely(origin.type.size)
        return is_small and any(load.buffer is self.buffers[root] for load in loads)

    def emit_scan(self, node: Node, body: Scan) -> None:
        """Append a running combination."""
        (arg,) = node.args
        axis = node.attrs["axis"]
        if arg.shape[axis] == 1:
            self.steps.append(self.stored(arg, node, self.result_buffer(node.result)))
            return
        loops, place = loops_of(arg.shape)
        along = next(v for v in loops if place[axis] == as_index(v))
        wide = self.target.arithmetic(arg.dtype)
        element = scalar.apply("convert", wide, self.elements.at(arg, place))
        step = lir.Scan(
            loops=tuple(v for v in loops if v is not along),
            along=along,
            reverse=node.attrs.get("reverse", False),
            combine=body.combine,
            expr=element,
            buffer=self.result_buffer(node.result),
            index=flatten(place, arg.shape),
            source=node.source,
        )
        self.steps.append(step)

    def emit_top_k(self, node: Node) -> None:
        """Append a top-k step."""
        (arg,) = node.args
        values, places = (self.result_buffer(result) for result in node.results)
        if values.size == 0:
            return
        loops, place = loops_of(arg.shape[:-1])
        along, rank = Variable(arg.shape[-1]), Variable(node.attrs["k"])
        step = lir.TopK(
            loops=loops,
            along=along,
            rank=rank,
            expr=self.elements.at(arg, (*place, as_index(along))),
            values=values,
            places=places,
            index=flatten((*place, as_index(rank)), node.results[0].shape),
            source=node.source,
        )
        self.steps.append(step)

    def emit_scatter(self, node: Node, body: Scatter) -> None:
        """Append a scatter."""
        target, updates = node.args[0], node.args[body.updates]
        if self.target.in_place_carries and self.reads_from(updates, target):
            # made before the target changes, so that a loop can change it in place
            early = self.new_buffer(updates.type)
            self.steps.append(self.stored(updates, node, early))
            self.buffers[updates] = early
        buffer = self.result_buffer(node.result)
        self.steps.append(self.stored(target, node, buffer))
        if updates.type.size == 0:
            return
        loops, place = loops_of(updates.shape)
        types = [a.type for a in node.args]
        read = body.place(place, self.elements.loader(node), types, **node.attrs)
        assert not read.strides, "a scatter has no strides"
        index = flatten([as_index(i) for i in read.index], target.shape)
        step = lir.Scatter(
            loops=loops,
            combine=body.combine,
            buffer=buffer,
            index=index,
            bounds=tuple((as_index(i), low, high) for i, low, high in read.guards),
            expr=self.elements.at(updates, place),
            apart=loops if node.attrs.get("unique") else loops_apart(loops, index),
            source=node.source,
        )
        self.steps.append(step)

    def emit_concat(self, node: Node) -> None:
        """Append a kernel for each operand, which writes its part of the result.

        Operands whose elements alternate in the result have one kernel, which writes whole lines.
        """
        buffer, axis = self.result_buffer(node.result), node.attrs["axis"]
        start: Size = 0
        kernels: list[lir.Kernel] = []
        loops, place = loops_of(node.args[0].shape)
        is_side_by_side = _lies_side_by_side(node.args, axis)
        for arg in node.args:
            if arg.type.size == 0:
                continue
            if not is_side_by_side:
                loops, place = loops_of(arg.shape)
            there = (*place[:axis], place[axis] + start, *place[axis + 1 :])
            index = flatten(there, node.result.shape)
            store = Store(buffer, index, self.elements.at(arg, place))
            kernels.append(lir.Kernel(loops, (store,), node.source))
            start += arg.shape[axis]
        if is_side_by_side:
            stores = tuple(store for kernel in kernels for store in kernel.stores)
            kernels = [lir.Kernel(loops, stores, node.source)]
        self.steps += kernels


def _lies_side_by_side(args: Sequence[Value], axis: int) -> bool:
    """Whether the elements of a concatenation's operands alternate in memory."""
    shape = args[0].shape
    is_one = all(n == 1 for n in shape[axis:]) and args[0].type.size != 0
    return is_one and len(args) <= MOST_STORES and all(a.shape == shape for a in args)
