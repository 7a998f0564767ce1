"""Order: sort, argsort, searchsorted, quantiles."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from ..ir.builder import user_source
from ..ir.errors import AttributeValueError
from ..ir.types import DTYPES, is_float, is_inexact
from ..trace.apply import apply, apply_like, as_operand, as_tensor
from ..trace.axes import one_axis, some_axes
from ..trace.promotion import convert, result_dtype
from .arithmetic import ceil, floor, subtract
from .elementwise import Tensor, add, less, less_equal, multiply
from .indexing import take, take_along_axis
from .logic import isnan, logical_and, logical_not, logical_or, where
from .manipulation import moveaxis, ravel, reshape
from .reductions import Axis, any, sum

INT32 = DTYPES["int32"]


def sort(
    a: Tensor,
    axis: int | None = -1,
    *,
    descending: bool = False,
    stable: bool = True,
    kind: str | None = None,
) -> Any:
    """The elements along an axis in rising order; NaN comes last."""
    a = as_tensor(a)
    a, axis = (ravel(a), 0) if axis is None else (a, axis)
    place = one_axis("sort", axis, a.ndim)
    (result,) = apply("sort", a, axis=place, n_keys=1)
    return apply("flip", result, axes=(place,)) if descending else result


def argsort(
    a: Tensor,
    axis: int | None = -1,
    *,
    descending: bool = False,
    stable: bool = True,
    kind: str | None = None,
) -> Any:
    """The indices that put an axis in rising order; equal elements keep theirs."""
    a = as_tensor(a)
    a, axis = (ravel(a), 0) if axis is None else (a, axis)
    place = one_axis("argsort", axis, a.ndim)
    numbers = apply_like(a, "iota", shape=tuple(a.shape), axis=place, dtype="int32")
    if not descending:
        return apply("sort", a, numbers, axis=place, n_keys=1)[1]
    # turned around, sorted, and turned around again, equal elements keep their order
    turned = apply("flip", a, axes=(place,))
    order = apply("sort", turned, numbers, axis=place, n_keys=1)[1]
    return apply("flip", subtract(a.shape[place] - 1, order), axes=(place,))


def lexsort(keys: Sequence[Tensor], axis: int = -1) -> Any:
    """The indices that sort by the last key, ties by the one before it, and so on."""
    tensors = [as_tensor(key) for key in keys]
    place = one_axis("lexsort", axis, tensors[0].ndim)
    numbers = apply_like(
        tensors[0], "iota", shape=tuple(tensors[0].shape), axis=place, dtype="int32"
    )
    return apply("sort", *reversed(tensors), numbers, axis=place, n_keys=len(tensors))[-1]


def partition(a: Tensor, kth: int, axis: int = -1) -> Any:
    """The elements so that the one of rank `kth` stands at its place.

    All are sorted here.
    """
    return sort(a, axis)


def argpartition(a: Tensor, kth: int, axis: int = -1) -> Any:
    """The indices of `partition`."""
    return argsort(a, axis)


def sort_complex(a: Tensor) -> Any:
    """The elements sorted by real, then imaginary part."""
    a = as_tensor(a)
    return sort(convert(a, result_dtype(a, 1j)))


def searchsorted(a: Tensor, v: Tensor, side: str = "left", sorter: Tensor | None = None) -> Any:
    """Where elements v belong in a sorted vector.

    They go before equal ones, or after them with "right".
    """
    if side not in ("left", "right"):
        raise AttributeValueError(
            f"searchsorted: there is no side {side!r}",
            where=str(user_source()),
            fix='use "left" or "right"',
        )
    dtype = result_dtype(as_operand(a), as_operand(v))
    a, v = convert(as_tensor(a), dtype), convert(as_tensor(v), dtype)
    a = a if sorter is None else take(a, sorter)
    count = a.shape[0]
    low = convert(multiply(less(v, v), 0), INT32)
    high = add(low, count)
    for _ in range(count.bit_length()):
        middle = (low + high) // 2
        goes_right = logical_and(less(low, high), _is_before(take(a, middle, mode="clip"), v, side))
        is_left = logical_and(less(low, high), logical_not(goes_right))
        low, high = where(goes_right, middle + 1, low), where(is_left, middle, high)
    return low


def _is_before(element: Any, v: Any, side: str) -> Any:
    """Whether v belongs behind an element; NaN is the greatest."""
    if side == "left":
        before = less(element, v)
        if not is_float(v.dtype):
            return before
        return logical_or(before, logical_and(isnan(v), logical_not(isnan(element))))
    before = less_equal(element, v)
    return logical_or(before, isnan(v)) if is_float(v.dtype) else before


def digitize(x: Tensor, bins: Tensor, right: bool = False) -> Any:
    """The bin of each element, between edges that rise or fall."""
    bins = as_tensor(bins)
    if bins.shape[0] == 0:
        return convert(multiply(as_tensor(x), 0), INT32)
    side = "left" if right else "right"
    rising = searchsorted(bins, x, side)
    other = "right" if right else "left"
    falling = subtract(bins.shape[0], searchsorted(bins[::-1], x, other))
    return where(bins[-1] >= bins[0], rising, falling)


# -- quantiles ----------------------------------------------------------------------------------


def quantile(
    a: Tensor, q: Tensor, axis: Axis = None, method: str = "linear", keepdims: bool = False
) -> Any:
    """The value below which the share q of the elements lies; NaN if one is NaN."""
    a = _as_inexact(a)
    result = _quantile("quantile", a, q, axis, method, keepdims)
    has_nan = any(isnan(a), axis, keepdims=keepdims)
    return where(has_nan, convert(np.nan, a.dtype), result)


def nanquantile(
    a: Tensor, q: Tensor, axis: Axis = None, method: str = "linear", keepdims: bool = False
) -> Any:
    """Like `quantile`, of the elements that are not NaN."""
    return _quantile("nanquantile", _as_inexact(a), q, axis, method, keepdims)


def _as_inexact(x: Tensor) -> Any:
    x = as_tensor(x)
    return x if is_inexact(x.dtype) else convert(x, DTYPES["float32"])


def _quantile(name: str, x: Any, q: Tensor, axis: Axis, method: str, keepdims: bool) -> Any:
    axes = some_axes(name, axis, x.ndim)
    shares = convert(as_tensor(q), x.dtype)
    lines = moveaxis(x, axes, tuple(range(x.ndim - len(axes), x.ndim)))
    lines = reshape(lines, (*lines.shape[: x.ndim - len(axes)], -1))
    ordered = sort(lines)
    count = sum(logical_not(isnan(lines)), -1, keepdims=True)
    place = multiply(reshape(shares, (-1,)), convert(subtract(count, 1), x.dtype))
    # an empty line has its NaN at place 0
    place = where(less(place, 0), 0, place)
    low, high = floor(place), ceil(place)
    below, above = (take_along_axis(ordered, convert(p, INT32), -1, "clip") for p in (low, high))
    result = _between(name, below, above, subtract(place, low), low, method)
    result = moveaxis(result, -1, 0)
    if keepdims:
        result = keep_axes_of(result, x.shape, axes)
    return result if shares.ndim else result[0]


def keep_axes_of(result: Any, shape: Sequence[Any], axes: Sequence[int]) -> Any:
    """Put reduced axes back behind a first axis."""
    kept = tuple(1 if i in axes else n for i, n in enumerate(shape))
    return reshape(result, (result.shape[0], *kept))


def _between(name: str, low: Any, high: Any, share: Any, rank: Any, method: str) -> Any:
    if method == "linear":
        return add(multiply(low, subtract(1, share)), multiply(high, share))
    if method == "lower":
        return low
    if method == "higher":
        return high
    if method == "midpoint":
        return where(share == 0, low, (low + high) / 2)
    if method == "nearest":
        is_even = rank % 2 == 0
        return where(logical_or(share < 0.5, logical_and(share == 0.5, is_even)), low, high)
    raise AttributeValueError(
        f"{name}: there is no method {method!r}",
        where=str(user_source()),
        fix="use linear, lower, higher, midpoint or nearest",
    )


def percentile(
    a: Tensor, q: Tensor, axis: Axis = None, method: str = "linear", keepdims: bool = False
) -> Any:
    """The value below which q percent of the elements lie."""
    return quantile(a, as_tensor(q) / 100, axis, method, keepdims)


def nanpercentile(
    a: Tensor, q: Tensor, axis: Axis = None, method: str = "linear", keepdims: bool = False
) -> Any:
    """Like `percentile`, of the elements that are not NaN."""
    return nanquantile(a, as_tensor(q) / 100, axis, method, keepdims)


def median(a: Tensor, axis: Axis = None, keepdims: bool = False) -> Any:
    """The middle element in order, or the mean of the two."""
    return quantile(a, 0.5, axis, keepdims=keepdims)


def nanmedian(a: Tensor, axis: Axis = None, keepdims: bool = False) -> Any:
    """The median of the elements that are not NaN."""
    return nanquantile(a, 0.5, axis, keepdims=keepdims)
