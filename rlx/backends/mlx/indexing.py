"""Rows of movement, and of reading and writing at computed places.

MLX checks no bounds, and drops no updates: places are clamped here, and what is dropped goes to
one element more, at the end of the memory.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

import mlx.core as mx
import numpy as np

from ...ir.ops.index import fill_number
from ..graph_table import Row, has_elements
from .arithmetic import is_float, scalar
from .memory import FLOATS, FORMS, HALVES, INTEGERS, REAL, STORED, dtype_of, to_mlx

Axes = Sequence[int]


def _clamped(start: mx.array, last: int) -> mx.array:
    """Integers of any dtype as int32, or int64, of 0..last."""
    wide = mx.int32 if last < 2**31 else mx.int64
    if mx.issubdtype(start.dtype, mx.signedinteger):
        start = mx.maximum(start, scalar(0, start))
    if mx.iinfo(start.dtype).max > last:
        start = mx.minimum(start, scalar(last, start))
    return start.astype(wide)


def _places(
    shape: Sequence[int],
    indices: mx.array,
    *,
    window_axes: Axes,
    gone_axes: Axes,
    batch_axes: Axes,
    indices_batch_axes: Axes,
    start_axes: Axes,
    sizes: Sequence[int],
) -> tuple[mx.array, mx.array | None]:
    """The place of each window element in memory, and whether its window fits.

    Places count in row-major order. Both have the window's axes at `window_axes` and those of the
    index vectors at the others (or are 1 long there).
    """
    rank = len(window_axes) + indices.ndim - 1
    point_axes = [i for i in range(rank) if i not in window_axes]
    wide = mx.int32 if math.prod(shape) < 2**31 else mx.int64
    steps = [math.prod(shape[i + 1 :]) for i in range(len(shape))]

    def along(line: mx.array, axes: Axes) -> mx.array:
        sizes = iter(line.shape)
        return line.reshape([next(sizes) if i in axes else 1 for i in range(rank)]).astype(wide)

    window = iter(window_axes)
    total, fits = along(mx.array(0), []), None
    for axis, (length, size) in enumerate(zip(shape, sizes, strict=True)):
        step = mx.array(steps[axis], wide)
        if axis in batch_axes:
            place = point_axes[indices_batch_axes[batch_axes.index(axis)]]
            total = total + along(mx.arange(length), [place]) * step
            continue
        if axis not in gone_axes:
            total = total + along(mx.arange(size), [next(window)]) * step
        if axis in start_axes:
            start = indices[..., start_axes.index(axis)]
            inside = _clamped(start, length - size)
            fit = mx.equal(inside.astype(start.dtype), start)
            fit = fit.reshape([fit.shape[point_axes.index(i)] if i in point_axes else 1
                               for i in range(rank)])  # fmt: skip
            fits = fit if fits is None else mx.logical_and(fits, fit)
            total = total + along(inside, point_axes) * step
    return total, fits


def gather(
    x: mx.array,
    indices: mx.array,
    *,
    offset_axes: Axes,
    collapsed_axes: Axes,
    operand_batch_axes: Axes,
    indices_batch_axes: Axes,
    start_axes: Axes,
    sizes: Sequence[int],
    mode: str,
    fill: Any,
) -> mx.array:
    """A window of x at each index vector."""
    shape = _window_shape(indices, offset_axes, [*collapsed_axes, *operand_batch_axes], sizes)
    if 0 in shape:
        return mx.zeros(shape, x.dtype)
    places, fits = _places(
        x.shape,
        indices,
        window_axes=offset_axes,
        gone_axes=collapsed_axes,
        batch_axes=operand_batch_axes,
        indices_batch_axes=indices_batch_axes,
        start_axes=start_axes,
        sizes=sizes,
    )
    read = mx.take(x.reshape(-1), mx.broadcast_to(places, shape))
    if mode != "fill" or fits is None:
        return read
    return mx.where(fits, read, _fill(x, fill))


def _fill(x: mx.array, fill: Any) -> mx.array:
    number = fill_number(dtype_of(x)) if fill is None else fill
    return to_mlx(np.asarray(number).astype(dtype_of(x)))


def _window_shape(
    indices: mx.array, window_axes: Axes, gone: Axes, sizes: Sequence[int]
) -> list[int]:
    window = iter([size for i, size in enumerate(sizes) if i not in gone])
    points = iter(indices.shape[:-1])
    rank = len(window_axes) + indices.ndim - 1
    return [next(window if i in window_axes else points) for i in range(rank)]


def _scatter(write: Callable[[mx.array, mx.array, mx.array], mx.array]) -> Callable[..., mx.array]:
    """Windows of x combined with updates."""

    def scatter(
        x: mx.array,
        indices: mx.array,
        updates: mx.array,
        *,
        window_axes: Axes,
        inserted_axes: Axes,
        operand_batch_axes: Axes,
        indices_batch_axes: Axes,
        scatter_axes: Axes,
        mode: str,
        unique: bool,
    ) -> mx.array:
        gone = (*inserted_axes, *operand_batch_axes)
        window = iter([updates.shape[i] for i in window_axes])
        places, fits = _places(
            x.shape,
            indices,
            window_axes=window_axes,
            gone_axes=inserted_axes,
            batch_axes=operand_batch_axes,
            indices_batch_axes=indices_batch_axes,
            start_axes=scatter_axes,
            sizes=[1 if i in gone else next(window) for i in range(x.ndim)],
        )
        line = x.reshape(-1)
        if mode != "clip" and fits is not None:
            places = mx.where(fits, places, scalar(x.size, places))
            line = mx.concatenate([line, scalar(0, x).reshape(1)])
        places = mx.broadcast_to(places, updates.shape).reshape(-1)
        return write(line, places, updates.reshape(-1))[: x.size].reshape(x.shape)

    return scatter


def _set(line: mx.array, places: mx.array, updates: mx.array) -> mx.array:
    return mx.put_along_axis(line, places, updates, 0)


def _least(line: mx.array, places: mx.array, updates: mx.array) -> mx.array:
    return _with_nan(line.at[places].minimum(updates), line, places, updates)


def _greatest(line: mx.array, places: mx.array, updates: mx.array) -> mx.array:
    return _with_nan(line.at[places].maximum(updates), line, places, updates)


def _with_nan(found: mx.array, line: mx.array, places: mx.array, updates: mx.array) -> mx.array:
    """Extremes with NaN wherever there was one, which MLX passes over."""
    if not is_float(line):
        return found
    marks = mx.isnan(line).astype(mx.int32).at[places].maximum(mx.isnan(updates).astype(mx.int32))
    return mx.where(marks > 0, scalar(math.nan, line), found)


# -- blocks ---------------------------------------------------------------------------------------


def _starts(starts: Sequence[mx.array], shape: Sequence[int], sizes: Sequence[int]) -> mx.array:
    lines = zip(starts, shape, sizes, strict=True)
    return mx.stack([_clamped(start, n - size).astype(mx.int32) for start, n, size in lines])


def dynamic_slice(x: mx.array, *starts: mx.array, sizes: Sequence[int]) -> mx.array:
    """A block at starts known only at run time, moved inside."""
    if not starts:
        return x
    return mx.slice(x, _starts(starts, x.shape, sizes), tuple(range(x.ndim)), tuple(sizes))


def dynamic_update_slice(x: mx.array, update: mx.array, *starts: mx.array) -> mx.array:
    """A block replaced at starts known only at run time, moved inside."""
    if not starts:
        return update
    places = _starts(starts, x.shape, update.shape)
    return mx.slice_update(x, update, places, tuple(range(x.ndim)))


NUMBERS = INTEGERS | FLOATS
WHOLE = NUMBERS - HALVES  # sums of halves would be rounded at each step


# -- movement: constants, shapes, cuts, windows ----------------------------------------------------


def full(*, shape: Sequence[int], value: complex, dtype: np.dtype) -> mx.array:
    """An array of one number."""
    with np.errstate(all="ignore"):
        number = np.asarray(value).astype(dtype)  # wraps around as the reference does
    return mx.full(shape, to_mlx(number))


def iota(*, shape: Sequence[int], axis: int, dtype: np.dtype) -> mx.array:
    """The index along one axis."""
    line = mx.arange(shape[axis]).astype(FORMS[dtype])
    return mx.broadcast_to(line.reshape([-1 if i == axis else 1 for i in range(len(shape))]), shape)


def flip(x: mx.array, *, axes: Sequence[int]) -> mx.array:
    """The elements in reverse order along axes."""
    return x[tuple(np.s_[::-1] if i in axes else np.s_[:] for i in range(x.ndim))]


def broadcast(x: mx.array, *, shape: Sequence[int], axes: Sequence[int]) -> mx.array:
    """Repeat along new axes and axes of size 1."""
    sizes = [1] * len(shape)
    for axis, size in zip(axes, x.shape, strict=True):
        sizes[axis] = size
    return mx.broadcast_to(x.reshape(sizes), shape)


def pad(
    x: mx.array,
    value: mx.array,
    *,
    low: Sequence[int],
    high: Sequence[int],
    interior: Sequence[int],
) -> mx.array:
    """A scalar before, after and between the elements of each axis."""
    for axis, count in enumerate(interior):
        if count and x.shape[axis] > 1:
            x = _spaced(x, value, axis, count)
    before = [max(n, 0) for n in low]
    wide = [(a, max(n, 0)) for a, n in zip(before, high, strict=True)]
    x = mx.pad(x, wide, constant_values=value) if any(map(any, wide)) else x
    ends = zip(x.shape, low, high, strict=True)
    return x[tuple(np.s_[max(-a, 0) : n - max(-b, 0)] for n, a, b in ends)]


def _spaced(x: mx.array, value: mx.array, axis: int, count: int) -> mx.array:
    """So many scalars between neighbors along an axis."""
    shape, size = list(x.shape), x.shape[axis]
    gaps = mx.broadcast_to(value, [*shape[: axis + 1], count, *shape[axis + 1 :]])
    both = mx.concatenate([mx.expand_dims(x, axis + 1), gaps], axis=axis + 1)
    line = both.reshape([*shape[:axis], size * (count + 1), *shape[axis + 1 :]])
    return line[(np.s_[:],) * axis + (np.s_[: size * (count + 1) - count],)]


def cut(x: mx.array, *, start: Sequence[int], stop: Sequence[int], step: Sequence[int]) -> mx.array:
    """The elements `start, start + step, ...` below `stop` of each axis."""
    return x[tuple(np.s_[a:b:c] for a, b, c in zip(start, stop, step, strict=True))]


def windows(x: mx.array, *, axis: int, size: int, stride: int, dilation: int) -> mx.array:
    """Windows along an axis; their elements come last."""
    reach = (size - 1) * dilation + 1 if size else 0
    count = max((x.shape[axis] - reach) // stride + 1, 0)
    if 0 in (count, size, x.size):
        return mx.zeros([*x.shape[:axis], count, *x.shape[axis + 1 :], size], x.dtype)
    places = np.arange(count)[:, None] * stride + np.arange(size) * dilation
    found = mx.take(x, mx.array(places.astype(np.int32)), axis=axis)
    return mx.moveaxis(found, axis + 1, -1)


ROWS = {
    "gather": Row(gather, STORED),
    "scatter": Row(_scatter(_set), STORED, has_elements),
    "scatter_add": Row(_scatter(lambda x, at, y: x.at[at].add(y)), NUMBERS - HALVES, has_elements),
    "scatter_mul": Row(
        _scatter(lambda x, at, y: x.at[at].multiply(y)), NUMBERS - HALVES, has_elements
    ),
    "scatter_min": Row(_scatter(_least), NUMBERS, has_elements),
    "scatter_max": Row(_scatter(_greatest), NUMBERS, has_elements),
    "dynamic_slice": Row(dynamic_slice, STORED, has_elements),
    "dynamic_update_slice": Row(dynamic_update_slice, STORED, has_elements),
    "full": Row(full, STORED),
    "iota": Row(iota, REAL),
    "reshape": Row(lambda x, *, shape: x.reshape(shape), STORED),
    "transpose": Row(lambda x, *, axes: mx.transpose(x, axes), STORED),
    "flip": Row(flip, STORED),
    "broadcast": Row(broadcast, STORED),
    "pad": Row(pad, STORED),
    "slice": Row(cut, STORED),
    "concat": Row(lambda *xs, axis: mx.concatenate(list(xs), axis=axis), STORED),
    "windows": Row(windows, STORED),
}
