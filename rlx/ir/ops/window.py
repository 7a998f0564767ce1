"""Windows at computed places: what gather and scatter have in common."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from ..errors import AttributeValueError, AxisError, ShapeError
from ..types import Type
from .families import check_integers

Axes = tuple[int, ...]
# the axes of gather, in whose words windows are described here, and what scatter calls them
SCATTER_WORDS = {
    "offset_axes": "window_axes",
    "collapsed_axes": "inserted_axes",
    "operand_batch_axes": "operand_batch_axes",
    "indices_batch_axes": "indices_batch_axes",
    "start_axes": "scatter_axes",
}


def check_indices(indices: Type, start_axes: Axes) -> None:
    """Check that the last axis of `indices` has an integer for each of `start_axes`."""
    check_integers("indices", indices)
    if indices.rank == 0 or indices.shape[-1] != len(start_axes):
        raise ShapeError(
            f"the indices {indices} do not end in an axis of size {len(start_axes)}",
            fix="give one index for each of the starting axes, along the last axis",
        )


def check_window(
    x: Type, indices: Type, gone: Axes, batch: Axes, indices_batch: Axes, starts: Axes
) -> None:
    """Check that the axes of a window and its start are in range, each once."""
    for axes in ((*gone, *batch), (*starts, *batch)):
        if len(set(axes)) != len(axes) or not all(0 <= i < x.rank for i in axes):
            raise AxisError(
                f"{axes} are not different axes of {x}", fix=f"pick axes from 0 to {x.rank - 1}"
            )
    for i in gone:
        if x.shape[i] == 0 and 0 not in indices.shape[:-1]:
            raise ShapeError(
                f"a window does not fit in axis {i} of {x}", fix="check for an empty axis before"
            )
    points = indices.rank - 1
    if len(set(indices_batch)) != len(batch) or not all(0 <= i < points for i in indices_batch):
        raise AxisError(
            f"the batch axes {indices_batch} of the indices do not pair with {batch} of {x}",
            fix=f"name {len(batch)} different axes from 0 to {points - 1}",
        )
    for i, j in zip(batch, indices_batch, strict=True):
        if x.shape[i] != indices.shape[j]:
            raise ShapeError(
                f"the batch sizes differ, {x.shape[i]} and {indices.shape[j]}",
                fix="pair batch axes of one size",
            )


def check_rising(name: str, axes: Axes, rank: int, count: int) -> None:
    """Raise unless there are `count` rising axes below `rank`."""
    if len(axes) != count:
        raise AxisError(
            f"`{name}` {axes} has {len(axes)} axes, the window {count}", fix=f"name {count} axes"
        )
    if list(axes) != sorted(set(axes)) or not all(0 <= i < rank for i in axes):
        raise AxisError(
            f"`{name}` {axes} are not rising axes below {rank}", fix="sort them, each once"
        )


def check_mode(mode: str, modes: Sequence[str]) -> None:
    """Raise unless the mode is one of those there are."""
    if mode not in modes:
        raise AttributeValueError(
            f"there is no mode {mode!r}", fix=f"use one of {', '.join(modes)}"
        )


def window_places(
    shape: Sequence[int],
    indices: np.ndarray,
    *,
    offset_axes: Axes,
    collapsed_axes: Axes,
    operand_batch_axes: Axes,
    indices_batch_axes: Axes,
    start_axes: Axes,
    sizes: Sequence[int],
) -> tuple[tuple[np.ndarray, ...], np.ndarray]:
    """The place of each window element in an array, and whether its window fits.

    The places are given by axis. Starts are clamped. All arrays broadcast to the shape that has the
    window's axes at `offset_axes` and those of the index vectors at the others.
    """
    points, window = indices.shape[:-1], iter(offset_axes)
    rank = len(offset_axes) + len(points)
    point_axes = [i for i in range(rank) if i not in offset_axes]
    whole = dict(zip(point_axes, points, strict=True))

    def along(line: np.ndarray, axes: Sequence[int]) -> np.ndarray:
        return np.expand_dims(line, tuple(i for i in range(rank) if i not in axes))

    fits, places = np.ones((1,) * rank, bool), []
    for axis, (length, size) in enumerate(zip(shape, sizes, strict=True)):
        if axis in operand_batch_axes:
            place = point_axes[indices_batch_axes[operand_batch_axes.index(axis)]]
            places.append(along(np.arange(length), [place]))
            continue
        offset = along(np.array(0), [])
        if axis not in collapsed_axes:
            place = next(window)
            offset, whole[place] = along(np.arange(size), [place]), size
        if axis in start_axes:
            start = _as_int64(indices[..., start_axes.index(axis)])
            inside = np.clip(start, 0, length - size)
            fits = fits & along(start == inside, point_axes)
            offset = offset + along(inside, point_axes)
        places.append(offset)
    return tuple(places), np.broadcast_to(fits, [whole[i] for i in range(rank)])


def _as_int64(indices: np.ndarray) -> np.ndarray:
    if indices.dtype == np.uint64:
        indices = np.minimum(indices, np.uint64(2**62))
    return indices.astype(np.int64)


def place_in_window(
    index: Sequence[Any],
    load: Callable[..., Any],
    shape: Sequence[Any],
    *,
    offset_axes: Axes,
    collapsed_axes: Axes,
    operand_batch_axes: Axes,
    indices_batch_axes: Axes,
    start_axes: Axes,
    sizes: Sequence[int],
    guarded: bool,
) -> tuple[tuple[Any, ...], tuple[tuple[Any, int, int], ...]]:
    """The place of a window element and the guards, for a body.

    The place is that of `window_places`; operand 1 of the body holds the index vectors. Guarded
    starts go one step too far at most, else they are clamped.
    """
    points = [k for i, k in enumerate(index) if i not in offset_axes]
    window = iter([index[i] for i in offset_axes])
    places, guards = [], []
    for axis, (length, size) in enumerate(zip(shape, sizes, strict=True)):
        if axis in operand_batch_axes:
            places.append(points[indices_batch_axes[operand_batch_axes.index(axis)]])
            continue
        offset = 0 if axis in collapsed_axes else next(window)
        if axis in start_axes:
            last, beyond = length - size, int(guarded)
            place = (*points, start_axes.index(axis))
            start = load(1, place, -beyond, last + beyond)
            offset = offset + start
            if guarded:
                guards.append((start, 0, last + 1))
        places.append(offset)
    return tuple(places), tuple(guards)
