"""How numbers are distributed: percentile, median, bincount, histogram."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from ..ir.dims import Size, maximum
from ..ir.errors import AttributeValueError, BoundsError, DtypeError, ShapeError
from ..ir.types import DTYPES, is_bool, is_inexact, is_integer
from ..trace.apply import apply, as_tensor
from ..trace.arguments import choice, count_of, flag, members, size_of, wrong
from ..trace.array import Array
from ..trace.array_arguments import matrix, scalar, vector
from ..trace.axes import integer, some_axes
from ..trace.promotion import (
    FLOAT,
    broadcast_to,
    convert,
    convert_exactly,
    result_dtype,
    rounded_once,
)
from .arithmetic import ceil, floor, subtract
from .creation import linspace, ones, zeros
from .elementwise import Tensor, add, divide, less, less_equal, multiply, named, refuse_out
from .indexing import known_array, take_along_axis
from .logic import isnan, logical_and, logical_not, logical_or, where
from .manipulation import moveaxis, ravel, reshape, stack
from .reductions import Axis, any, diff, max, min, sum
from .sorting import searchsorted, sort

INT32 = DTYPES["int32"]
METHODS = ("linear", "lower", "higher", "midpoint", "nearest", "inverted_cdf")
LIKE_QUANTILE = "\n\n`q`, `method` and `weights` are as for `quantile`."


def _quantiles(name: str, doc: str, *, whole: int = 1, ignores_nan: bool = False):
    """A function of quantiles, whose q is a part of `whole`."""

    def function(
        a: Tensor,
        q: Tensor,
        axis: Axis = None,
        out: None = None,
        overwrite_input: bool = False,
        method: str = "linear",
        keepdims: bool = False,
        *,
        weights: Tensor | None = None,
    ) -> Array:
        refuse_out(name, out)
        a = as_tensor(a)
        a = a if is_inexact(a.dtype) else convert(a, FLOAT)
        share = _share(q, whole)
        result = rounded_once(
            lambda a: _quantile(name, a, share, axis, method, keepdims, weights), a
        )
        if ignores_nan:
            return result
        has_nan = any(isnan(a), axis, keepdims=keepdims)
        return where(has_nan, convert(np.nan, result.dtype), result)

    return named(function, name, doc)


def _share(q: Tensor, whole: int) -> Any:
    """The part of one; Python divides its own numbers, in all their digits."""
    if whole == 1:
        return q
    return q / whole if isinstance(q, int | float) else as_tensor(q) / whole


quantile = _quantiles(
    "quantile",
    """The `q`-th quantiles over axes, `q` in [0, 1]; NaN if an element is NaN.

    With several `q` the result has a first axis for them. `method` is "linear", "lower", "higher",
    "midpoint", "nearest", or "inverted_cdf", which alone takes `weights`.
    """,
)
nanquantile = _quantiles(
    "nanquantile",
    f"The quantiles over axes, ignoring NaNs.{LIKE_QUANTILE}",
    ignores_nan=True,
)
percentile = _quantiles(
    "percentile", f"The percentiles over axes, from 0 to 100.{LIKE_QUANTILE}", whole=100
)
nanpercentile = _quantiles(
    "nanpercentile",
    f"The percentiles over axes, ignoring NaNs.{LIKE_QUANTILE}",
    whole=100,
    ignores_nan=True,
)


def median(
    a: Tensor,
    axis: Axis = None,
    out: None = None,
    overwrite_input: bool = False,
    keepdims: bool = False,
) -> Array:
    """The median over axes; None takes all axes."""
    return quantile(a, 0.5, axis, out, keepdims=keepdims)


def nanmedian(
    a: Tensor,
    axis: Axis = None,
    out: None = None,
    overwrite_input: bool = False,
    keepdims: bool = False,
) -> Array:
    """The median over axes, ignoring NaNs."""
    return nanquantile(a, 0.5, axis, out, keepdims=keepdims)


# -- how ----------------------------------------------------------------------------------------


def _quantile(
    name: str, x: Any, q: Tensor, axis: Axis, method: str, keepdims: bool, weights: Any
) -> Array:
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


def _lines(x: Any, axes: Sequence[int]) -> Array:
    """The axes made one, which comes last."""
    kept = x.ndim - len(axes)
    x = moveaxis(x, axes, tuple(range(kept, x.ndim)))
    return reshape(x, (*x.shape[:kept], -1))


def keep_axes_of(result: Any, shape: Sequence[Any], axes: Sequence[int]) -> Array:
    """Restore reduced axes with size 1 behind a first axis."""
    kept = tuple(1 if i in axes else n for i, n in enumerate(shape))
    return reshape(result, (result.shape[0], *kept))


def _interpolated(lines: Any, shares: Any, method: str) -> Array:
    ordered = sort(lines)
    count = sum(logical_not(isnan(lines)), -1, keepdims=True)
    place = multiply(shares, convert(subtract(count, 1), lines.dtype))
    # an empty line has its NaN at place 0
    place = where(less(place, 0), 0, place)
    low, high = floor(place), ceil(place)
    below, above = (take_along_axis(ordered, convert(p, INT32), -1, "clip") for p in (low, high))
    return _between(below, above, subtract(place, low), method)


def _between(low: Any, high: Any, share: Any, method: str) -> Array:
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


# -- counts: bincount, histograms in one and more axes ---------------------------------------------


def bincount(
    x: Tensor, weights: Tensor | None = None, minlength: int = 0, *, length: Size | None = None
) -> Array:
    """Count occurrences of nonnegative integers; `weights` are summed instead.

    Returns at least `minlength` counts. Traced code needs `length`; integers from there on are not
    counted. Negative integers raise `BoundsError` where they are known.
    """
    x, minlength = ravel(x), count_of("bincount: minlength", minlength)
    if not (is_bool(x.dtype) or is_integer(x.dtype)):
        raise DtypeError(
            f"bincount: x is {x.type}, not integers",
            fix='convert them: x.astype("int32")',
        )
    if length is None:
        known = known_array("bincount", x, "say how many: bincount(x, length=n)")
        if known.size and known.min() < 0:
            raise BoundsError(
                f"bincount: {known.min()} cannot be counted, places start at 0",
                fix="leave out negative integers: x[x >= 0]",
            )
        length = int(known.max()) + 1 if known.size else 0
    count = maximum(size_of("bincount: length", length), minlength)
    amounts = as_tensor(np.ones((), INT32)) if weights is None else ravel(weights)
    start = zeros((count,), amounts.dtype)
    places = where(less(x, 0), 0, x)
    return start.at[places].add(broadcast_to(amounts, x.shape), mode="drop")


def histogram_bin_edges(
    a: Tensor,
    bins: int | Sequence[float] | Tensor = 10,
    range: Any = None,
    weights: Tensor | None = None,
) -> Array:
    """The edges of `bins` in `range`, see `histogram`; `weights` have no effect."""
    if not isinstance(bins, int | np.integer):
        return vector("histogram: bins", bins, least=1)
    a, bins = ravel(a), count_of("histogram: bins", bins, 1)
    low, high = (min(a), max(a)) if range is None else _span("histogram: range", range)
    is_flat = low == high
    return linspace(where(is_flat, low - 0.5, low), where(is_flat, high + 0.5, high), bins + 1)


def _span(what: str, given: Any) -> tuple[Array, Array]:
    """The least and the greatest number of a range."""
    ends = members(what, given)
    if len(ends) != 2:
        raise wrong(what, given, "a pair", "give the least and the greatest number")
    return as_tensor(scalar(what, ends[0])), as_tensor(scalar(what, ends[1]))


def histogram(
    a: Tensor,
    bins: int | Sequence[float] | Tensor = 10,
    range: Any = None,
    weights: Tensor | None = None,
    density: bool | None = None,
) -> tuple[Array, Array]:
    """The counts of elements per bin, and the bin edges; the last bin is closed.

    `bins` is the number of equal bins, or the edges; `range` is their first and last edge,
    `weights` are summed instead of counted. `density` normalizes the integral to 1.
    """
    a = ravel(a)
    edges = histogram_bin_edges(a, bins, range)
    count = edges.shape[0] - 1
    place = searchsorted(edges, a, side="right") - 1
    place = where(a == edges[-1], count - 1, place)
    is_inside = logical_and(less_equal(edges[0], a), less_equal(a, edges[-1]))
    amounts = 1.0 if weights is None else ravel(weights)
    amounts = where(is_inside, amounts, 0.0)
    counts = bincount(where(is_inside, place, 0), amounts, length=count)
    if flag("histogram: density", density):
        counts = divide(divide(counts, diff(edges)), sum(counts))
    return counts, edges


def histogram2d(
    x: Tensor,
    y: Tensor,
    bins: Any = 10,
    range: Any = None,
    weights: Tensor | None = None,
    density: bool | None = None,
) -> tuple[Array, Array, Array]:
    """The 2-d histogram of points (x, y), and the bin edges along x and y.

    `bins`, `range`, `weights` and `density` are as for `histogramdd`.
    """
    given = bins
    if not isinstance(bins, int) and len(members("histogram2d: bins", bins)) != 2:
        given = [bins, bins]
    points = stack([ravel(x), ravel(y)], axis=1)
    counts, edges = histogramdd(points, given, range, weights, density)
    return counts, edges[0], edges[1]


def histogramdd(
    sample: Tensor,
    bins: Any = 10,
    range: Any = None,
    weights: Tensor | None = None,
    density: bool | None = None,
) -> tuple[Array, list[Array]]:
    """The histogram of points, the rows of `sample`, and the edges along each axis.

    `bins` and `range` are for all axes, or a list with one for each. `weights` and `density` are as
    for `histogram`.
    """
    points = matrix("histogramdd: sample", sample)
    rank = integer("histogramdd: the number of axes", points.shape[1])
    is_one = isinstance(bins, int | np.integer)
    many = (bins,) * rank if is_one else members("histogramdd: bins", bins)
    ranges = (None,) * rank if range is None else members("histogramdd: range", range)
    for name, given in (("bins", many), ("range", ranges)):
        if len(given) != rank:
            fix = f"give one, or {rank}, one for each axis"
            raise wrong(f"histogramdd: {name}", given, f"for {rank} axes", fix)
    edges = [
        histogram_bin_edges(points[:, i], n, span)
        for i, (n, span) in enumerate(zip(many, ranges, strict=True))
    ]
    sizes = [edge.shape[0] - 1 for edge in edges]
    number = zeros((points.shape[0],), "int32")
    is_inside = ones((points.shape[0],), "bool")
    for i, (edge, size) in enumerate(zip(edges, sizes, strict=True)):
        value = convert(points[:, i], edge.dtype)
        place = searchsorted(edge, value, side="right") - 1
        place = where(value == edge[-1], size - 1, place)  # the last cell holds its end
        is_inside = is_inside & (value >= edge[0]) & (value <= edge[-1])
        number = number * size + place
    amounts = ones((points.shape[0],), "int32") if weights is None else as_tensor(weights)
    count = int(np.prod(sizes))
    places = where(is_inside, number, count)  # past the end: dropped
    cells = zeros((count,), amounts.dtype).at[places].add(amounts, mode="drop")
    counts = reshape(cells, tuple(sizes))
    if flag("histogram: density", density):
        for i, edge in enumerate(edges):
            thin = tuple(-1 if i == j else 1 for j, _ in enumerate(edges))
            counts = divide(counts, reshape(diff(edge), thin))
        counts = divide(counts, sum(amounts * is_inside))
    return counts, edges
