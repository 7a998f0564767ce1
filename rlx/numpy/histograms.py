"""Counts: bincount, histograms in one and more axes."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from ..ir.errors import BoundsError, DtypeError
from ..ir.types import DTYPES, is_bool, is_integer
from ..trace.apply import as_tensor
from ..trace.arguments import count_of, flag, members, wrong
from ..trace.array_arguments import matrix, scalar, vector
from ..trace.axes import integer
from ..trace.promotion import broadcast_to, convert
from .creation import linspace, ones, zeros
from .elementwise import Tensor, divide, less, less_equal
from .indexing import known_array
from .logic import logical_and, where
from .manipulation import ravel, reshape, stack
from .reductions import diff, max, min, sum
from .sorting import searchsorted

INT32 = DTYPES["int32"]


def bincount(
    x: Tensor, weights: Tensor | None = None, minlength: int = 0, *, length: int | None = None
) -> Any:
    """How often each integer from 0 up occurs; `weights` are added up instead.

    In traced code `length` is needed: integers from there on are left out.
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
    length = count_of("bincount: length", length)
    count = length if length > minlength else minlength
    amounts = as_tensor(np.ones((), INT32)) if weights is None else ravel(weights)
    start = zeros((count,), amounts.dtype)
    places = where(less(x, 0), 0, x)
    return start.at[places].add(broadcast_to(amounts, x.shape), mode="drop")


def histogram_bin_edges(
    a: Tensor,
    bins: int | Sequence[float] | Tensor = 10,
    range: Any = None,
    weights: Tensor | None = None,
) -> Any:
    """The edges of bins of equal width, which `weights` do not change."""
    if not isinstance(bins, int | np.integer):
        return vector("histogram: bins", bins, least=1)
    a, bins = ravel(a), count_of("histogram: bins", bins, 1)
    low, high = (min(a), max(a)) if range is None else _span("histogram: range", range)
    is_flat = low == high
    return linspace(where(is_flat, low - 0.5, low), where(is_flat, high + 0.5, high), bins + 1)


def _span(what: str, given: Any) -> tuple[Any, Any]:
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
) -> tuple[Any, Any]:
    """How many elements lie in each bin, and the edges; the last bin includes its end."""
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
) -> tuple[Any, Any, Any]:
    """How many points lie in each cell of a grid, and the edges along x and y."""
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
) -> tuple[Any, list[Any]]:
    """How many points, the rows of `sample`, lie in each cell of a grid.

    The second result is the edges along each axis. `bins` and `range` are for all axes, or a list
    with an item for each.
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
