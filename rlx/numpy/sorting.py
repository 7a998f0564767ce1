"""Order: sort, argsort, searchsorted."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from ..ir.dims import Dim
from ..ir.errors import ArgumentError, ShapeError
from ..ir.types import DTYPES, MOST_ELEMENTS, is_bool, is_float
from ..trace.apply import apply, apply_like, as_operand, as_tensor
from ..trace.arguments import choice, flag, members, wrong
from ..trace.array import Array
from ..trace.array_arguments import vector
from ..trace.axes import integer, one_axis
from ..trace.index.items import index_dtype
from ..trace.promotion import convert, convert_exactly, result_dtype
from .arithmetic import subtract
from .elementwise import Tensor, add, less, less_equal, multiply
from .indexing import take
from .logic import isnan, logical_and, logical_not, logical_or, where
from .manipulation import along

INT32 = DTYPES["int32"]
KINDS = (None, "stable", "mergesort", "heapsort", "quicksort")  # all sort alike: equal ones stay
SEARCHES = ("scan", "scan_unrolled", "sort", "compare_all", "default")


def sort(
    a: Tensor,
    axis: int | None = -1,
    *,
    kind: str | None = None,
    order: None = None,
    stable: bool = True,
    descending: bool = False,
) -> Array:
    """A sorted copy of an array along an axis; None sorts all elements.

    The sort is stable whatever `kind` and `stable` say. NaNs come last, with `descending` first.
    """
    _check_plain("sort", kind, order)
    a, place = along("sort", a, axis)
    (result,) = apply("sort", a, axis=place, n_keys=1)
    return apply("flip", result, axes=(place,)) if descending else result


def argsort(
    a: Tensor,
    axis: int | None = -1,
    *,
    kind: str | None = None,
    order: None = None,
    stable: bool = True,
    descending: bool = False,
    dtype: Any = None,
) -> Array:
    """The indices that sort an array along an axis, as int32 or `dtype`.

    The sort is stable whatever `kind` and `stable` say, also with `descending`.
    """
    _check_plain("argsort", kind, order)
    numbers = _order_of(a, axis, descending)
    return numbers if dtype is None else numbers.astype(dtype)


def _check_plain(name: str, kind: Any, order: Any) -> None:
    choice(f"{name}: kind", kind, KINDS)
    if order is not None:
        raise ArgumentError(
            f"{name}: there are no fields whose order could be chosen",
            fix="leave order out",
        )


def _order_of(a: Tensor, axis: int | None, descending: bool) -> Array:
    a, place = along("argsort", a, axis)
    numbers = apply_like(a, "iota", shape=tuple(a.shape), axis=place, dtype="int32")
    if not descending:
        return apply("sort", a, numbers, axis=place, n_keys=1)[1]
    # turned around, sorted, and turned around again, equal elements keep their order
    turned = apply("flip", a, axes=(place,))
    order = apply("sort", turned, numbers, axis=place, n_keys=1)[1]
    return apply("flip", subtract(a.shape[place] - 1, order), axes=(place,))


def lexsort(keys: Sequence[Tensor], axis: int = -1) -> Array:
    """The indices of an indirect stable sort by several `keys`, the last key first."""
    tensors = [as_tensor(key) for key in members("lexsort: keys", keys)]
    if not tensors:
        raise wrong("lexsort: keys", keys, "a list of keys", "give one key or more")
    place = one_axis("lexsort", axis, tensors[0].ndim)
    numbers = apply_like(
        tensors[0], "iota", shape=tuple(tensors[0].shape), axis=place, dtype="int32"
    )
    return apply("sort", *reversed(tensors), numbers, axis=place, n_keys=len(tensors))[-1]


def partition(a: Tensor, kth: int, axis: int = -1) -> Array:
    """A copy whose element `kth` is where sorting would put it.

    The whole axis is sorted, which satisfies the definition.
    """
    _check_rank("partition", a, kth, axis)
    return sort(a, axis)


def argpartition(a: Tensor, kth: int, axis: int = -1) -> Array:
    """The indices that partition an array, see `partition`; `kth` is as there."""
    _check_rank("argpartition", a, kth, axis)
    return argsort(a, axis)


def _check_rank(name: str, a: Tensor, kth: Any, axis: int) -> None:
    a = as_tensor(a)
    size = a.shape[one_axis(name, axis, a.ndim)]
    for rank in kth if isinstance(kth, Sequence) else (kth,):
        if not -size <= integer(f"{name}: kth", rank) < size:
            raise ArgumentError(
                f"{name}: kth {rank} is outside an axis with {size} elements",
                fix=f"pick a place from {-size} to {size - 1}",
            )


def sort_complex(a: Tensor) -> Array:
    """The elements as complex numbers, sorted by real, then by imaginary part."""
    a = as_tensor(a)
    return sort(convert(a, result_dtype(a, 1j)))


def searchsorted(
    a: Tensor, v: Tensor, side: str = "left", sorter: Tensor | None = None, *, method: str = "scan"
) -> Array:
    """The indices at which to insert `v` into the sorted vector `a` to keep its order.

    `side` "left" inserts before equal elements, "right" after them. `sorter` holds the indices that
    sort `a`. Every `method` gives the same indices.
    """
    choice("searchsorted: method", method, SEARCHES)
    choice("searchsorted: side", side, ("left", "right"))
    dtype = result_dtype(as_operand(a), as_operand(v))
    dtype = INT32 if is_bool(dtype) else dtype
    a, v = convert_exactly(a, dtype), convert_exactly(v, dtype)
    check_vector("searchsorted", a)
    sorter = None if sorter is None else vector("searchsorted: sorter", sorter)
    a = a if sorter is None else take(a, sorter)
    count = a.shape[0]
    low = convert(multiply(less(v, v), 0), index_dtype(INT32, count))
    high = add(low, count)
    most = (count.high or MOST_ELEMENTS) if isinstance(count, Dim) else count
    for _ in range(most.bit_length()):
        middle = (low + high) // 2
        goes_right = logical_and(less(low, high), _is_before(take(a, middle, mode="clip"), v, side))
        is_left = logical_and(less(low, high), logical_not(goes_right))
        low, high = where(goes_right, middle + 1, low), where(is_left, middle, high)
    return low


def check_vector(name: str, x: Any) -> None:
    """Raise unless an operand has one axis."""
    if x.ndim != 1:
        raise ShapeError(f"{name}: {x.type} is no vector", fix="give an array with one axis")


def _is_before(element: Any, v: Any, side: str) -> Array:
    """Whether v belongs behind an element; NaN is the greatest."""
    if side == "left":
        before = less(element, v)
        if not is_float(v.dtype):
            return before
        return logical_or(before, logical_and(isnan(v), logical_not(isnan(element))))
    before = less_equal(element, v)
    return logical_or(before, isnan(v)) if is_float(v.dtype) else before


def digitize(x: Tensor, bins: Tensor, right: bool = False, *, method: str | None = None) -> Array:
    """The index of the bin of each element; `bins` are monotonic edges.

    With `right` a bin includes its right edge instead of the left one. `method` has no effect.
    """
    choice("digitize: method", method, (None, *SEARCHES))
    bins = as_tensor(bins)
    check_vector("digitize", bins)
    bins = convert(bins, INT32) if is_bool(bins.dtype) else bins
    if bins.shape[0] == 0:
        return convert(multiply(as_tensor(x), 0), INT32)
    side = "left" if flag("digitize: right", right) else "right"
    rising = searchsorted(bins, x, side)
    falling = subtract(bins.shape[0], searchsorted(bins[::-1], x, side))
    return where(bins[-1] >= bins[0], rising, falling)
