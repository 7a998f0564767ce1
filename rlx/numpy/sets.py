"""Sets: unique, isin, the elements that arrays share or do not share."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from ..ir.types import DTYPES, Size
from ..trace.apply import as_operand, as_tensor
from ..trace.arguments import choice, flag, size_of
from ..trace.array import Array
from ..trace.axes import one_axis, some_axes
from ..trace.placement import home
from ..trace.promotion import convert, convert_exactly, result_dtype
from .elementwise import Tensor, equal, less, multiply, not_equal
from .indexing import known_array, nonzero, take
from .logic import isnan, logical_and, logical_not, where
from .manipulation import concatenate, moveaxis, ravel, reshape
from .reductions import any, argmax, cumsum
from .sorting import argsort, lexsort

INT32 = DTYPES["int32"]


def unique(
    ar: Tensor,
    return_index: bool = False,
    return_inverse: bool = False,
    return_counts: bool = False,
    axis: int | None = None,
    *,
    equal_nan: bool = True,
    size: Size | None = None,
    fill_value: Any = None,
    sorted: bool = True,
) -> Any:
    """The sorted unique elements of an array, or its unique slices along an axis.

    The optional results are the index of each first occurrence, with `return_index`, the indices
    that rebuild `ar`, with `return_inverse`, and the counts, with `return_counts`. NaNs are equal
    to each other if `equal_nan`. Traced code needs `size`, the size of the result; shorter results
    are padded with `fill_value`, by default the minimum. `sorted=False` sorts as well.
    """
    ar = as_tensor(ar)
    return_index = flag("unique: return_index", return_index)
    return_inverse = flag("unique: return_inverse", return_inverse)
    return_counts = flag("unique: return_counts", return_counts)
    equal_nan = flag("unique: equal_nan", equal_nan)
    axis = None if axis is None else one_axis("unique", axis, ar.ndim)
    if size is None:
        fix = "say how many: unique(x, size=n)"
        known = known_array("unique", ar, fix)
        found = np.unique(
            known, return_index, return_inverse, return_counts, axis, equal_nan=equal_nan
        )
        if not isinstance(found, tuple):
            return _beside(found, ar)
        return tuple(_beside(a if i == 0 else a.astype("int32"), ar) for i, a in enumerate(found))
    wanted = (return_index, return_inverse, return_counts)
    if axis is None:
        return _sized_unique(ravel(ar), wanted, size, fill_value, equal_nan)
    place = one_axis("unique", axis, ar.ndim)
    found = _sized_unique(moveaxis(ar, place, 0), wanted, size, fill_value, equal_nan)
    if not isinstance(found, tuple):
        return moveaxis(found, 0, place)
    return moveaxis(found[0], 0, place), *found[1:]


def _beside(found: np.ndarray, *arrays: Any) -> Array:
    """What NumPy found in arrays, as an array on their device."""
    return Array(found).to(home("a set", arrays))


def _sized_unique(
    x: Any, wanted: tuple[bool, bool, bool], size: Size, fill_value: Any, equal_nan: bool
) -> Any:
    """The different slices along the first axis, their places, the inverse, the counts."""
    order, ordered, is_new = _in_order(x, equal_nan)
    # one more than wanted: the last slice ends where the next one starts
    (places,) = nonzero(is_new, size=size_of("unique: size", size) + 1, fill_value=x.shape[0])
    starts, ends = places[:-1], places[1:]
    is_filled = less(starts, x.shape[0])
    filler = ordered[0] if fill_value is None else convert_exactly(fill_value, x.dtype)
    column = reshape(is_filled, (-1,) + (1,) * (x.ndim - 1))
    results = [where(column, take(ordered, starts, 0, mode="clip"), filler)]
    with_index, with_inverse, with_counts = wanted
    if with_index:
        results.append(take(order, where(is_filled, starts, 0), mode="clip"))
    if with_inverse:
        ranks = cumsum(convert(is_new, INT32)) - 1
        blank = convert(multiply(order, 0), INT32)
        results.append(blank.at[order].set(ranks, unique_indices=True))
    if with_counts:
        results.append(where(is_filled, ends - starts, 0))
    return results[0] if len(results) == 1 else tuple(results)


def _in_order(x: Any, equal_nan: bool = True) -> tuple[Array, Array, Array]:
    """The order of slices along the first axis, these, and which are the first of their kind."""
    rows = reshape(x, (x.shape[0], -1))
    columns = [rows[:, i] for i in reversed(range(rows.shape[1]))]
    order = lexsort(columns) if x.ndim > 1 else argsort(x)
    ordered = take(rows, order, 0, mode="clip")
    differs = not_equal(ordered[1:], ordered[:-1])
    if equal_nan:
        both = logical_and(isnan(ordered[1:]), isnan(ordered[:-1]))
        differs = logical_and(differs, logical_not(both))
    is_new = concatenate([np.ones(1, bool), any(differs, 1)])
    return order, reshape(ordered, x.shape), is_new


class UniqueAll(NamedTuple):
    """The result of `unique_all`."""

    values: Any
    indices: Any
    inverse_indices: Any
    counts: Any


class UniqueCounts(NamedTuple):
    """The result of `unique_counts`."""

    values: Any
    counts: Any


class UniqueInverse(NamedTuple):
    """The result of `unique_inverse`."""

    values: Any
    inverse_indices: Any


def unique_values(x: Tensor, /, *, size: Size | None = None, fill_value: Any = None) -> Array:
    """The sorted unique elements; NaNs differ."""
    return unique(x, equal_nan=False, size=size, fill_value=fill_value)


def unique_counts(
    x: Tensor, /, *, size: Size | None = None, fill_value: Any = None
) -> UniqueCounts:
    """The sorted unique elements and their counts."""
    found = unique(x, return_counts=True, equal_nan=False, size=size, fill_value=fill_value)
    return UniqueCounts(*found)


def unique_inverse(
    x: Tensor, /, *, size: Size | None = None, fill_value: Any = None
) -> UniqueInverse:
    """The sorted unique elements and the indices that rebuild x from them."""
    x = as_tensor(x)
    values, places = unique(
        x, return_inverse=True, equal_nan=False, size=size, fill_value=fill_value
    )
    return UniqueInverse(values, reshape(places, x.shape))


def unique_all(x: Tensor, /, *, size: Size | None = None, fill_value: Any = None) -> UniqueAll:
    """The sorted unique elements, first indices, inverse indices and counts."""
    x = as_tensor(x)
    found = unique(x, True, True, True, equal_nan=False, size=size, fill_value=fill_value)
    values, first, places, counts = found
    return UniqueAll(values, first, reshape(places, x.shape), counts)


def isin(
    element: Tensor,
    test_elements: Tensor,
    assume_unique: bool = False,
    invert: bool = False,
    *,
    method: str = "auto",
) -> Array:
    """Elementwise test whether each of `element` is in `test_elements`.

    `invert` tests whether it is not. `method` and `assume_unique` do not change the result.
    """
    choice("isin: method", method, ("auto", "compare_all", "binary_search", "sort"))
    dtype = result_dtype(as_operand(element), as_operand(test_elements))
    element = convert_exactly(element, dtype)
    test_elements = ravel(convert_exactly(test_elements, dtype))
    result = any(equal(reshape(element, (*element.shape, 1)), test_elements), axis=-1)
    return logical_not(result) if invert else result


# -- two sets -----------------------------------------------------------------------------------


def _known_pair(name: str, x: Tensor, y: Tensor) -> tuple[np.ndarray, np.ndarray]:
    fix = f"say how many: {name}(x, y, size=n)"
    return known_array(name, x, fix), known_array(name, y, fix)


def _vectors(x: Tensor, y: Tensor) -> tuple[Array, Array]:
    """Both arrays as vectors of one dtype."""
    x, y = ravel(x), ravel(y)
    dtype = result_dtype(x, y)
    return convert(x, dtype), convert(y, dtype)


def _chosen(values: Any, is_kept: Any, size: Size, fill_value: Any) -> tuple[Array, Array]:
    """The first `size` of the kept values, and which places they fill.

    The rest is `fill_value`, or the first value.
    """
    (places,) = nonzero(is_kept, size=size, fill_value=values.shape[0])
    is_filled = less(places, values.shape[0])
    found = take(values, places, mode="clip")
    filler = where(any(is_kept), found[0], 0) if fill_value is None else fill_value
    return where(is_filled, found, convert_exactly(filler, values.dtype)), is_filled


def intersect1d(
    ar1: Tensor,
    ar2: Tensor,
    assume_unique: bool = False,
    return_indices: bool = False,
    *,
    size: Size | None = None,
    fill_value: Any = None,
) -> Any:
    """The sorted unique elements that are in both arrays, `ar1` and `ar2`.

    With `return_indices` their first indices in both arrays come along. `assume_unique` does not
    change the result. Traced code needs `size`; shorter results are padded with `fill_value`, by
    default the minimum, and their indices with the size of the array.
    """
    assume_unique = flag("intersect1d: assume_unique", assume_unique)
    return_indices = flag("intersect1d: return_indices", return_indices)
    if size is None:
        pair = _known_pair("intersect1d", ar1, ar2)
        if not return_indices:
            return _beside(np.intersect1d(*pair, assume_unique), ar1, ar2)
        values, *places = np.intersect1d(*pair, assume_unique, True)
        found = (values, *(a.astype("int32") for a in places))
        return tuple(_beside(a, ar1, ar2) for a in found)
    first, second = _vectors(ar1, ar2)
    _, ordered, is_new = _in_order(first)
    is_kept = logical_and(is_new, isin(ordered, second))
    values, is_filled = _chosen(ordered, is_kept, size, fill_value)
    if not return_indices:
        return values
    found = (argmax(equal(values[:, None], x), 1) for x in (first, second))
    ends = (first.shape[0], second.shape[0])
    return values, *(where(is_filled, a, end) for a, end in zip(found, ends, strict=True))


def union1d(ar1: Tensor, ar2: Tensor, *, size: Size | None = None, fill_value: Any = None) -> Array:
    """The sorted unique elements of `ar1` and `ar2`; traced code needs `size`."""
    return unique(concatenate([ravel(ar1), ravel(ar2)]), size=size, fill_value=fill_value)


def setdiff1d(
    ar1: Tensor,
    ar2: Tensor,
    assume_unique: bool = False,
    *,
    size: Size | None = None,
    fill_value: Any = None,
) -> Array:
    """The sorted unique elements of `ar1` that are not in `ar2`.

    `assume_unique` does not change the result. Traced code needs `size`; shorter results are padded
    with `fill_value`, by default 0.
    """
    assume_unique = flag("setdiff1d: assume_unique", assume_unique)
    if size is None:
        pair = _known_pair("setdiff1d", ar1, ar2)
        return _beside(np.setdiff1d(*pair, assume_unique), ar1, ar2)
    first = ravel(ar1)
    is_kept = logical_not(isin(first, ar2))
    if not assume_unique:
        _, first, is_new = _in_order(first)
        is_kept = logical_and(is_new, logical_not(isin(first, ar2)))
    return _chosen(first, is_kept, size, 0 if fill_value is None else fill_value)[0]


def setxor1d(
    ar1: Tensor,
    ar2: Tensor,
    assume_unique: bool = False,
    *,
    size: Size | None = None,
    fill_value: Any = None,
) -> Array:
    """The sorted unique elements that are in exactly one of `ar1` and `ar2`.

    `assume_unique` does not change the result. Traced code needs `size`; shorter results are padded
    with `fill_value`, by default the minimum.
    """
    assume_unique = flag("setxor1d: assume_unique", assume_unique)
    if size is None:
        pair = _known_pair("setxor1d", ar1, ar2)
        return _beside(np.setxor1d(*pair, assume_unique), ar1, ar2)
    first, second = _vectors(ar1, ar2)
    _, ordered, is_new = _in_order(concatenate([first, second]))
    is_shared = logical_and(isin(ordered, first), isin(ordered, second))
    return _chosen(ordered, logical_and(is_new, logical_not(is_shared)), size, fill_value)[0]


def trim_zeros(filt: Tensor, trim: str = "fb", axis: int | Sequence[int] | None = None) -> Array:
    """Trim leading ("f") and trailing ("b") zeros along axes; None takes all axes.

    `trim` says which, of `filt`, whose numbers must be known.
    """
    known = known_array("trim_zeros", filt, "slice the array")
    choice("trim_zeros: trim", trim, ("f", "b", "fb", "bf", "F", "B", "FB", "BF", ""))
    places = []
    for i in range(known.ndim):
        others = tuple(j for j in range(known.ndim) if j != i)
        found = np.flatnonzero((known != 0).any(axis=others))
        first, last = (int(found[0]), int(found[-1]) + 1) if len(found) else (0, 0)
        is_cut = i in some_axes("trim_zeros", axis, known.ndim)
        start = first if is_cut and "f" in trim.lower() else 0
        stop = last if is_cut and ("b" in trim.lower() or not len(found)) else known.shape[i]
        places.append(slice(start, stop))
    return as_tensor(filt)[tuple(places)]
