"""The typed graph: values, their nodes, and where in the user's code they arose."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import TYPE_CHECKING, Any, ClassVar, TypeAlias

import numpy as np

from .lazy import Table
from .record import field, record
from .source import Source
from .types import Type, Typed

if TYPE_CHECKING:
    from .op import Op
    from .quantized import QuantizedValues

OPS = Table()
Binary: TypeAlias = "Callable[[Value, object], Value]"


def _operator(name: str) -> tuple[Binary, Binary]:
    """The methods of an operator, with the value on its left and on its right."""
    return lambda x, other: OPS[name](x, other), lambda x, other: OPS[name](other, x)


class Value(Typed):
    """One typed value of a graph: a parameter (no node) or a result of a node.

    The arithmetic operators build nodes; both sides must have one dtype and shape, or one side is a
    Python scalar.
    """

    __slots__ = ("graph", "index", "node", "origin", "type")
    # numpy scalars on the left must not take over the operators
    __array_ufunc__ = None

    def __init__(
        self,
        type: Type,
        graph: Graph,
        node: Node | None = None,
        index: int = 0,
        origin: str = "",  # of a parameter, as `argument 0 of loss, params["w"]`
    ) -> None:
        self.type, self.graph, self.node, self.index, self.origin = type, graph, node, index, origin

    @property
    def rank(self) -> int:
        """The number of axes."""
        return self.type.rank

    @property
    def constant(self) -> np.ndarray | None:
        """The array, if this value is made by a constant node."""
        if self.node is None or not self.node.op.is_constant:
            return None
        return self.node.attrs["value"].array

    __add__, __radd__ = _operator("add")
    __sub__, __rsub__ = _operator("sub")
    __mul__, __rmul__ = _operator("mul")
    __truediv__, __rtruediv__ = _operator("div")

    def __neg__(self) -> Value:
        return OPS["neg"](self)

    def __repr__(self) -> str:
        made = self.node.op.name if self.node else self.origin or "parameter"
        return f"Value({self.type}, {made})"


class Node:
    """One application of an op: arguments, attributes, results and the user's line."""

    __slots__ = ("args", "attrs", "graphs", "op", "results", "source")

    def __init__(
        self,
        op: Op,
        args: tuple[Value, ...],
        attrs: dict[str, Any],
        source: Source | None,
        graphs: tuple[Graph, ...] | None = None,
    ) -> None:
        self.op, self.args, self.attrs, self.source = op, args, attrs, source
        self.results: tuple[Value, ...] = ()
        # The nested graphs among the attributes, in order; every pass asks for them.
        self.graphs = tuple(graphs_in(attrs.values())) if graphs is None else graphs

    @property
    def result(self) -> Value:
        """The only result; a node with several has none."""
        (only,) = self.results
        return only

    def __repr__(self) -> str:
        return f"Node({self.op.name}, {', '.join(str(r.type) for r in self.results)})"


@record
class Placed:
    """A function compiled for a device by name: its graph must run there."""

    who: str
    device: str
    where: str


_PLAIN = frozenset((int, bool, float, str, type(None)))  # what most attributes are and hold


def graphs_in(attrs: Iterable[Any]) -> list[Graph]:
    """The graphs among attributes."""
    found = []
    for attr in attrs:
        if type(attr) in _PLAIN:
            continue
        if isinstance(attr, tuple):
            found += graphs_in(attr)
        elif isinstance(attr, Graph):
            found.append(attr)
    return found


@record(frozen=False, eq=False)
class Graph:
    """A function as nodes in order: parameters in, results out, nothing else.

    A graph is closed: what it uses are its parameters and its own nodes.
    """

    name: str = "graph"
    params: list[Value] = field(default_factory=list)
    nodes: list[Node] = field(default_factory=list)
    results: list[Value] = field(default_factory=list)
    # of graphs that a pass made of it, too: they share its parameters and nodes that stay
    lineage: object = field(default_factory=object, repr=False)
    placed: tuple[Placed, ...] = ()  # functions in it for a device, where all of it must run
    is_built: ClassVar[bool] = False  # op by op, by the user, rather than recorded

    def __repr__(self) -> str:
        return f"<graph {self.signature}: {len(self.nodes)} nodes>"

    def __str__(self) -> str:
        from .text import show  # which imports this file

        return show(self)

    def _repr_html_(self) -> str:
        from .notebook import text_html  # which notebooks need

        return text_html(f"{self.signature}: {len(self.nodes)} nodes", str(self))

    def owns(self, value: Value) -> bool:
        """Whether `value` is of this graph, or of one of its lineage."""
        return value.graph is self or value.graph.lineage is self.lineage

    def place(self, placed: Sequence[Placed]) -> None:
        """Require that the graph runs where functions in it do: `placed` lists them."""
        if placed:
            self.placed = tuple(dict.fromkeys((*self.placed, *placed)))

    def add_param(self, type: Type, origin: str = "") -> Value:
        """Append a parameter of a `type`, and return it.

        `origin` says in errors which argument it is.
        """
        value = Value(type, self, origin=origin)
        self.params.append(value)
        return value

    def add_node(
        self,
        op: Op,
        args: tuple[Value, ...],
        attrs: dict[str, Any],
        types: tuple[Type, ...],
        source: Source | None,
    ) -> Node:
        """Append a node of `op` on `args`, whose results have the given `types`.

        `attrs` are the op's attributes, `source` is the line it comes from. Returns the node.
        """
        node = Node(op, args, attrs, source)
        node.results = tuple(Value(t, self, node, i) for i, t in enumerate(types))
        self.nodes.append(node)
        return node

    def add_like(self, node: Node, args: tuple[Value, ...], source: Source | None) -> Node:
        """Append a node like `node`, on `args` of the same types; returns the new node.

        `source` is the line it comes from.
        """
        made = Node(node.op, args, node.attrs, source, node.graphs)
        made.results = tuple([Value(r.type, self, made, r.index) for r in node.results])
        self.nodes.append(made)
        return made

    @property
    def signature(self) -> str:
        """The name and the types on one line, as `loss(f32[3]) -> f32[]`."""

        def listed(types: Sequence[Type]) -> str:
            more = [f"{len(types) - 4} more"] if len(types) > 5 else []
            return ", ".join([*map(str, types[: 4 if more else None]), *more])

        return (
            f"{self.name}({listed(self.param_types)}) -> {listed(self.result_types) or 'nothing'}"
        )

    @property
    def param_types(self) -> tuple[Type, ...]:
        """The types of the parameters."""
        return tuple(p.type for p in self.params)

    @property
    def result_types(self) -> tuple[Type, ...]:
        """The types of the results."""
        return tuple(r.type for r in self.results)

    def walk(self) -> Iterator[Node]:
        """Every node, those of nested graphs included."""
        for node in self.nodes:
            yield node
            for graph in node.graphs:
                yield from graph.walk()

    @property
    def quant(self) -> QuantizedValues:
        """The values of few bits, with their schemes: blocks, integers, rounded operands."""
        from .quantized import QuantizedValues  # which imports this file

        return QuantizedValues(self)

    def users(self) -> dict[Value, list[Node]]:
        """For each value the nodes that read it, in order, once for each time they do."""
        table: dict[Value, list[Node]] = {}
        for node in self.nodes:
            for arg in node.args:
                table.setdefault(arg, []).append(node)
        return table


class Constant:
    """An array as an attribute: compared and hashed by dtype, shape and bytes."""

    __slots__ = ("_digest", "array")

    def __init__(self, array: np.ndarray) -> None:
        array = np.array(array, order="C")
        array.flags.writeable = False
        self.array = array
        self._digest: bytes | None = None

    @property
    def digest(self) -> bytes:
        """A content hash of dtype, shape and bytes."""
        if self._digest is None:
            head = f"{self.array.dtype.name}{self.array.shape}".encode()
            import hashlib  # with the cryptography of OpenSSL

            self._digest = hashlib.blake2b(head + self.array.tobytes(), digest_size=16).digest()
        return self._digest

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Constant) and self.digest == other.digest

    def __hash__(self) -> int:
        return hash(self.digest)

    def __repr__(self) -> str:
        return f"Constant({self.array!r})"
