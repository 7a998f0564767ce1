"""The state of scheduling a graph: the buffers of its values, and its steps."""

from __future__ import annotations

from ...ir.graph import Constant, Graph, Node, Value
from ...ir.types import Type
from ..lir.program import Buffer, Kernel, Kind, Step, Store
from ..target import Target
from .elements import Elements, flatten, loops_of
from .fuse import Fusion, maker, memory_of

SHARED = 8  # steps within which a padded copy is used again


class Scheduler:
    """The state of scheduling a graph."""

    def __init__(self, graph: Graph, target: Target, fusion: Fusion) -> None:
        self.graph, self.target, self.fusion = graph, target, fusion
        self.buffers: dict[Value, Buffer] = {}  # of values computed so far
        self.reserved: dict[Value, Buffer] = {}  # outputs, for values to come
        self.constants: dict[Constant, Buffer] = {}
        self.steps: list[Step] = []
        self.elements = Elements(target, self.buffers, self.constant_buffer)
        self.padded: dict[Value, tuple[Buffer, int]] = {}  # copies, and after how many steps
        self.count = 0

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

    def stored(self, value: Value, node: Node, buffer: Buffer | None = None) -> Kernel:
        """The kernel that stores a value, in a buffer of its own if none is given."""
        loops, place = loops_of(value.shape)
        element = self.elements.at(value, place)
        store = Store(buffer or self.result_buffer(value), flatten(place, value.shape), element)
        return Kernel(loops, (store,), node.source)

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
