"""Rows of reading and writing at computed places, in MIL."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np
from coremltools.converters.mil.mil import Var

from ...ir.ops.index import fill_number
from ..graph_table import Row
from .elements import EVERY, NUMBERS, dtype_of, same
from .mil import mb
from .shapes import cut, of_bools_too, reshaped, tiled

Axes = Sequence[int]


def _clamped(start: Var, last: int) -> Var:
    return mb.maximum(x=mb.minimum(x=start, y=np.int32(last)), y=np.int32(0))


def gather(
    x: Var,
    indices: Var,
    *,
    offset_axes: Axes,
    collapsed_axes: Axes,
    operand_batch_axes: Axes,
    indices_batch_axes: Axes,
    start_axes: Axes,
    sizes: Sequence[int],
    mode: str,
    fill: Any,
) -> Var:
    """A window of x at each index vector, read from its row-major memory."""
    rank = len(offset_axes) + indices.rank - 1
    point_axes = [i for i in range(rank) if i not in offset_axes]
    steps = [math.prod(x.shape[i + 1 :]) for i in range(x.rank)]
    shape, window = [1] * rank, iter(offset_axes)
    for i, axis in enumerate(point_axes):
        shape[axis] = indices.shape[i]
    fixed, moving, fits = np.zeros([1] * rank, np.int32), [], []

    def along(axis: int, count: int) -> np.ndarray:
        line = np.arange(count, dtype=np.int32)
        return line.reshape([-1 if i == axis else 1 for i in range(rank)])

    for axis, (length, size) in enumerate(zip(x.shape, sizes, strict=True)):
        if axis in operand_batch_axes:
            place = point_axes[indices_batch_axes[operand_batch_axes.index(axis)]]
            fixed = fixed + along(place, length) * steps[axis]
            continue
        if axis not in collapsed_axes:
            place = next(window)
            shape[place] = size
            fixed = fixed + along(place, size) * steps[axis]
        if axis in start_axes:
            start = _column(indices, start_axes.index(axis), point_axes, rank)
            inside = _clamped(start, length - size)
            fits.append(mb.equal(x=start, y=inside))
            moving.append(mb.mul(x=inside, y=np.int32(steps[axis])))
    places: Any = fixed.astype(np.int32)
    for each in moving:
        places = mb.add(x=each, y=places)
    read = mb.gather(x=reshaped(x, [-1]), indices=tiled(_as_var(places), shape), axis=0)
    if mode != "fill":
        return read
    number = np.asarray(fill_number(dtype_of(x)) if fill is None else fill).astype(dtype_of(x))
    for fit in fits:
        read = mb.select(cond=tiled(fit, shape), a=read, b=number[()])
    return read


def _as_var(x: Any) -> Var:
    return mb.const(val=x) if isinstance(x, np.ndarray) else x


def _column(indices: Var, number: int, point_axes: Sequence[int], rank: int) -> Var:
    """One element of each index vector, at the axes of the points."""
    start, stop = [0] * indices.rank, list(indices.shape)
    start[-1], stop[-1] = number, number + 1
    column = cut(indices, start=start, stop=stop, step=[1] * indices.rank)
    sizes = iter(indices.shape)
    return reshaped(column, [next(sizes) if i in point_axes else 1 for i in range(rank)])


def _starts(starts: Sequence[Var], shape: Sequence[int], sizes: Sequence[int]) -> Var:
    lines = zip(starts, shape, sizes, strict=True)
    return mb.stack(values=[_clamped(start, n - size) for start, n, size in lines], axis=0)


def dynamic_slice(x: Var, *starts: Var, sizes: Sequence[int]) -> Var:
    """A block at starts known only at run time, moved inside."""
    if not starts:
        return same(x)
    begin = _starts(starts, x.shape, sizes)
    return mb.slice_by_size(x=x, begin=begin, size=np.array(sizes, np.int32))


def dynamic_update_slice(x: Var, update: Var, *starts: Var) -> Var:
    """A block replaced at starts known only at run time, moved inside."""
    if not starts:
        return same(update)
    begin = _starts(starts, x.shape, update.shape)
    end = mb.add(x=begin, y=np.array(update.shape, np.int32))
    return mb.slice_update(x=x, update=update, begin=begin, end=end)


ROWS = {
    "gather": Row(of_bools_too(gather), EVERY),
    "dynamic_slice": Row(dynamic_slice, NUMBERS),
    "dynamic_update_slice": Row(dynamic_update_slice, NUMBERS),
}
