"""Products on codes: what is recorded in place of a product of floats."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any, Protocol, final

from ..ir.graph import Node, Value
from ..ir.ops.arithmetic import abs, add, div, mul, round, sub
from ..ir.ops.blocks import dequantize_blocks
from ..ir.ops.compare import gt, lt, max as greater, min as lesser, select
from ..ir.ops.constant import full, like, scalar_like, uniform
from ..ir.ops.convert import bitcast, convert, narrowed
from ..ir.ops.custom import stop_gradient
from ..ir.ops.movement import broadcast, reshape, transpose
from ..ir.ops.quantize import fake_quantize
from ..ir.ops.reduce import reduce_max, reduce_min
from ..ir.record import record
from ..ir.types import as_dtype
from ..nn.blocks import BlockArray
from .products import Product
from .ranges import Codes
from .scheme import Scheme
from .weights import Layout, group_of

INT8, INT32, FLOAT32 = as_dtype("int8"), as_dtype("int32"), as_dtype("float32")
TOP = 127
NO_FRACTION = 1.5 * 2**23  # float32 numbers near to it are whole


@record(eq=False)
class Range:
    """The scale and zero point of the codes of a value, in the graph.

    `factors`, if there are any, multiply the features before they are rounded.
    """

    scale: Value
    zero: Value
    codes: Codes
    factors: Value | None = None

    @property
    def bounds(self) -> tuple[int, int]:
        """The least and the greatest code."""
        return self.codes.low, self.codes.high


def rounded(x: Value, range: Range, axis: int | None = None) -> Value:
    """The codes of floats, whose features are along `axis`."""
    number = uniform(x)
    if number is not None and x.rank:
        one = rounded(scalar_like(x, number), range)
        return broadcast(one, shape=x.shape, axes=())
    x = narrowed(x, FLOAT32)
    factors, axes = div(like(range.scale, 1), range.scale), ()
    if range.factors is not None:
        assert axis is not None, "its features have an axis"
        factors, axes = range.factors, (axis,)
    units = mul(x, broadcast(factors, shape=x.shape, axes=axes))
    if not range.codes.is_symmetric:
        units = add(units, broadcast(range.zero, shape=x.shape, axes=()))
    return _whole(units, range.bounds)


def _whole(units: Value, bounds: tuple[int, int]) -> Value:
    """The nearest codes, halves to even; a NaN becomes the greatest one.

    What is added leaves no bits for a fraction, and the last byte of the sum is the code: so it is
    four instructions, where a conversion to bytes has many for numbers that no byte holds.
    """
    low, high = (like(units, n) for n in bounds)
    units = select(lt(units, high), units, high)
    units = select(gt(units, low), units, low)
    bits = bitcast(add(units, like(units, NO_FRACTION)), dtype=INT32)
    return convert(bits, dtype=INT8)


class Calculation(Protocol):
    """How products of floats are computed in few bits."""

    takes_codes: bool

    def product(self, node: Node, product: Product, x: Value, weight: Any) -> Value:
        """Record the product of `x`, floats or codes, in place of that of a node."""
        ...


def _layout(product: Product) -> Layout:
    assert product.layout is not None, "it has a weight"
    return product.layout


def _applied(
    node: Node, product: Product, x: Value, w: Value, attrs: dict[str, Any] | None = None
) -> Value:
    operands = [x, w] if product.side == 1 else [w, x]
    return node.op.apply(operands, node.attrs if attrs is None else attrs)[0]


def _codes(given: Any, product: Product) -> Value:
    return transpose(given.codes, axes=product.turned) if product.turned else given.codes


def _spread(x: Value, like: Value, places: Sequence[int]) -> Value:
    return broadcast(x, shape=like.shape, axes=tuple(places))


@final
class FloatInputs:
    """Weights in few bits are multiplied as the floats that they stand for."""

    takes_codes = False

    def __init__(self, weights: Mapping[str, Any]) -> None:
        self.weights = weights

    def product(self, node: Node, product: Product, x: Value, weight: Any) -> Value:
        """The product with floats of codes, scaled after it where that is the same."""
        given, layout = self.weights[product.name], _layout(product)
        dtype = node.args[product.side].dtype
        if isinstance(given, BlockArray):
            numbers = dequantize_blocks(given.data, format=given.format)
            numbers = transpose(reshape(numbers, shape=layout.sizes), axes=layout.back)
            return _applied(node, product, x, narrowed(numbers, dtype))
        codes = convert(_codes(given, product), dtype=dtype)
        if given.zero is not None:
            places = tuple(sorted(layout.kept))
            zero, scale = (_in_weight(v, layout) for v in (given.zero, given.scale))
            zero, scale = (_spread(narrowed(v, dtype), codes, places) for v in (zero, scale))
            return _applied(node, product, x, mul(sub(codes, zero), scale))
        sums = _applied(node, product, x, codes)
        scale = _spread(narrowed(given.scale, sums.dtype), sums, layout.places)
        return mul(sums, scale)


def _in_weight(x: Value, layout: Layout) -> Value:
    """Numbers of the kept axes in the order in which the weight has these."""
    order = sorted(range(len(layout.kept)), key=layout.kept.__getitem__)
    return transpose(x, axes=tuple(order))


@final
class StaticInputs:
    """Codes of known ranges are multiplied as int8, summed in int32 and scaled."""

    takes_codes = True

    def __init__(self, weights: Mapping[str, Any], ranges: Mapping[str, Range]) -> None:
        self.weights, self.ranges = weights, ranges

    def product(self, node: Node, product: Product, x: Value, weight: Any) -> Value:
        """(sums of code · code - zero · sums of the weight's codes) · both scales."""
        given, layout, range = (
            self.weights[product.name], _layout(product), self.ranges[product.inputs],
        )  # fmt: skip
        attrs = {**node.attrs, "dtype": INT32}
        if given.sums is not None and node.op.rules.padded is not None:
            zero = convert(range.zero, dtype=INT8)
            x, attrs = node.op.rules.padded(x, zero, **attrs)
        total = _applied(node, product, x, _codes(given, product), attrs)
        if given.sums is not None:
            zero = _spread(convert(range.zero, dtype=INT32), given.sums, ())
            total = sub(total, _spread(mul(zero, given.sums), total, layout.places))
        scale = mul(given.scale, _spread(range.scale, given.scale, ()))
        scaled = mul(convert(total, dtype=FLOAT32), _spread(scale, total, layout.places))
        return narrowed(scaled, node.result.dtype)


@final
class DynamicInputs:
    """Floats are rounded line by line, multiplied as int8, and scaled."""

    takes_codes = False

    def __init__(self, weights: Mapping[str, Any]) -> None:
        self.weights = weights

    def product(self, node: Node, product: Product, x: Value, weight: Any) -> Value:
        """Sums of code · code · both scales. A line with a NaN or an infinity is NaN."""
        given, layout = self.weights[product.name], _layout(product)
        lines = Layout.of(node, 1 - product.side)
        x = narrowed(x, FLOAT32)
        greatest = reduce_max(abs(x), axes=tuple(sorted(lines.summed)))
        factor = select(
            gt(greatest, like(greatest, 0)), div(like(greatest, TOP), greatest), like(greatest, 0)
        )
        places = tuple(sorted(lines.kept))
        codes = _whole(mul(x, _spread(factor, x, places)), (-TOP, TOP))
        attrs = {**node.attrs, "dtype": INT32}
        total = _applied(node, product, codes, _codes(given, product), attrs)
        step = div(greatest, like(greatest, TOP))
        step = transpose(step, axes=tuple(places.index(i) for i in lines.kept))
        scaled = mul(convert(total, dtype=FLOAT32), _spread(given.scale, total, layout.places))
        return narrowed(mul(scaled, _spread(step, total, lines.places)), node.result.dtype)


# -- training --------------------------------------------------------------------------------------


@final
class Rounded:
    """Floats that are left of weights and inputs in few bits, to train with.

    Ranges of weights are those of the weights that there are; those of inputs are given, or found
    for each line. The derivative takes rounding for the identity.
    """

    takes_codes = False

    def __init__(self, scheme: Scheme, ranges: Mapping[str, Range]) -> None:
        self.scheme, self.ranges = scheme, ranges

    def product(self, node: Node, product: Product, x: Value, weight: Any) -> Value:
        """The product of what is left of both operands."""
        range = self.ranges.get(product.inputs)
        if range is not None:
            scale, zero = (narrowed(v, x.dtype) for v in (range.scale, range.zero))
            x = fake_quantize(x, scale, zero, dtype=INT8, bounds=range.bounds)
        elif self.scheme.activations == "dynamic":
            lines = Layout.of(node, 1 - product.side)
            x = _left(x, lines, lines.depth, Codes.of(8, True))
        layout = _layout(product)
        group = group_of(self.scheme, layout)
        depth = math.prod(layout.shape) if self.scheme.granularity == "tensor" else layout.depth
        codes = Codes.of(self.scheme.weights, self.scheme.symmetric_weights)
        w = _left(weight.floats(), layout, group or depth, codes, is_block=bool(group))
        return _applied(node, product, x, w)


def _left(x: Value, layout: Layout, group: Any, codes: Codes, *, is_block: bool = False) -> Value:
    """What is left of numbers of which so many share a range.

    Blocks have scales of float16, and their range need not hold 0: it begins at the least number.
    """
    count = math.prod(layout.shape) // group
    rows = reshape(transpose(x, axes=layout.order), shape=(count, group))
    fixed = stop_gradient(rows)
    none = full(shape=(count,), value=0, dtype=x.dtype)
    least, greatest = (reduce(fixed, axes=(1,)) for reduce in (reduce_min, reduce_max))
    if is_block and not codes.is_symmetric:
        scale = _above_zero(_half(div(sub(greatest, least), float(codes.high - codes.low))))
        start = broadcast(_half(least), shape=rows.shape, axes=(0,))
        bounds = (0, codes.high - codes.low)
        rows = fake_quantize(sub(rows, start), scale, none, dtype=INT8, axis=0, bounds=bounds)
        return transpose(reshape(add(rows, start), shape=layout.sizes), axes=layout.back)
    if codes.is_symmetric:
        scale = div(reduce_max(abs(fixed), axes=(1,)), float(min(codes.high, -codes.low)))
        scale, zero = _above_zero(_half(scale) if is_block else scale), none
    else:
        least, greatest = lesser(least, none), greater(greatest, none)
        scale = _above_zero(div(sub(greatest, least), float(codes.high - codes.low)))
        zero = round(sub(like(least, codes.low), div(least, scale)))
    rows = fake_quantize(rows, scale, zero, dtype=INT8, axis=0, bounds=(codes.low, codes.high))
    return transpose(reshape(rows, shape=layout.sizes), axes=layout.back)


def _half(x: Value) -> Value:
    return convert(convert(x, dtype=as_dtype("float16")), dtype=x.dtype)


def _above_zero(scale: Value) -> Value:
    return select(gt(scale, like(scale, 0)), scale, like(scale, 1))
