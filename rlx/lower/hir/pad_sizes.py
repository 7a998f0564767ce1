"""Buckets: static sizes for symbolic ones, by padding arrays."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from ...ir.bind import concrete_attr, concrete_type
from ...ir.body import Concat, Contract, Fill, Gather, Move, Pointwise, Reduce, Scan, Scatter, View
from ...ir.builder import build, rewrite
from ...ir.dims import Dim
from ...ir.errors import UnsupportedOp
from ...ir.graph import OPS, Graph, Node, Value
from ...ir.types import DTYPES, Type, empty_result
from ..lir import expr as scalar
from ..lir.index import Index, Loaded, Quotient, Remainder, as_index, is_within, loaded
from ..schedule.elements import flatten, loops_of, unflatten
from .inline_calls import expand, inline_calls

INT32 = DTYPES["int32"]
FIX = "pass specialize=True to rlx.jit, which compiles once for each size, in place of buckets"


def pad_sizes(graph: Graph, sizes: Mapping[str, int]) -> Graph:
    """Make a graph for padded arrays, with their true sizes as parameters.

    before: `f(x: f32[n]) { reduce_sum(x) }`; after, with n = 8: `f(x: f32[8], n: i32[]) {
    reduce_sum(select(iota < n, x, 0)) }`. The true part of each result is at its beginning. An op
    for which that does not hold, whatever the padding, is an `UnsupportedOp`.
    """
    graph = expand(inline_calls(graph, keep_recomputed=False))
    names = sorted(sizes)
    types = [concrete_type(t, sizes) for t in graph.param_types]
    origins = [*(p.origin for p in graph.params), *names]

    def body(*values: Value) -> list[Value]:
        numbers = dict(zip(names, values[len(types) :], strict=True))
        return rewrite(graph, values[: len(types)], _Padder(sizes, numbers).node)

    return build(body, [*types, *(Type(INT32, ()) for _ in names)], graph.name, origins)


def check_padding(graph: Graph, true: Mapping[str, int], padded: Mapping[str, int]) -> None:
    """Raise an error unless all arrays of a graph fit the padded ones.

    `x[: n % 4]` has elements for n = 3 and none for n = 4.
    """
    graph = expand(inline_calls(graph, keep_recomputed=False))
    for node in graph.walk():
        for value in node.results:
            lesser, larger = (concrete_type(value.type, sizes).shape for sizes in (true, padded))
            if any(n > m for n, m in zip(lesser, larger, strict=True)):
                raise UnsupportedOp(
                    f"{node.op.name}: its result has the shape {larger} for padded arrays, which "
                    f"does not hold the true {lesser}",
                    where=str(node.source),
                    notes=[", ".join(f"{name} = {n}" for name, n in sorted(true.items()))],
                    fix=FIX,
                )


class _Padder:
    """Records nodes for padded operands; `numbers` are the true sizes."""

    def __init__(self, sizes: Mapping[str, int], numbers: dict[str, Value]) -> None:
        self.sizes, self.numbers = sizes, numbers

    def node(self, node: Node, operands: list[Value]) -> Sequence[Value]:
        attrs = {name: concrete_attr(attr, self.sizes) for name, attr in node.attrs.items()}
        if any(not v.type.is_static for v in (*node.args, *node.results)):
            operands = self.operands(node, list(operands))
        return node.op.apply(operands, attrs)

    def operands(self, node: Node, operands: list[Value]) -> list[Value]:
        """Operands with the neutral element where padding would change the result."""
        body = node.op.rules.body
        if isinstance(body, Pointwise | Fill):
            return operands
        if isinstance(body, Reduce):
            return [self.neutral(operands[0], node.args[0], node.attrs["axes"], body.combine)]
        if isinstance(body, Scan):
            axes = (node.attrs["axis"],) if node.attrs.get("reverse") else ()
            return [self.neutral(operands[0], node.args[0], axes, body.combine)]
        if isinstance(body, Contract):
            contracted, _ = body.axes([a.type for a in node.args], **node.attrs)
            pairs = zip(operands, node.args, contracted, strict=True)
            return [self.neutral(x, old, axes, "add") for x, old, axes in pairs]
        if isinstance(body, Scatter) and self.drops_padding(node, body):
            old = node.args[body.updates]
            axes = range(old.rank)
            operands[body.updates] = self.neutral(operands[body.updates], old, axes, body.combine)
            return operands
        if isinstance(body, Move | Gather | View) and not _reads_by_size(node, body):
            return operands
        if isinstance(body, Concat):
            parts = [arg.shape[node.attrs["axis"]] for arg in node.args]
            if all(isinstance(part, int) for part in parts[:-1]):
                return operands
        raise _unsupported(node)

    def drops_padding(self, node: Node, body: Scatter) -> bool:
        """Whether neutral updates change nothing, and no axis of places is symbolic."""
        updates = node.args[body.updates]
        return node.args[0].type.is_static and (body.combine != "set" or updates.type.is_static)

    def neutral(self, x: Value, old: Value, axes: Sequence[int], combine: str) -> Value:
        """Fill the padding of symbolic axes with the neutral element."""
        padded = [axis for axis in axes if isinstance(old.shape[axis], Dim)]
        for axis in padded:
            number = empty_result(combine, x.dtype)
            place = OPS["iota"](shape=x.shape, axis=axis, dtype=INT32)
            end = OPS["broadcast"](self.number(old.shape[axis]), shape=x.shape, axes=())
            rest = OPS["full"](shape=x.shape, value=number, dtype=x.dtype)
            x = OPS["select"](OPS["lt"](place, end), x, rest)
        return x

    def number(self, size: Any) -> Value:
        """The true number of a size."""
        total = OPS["full"](shape=(), value=0, dtype=INT32)
        for monomial, coefficient in size.terms:
            term = OPS["full"](shape=(), value=coefficient, dtype=INT32)
            for symbol in monomial:
                if symbol.meaning:
                    raise UnsupportedOp(
                        f"the size {size} cannot be padded", fix="pass specialize=True to rlx.jit"
                    )
                term = OPS["mul"](term, self.numbers[symbol.name])
            total = OPS["add"](total, term)
        return total


def _reads_by_size(node: Node, body: Move | Gather | View) -> bool:
    """Whether the place an element is read from depends on a symbolic size."""
    _, place = loops_of(node.result.shape)
    types = [a.type for a in node.args]
    if isinstance(body, View):
        found = unflatten(flatten(place, node.result.shape), types[0].shape)
        return any(map(_mentions_size, found))
    if isinstance(body, Move):
        read = body.read(place, types, **node.attrs)
    else:
        read = body.read(place, _load, types, **node.attrs)
    guards = [(as_index(i), low, high) for i, low, high in read.guards]
    open_ones = [g for g in guards if not is_within(g[0] - g[1], g[2] - g[1])]
    ends = [n for _, low, high in open_ones for n in (low, high)]
    indices = [*map(as_index, read.index), *(g[0] for g in open_ones)]
    indices += [as_index(i) for i, _ in read.strides]
    return any(isinstance(n, Dim) for n in ends) or any(map(_mentions_size, indices))


def _load(operand: int, index: Sequence[Any], low: Any, high: Any) -> Index:
    """A stand-in for an index loaded from an operand, of which only bounds matter."""
    return loaded(scalar.const(INT32, operand), low, high)


def _mentions_size(index: Index) -> bool:
    for part in index.nested():
        numbers: list[Any] = [part.constant, *(c for _, c in part.terms)]
        for atom, _ in part.terms:
            numbers += [atom.divisor] if isinstance(atom, Quotient | Remainder) else []
            numbers += [atom.low, atom.high] if isinstance(atom, Loaded) else []
        if any(isinstance(n, Dim) for n in numbers):
            return True
    return False


def _unsupported(node: Node) -> UnsupportedOp:
    operands = ", ".join(str(a.type) for a in node.args)
    return UnsupportedOp(
        f"{node.op.name}: its result would depend on the padding of {operands}",
        where=str(node.source),
        fix=FIX,
    )
