"""Turn a graph into steps over buffers."""

from __future__ import annotations

from collections.abc import Sequence

from ...ir.body import (
    Blocks,
    Branch,
    Concat,
    Contract,
    FromParts,
    Greatest,
    Repeat,
    Scan,
    Scatter,
    Sort,
    View,
    While,
)
from ...ir.dims import likely
from ...ir.graph import Constant, Graph, Node, Value
from ...ir.types import Size, Type
from ..lir import expr as scalar
from ..lir import program as lir
from ..lir.index import Variable, as_index
from ..lir.program import Buffer, Kind, Program, Step, Store
from ..target import Target
from .blocks import pass_kernels
from .contraction import contraction_steps
from .control import branch_step, repeat_step, while_step
from .elements import Elements, flatten, loops_of
from .fuse import Fusion, fuse, maker, memory_of
from .merge_kernels import MOST_STORES
from .notes import notes_of
from .sorting import sort_steps
from .split_scatters import loops_apart

SHARED = 8  # steps within which a padded copy is used again


def schedule(graph: Graph, target: Target) -> Program:
    """Turn a graph into steps over buffers, one kernel for each stored value.

    before: `a = exp(x); b = add(a, y); return b`; after: one output buffer and
    `kernel i < n: b2[i] = exp(b0[i]) + b1[i]`. Temporaries have no place in memory yet.
    """
    return Scheduler(graph, target, fuse(graph, target)).run()


class Scheduler:
    """The state of one graph's scheduling: buffers of values, steps so far."""

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
        """Make the output buffers.

        Those that are not computed in place are filled by copies at the end.
        """
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
        """The buffer a step writes a value to: an output, or a new temporary.

        From now on the value is loaded, so its expression must have been made before.
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
        elif isinstance(body, Greatest):
            self.emit_greatest(node)
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
            self.emit_kernel(node)

    def emit_library(self, node: Node) -> None:
        """Append a library call."""
        inputs = tuple(self.buffer(a) for a in node.args)
        outputs = tuple(self.result_buffer(r) for r in node.results)
        types = tuple(a.type for a in node.args)
        step = lir.LibraryCall(node.op, node.attrs, inputs, outputs, types, node.source)
        self.steps.append(step)

    def emit_kernel(self, node: Node) -> None:
        """The kernel that computes and stores a value."""
        loops, place = loops_of(node.result.shape)
        element = self.elements.at(node.result, place)
        buffer = self.result_buffer(node.result)
        store = Store(buffer, flatten(place, node.result.shape), element)
        self.steps.append(lir.Kernel(loops, (store,), node.source))

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
            loops, place = loops_of(value.shape)
            store = Store(buffer, flatten(place, value.shape), self.elements.at(value, place))
            made.append(lir.Kernel(loops, (store,), node.source))
        self.padded[value] = buffer, len(self.steps)
        return buffer, made

    def fill(self, buffer: Buffer, value: Value, node: Node) -> None:
        """The kernel that puts a value into a buffer of the same shape."""
        loops, place = loops_of(value.shape)
        store = Store(buffer, flatten(place, value.shape), self.elements.at(value, place))
        self.steps.append(lir.Kernel(loops, (store,), node.source))

    def reads_from(self, value: Value, origin: Value) -> bool:
        """Whether a value of no memory yet is made from another, larger one."""
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
            self.fill(self.result_buffer(node.result), arg, node)
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

    def emit_greatest(self, node: Node) -> None:
        """Append the search for the greatest of each row."""
        (arg,) = node.args
        values, places = (self.result_buffer(result) for result in node.results)
        if values.size == 0:
            return
        loops, place = loops_of(arg.shape[:-1])
        along, rank = Variable(arg.shape[-1]), Variable(node.attrs["k"])
        step = lir.Greatest(
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
            self.fill(early, updates, node)
            self.buffers[updates] = early
        buffer = self.result_buffer(node.result)
        self.fill(buffer, target, node)
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
        """One kernel for each operand, into its part of the result.

        Where their elements lie side by side there is one for all, which fills whole lines.
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
    """Whether in a concatenation an element of each operand follows one of the operand before."""
    shape = args[0].shape
    is_one = all(n == 1 for n in shape[axis:]) and args[0].type.size != 0
    return is_one and len(args) <= MOST_STORES and all(a.shape == shape for a in args)
