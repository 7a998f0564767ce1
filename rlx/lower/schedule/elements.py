"""Fusion: the scalar expression of one element of a value."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from ...ir.body import AsParts, Fill, Gather, Move, Pointwise, Read, Reduce, View
from ...ir.dims import is_at_least
from ...ir.graph import Node, Value
from ...ir.types import Size, empty_result, is_float
from ..lir import expr as scalar
from ..lir.expr import COMPARISONS, Const, Expr, IndexValue
from ..lir.index import Index, Variable, as_index, is_long, loaded
from ..lir.program import Buffer
from ..target import Target

Place = tuple[Index, ...]  # an index along each axis
EXACT = frozenset(["select", "convert", "bitcast"])  # never need a wider dtype


class Elements:
    """Makes the expression of any value at any place, by recursion over bodies."""

    def __init__(
        self,
        target: Target,
        buffers: dict[Value, Buffer],
        constant_buffer: Callable[[Value], Buffer],
    ) -> None:
        self.target, self.buffers, self.constant_buffer = target, buffers, constant_buffer
        self.given: dict[Value, Expr] = {}  # used at any place: the sum, in an epilogue
        self.memo: dict[tuple[Value, Place], Expr] = {}

    def at(self, value: Value, place: Place) -> Expr:
        """The element of a value at a place."""
        if value in self.given:
            return self.given[value]
        array = value.constant
        if array is not None and array.size == 1 and self.target.computes(value.dtype):
            return scalar.const(value.dtype, array.reshape(-1)[0])
        if array is not None:
            return scalar.load(self.constant_buffer(value), flatten(place, value.shape))
        if value in self.buffers and not self.is_fill(value):
            return scalar.load(self.buffers[value], flatten(place, value.shape))
        key = (value, place)
        if key not in self.memo:
            self.memo[key] = self.computed(value, place)
        return self.memo[key]

    def with_given(self, given: dict[Value, Expr], value: Value, place: Place) -> Expr:
        """The element of a value, with given expressions for some values."""
        # what is made from them must not be found by others
        inner = Elements(self.target, self.buffers, self.constant_buffer)
        inner.given = given
        return inner.at(value, place)

    def with_buffer(self, value: Value, buffer: Buffer) -> Elements:
        """A copy in which one more value is loaded from a buffer."""
        return Elements(self.target, {**self.buffers, value: buffer}, self.constant_buffer)

    def is_fill(self, value: Value) -> bool:
        """Whether a value is a fill, which is cheaper to compute than to load."""
        body = value.node.op.rules.body if value.node else None
        return isinstance(body, Fill) and self.target.computes(value.dtype)

    def computed(self, value: Value, place: Place) -> Expr:
        """Compute the element of a value that has no buffer."""
        node = value.node
        assert node is not None, f"{value} has no buffer"
        body = node.op.rules.body
        if isinstance(body, Fill):
            return self.fill(node, body, value, place)
        if isinstance(body, Pointwise):
            args = [self.at(arg, place) for arg in node.args]
            return self.instruction(body.instruction, value.dtype, args)
        if isinstance(body, Move):
            read = body.read(place, [a.type for a in node.args], **node.attrs)
            return self.read(node, read)
        if isinstance(body, AsParts):
            (arg,) = node.args
            buffer = self.buffers[arg] if arg in self.buffers else self.constant_buffer(arg)
            return scalar.load(buffer, flatten(place, value.shape))
        if isinstance(body, View):
            (arg,) = node.args
            return self.at(arg, unflatten(flatten(place, value.shape), arg.shape))
        if isinstance(body, Gather):
            types = [a.type for a in node.args]
            return self.read(node, body.read(place, self.loader(node), types, **node.attrs))
        assert isinstance(body, Reduce), f"{node} cannot stand inside of a kernel"
        return self.reduction(node, body, place)

    def fill(self, node: Node, body: Fill, value: Value, place: Place) -> Expr:
        """The scalar of a fill body at an index."""
        number = body.number(place, value.type, **node.attrs)
        if isinstance(number, Index | Variable):
            return scalar.index_value(as_index(number), value.dtype)
        return scalar.const(value.dtype, number)

    def instruction(self, name: str, dtype: np.dtype, args: Sequence[Expr]) -> Expr:
        """Apply an instruction in the target's arithmetic, and round to the dtype."""
        if name in EXACT or not args:
            return scalar.apply(name, dtype, *args)
        wide = self.target.arithmetic(args[-1].dtype)
        if wide == args[-1].dtype:
            return scalar.apply(name, dtype, *args)
        widened = [scalar.apply("convert", wide, a) for a in args]
        if name in COMPARISONS:
            return scalar.apply(name, dtype, *widened)
        return scalar.apply("convert", dtype, scalar.apply(name, wide, *widened))

    def read(self, node: Node, read: Read) -> Expr:
        """The element that a move or a gather points at."""
        bounds = [(as_index(i), low, high) for i, low, high in read.guards]
        steps = [(as_index(i), step) for i, step in read.strides]
        origin = node.args[read.operand]
        is_outside = origin.type.size == 0  # nothing of it is ever read, not even in vain
        if is_outside and read.fill is None and read.otherwise is not None:
            return self.at(node.args[read.otherwise], ())
        if is_outside and read.fill is not None:
            return scalar.const(origin.dtype, read.fill)
        inside = self.at(origin, tuple(map(as_index, read.index)))
        if read.fill is not None:
            fill = scalar.const(inside.dtype, read.fill)
            return scalar.guard(bounds, steps, inside, fill)
        if read.otherwise is None:
            assert not bounds and not steps, f"{node} has guards and nothing to read outside"
            return inside
        return scalar.guard(bounds, steps, inside, self.at(node.args[read.otherwise], ()))

    def loader(self, node: Node) -> Any:
        """Make `load(operand, index, low, high)`, with which bodies read indices.

        The function gives the element as an index clamped to `low..high`.
        """

        def load(operand: int, index: Sequence[Any], low: Size, high: Size) -> Index:
            element = self.at(node.args[operand], tuple(map(as_index, index)))
            return clamped(element, low, high)

        return load

    def reduction(self, node: Node, body: Reduce, place: Place) -> Expr:
        """The nested reduction of a value at a place."""
        (arg,) = node.args
        axes = node.attrs["axes"]
        dtype = node.result.dtype
        wide = self.target.arithmetic(dtype)
        init = scalar.const(wide, empty_result(body.combine, wide))
        if any(arg.shape[axis] == 0 for axis in axes):
            return scalar.apply("convert", dtype, init)
        variables = {axis: Variable(arg.shape[axis]) for axis in axes}
        outer = iter(place)
        inner = tuple(
            as_index(variables[axis]) if axis in variables else next(outer)
            for axis in range(arg.rank)
        )
        element = scalar.apply("convert", wide, self.at(arg, inner))
        loops = tuple(v for v in variables.values() if is_long(v))
        in_turn = body.in_turn and self.target.adds_in_turn and is_float(wide)
        combine = scalar.IN_TURN if in_turn else body.combine
        total = scalar.reduce(combine, loops, init, element)
        return scalar.apply("convert", dtype, total)


def clamped(element: Expr, low: Size, high: Size) -> Index:
    """An integer expression clamped to `low..high`, as an index."""
    high = low if is_at_least(low, high) else high
    if isinstance(element, Const) and isinstance(low, int) and isinstance(high, int):
        return as_index(min(max(int(element.number), low), high))
    if isinstance(element, IndexValue):
        index = element.index
        if is_at_least(index.low, low) and is_at_least(high, index.high):
            return index
    dtype = element.dtype
    info = np.iinfo(dtype)
    if not (is_at_least(info.min, low) and is_at_least(high, info.max)):
        wide = _holding(dtype, low, high)
        element = scalar.apply("convert", wide, element)
        info = np.iinfo(wide)
        bounds = [scalar.index_value(as_index(bound), wide) for bound in (low, high)]
        if not is_at_least(high, info.max):
            element = scalar.apply("min", wide, element, bounds[1])
        if not is_at_least(info.min, low) or not is_at_least(0, low):
            element = scalar.apply("max", wide, element, bounds[0])
    return loaded(element, low, high)


def _holding(dtype: np.dtype, low: Size, high: Size) -> np.dtype:
    """A dtype for a loaded index and its bounds: its own, int32 or int64."""
    if dtype.itemsize >= 4 and is_at_least(np.iinfo(dtype).max, high):
        return dtype
    limits = np.iinfo(np.int32)
    is_short = is_at_least(limits.max, high) and is_at_least(low, limits.min)
    return np.dtype(np.int32 if dtype.itemsize < 4 and is_short else np.int64)


def strides(shape: Sequence[Size]) -> list[Size]:
    """Row-major strides in elements."""
    result: list[Size] = [1] * len(shape)
    for axis in range(len(shape) - 2, -1, -1):
        result[axis] = result[axis + 1] * shape[axis + 1]
    return result


def flatten(place: Sequence[Index], shape: Sequence[Size]) -> Index:
    """The offset of a place in a dense row-major array."""
    total = Index()
    for index, stride in zip(place, strides(shape), strict=True):
        total = total + index * stride
    return total


def unflatten(offset: Index, shape: Sequence[Size]) -> Place:
    """The place of an offset in a dense row-major array."""
    place = []
    for axis, stride in enumerate(strides(shape)):
        index = offset // stride if stride else Index()
        place.append(index % shape[axis] if axis and shape[axis] else index)
    return tuple(place)


def loops_of(shape: Sequence[Size]) -> tuple[tuple[Variable, ...], Place]:
    """A variable for each axis longer than 1, and the place they name."""
    variables = [Variable(size) for size in shape]
    loops = tuple(v for v in variables if is_long(v))
    return loops, tuple(as_index(v) for v in variables)
