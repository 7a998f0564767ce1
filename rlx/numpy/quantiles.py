"""Quantiles: percentile, median and their like."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from ..ir.errors import AttributeValueError, ShapeError
from ..ir.types import DTYPES, is_inexact
from ..trace.apply import apply, as_tensor
from ..trace.arguments import choice
from ..trace.axes import some_axes
from ..trace.promotion import broadcast_to, convert, convert_exactly, result_dtype, rounded_once
from .arithmetic import ceil, floor, subtract
from .elementwise import Tensor, add, less, less_equal, multiply, refuse_out
from .indexing import take_along_axis
from .logic import isnan, logical_not, logical_or, where
from .manipulation import moveaxis, reshape
from .reductions import Axis, any, sum
from .sorting import sort

INT32 = DTYPES["int32"]
METHODS = ("linear", "lower", "higher", "midpoint", "nearest", "inverted_cdf")


def quantile(
    a: Tensor,
    q: Tensor,
    axis: Axis = None,
    out: None = None,
    overwrite_input: bool = False,
    method: str = "linear",
    keepdims: bool = False,
    *,
    weights: Tensor | None = None,
) -> Any:
    """The value below which the share q of the elements lies; NaN if one is NaN.

    `weights` of elements go with the method "inverted_cdf".
    """
    refuse_out("quantile", out)
    a = _as_inexact(a)
    result = rounded_once(lambda a: _quantile("quantile", a, q, axis, method, keepdims, weights), a)
    has_nan = any(isnan(a), axis, keepdims=keepdims)
    return where(has_nan, convert(np.nan, result.dtype), result)


def nanquantile(
    a: Tensor,
    q: Tensor,
    axis: Axis = None,
    out: None = None,
    overwrite_input: bool = False,
    method: str = "linear",
    keepdims: bool = False,
    *,
    weights: Tensor | None = None,
) -> Any:
    """Like `quantile`, of the elements that are not NaN."""
    refuse_out("nanquantile", out)
    return rounded_once(
        lambda a: _quantile("nanquantile", a, q, axis, method, keepdims, weights), _as_inexact(a)
    )


def percentile(
    a: Tensor,
    q: Tensor,
    axis: Axis = None,
    out: None = None,
    overwrite_input: bool = False,
    method: str = "linear",
    keepdims: bool = False,
    *,
    weights: Tensor | None = None,
) -> Any:
    """The value below which q percent of the elements lie."""
    return quantile(a, _share(q), axis, out, overwrite_input, method, keepdims, weights=weights)


def nanpercentile(
    a: Tensor,
    q: Tensor,
    axis: Axis = None,
    out: None = None,
    overwrite_input: bool = False,
    method: str = "linear",
    keepdims: bool = False,
    *,
    weights: Tensor | None = None,
) -> Any:
    """Like `percentile`, of the elements that are not NaN."""
    return nanquantile(a, _share(q), axis, out, overwrite_input, method, keepdims, weights=weights)


def median(
    a: Tensor,
    axis: Axis = None,
    out: None = None,
    overwrite_input: bool = False,
    keepdims: bool = False,
) -> Any:
    """The middle element in order, or the mean of the two."""
    return quantile(a, 0.5, axis, out, keepdims=keepdims)


def nanmedian(
    a: Tensor,
    axis: Axis = None,
    out: None = None,
    overwrite_input: bool = False,
    keepdims: bool = False,
) -> Any:
    """The median of the elements that are not NaN."""
    return nanquantile(a, 0.5, axis, out, keepdims=keepdims)


# -- how ----------------------------------------------------------------------------------------


def _share(q: Tensor) -> Any:
    return q / 100 if isinstance(q, int | float) else as_tensor(q) / 100


def _as_inexact(x: Tensor) -> Any:
    x = as_tensor(x)
    return x if is_inexact(x.dtype) else convert(x, DTYPES["float32"])


def _quantile(
    name: str, x: Any, q: Tensor, axis: Axis, method: str, keepdims: bool, weights: Any
) -> Any:
    choice(f"{name}: method", method, METHODS)
    axes = some_axes(name, axis, x.ndim)
    shares = convert_exactly(q, x.dtype)
    lines = _lines(x, axes)
    if method == "inverted_cdf":
        spread = None if weights is None else _lines(_weights_of(name, x, weights, axes), axes)
        result = _inverted(lines, reshape(shares, (-1,)), spread)
    elif weights is not None:
        raise AttributeValueError(
            f"{name}: the method {method!r} takes no weights",
            fix='write method="inverted_cdf"',
        )
    else:
        result = _interpolated(lines, reshape(shares, (-1,)), method)
    result = moveaxis(result, -1, 0)
    if keepdims:
        result = keep_axes_of(result, x.shape, axes)
    return result if shares.ndim else result[0]


def _lines(x: Any, axes: Sequence[int]) -> Any:
    """The axes made one, which comes last."""
    kept = x.ndim - len(axes)
    x = moveaxis(x, axes, tuple(range(kept, x.ndim)))
    return reshape(x, (*x.shape[:kept], -1))


def keep_axes_of(result: Any, shape: Sequence[Any], axes: Sequence[int]) -> Any:
    """Put reduced axes back behind a first axis."""
    kept = tuple(1 if i in axes else n for i, n in enumerate(shape))
    return reshape(result, (result.shape[0], *kept))


def _interpolated(lines: Any, shares: Any, method: str) -> Any:
    ordered = sort(lines)
    count = sum(logical_not(isnan(lines)), -1, keepdims=True)
    place = multiply(shares, convert(subtract(count, 1), lines.dtype))
    # an empty line has its NaN at place 0
    place = where(less(place, 0), 0, place)
    low, high = floor(place), ceil(place)
    below, above = (take_along_axis(ordered, convert(p, INT32), -1, "clip") for p in (low, high))
    return _between(below, above, subtract(place, low), method)


def _between(low: Any, high: Any, share: Any, method: str) -> Any:
    if method == "linear":
        return add(multiply(low, subtract(1, share)), multiply(high, share))
    if method == "lower":
        return low
    if method == "higher":
        return high
    if method == "midpoint":
        return multiply(add(low, high), 0.5)
    return where(less_equal(share, 0.5), low, high)


def _weights_of(name: str, x: Any, weights: Tensor, axes: Sequence[int]) -> Any:
    """The weights as an array of the shape of x."""
    weights = as_tensor(weights)
    weights = convert(weights, result_dtype(x, weights))
    if tuple(weights.shape) == tuple(x.shape):
        return weights
    wanted = tuple(x.shape[i] for i in axes)
    if tuple(weights.shape) != wanted:
        raise ShapeError(
            f"{name}: the weights have the shape {weights.shape}, the elements {wanted}",
            fix="give a weight for each element along the axes",
        )
    thin = reshape(weights, tuple(n if i in axes else 1 for i, n in enumerate(x.shape)))
    return broadcast_to(thin, x.shape)


def _inverted(lines: Any, shares: Any, weights: Any) -> Any:
    """The first element at which the running sum of weights has reached the share."""
    weights = multiply(lines, 0) + 1 if weights is None else weights
    lines = convert(lines, weights.dtype)
    last = lines.ndim - 1
    ordered, weights = apply("sort", lines, weights, axis=last, n_keys=1)
    is_bad = logical_or(logical_or(less(weights, 0), isnan(weights)), isnan(ordered))
    reached = apply("cumsum", where(is_bad, 0, weights), axis=last)
    wanted = multiply(reached[..., -1:], shares)
    place = sum(less(reached[..., None, :], wanted[..., None]), -1)
    count = sum(logical_not(isnan(ordered)), -1, keepdims=True)
    place = where(less(place, count), place, where(less(0, count), subtract(count, 1), 0))
    return take_along_axis(ordered, place, -1, "clip")
