"""Rows of reading and writing at computed places.

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
from ...ir.types import Type
from ..graph_table import Row
from .arithmetic import is_float, scalar
from .kinds import FLOATS, HALVES, INTEGERS, STORED
from .memory import dtype_of, to_mlx

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
    """Where each window element lies in row-major memory, and whether its window fits.

    Both have the window's axes at `window_axes` and those of the index vectors at the others (or
    are 1 long there).
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


def _writes(types: Sequence[Type], **attrs: Any) -> bool:
    """Whether there is something to write."""
    return all(type.size > 0 for type in types)


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


def _has_elements(types: Sequence[Type], **attrs: Any) -> bool:
    """Whether no operand is empty."""
    return all(type.size > 0 for type in types)


NUMBERS = INTEGERS | FLOATS
ROWS = {
    "gather": Row(gather, STORED),
    "scatter": Row(_scatter(_set), STORED, _writes),
    "scatter_add": Row(_scatter(lambda x, at, y: x.at[at].add(y)), NUMBERS - HALVES, _writes),
    "scatter_mul": Row(_scatter(lambda x, at, y: x.at[at].multiply(y)), NUMBERS - HALVES, _writes),
    "scatter_min": Row(_scatter(_least), NUMBERS, _writes),
    "scatter_max": Row(_scatter(_greatest), NUMBERS, _writes),
    "dynamic_slice": Row(dynamic_slice, STORED, _has_elements),
    "dynamic_update_slice": Row(dynamic_update_slice, STORED, _has_elements),
}
