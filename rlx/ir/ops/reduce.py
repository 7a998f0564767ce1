"""Reductions along axes: sum, prod, max, min, and, or, argmax, argmin."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from ..body import Reduce
from ..errors import AxisError, DtypeError, ShapeError
from ..graph import Value
from ..op import ALIGNED, Op
from ..types import Type, as_dtype, empty_result, is_bool, is_float, is_integer
from .arithmetic import div, mul
from .compare import bit_or, eq, ne, select
from .constant import iota, like
from .convert import convert, widened
from .cumulative import cumprod, shifted
from .families import NUMBERS, ORDERED, check_kind
from .movement import broadcast, reshape, transpose


def check_axes(x: Type, axes: Sequence[int]) -> None:
    """Raise an `AxisError` unless the axes are different and inside of the rank."""
    for axis in axes:
        if not 0 <= axis < x.rank:
            raise AxisError(f"axis {axis} is outside {x}", fix=f"pick axes from 0 to {x.rank - 1}")
    if len(set(axes)) != len(axes):
        raise AxisError(f"the axes {tuple(axes)} name one twice", fix="name each axis once")


def kept(x: Any, axes: Sequence[int]) -> tuple[int, ...]:
    """The axes that a reduction leaves."""
    return tuple(i for i in range(len(x.shape)) if i not in axes)


def spread_back(reduced: Value, x: Any, axes: Sequence[int]) -> Value:
    """Repeat the result of a reduction to the shape of its operand."""
    return broadcast(reduced, shape=x.shape, axes=kept(x, axes))


def _reduction(
    name: str,
    doc: str,
    kinds: Sequence[str],
    ufunc: np.ufunc,
    combine: str,
    in_turn: bool = False,
) -> Op:
    def type_rule(x: Type, *, axes: tuple[int, ...]) -> Type:
        check_kind(x, kinds)
        check_axes(x, axes)
        return x.with_shape(tuple(x.shape[i] for i in kept(x, axes)))

    def reference(x: np.ndarray, *, axes: tuple[int, ...]) -> np.ndarray:
        if combine in ("add", "mul"):
            return ufunc.reduce(widened(x), axis=axes, dtype=widened(x).dtype)
        return ufunc.reduce(x, axis=axes, initial=empty_result(combine, x.dtype))

    def reduce_fold(x: Value, *, axes: tuple[int, ...]) -> Value | None:
        if any(x.shape[i] != 1 for i in axes):
            return None
        return reshape(x, shape=[x.shape[i] for i in kept(x, axes)])

    made = Op(name, type_rule, doc)
    made.reference(reference)
    made.body(Reduce(combine, in_turn))
    made.batch(ALIGNED, "axes")
    made.fold(reduce_fold)
    return made


reduce_sum = _reduction(
    "reduce_sum",
    "Sum along axes, 0 for no elements. Half-size floats are summed in float32.",
    NUMBERS,
    np.add,
    "add",
)


reduce_sum.transpose(lambda ct, x, *, axes: [spread_back(ct, x, axes)])
reduce_sum.samples((2, 3), axes=(1,))
reduce_sum.samples((2, 3, 2), axes=(0, 2))
reduce_sum.samples([[1.0, 2.0], [3.0, 4.0]], axes=(0,), expect=[4.0, 6.0])
reduce_sum.samples((2, 0), axes=(1,), expect=[0.0, 0.0])


sum_in_turn = _reduction(
    "sum_in_turn",
    """Sum of few terms along axes, 0 for none.

    Where `deterministic="batch"` asks for one order, each is added after the one before it. Terms
    that are products are multiplied and added at once then, if nothing else uses them.
    """,
    NUMBERS,
    np.add,
    "add",
    in_turn=True,
)
sum_in_turn.transpose(lambda ct, x, *, axes: [spread_back(ct, x, axes)])
sum_in_turn.samples((2, 3), axes=(1,))
sum_in_turn.samples((2, 3, 2), axes=(0, 2))
sum_in_turn.samples([[1.0, 2.0], [3.0, 4.0]], axes=(0,), expect=[4.0, 6.0])
sum_in_turn.samples((2, 0), axes=(1,), expect=[0.0, 0.0])


reduce_prod = _reduction(
    "reduce_prod",
    "Product along axes, 1 for no elements. Half-size floats are multiplied in float32.",
    NUMBERS,
    np.multiply,
    "mul",
)


def _reduce_prod_jvp(t: Value, out: Value, x: Value, *, axes: tuple[int, ...]) -> Value:
    """The sum of tangents times the product of the other elements, safe for zeros."""
    line = _in_one_line(x, axes)
    axis = line.rank - 1
    before = cumprod(shifted(line, 1, 1, axis), axis=axis)
    after = cumprod(shifted(line, 1, 1, axis, reverse=True), axis=axis, reverse=True)
    terms = mul(_in_one_line(t, axes), mul(before, after))
    return reduce_sum(terms, axes=(axis,))


def _in_one_line(x: Value, axes: tuple[int, ...]) -> Value:
    """The reduced axes merged to one, at the end."""
    rest = kept(x, axes)
    shape = [*(x.shape[i] for i in rest), math.prod(x.shape[i] for i in axes)]
    return reshape(transpose(x, axes=(*rest, *axes)), shape=shape)


reduce_prod.jvp([_reduce_prod_jvp])
reduce_prod.samples((2, 3), axes=(1,))
reduce_prod.samples((2, 3, 2), axes=(0, 2))
reduce_prod.samples([[0.0, 2.0, 3.0], [0.0, 5.0, 0.0]], axes=(1,))
reduce_prod.samples([[1.0, 2.0], [3.0, 4.0]], axes=(0,), expect=[3.0, 8.0])


# -- extremes and flags -------------------------------------------------------------------------


def _chosen_jvp(t: Value, out: Value, x: Value, *, axes: tuple[int, ...]) -> Value:
    """The mean of the tangents of all elements that equal the result."""
    chosen = convert(eq(x, spread_back(out, x, axes)), dtype=x.dtype)
    return div(reduce_sum(mul(t, chosen), axes=axes), reduce_sum(chosen, axes=axes))


_WITHOUT_INFINITY = np.array([[-2, 3], [-4, 2]], as_dtype("float8_e4m3fn"))
reduce_max = _reduction(
    "reduce_max",
    "Greatest element along axes; NaN if there is one; for none, -inf or the least number.",
    ORDERED,
    np.maximum,
    "max",
)
reduce_max.jvp([_chosen_jvp])
reduce_max.samples((2, 3), axes=(1,))
reduce_max.samples((2, 3, 2), axes=(0, 2))
reduce_max.samples([[1.0, 2.0], [np.nan, -4.0]], axes=(0,), expect=[np.nan, 2.0])
reduce_max.samples(_WITHOUT_INFINITY, axes=(0,), expect=[-2.0, 3.0])
reduce_max.samples(_WITHOUT_INFINITY[:0], axes=(0,), expect=[-448.0, -448.0])

reduce_min = _reduction(
    "reduce_min",
    "Least element along axes; NaN if there is one; for none, inf or the greatest number.",
    ORDERED,
    np.minimum,
    "min",
)
reduce_min.jvp([_chosen_jvp])
reduce_min.samples((2, 3), axes=(1,))
reduce_min.samples((2, 3, 2), axes=(0, 2))
reduce_min.samples([[1.0, 2.0], [np.nan, -4.0]], axes=(0,), expect=[np.nan, -4.0])
reduce_min.samples(_WITHOUT_INFINITY, axes=(0,), expect=[-4.0, 2.0])

INDEX = np.dtype("int32")
_TABLE = [[True, False], [True, True]]
reduce_and = _reduction(
    "reduce_and", "Bits set in all elements along axes.", ("bool", "integer"), np.bitwise_and, "and"
)
reduce_and.nondifferentiable("integers and bools have no derivative")
reduce_and.samples(np.array(_TABLE), axes=(0,), expect=[True, False])
reduce_and.samples(np.array([[7, 5], [3, 4]], np.int32), axes=(0,), expect=[3, 4])

reduce_or = _reduction(
    "reduce_or", "Bits set in any element along axes.", ("bool", "integer"), np.bitwise_or, "or"
)
reduce_or.nondifferentiable("integers and bools have no derivative")
reduce_or.samples(np.array(_TABLE), axes=(1,), expect=[True, True])
reduce_or.samples(np.array([[1, 5], [2, 4]], np.int32), axes=(0,), expect=[3, 5])


def _position(
    name: str, doc: str, reference: Callable[..., Any], best: Op, expect: list[int]
) -> Op:
    def type_rule(x: Type, *, axis: int, dtype: np.dtype = INDEX) -> Type:
        check_kind(x, ("bool", *ORDERED))
        check_axes(x, (axis,))
        if not is_integer(dtype):
            raise DtypeError(f"{dtype.name} is no dtype for an index", fix="use int32 or int64")
        size = x.shape[axis]
        if isinstance(size, int) and size - 1 > np.iinfo(dtype).max:
            raise DtypeError(f"{dtype.name} cannot number {size} places", fix="use a wider dtype")
        if size == 0:
            raise ShapeError(f"axis {axis} of {x} has no elements", fix="check for it before")
        return Type(dtype, tuple(x.shape[i] for i in kept(x, (axis,))))

    made = Op(name, type_rule, doc)
    made.reference(lambda x, *, axis, dtype: reference(x, axis=axis))

    def position_expand(x: Value, *, axis: int, dtype: np.dtype) -> Value:
        x = convert(x, dtype="uint8") if is_bool(x.dtype) else x
        chosen = eq(x, spread_back(best(x, axes=(axis,)), x, (axis,)))
        if is_float(x.dtype):
            chosen = bit_or(chosen, ne(x, x))
        places = iota(shape=x.shape, axis=axis, dtype=dtype)
        beyond = like(places, np.iinfo(dtype).max)
        return reduce_min(select(chosen, places, beyond), axes=(axis,))

    made.expand(position_expand)
    made.nondifferentiable("the result is an index")
    made.batch(ALIGNED, "axis")
    made.samples((2, 3), axis=1)
    made.samples([[1.0, 3.0, 1.0, 3.0], [1.0, np.nan, 5.0, np.nan]], axis=1, expect=expect)
    return made


argmax = _position(
    "argmax",
    "Index of the greatest element along an axis, the first in a tie; NaN counts as greatest.",
    np.argmax,
    reduce_max,
    [1, 1],
)
argmin = _position(
    "argmin",
    "Index of the least element along an axis, the first in a tie; NaN counts as least.",
    np.argmin,
    reduce_min,
    [0, 1],
)
