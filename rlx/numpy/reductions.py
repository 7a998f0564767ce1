"""Reductions and cumulative operations: sum, max, any, argmax, cumsum, diff."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from ..ir.errors import ShapeError
from ..ir.types import (
    DTYPES,
    as_dtype,
    empty_result,
    is_bool,
    is_complex,
    is_half,
    is_integer,
    is_signed,
)
from ..trace.apply import apply, apply_like, as_operand, as_tensor
from ..trace.arguments import count_of, flag
from ..trace.array import Array
from ..trace.axes import one_axis, some_axes
from ..trace.promotion import broadcast_to, convert, convert_exactly, result_dtype, rounded_once
from ..transforms.eager import eager
from .elementwise import Tensor, add, divide, maximum, minimum, multiply, named, refuse_out
from .logic import truth, where as choose
from .manipulation import along, concatenate, ravel, reshape

Axis = int | Sequence[int] | None


def keep_axes(x: Any, shape: Sequence[Any], axes: Sequence[int]) -> Array:
    """Restore reduced axes with size 1."""
    return reshape(x, tuple(1 if i in axes else n for i, n in enumerate(shape)))


def reduced(name: str, op: str, x: Any, axis: Axis, keepdims: bool) -> Array:
    """Reduce by an op over axes as users give them."""
    axes = tuple(sorted(some_axes(name, axis, x.ndim)))
    result = apply(op, x, axes=axes) if axes else x
    return keep_axes(result, x.shape, axes) if flag(f"{name}: keepdims", keepdims) else result


def total_dtype(dtype: np.dtype) -> np.dtype:
    """The dtype of sums: small integers and bools grow to 32 bits."""
    if is_bool(dtype):
        return DTYPES["int32"]
    if is_integer(dtype) and dtype.itemsize < 4:
        return DTYPES["int32" if is_signed(dtype) else "uint32"]
    return dtype


def _total(name: str, op: str, neutral: int, combine: Callable[..., Any], doc: str):
    def function(
        a: Tensor,
        axis: Axis = None,
        dtype: Any = None,
        out: None = None,
        keepdims: bool = False,
        initial: Tensor | None = None,
        where: Tensor | None = None,
        promote_integers: bool = True,
    ) -> Array:
        refuse_out(name, out)
        a = as_tensor(a)
        grown = total_dtype(a.dtype) if promote_integers else a.dtype
        result = grown if dtype is None else as_dtype(dtype)
        # half floats lose what is added to a big total
        inside = DTYPES["float32"] if is_half(result) else result
        a = convert(a, inside)
        if where is not None:
            a = choose(where, a, neutral)
        total = convert(reduced(name, op, a, axis, keepdims), result)
        return total if initial is None else combine(total, initial)

    return eager(named(function, name, doc))


GROWN = "over axes; None takes all axes.\n\nSmall integers become 32 bits if `promote_integers`."
sum = _total("sum", "reduce_sum", 0, add, f"The sum {GROWN}")
prod = _total("prod", "reduce_prod", 1, multiply, f"The product {GROWN}")


def _extreme(name: str, op: str, for_bool: str, combine: Callable[..., Any], doc: str):
    def function(
        a: Tensor,
        axis: Axis = None,
        out: None = None,
        keepdims: bool = False,
        initial: Tensor | None = None,
        where: Tensor | None = None,
    ) -> Array:
        refuse_out(name, out)
        a = as_tensor(a)
        if where is not None:
            a = choose(where, a, _least_favorable(name, a.dtype, initial))
        _check_not_empty(name, a, axis, initial)
        if is_complex(a.dtype):
            result = _complex_extreme(name, a, axis, keepdims)
        else:
            result = reduced(name, for_bool if is_bool(a.dtype) else op, a, axis, keepdims)
        return result if initial is None else combine(result, initial)

    return eager(named(function, name, doc))


def _complex_extreme(name: str, x: Any, axis: Axis, keepdims: bool) -> Any:
    """The complex number that comes last, or first, by real and then by imaginary part."""
    axes = sorted(some_axes(name, axis, x.ndim))
    if not axes:
        return x
    others = [i for i in range(x.ndim) if i not in axes]
    shape = [x.shape[i] for i in others]
    turned = apply("transpose", x, axes=(*others, *axes))
    flat = reshape(turned, (*shape, math.prod(x.shape[i] for i in axes)))
    place = _complex_place(name, flat, len(shape))
    numbers = apply_like(flat, "iota", shape=flat.shape, axis=len(shape), dtype="int32")
    found = sum(choose(numbers == reshape(place, (*shape, 1)), flat, 0), -1)
    return keep_axes(found, x.shape, axes) if keepdims else found


def _complex_place(name: str, x: Any, axis: int) -> Any:
    """Where along an axis the extreme is first; NaN counts most."""
    op, worst = ("reduce_max", -math.inf) if name.endswith("max") else ("reduce_min", math.inf)

    def extreme(parts: Any) -> Any:
        return keep_axes(apply(op, parts, axes=(axis,)), x.shape, (axis,))

    real, imag = apply("real", x), apply("imag", x)
    has_best_real = real == extreme(real)
    ties = choose(has_best_real, imag, worst)
    is_best = has_best_real & (imag == extreme(ties))
    is_nan = x != x
    hit = choose(any(is_nan, axis, keepdims=True), is_nan, is_best)
    return apply("argmax", convert(hit, DTYPES["int32"]), axis=axis, dtype="int32")


def _least_favorable(name: str, dtype: np.dtype, initial: Any) -> Any:
    if initial is not None:
        return initial
    if is_complex(dtype):
        return -math.inf if name == "max" else math.inf
    return empty_result(name, dtype)


def _check_not_empty(name: str, x: Any, axis: Axis, initial: Any) -> None:
    axes = some_axes(name, axis, x.ndim)
    if initial is None and 0 in [x.shape[i] for i in axes]:
        raise ShapeError(
            f"{name}: there is nothing to compare along axes of size 0",
            notes=[f"x: {x.type}"],
            fix=f"give an answer for this case: {name}(x, initial=0)",
        )


max = amax = _extreme(
    "max", "reduce_max", "reduce_or", maximum, "The maximum over axes; NaN if there is one."
)
min = amin = _extreme(
    "min", "reduce_min", "reduce_and", minimum, "The minimum over axes; NaN if there is one."
)


def _logical(name: str, op: str, neutral: bool, doc: str):
    def function(
        a: Tensor,
        axis: Axis = None,
        out: None = None,
        keepdims: bool = False,
        where: Tensor | None = None,
    ) -> Array:
        refuse_out(name, out)
        a = truth(a)
        a = a if where is None else choose(where, a, neutral)
        return reduced(name, op, a, axis, keepdims)

    return named(function, name, doc)


any = _logical("any", "reduce_or", False, "Whether any element over axes is true.")
all = _logical("all", "reduce_and", True, "Whether all elements over axes are true.")


def count_nonzero(a: Tensor, axis: Axis = None, keepdims: bool = False) -> Array:
    """The number of nonzero elements over axes."""
    return sum(truth(a), axis, keepdims=keepdims)


def ptp(a: Tensor, axis: Axis = None, out: None = None, keepdims: bool = False) -> Array:
    """The range of values over axes: maximum minus minimum."""
    refuse_out("ptp", out)
    return max(a, axis, keepdims=keepdims) - min(a, axis, keepdims=keepdims)


# -- places of extremes -------------------------------------------------------------------------


def _place(name: str, doc: str):
    def function(
        a: Tensor, axis: int | None = None, out: None = None, keepdims: bool | None = None
    ) -> Array:
        refuse_out(name, out)
        a = as_tensor(a)
        flat, place = along(name, a, axis)
        if flat.shape[place] == 0:
            raise ShapeError(
                f"{name}: there is nothing to compare along an axis of size 0",
                notes=[f"x: {a.type}"],
                fix="check the size first",
            )
        if is_bool(flat.dtype):
            flat = convert(flat, DTYPES["int32"])
        if is_complex(flat.dtype):
            result = _complex_place(name, flat, place)
        else:
            result = apply(name, flat, axis=place, dtype="int32")
        axes = range(a.ndim) if axis is None else (place,)
        return keep_axes(result, a.shape, axes) if keepdims else result

    return eager(named(function, name, doc))


argmax = _place(
    "argmax", "The index of the maximum along an axis, the first of several; NaN is maximal."
)
argmin = _place(
    "argmin", "The index of the minimum along an axis, the first of several; NaN is minimal."
)


# -- cumulative operations ----------------------------------------------------------------------


def _running_total(name: str, doc: str):
    def function(a: Tensor, axis: int | None = None, dtype: Any = None, out: None = None) -> Array:
        refuse_out(name, out)
        x, place = along(name, a, axis)
        x = convert(x, total_dtype(x.dtype) if dtype is None else as_dtype(dtype))
        return apply(name, x, axis=place)

    return eager(named(function, name, doc))


def _running_extreme(name: str, doc: str):
    def function(x: Tensor, axis: int | None = None) -> Array:
        x, place = along(name, x, axis)
        if is_bool(x.dtype):
            return truth(apply(name, convert(x, DTYPES["uint8"]), axis=place))
        return apply(name, x, axis=place)

    return eager(named(function, name, doc))


cumsum = _running_total("cumsum", "The cumulative sum along an axis; None flattens first.")
cumprod = _running_total("cumprod", "The cumulative product along an axis; None flattens first.")
cummax = _running_extreme("cummax", "The cumulative maximum along an axis; None flattens first.")
cummin = _running_extreme("cummin", "The cumulative minimum along an axis; None flattens first.")


def diff(
    a: Tensor,
    n: int = 1,
    axis: int = -1,
    prepend: Tensor | None = None,
    append: Tensor | None = None,
) -> Array:
    """The n-th discrete difference along an axis.

    `prepend` and `append` are joined to `a` first; scalars are broadcast to a slice of size 1.
    """
    a = as_tensor(a)
    place = one_axis("diff", axis, a.ndim)
    if count_of("diff: n", n, most=10_000) == 0:
        return a
    thin = tuple(1 if i == place else size for i, size in enumerate(a.shape))
    ends = [
        None if end is None else convert_exactly(end, result_dtype(a, as_operand(end)))
        for end in (prepend, append)
    ]
    first, last = (end if end is None or end.ndim else broadcast_to(end, thin) for end in ends)
    parts = [part for part in (first, a, last) if part is not None]
    a = concatenate(parts, place) if len(parts) > 1 else a
    before = (slice(None),) * place
    for _ in range(n):
        right, left = a[(*before, slice(1, None))], a[(*before, slice(None, -1))]
        a = right != left if is_bool(a.dtype) else right - left
    return a


def ediff1d(ary: Tensor, to_end: Tensor | None = None, to_begin: Tensor | None = None) -> Array:
    """The differences of consecutive elements of the flattened array.

    `to_begin` and `to_end` are joined to the differences.
    """
    found = diff(ravel(ary))
    parts = [
        found if part is found else convert(ravel(part), found.dtype)
        for part in (to_begin, found, to_end)
        if part is not None
    ]
    return concatenate(parts) if len(parts) > 1 else found


def trapezoid(y: Tensor, x: Tensor | None = None, dx: Tensor = 1.0, axis: int = -1) -> Array:
    """The integral along an axis by the trapezoidal rule.

    Samples are at `x`, or `dx` apart.
    """
    if x is None:
        return rounded_once(lambda y: _trapezoid(y, None, dx, axis), y)
    return rounded_once(lambda y, x: _trapezoid(y, x, dx, axis), y, x)


def _trapezoid(y: Any, x: Any, dx: Any, axis: int) -> Array:
    given = [as_operand(a) for a in (y, x) if a is not None]
    dtype = result_dtype(*given, inexact=True)
    y, x = (a if a is None else convert_exactly(a, dtype) for a in (y, x))
    place = one_axis("trapezoid", axis, y.ndim)
    before = (slice(None),) * place
    heights = divide(add(y[(*before, slice(1, None))], y[(*before, slice(None, -1))]), 2)
    if x is None:
        return multiply(sum(heights, place), dx)
    widths = diff(x, axis=-1 if as_tensor(x).ndim == 1 else place)
    if widths.ndim == 1:
        widths = reshape(widths, tuple(-1 if i == place else 1 for i in range(y.ndim)))
    return sum(multiply(heights, widths), place)


def _cumulative(name: str, fn: Callable[..., Any], first: int, doc: str):
    """The running total of the array API, which may start with the neutral element."""

    def function(
        x: Tensor, *, axis: int | None = None, dtype: Any = None, include_initial: bool = False
    ) -> Array:
        x = as_tensor(x)
        place = one_axis(name, 0 if axis is None and x.ndim == 1 else axis, x.ndim)
        result = fn(x, place, dtype)
        if not flag(f"{name}: include_initial", include_initial):
            return result
        low = tuple(int(i == place) for i in range(x.ndim))
        start = as_tensor(np.asarray(first, result.dtype))
        return apply("pad", result, start, low=low, high=(0,) * x.ndim, interior=(0,) * x.ndim)

    return named(function, name, doc)


FROM = "along an axis, from {} on if `include_initial`."
cumulative_sum = _cumulative("cumulative_sum", cumsum, 0, f"The cumulative sum {FROM.format(0)}")
cumulative_prod = _cumulative(
    "cumulative_prod", cumprod, 1, f"The cumulative product {FROM.format(1)}"
)
