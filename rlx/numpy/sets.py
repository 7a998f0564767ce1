"""Sets and counts: unique, isin, bincount, histogram."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Literal, NamedTuple

import numpy as np

from ..ir.builder import user_source
from ..ir.errors import BoundsError
from ..ir.types import DTYPES
from ..trace.apply import as_tensor
from ..trace.array import Array
from ..trace.promotion import broadcast_to, convert
from .creation import linspace, zeros
from .elementwise import Tensor, divide, equal, less, less_equal, multiply, not_equal
from .indexing import known_array, nonzero, take
from .logic import isnan, logical_and, logical_not, where
from .manipulation import concatenate, ravel, reshape
from .reductions import any, cumsum, diff, max, min, sum
from .sorting import argsort, searchsorted

INT32 = DTYPES["int32"]


class UniqueAllResult(NamedTuple):
    """What `unique_all` finds."""

    values: Any
    indices: Any
    inverse_indices: Any
    counts: Any


class UniqueCountsResult(NamedTuple):
    """What `unique_counts` finds."""

    values: Any
    counts: Any


class UniqueInverseResult(NamedTuple):
    """What `unique_inverse` finds."""

    values: Any
    inverse_indices: Any


def unique(
    ar: Tensor,
    return_index: bool = False,
    return_inverse: bool = False,
    return_counts: bool = False,
    axis: int | None = None,
    *,
    equal_nan: bool = True,
    size: int | None = None,
    fill_value: Any = None,
) -> Any:
    """The different elements in rising order; NaN counts once if `equal_nan`.

    In traced code `size` is needed: so many, the rest filled with `fill_value` or the least one.
    """
    ar = as_tensor(ar)
    if size is None:
        fix = "say how many: unique(x, size=n)"
        known = known_array("unique", ar, fix)
        found = np.unique(
            known, return_index, return_inverse, return_counts, axis, equal_nan=equal_nan
        )
        if not isinstance(found, tuple):
            return Array(found)
        return tuple(Array(a if i == 0 else a.astype("int32")) for i, a in enumerate(found))
    wanted = (return_index, return_inverse, return_counts)
    return _sized_unique(ravel(ar), *wanted, size, fill_value, equal_nan)


def _sized_unique(
    x: Any,
    with_index: bool,
    with_inverse: bool,
    with_counts: bool,
    size: int,
    fill_value: Any,
    equal_nan: bool,
) -> Any:
    order = argsort(x)
    ordered = take(x, order, mode="clip")
    differs = not_equal(ordered[1:], ordered[:-1])
    if equal_nan:
        differs = logical_and(differs, logical_not(isnan(ordered[:-1])))
    is_new = concatenate([np.ones(1, bool), differs])
    (starts,) = nonzero(is_new, size=size, fill_value=x.shape[0])
    is_filled = less(starts, x.shape[0])
    filler = ordered[0] if fill_value is None else fill_value
    results = [
        where(is_filled, take(ordered, starts, mode="clip"), convert(as_tensor(filler), x.dtype))
    ]
    if with_index:
        results.append(take(order, where(is_filled, starts, 0), mode="clip"))
    if with_inverse:
        ranks = cumsum(convert(is_new, INT32)) - 1
        blank = convert(multiply(order, 0), INT32)
        results.append(blank.at[order].set(ranks))
    if with_counts:
        ends = concatenate([starts[1:], np.array([x.shape[0]], "int32")])
        results.append(where(is_filled, ends - starts, 0))
    return results[0] if len(results) == 1 else tuple(results)


def unique_values(x: Tensor, /, *, size: int | None = None, fill_value: Any = None) -> Any:
    """The different elements in rising order; each NaN differs from the others."""
    return unique(x, size=size, fill_value=fill_value, equal_nan=False)


def unique_counts(
    x: Tensor, /, *, size: int | None = None, fill_value: Any = None
) -> UniqueCountsResult:
    """The different elements, and how often each occurs."""
    found = unique(x, return_counts=True, size=size, fill_value=fill_value, equal_nan=False)
    return UniqueCountsResult(*found)


def unique_inverse(
    x: Tensor, /, *, size: int | None = None, fill_value: Any = None
) -> UniqueInverseResult:
    """The different elements, and for each element its place among them."""
    x = as_tensor(x)
    values, places = unique(
        x, return_inverse=True, size=size, fill_value=fill_value, equal_nan=False
    )
    return UniqueInverseResult(values, reshape(places, x.shape))


def unique_all(x: Tensor, /, *, size: int | None = None, fill_value: Any = None) -> UniqueAllResult:
    """The different elements, their first places, the inverse and the counts."""
    x = as_tensor(x)
    values, first, places, counts = unique(
        x, True, True, True, size=size, fill_value=fill_value, equal_nan=False
    )
    return UniqueAllResult(values, first, reshape(places, x.shape), counts)


def isin(element: Tensor, test_elements: Tensor, invert: bool = False) -> Any:
    """Whether each element is among those of `test_elements`."""
    element, test_elements = as_tensor(element), ravel(test_elements)
    result = any(equal(reshape(element, (*element.shape, 1)), test_elements), axis=-1)
    return logical_not(result) if invert else result


def _known_pair(name: str, x: Tensor, y: Tensor) -> tuple[np.ndarray, np.ndarray]:
    fix = "call it outside of traced code, or use isin and where"
    return known_array(name, x, fix), known_array(name, y, fix)


def intersect1d(
    ar1: Tensor, ar2: Tensor, assume_unique: bool = False, return_indices: bool = False
) -> Any:
    """The elements that both arrays have, and if wanted their places in both."""
    pair = _known_pair("intersect1d", ar1, ar2)
    if not return_indices:
        return Array(np.intersect1d(*pair, assume_unique))
    values, *places = np.intersect1d(*pair, assume_unique, True)
    return Array(values), *(Array(a.astype("int32")) for a in places)


def union1d(ar1: Tensor, ar2: Tensor, *, size: int | None = None, fill_value: Any = None) -> Any:
    """The elements that one or both arrays have.

    In traced code `size` is needed, as for `unique`.
    """
    return unique(concatenate([ravel(ar1), ravel(ar2)]), size=size, fill_value=fill_value)


def setdiff1d(ar1: Tensor, ar2: Tensor, assume_unique: bool = False) -> Any:
    """The elements of ar1 that ar2 has not."""
    return Array(np.setdiff1d(*_known_pair("setdiff1d", ar1, ar2), assume_unique))


def setxor1d(ar1: Tensor, ar2: Tensor, assume_unique: bool = False) -> Any:
    """The elements that exactly one array has."""
    return Array(np.setxor1d(*_known_pair("setxor1d", ar1, ar2), assume_unique))


def trim_zeros(filt: Tensor, trim: Literal["f", "b", "fb", "bf"] = "fb") -> Any:
    """The vector without zeros at its front and back."""
    return Array(np.trim_zeros(known_array("trim_zeros", filt, "slice the array"), trim))


# -- counting -----------------------------------------------------------------------------------


def bincount(
    x: Tensor, weights: Tensor | None = None, minlength: int = 0, *, length: int | None = None
) -> Any:
    """How often each integer from 0 up occurs; `weights` are added up instead.

    In traced code `length` is needed: integers from there on are left out.
    """
    x = ravel(x)
    if length is None:
        known = known_array("bincount", x, "say how many: bincount(x, length=n)")
        if known.size and known.min() < 0:
            raise BoundsError(
                f"bincount: {known.min()} cannot be counted, places start at 0",
                where=str(user_source()),
                fix="leave out negative integers: x[x >= 0]",
            )
        length = int(known.max()) + 1 if known.size else 0
    count = length if length > minlength else minlength
    amounts = as_tensor(np.ones((), INT32)) if weights is None else ravel(weights)
    start = zeros((count,), amounts.dtype)
    places = where(less(x, 0), 0, x)
    return start.at[places].add(broadcast_to(amounts, x.shape), mode="drop")


def histogram_bin_edges(
    a: Tensor, bins: int | Sequence[float] | Tensor = 10, range: Any = None
) -> Any:
    """The edges of bins of equal width."""
    if not isinstance(bins, int):
        return as_tensor(bins)
    a = ravel(a)
    low, high = (min(a), max(a)) if range is None else map(as_tensor, range)
    is_flat = low == high
    return linspace(where(is_flat, low - 0.5, low), where(is_flat, high + 0.5, high), bins + 1)


def histogram(
    a: Tensor,
    bins: int | Sequence[float] | Tensor = 10,
    range: Any = None,
    weights: Tensor | None = None,
    density: bool = False,
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
    if density:
        counts = divide(divide(counts, diff(edges)), sum(counts))
    return counts, edges
