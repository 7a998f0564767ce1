"""Shapes: reshape, transpose, join, split, repeat, roll."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from itertools import pairwise
from typing import Any

import numpy as np

from ..ir.dims import Dim, Size
from ..ir.errors import ArgumentError, AxisError, ConcretizationError, ShapeError
from ..ir.types import DTYPES
from ..trace.apply import apply, apply_like, as_operand, as_tensor, literal, operand_type
from ..trace.arguments import choice, count_of, flag, members, size_of, wrong
from ..trace.array import Array
from ..trace.axes import (
    as_shape,
    broadcast_shapes as _broadcast_shapes,
    integer,
    one_axis,
    resolve_shape,
    some_axes,
)
from ..trace.by_numpy import is_free, joined, reshaped, transposed
from ..trace.host import to_numpy
from ..trace.index.aliasing import is_part
from ..trace.promotion import (
    broadcast_operands,
    broadcast_to as _broadcast_to,
    convert,
    convert_exactly,
    result_dtype,
)
from ..trace.tensor import TracedTensor
from .elementwise import Tensor, refuse_out

MOST_PIECES = 1_000_000  # each is an array

Axis = int | Sequence[int] | None


def reshape(a: Tensor, shape: Any, order: str = "C", *, copy: bool | None = None) -> Array:
    """The elements in a new shape; one size may be -1.

    `copy=True` copies even where nothing changes.
    """
    is_usual = copy is None and isinstance(order, str) and order == "C"
    if is_usual and is_free(a) and (made := reshaped(a, shape)) is not None:
        return made
    a = as_tensor(a)
    a = a.copy() if flag("reshape: copy", copy) else a
    choice("reshape: order", order, ("C", "F"))
    new = resolve_shape("reshape", a.shape, shape)
    if order == "F":
        return transpose(reshape(transpose(a), new[::-1]))
    return a if new == tuple(a.shape) else is_part(a, apply("reshape", a, shape=new))


def ravel(a: Tensor, order: str = "C") -> Array:
    """The array flattened to one axis."""
    return reshape(a, -1, order)


def along(name: str, a: Tensor, axis: int | None) -> tuple[Array, int]:
    """An array and an axis of it counted from 0; None means all elements in a row."""
    a = as_tensor(a)
    return (ravel(a), 0) if axis is None else (a, one_axis(name, axis, a.ndim))


def flatten(a: Tensor, order: str = "C") -> Array:
    """A copy of the array flattened to one axis."""
    return reshape(a, -1, order, copy=True)


def transpose(a: Tensor, axes: Sequence[int] | None = None) -> Array:
    """Permute the axes; by default reverse them."""
    if is_free(a) and (made := transposed(a, axes)) is not None:
        return made
    a = as_tensor(a)
    order = tuple(reversed(range(a.ndim))) if axes is None else some_axes("transpose", axes, a.ndim)
    if len(order) != a.ndim:
        raise ShapeError(
            f"transpose: {len(order)} axes are named, the array has {a.ndim}",
            notes=[f"a: {a.type}"],
            fix="name each axis once",
        )
    return a if order == tuple(range(a.ndim)) else is_part(a, apply("transpose", a, axes=order))


def permute_dims(a: Tensor, /, axes: Sequence[int]) -> Array:
    """Permute the axes."""
    return transpose(a, axes)


def matrix_transpose(x: Tensor, /) -> Array:
    """Transpose the last two axes."""
    return swapaxes(x, -1, -2)


def swapaxes(a: Tensor, axis1: int, axis2: int) -> Array:
    """Interchange two axes."""
    a = as_tensor(a)
    first, second = (one_axis("swapaxes", axis, a.ndim) for axis in (axis1, axis2))
    order = list(range(a.ndim))
    order[first], order[second] = second, first
    return transpose(a, order)


def moveaxis(a: Tensor, source: Axis, destination: Axis) -> Array:
    """Move axes from `source` to `destination`; the other axes keep their order."""
    a = as_tensor(a)
    start = some_axes("moveaxis", source, a.ndim)
    stop = some_axes("moveaxis", destination, a.ndim)
    if len(start) != len(stop):
        raise ArgumentError(
            f"moveaxis: {len(start)} axes go to {len(stop)} places",
            fix="give one destination for each source",
        )
    order = [i for i in range(a.ndim) if i not in start]
    for place, axis in sorted(zip(stop, start, strict=True)):
        order.insert(place, axis)
    return transpose(a, order)


def rollaxis(a: Tensor, axis: int, start: int = 0) -> Array:
    """Roll an axis backwards until it is at position `start`."""
    a = as_tensor(a)
    axis = one_axis("rollaxis", axis, a.ndim)
    start = integer("rollaxis: start", start)
    start = a.ndim if start == a.ndim else one_axis("rollaxis", start, a.ndim)
    return moveaxis(a, axis, start - 1 if axis < start else start)


def expand_dims(a: Tensor, axis: int | Sequence[int]) -> Array:
    """Insert axes of size 1 at positions of the result."""
    a = as_tensor(a)
    count = len(axis) if isinstance(axis, Sequence) else 1
    places = some_axes("expand_dims", axis, a.ndim + count)
    sizes = iter(a.shape)
    rank = a.ndim + count
    return reshape(a, tuple(1 if i in places else next(sizes) for i in range(rank)))


def squeeze(a: Tensor, axis: Axis = None) -> Array:
    """Remove axes of size 1, all of them by default."""
    a = as_tensor(a)
    if axis is None:
        return reshape(a, tuple(n for n in a.shape if n != 1))
    places = some_axes("squeeze", axis, a.ndim)
    for i in places:
        if a.shape[i] != 1:
            raise AxisError(
                f"squeeze: axis {i} has the size {a.shape[i]}, not 1",
                notes=[f"a: {a.type}"],
                fix="name axes of size 1 only, or index the axis",
            )
    return reshape(a, tuple(n for i, n in enumerate(a.shape) if i not in places))


def atleast_1d(*arys: Tensor) -> Any:
    """The arrays `arys` with at least one axis."""
    return _each(lambda x: x if x.ndim >= 1 else reshape(x, (1,)), arys)


def atleast_2d(*arys: Tensor) -> Any:
    """Arrays with at least two axes, new ones in front."""
    return _each(lambda x: x if x.ndim >= 2 else reshape(x, (1,) * (2 - x.ndim) + x.shape), arys)


def atleast_3d(*arys: Tensor) -> Any:
    """Arrays with at least three axes, new ones in front and at the end."""

    def widen(x: Any) -> Any:
        if x.ndim >= 3:
            return x
        return reshape(x, (*x.shape, 1) if x.ndim == 2 else (1, *(x.shape or (1,)), 1))

    return _each(widen, arys)


def _each(fn: Any, arrays: Sequence[Tensor]) -> Any:
    results = [fn(as_tensor(x)) for x in arrays]
    return results[0] if len(results) == 1 else results


# -- broadcasting -------------------------------------------------------------------------------


def broadcast_shapes(*shapes: Any) -> tuple[Any, ...]:
    """The shape to which `shapes` broadcast."""
    return _broadcast_shapes("broadcast_shapes", *map(as_shape, shapes))


def broadcast_to(array: Tensor, shape: Any) -> Array:
    """Broadcast an array to a shape."""
    array, new = as_tensor(array), as_shape(shape)
    if _broadcast_shapes("broadcast_to", array.shape, new) != new:
        raise ShapeError(
            f"broadcast_to: {tuple(array.shape)} does not broadcast to {new}",
            fix="each size must be equal or 1, counted from the last axis",
        )
    return _broadcast_to(array, new)


def broadcast_arrays(*args: Tensor) -> list[Array]:
    """Broadcast the arrays `args` against each other, and return them in a list."""
    return broadcast_operands("broadcast_arrays", *map(as_tensor, args))


# -- joining and splitting ----------------------------------------------------------------------


def _same_dtype(name: str, arrays: Any) -> list[Array]:
    is_many = isinstance(arrays, Iterable) and not isinstance(arrays, str)
    tensors = [as_operand(x) for x in arrays] if is_many else []
    if not tensors:
        raise ArgumentError(f"{name}: there are no arrays", fix="give one or more")
    dtype = result_dtype(*tensors)
    return [convert_exactly(x, dtype) for x in tensors]


def concatenate(arrays: Sequence[Tensor], axis: int | None = 0, dtype: Any = None) -> Array:
    """Join arrays along an existing axis; None flattens them first."""
    if dtype is None and (made := joined(arrays, axis, np.concatenate)) is not None:
        return made
    _no_array("concatenate", axis)
    tensors = _same_dtype("concatenate", arrays)
    if dtype is not None:
        tensors = [x.astype(dtype) for x in tensors]
    if axis is None:
        tensors, axis = [ravel(x) for x in tensors], 0
    place = one_axis("concatenate", axis, tensors[0].ndim)
    return tensors[0].copy() if len(tensors) == 1 else apply("concat", *tensors, axis=place)


def _no_array(name: str, axis: Any) -> None:
    """Raise if arrays were written one after another, which makes the second an axis."""
    if getattr(axis, "shape", ()) != ():
        raise ArgumentError(
            f"{name}: the axis is an array",
            fix=f"write the arrays as one list: {name}([a, b])",
        )


def concat(arrays: Sequence[Tensor], /, *, axis: int | None = 0) -> Array:
    """Join arrays along an existing axis; None flattens them first."""
    return concatenate(arrays, axis)


def stack(arrays: Sequence[Tensor], axis: int = 0, out: None = None, dtype: Any = None) -> Array:
    """Join arrays along a new axis."""
    if out is dtype is None and (made := joined(arrays, axis, np.stack)) is not None:
        return made
    refuse_out("stack", out)
    _no_array("stack", axis)
    tensors = _same_dtype("stack", arrays)
    shape = tensors[0].shape
    for i, x in enumerate(tensors):
        if x.shape != shape:
            raise ShapeError(
                f"stack: array 0 has the shape {shape}, array {i} {x.shape}",
                fix="give arrays of one shape, or use concatenate",
            )
    place = one_axis("stack", axis, len(shape) + 1)
    return concatenate([expand_dims(x, place) for x in tensors], place, dtype)


def vstack(tup: Sequence[Tensor], dtype: Any = None) -> Array:
    """Stack arrays vertically, along the first axis."""
    return concatenate([atleast_2d(x) for x in _same_dtype("vstack", tup)], 0, dtype)


row_stack = vstack


def hstack(tup: Sequence[Tensor], dtype: Any = None) -> Array:
    """Stack arrays horizontally, along the second axis (the first of 1-d arrays)."""
    tensors = [atleast_1d(x) for x in _same_dtype("hstack", tup)]
    return concatenate(tensors, 0 if all(x.ndim == 1 for x in tensors) else 1, dtype)


def dstack(tup: Sequence[Tensor], dtype: Any = None) -> Array:
    """Stack arrays along the third axis."""
    return concatenate([atleast_3d(x) for x in _same_dtype("dstack", tup)], 2, dtype)


def column_stack(tup: Sequence[Tensor]) -> Array:
    """Stack 1-d arrays as the columns of a matrix."""
    tensors = [as_tensor(x) for x in members("column_stack: tup", tup)]
    return concatenate([reshape(x, (-1, 1)) if x.ndim < 2 else x for x in tensors], 1)


def append(arr: Tensor, values: Tensor, axis: int | None = None) -> Array:
    """Append `values` along `axis`; None flattens both first."""
    return concatenate([arr, values], axis)


def split(ary: Tensor, indices_or_sections: int | Sequence[int], axis: int = 0) -> list[Array]:
    """Return equal parts along an axis, or those between indices.

    A number of parts that does not divide the size raises `ShapeError`.
    """
    ary = as_tensor(ary)
    place = one_axis("split", axis, ary.ndim)
    count = indices_or_sections
    size = ary.shape[place]
    if isinstance(count, int) and count > 0 and not isinstance(size, Dim) and size % count:
        raise ShapeError(
            f"split: {ary.shape[place]} elements do not make {count} equal pieces",
            fix="pick a number that divides the size, or use array_split",
        )
    return array_split(ary, indices_or_sections, place)


def array_split(
    ary: Tensor, indices_or_sections: int | Sequence[int], axis: int = 0
) -> list[Array]:
    """Return parts along `axis` that may differ in size by one, or end at indices."""
    ary = as_tensor(ary)
    place = one_axis("array_split", axis, ary.ndim)
    size = ary.shape[place]
    if isinstance(indices_or_sections, int):
        count_of("split: the number of pieces", indices_or_sections, 1, MOST_PIECES)
        short, longer = size // indices_or_sections, size % indices_or_sections
        if isinstance(longer, Dim):
            raise ShapeError(
                f"split: the open size {size} may not make {indices_or_sections} equal pieces",
                fix=f"open one that does: {{{place}: {indices_or_sections} * rlx.dim('n')}}",
            )
        lengths = [short + (i < longer) for i in range(indices_or_sections)]
        cuts = [sum(lengths[:i]) for i in range(len(lengths) + 1)]
    elif isinstance(indices_or_sections, Sequence | np.ndarray | Array):
        cuts = [0, *(integer("split: an index", i) for i in indices_or_sections), size]
    else:
        raise ArgumentError(
            f"split: {indices_or_sections!r} is no number of pieces",
            fix="give an integer, or a list of the indices to cut at",
        )
    before = (slice(None),) * place
    return [ary[(*before, slice(a, b))] for a, b in pairwise(cuts)]


def vsplit(ary: Tensor, indices_or_sections: int | Sequence[int]) -> list[Array]:
    """Return parts along the first axis."""
    return split(ary, indices_or_sections, 0)


def hsplit(ary: Tensor, indices_or_sections: int | Sequence[int]) -> list[Array]:
    """Return parts along the second axis (the first of 1-d arrays)."""
    return split(ary, indices_or_sections, 0 if as_tensor(ary).ndim == 1 else 1)


def dsplit(ary: Tensor, indices_or_sections: int | Sequence[int]) -> list[Array]:
    """Return parts along the third axis."""
    return split(ary, indices_or_sections, 2)


def unstack(x: Tensor, /, *, axis: int = 0) -> tuple[Array, ...]:
    """Split an array into a tuple of the slices along an axis, which it returns."""
    x = moveaxis(x, axis, 0)
    return tuple(x[i] for i in range(x.shape[0]))


# -- repeating and turning ----------------------------------------------------------------------


def tile(A: Tensor, reps: int | Sequence[int]) -> Array:
    """Repeat the whole array `A`, `reps` times along each axis."""
    A, counts = as_tensor(A).copy(), as_shape(reps)
    rank = max(A.ndim, len(counts))
    counts = (1,) * (rank - len(counts)) + counts
    sizes = (1,) * (rank - A.ndim) + tuple(A.shape)
    pairs = [n for pair in zip(counts, sizes, strict=True) for n in pair]
    thin = reshape(A, tuple(n for size in sizes for n in (1, size)))
    whole = tuple(c * n for c, n in zip(counts, sizes, strict=True))
    return reshape(_broadcast_to(thin, tuple(pairs)), whole)


def repeat(
    a: Tensor,
    repeats: int | Sequence[int],
    axis: int | None = None,
    *,
    total_repeat_length: Size | None = None,
) -> Array:
    """Repeat each element along an axis; None flattens first.

    `repeats` is one count, or one for each element. Counts that are traced need
    `total_repeat_length`, the size of the result.
    """
    a = as_tensor(a).copy()
    a = ravel(a) if axis is None else a
    place = one_axis("repeat", 0 if axis is None else axis, a.ndim)
    front = (slice(None),) * place
    if isinstance(repeats, TracedTensor) and repeats.concrete is None:
        return a[(*front, _repeated_places(repeats, a.shape[place], total_repeat_length))]
    counts = to_numpy(repeats) if not isinstance(repeats, int) else np.asarray(repeats)
    if counts.dtype.kind not in "iub" and counts.size:
        raise wrong("repeat: repeats", repeats, "whole numbers", "give integers")
    if np.min(counts, initial=0) < 0:
        raise ArgumentError(f"repeat: {repeats} has a negative count", fix="repeat 0 times or more")
    if isinstance(repeats, int):
        wide = expand_dims(a, place + 1)
        shape = (*a.shape[: place + 1], repeats, *a.shape[place + 1 :])
        merged = (*a.shape[:place], a.shape[place] * repeats, *a.shape[place + 1 :])
        return reshape(_broadcast_to(wide, shape), merged)
    if counts.shape not in ((), (1,), (a.shape[place],)):
        raise ShapeError(
            f"repeat: there are counts of shape {counts.shape} for {a.shape[place]} elements",
            fix="give one count, or one for each element along the axis",
        )
    counts = np.broadcast_to(counts, (a.shape[place],))
    places = np.repeat(np.arange(a.shape[place], dtype="int32"), counts)
    if total_repeat_length is not None:
        total = size_of("repeat: total_repeat_length", total_repeat_length)
        if isinstance(total, Dim):
            known = literal(counts.astype("int32"), like=a)
            return a[(*front, _repeated_places(known, a.shape[place], total))]
        places = np.pad(places, (0, max(total - len(places), 0)), mode="edge")[:total]
    return a[(*front, literal(places, like=a))]


def _repeated_places(repeats: Array, size: Any, total: Size | None) -> Any:
    """The place each result comes from, for counts that are not known while tracing."""
    if total is None:
        raise ConcretizationError(
            "repeat: the size of the result depends on counts not known while tracing",
            notes=[f"repeats: {repeats.type}"],
            fix="say how many there are: repeat(x, repeats, total_repeat_length=n)",
        )
    counts = _broadcast_to(convert(repeats, np.dtype("int32")), (size,))
    starts = apply("cumsum", counts, axis=0) - counts
    marks = apply_like(repeats, "full", shape=as_shape(total), value=0, dtype="int32")
    return apply("cumsum", marks.at[starts].add(1), axis=0) - 1


def flip(m: Tensor, axis: Axis = None) -> Array:
    """Reverse the elements along axes; None takes all axes."""
    m = as_tensor(m)
    return is_part(m, apply("flip", m, axes=some_axes("flip", axis, m.ndim)))


def flipud(m: Tensor) -> Array:
    """Reverse the rows."""
    return flip(m, 0)


def fliplr(m: Tensor) -> Array:
    """Reverse the columns."""
    return flip(m, 1)


def rot90(m: Tensor, k: int = 1, axes: tuple[int, int] = (0, 1)) -> Array:
    """Rotate by 90 degrees, k times, in the plane of two axes."""
    m = as_tensor(m)
    chosen = some_axes("rot90", axes, m.ndim)
    if len(chosen) != 2:
        raise wrong("rot90: axes", axes, "a pair", "name the two axes of the plane")
    (first, second), k = chosen, integer("rot90: k", k)
    if k % 4 == 0:
        return m
    if k % 4 == 2:
        return flip(m, (first, second))
    if k % 4 == 1:
        return swapaxes(flip(m, second), first, second)
    return flip(swapaxes(m, first, second), second)


def roll(a: Tensor, shift: Tensor | Sequence[int], axis: Axis = None) -> Array:
    """Shift elements cyclically by `shift` along axes; None flattens first."""
    a = as_tensor(a).copy()
    if axis is None:
        return reshape(roll(ravel(a), shift, 0), a.shape)
    axes = some_axes("roll", axis, a.ndim, twice=True)
    shifts = (shift,) * len(axes) if not isinstance(shift, Sequence) else tuple(shift)
    if len(shifts) != len(axes):
        raise wrong("roll: shift", shifts, f"for {len(axes)} axes", "give one for each axis")
    for i, amount in zip(axes, shifts, strict=True):
        a = _roll_one(a, amount, one_axis("roll", i, a.ndim))
    return a


def _roll_one(x: Any, shift: Any, axis: int) -> Array:
    size, before = x.shape[axis], (slice(None),) * axis
    if operand_type(as_operand(shift)).shape or size == 0:
        return x
    if isinstance(size, Dim):
        places = apply("iota", shape=(size,), axis=0, dtype=DTYPES["int32"])
        return x[(*before, (places - shift) % size)]
    if isinstance(shift, int):
        cut = (size - shift % size) % size
        if not cut:
            return x
        parts = [x[(*before, slice(cut, None))], x[(*before, slice(0, cut))]]
        return apply("concat", *parts, axis=axis)
    places = (literal(np.arange(size, dtype="int32"), like=x) - shift) % size
    return x[(*before, places)]
