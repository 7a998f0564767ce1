"""Order along an axis: sort, top_k."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from ..body import Sort, TopK
from ..errors import ArgumentError, AttributeValueError, DtypeError, ShapeError
from ..graph import Value
from ..op import ALIGNED, Parts, define
from ..types import Type, as_dtype, is_complex, is_float
from .compare import ne
from .constant import iota
from .convert import convert
from .families import check_axis
from .index import take_along


@define
def sort(*xs: Type, axis: int, n_keys: int = 1) -> tuple[Type, ...]:
    """Sort lines along an axis by the first `n_keys` operands; the others move along.

    Lines are compared by the first key, ties by the next one; what ties in all keys keeps its
    order. NaN comes last, -0.0 ties with 0.0, complex numbers go by real, then imaginary part.
    Gives a tuple.
    """
    if not xs:
        raise ArgumentError("there are no operands", fix="give one or more")
    first = xs[0]
    check_axis(first, axis)
    for x in xs[1:]:
        if x.shape != first.shape:
            raise ShapeError(
                f"the shapes differ, {first} and {x}", fix="give all operands one shape"
            )
    if not 1 <= n_keys <= len(xs):
        raise AttributeValueError(
            f"there are {n_keys} keys among {len(xs)} operands", fix=f"use 1 to {len(xs)}"
        )
    return xs


sort.rules.multiple = True


@sort.reference
def sort_reference(*xs: np.ndarray, axis: int, n_keys: int) -> tuple[np.ndarray, ...]:
    if len(xs) == 1 and _ties_are_equal(xs[0]):
        return (np.sort(xs[0], axis=axis),)
    keys = [_sortable(x) for x in xs[:n_keys]]
    order = np.lexsort(keys[::-1], axis=axis) if n_keys > 1 else _stable_order(keys[0], axis)
    return tuple(np.take_along_axis(x, order, axis) for x in xs)


def _ties_are_equal(x: np.ndarray) -> bool:
    """Whether numbers that tie cannot be told apart, so that any sorting is stable."""
    if is_float(x.dtype) and x.dtype.isbuiltin == 1:
        return not (np.signbit(x) & ((x == 0) | np.isnan(x))).any()
    return x.dtype.kind in "biu"


def _sortable(x: np.ndarray) -> np.ndarray:
    """The same order in a dtype NumPy sorts right."""
    return x if x.dtype.isbuiltin == 1 else x.astype(np.float32)


def _stable_order(x: np.ndarray, axis: int) -> np.ndarray:
    """The places of the elements in sorted order, those of equal ones rising."""
    if x.dtype.itemsize != 4:
        return np.argsort(x, axis=axis, kind="stable")
    x = np.moveaxis(x, axis, -1)
    words = np.sort(_with_places(x, np.arange(x.shape[-1])), axis=-1)
    return np.moveaxis(words & 0xFFFFFFFF, -1, axis).astype(np.int64)


def _with_places(x: np.ndarray, places: np.ndarray) -> np.ndarray:
    """Words whose order is that of 32-bit numbers, then of places.

    NumPy sorts such words fastest.
    """
    if x.dtype.kind == "f":
        # one NaN, positive so that it is the greatest, and one zero
        bits = np.where(np.isnan(x), np.float32(np.nan), x + np.float32(0)).view(np.int32)
        bits ^= (bits >> 31) & 0x7FFFFFFF  # the greater a negative float, the less its bits
    else:
        bits = x
    least = 0 if bits.dtype.kind == "u" else -(2**31)
    return ((bits.astype(np.int64) - least).astype(np.uint64) << 32) | places.astype(np.uint64)


sort.body(Sort())


@sort.parts
def sort_parts(*xs: Value | Parts, axis: int, n_keys: int) -> list[Value | Parts]:
    # a complex key is three: which parts are NaN, then the real, then the imaginary one
    flat: list[Value] = []
    count = 0
    for number, x in enumerate(xs):
        parts = [x] if isinstance(x, Value) else [x.re, x.im]
        if number < n_keys:
            parts = parts if isinstance(x, Value) else [_class(x), *parts]
            count += len(parts)
        flat += parts
    made = iter(sort(*flat, axis=axis, n_keys=count))
    results: list[Value | Parts] = []
    for number, x in enumerate(xs):
        if number < n_keys and not isinstance(x, Value):
            next(made)
        results.append(next(made) if isinstance(x, Value) else Parts(next(made), next(made)))
    return results


def _class(x: Parts) -> Value:
    """0 for numbers, and more the later they come: 1 if the imaginary part is NaN, 2 the real."""
    re, im = (convert(ne(part, part), dtype=as_dtype("int8")) for part in x[:2])
    return re * 2 + im


@sort.jvp
def sort_jvp(
    primals: Sequence[Value], tangents: Sequence[Value | None], *, axis: int, n_keys: int
) -> tuple:
    places = iota(shape=primals[0].shape, axis=axis, dtype="int32")
    *out, order = sort(*primals, places, axis=axis, n_keys=n_keys)
    return out, [None if t is None else take_along(t, order, axis) for t in tangents]


sort.batch(ALIGNED, "axis")
sort.fold(lambda *xs, axis, n_keys: xs if xs[0].shape[axis] == 1 else None)
sort.samples((5,), axis=0)
sort.samples((3, 4), (3, 4), axis=1)
sort.samples(np.array([[2, 1, 2, 1]], np.int32), (1, 4), (1, 4), axis=1, n_keys=2)
sort.samples([3.0, np.nan, -1.0, np.inf], axis=0, expect=[[-1.0, 3.0, np.inf, np.nan]])
_EIGHT_BITS = np.array([1.0, np.nan, 2.0], as_dtype("float8_e5m2"))
sort.samples(_EIGHT_BITS, axis=0, expect=[[1.0, 2.0, np.nan]])
sort.samples(
    np.array([0.0, 1.0, -0.0, 0.0], np.float32),
    np.array([1, 2, 3, 4], np.int32),
    axis=0,
    expect=[[0.0, -0.0, 0.0, 1.0], [1, 3, 4, 2]],
)


@define
def top_k(x: Type, *, k: int) -> tuple[Type, Type]:
    """The k greatest numbers along the last axis, and their int32 indices.

    The greatest comes first. Among equal ones the first comes first; NaN counts as greater than all
    numbers.
    """
    if is_complex(x.dtype):
        raise DtypeError(f"{x} has no order", fix="take the real part, or the absolute value")
    if x.rank == 0:
        raise ShapeError("a scalar has no axis to search", fix="reshape it to (1,)")
    size = x.shape[-1]
    if k < 0 or (isinstance(size, int) and k > size):
        raise AttributeValueError(
            f"there are no {k} numbers in {x}", fix=f"use a k from 0 to {size}"
        )
    shape = (*x.shape[:-1], k)
    return x.with_shape(shape), Type(as_dtype("int32"), shape)


@top_k.reference
def top_k_reference(x: np.ndarray, *, k: int) -> tuple[np.ndarray, np.ndarray]:
    keys, last = _sortable(x), x.shape[-1] - 1
    if keys.dtype.itemsize == 4 and 0 < k <= last:
        words = _with_places(keys, np.arange(last, -1, -1))
        order = np.sort(np.partition(words, last - k)[..., -k:]) & 0xFFFFFFFF
    else:
        # reversed twice: rising and stable becomes falling and stable
        order = _stable_order(keys[..., ::-1], -1)[..., last + 1 - k :]
    places = last - order[..., ::-1].astype(np.int64)
    return np.take_along_axis(x, places, -1), places


top_k.body(TopK())


@top_k.jvp
def top_k_jvp(primals: Sequence[Value], tangents: Sequence[Value], *, k: int) -> tuple:
    out, places = top_k(primals[0], k=k)
    (t,) = tangents
    return (out, places), (take_along(t, places, t.rank - 1), None)


top_k.batch(ALIGNED)
top_k.samples((2, 5), k=3)
top_k.samples(np.array([1.0, 3.0, 2.0, 3.0], np.float32), k=3, expect=[[3.0, 3.0, 2.0], [1, 3, 2]])
top_k.samples(_EIGHT_BITS, k=2, expect=[[np.nan, 2.0], [1, 2]])
top_k.samples([1.0, np.nan, 2.0], k=2, expect=[[np.nan, 2.0], [1, 2]])
