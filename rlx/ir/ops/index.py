"""Reading at computed places: gather, and `take_along` made of it."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from ..body import Gather, Read
from ..errors import ShapeError
from ..graph import OPS, Value
from ..op import Parts, define
from ..rules import later
from ..types import Size, Type, is_bool, is_integer
from .constant import SCALAR, like
from .movement import check_count, reshape
from .window import (
    SCATTER_WORDS,
    Axes,
    check_indices,
    check_mode,
    check_rising,
    check_window,
    place_in_window,
    window_places,
)

MODES = ("clip", "fill", "promise")


@define
def gather(
    x: Type,
    indices: Type,
    *,
    offset_axes: Axes,
    collapsed_axes: Axes = (),
    operand_batch_axes: Axes = (),
    indices_batch_axes: Axes = (),
    start_axes: Axes,
    sizes: tuple[int, ...],
    mode: str = "clip",
    fill: SCALAR | None = None,
) -> Type:
    """Read a window of x at each index vector.

    The last axis of `indices` holds index vectors: element k is the start along axis
    `start_axes[k]` of x. A window has the given `sizes`; its axes, without `collapsed_axes` and
    `operand_batch_axes` (of size 1), become `offset_axes` of the result, the other axes of
    `indices` become the other axes. Along `operand_batch_axes[i]` the start is the place along
    axis `indices_batch_axes[i]` of `indices`.

    A window that does not lie inside of x is moved there (mode "clip"), read as all `fill` (mode
    "fill"; if None, NaN, the least signed or greatest unsigned integer, True), or cannot occur
    (mode "promise").
    """
    check_indices(indices, start_axes)
    check_count("sizes", sizes, x)
    check_window(x, indices, collapsed_axes, operand_batch_axes, indices_batch_axes, start_axes)
    check_mode(mode, MODES)
    gone = (*collapsed_axes, *operand_batch_axes)
    for i, (size, length) in enumerate(zip(sizes, x.shape, strict=True)):
        fits = not isinstance(length, int) or 0 <= size <= length
        if not fits and 0 not in indices.shape[:-1]:
            raise ShapeError(
                f"a window of size {size} does not fit in axis {i} of {x}",
                fix=f"use a size from 0 to {length}",
            )
        if i in gone and size != 1:
            raise ShapeError(
                f"the window has size {size} along axis {i}, which the result lacks",
                fix=f"set sizes[{i}] to 1",
            )
    window = [size for i, size in enumerate(sizes) if i not in gone]
    rank = len(window) + indices.rank - 1
    check_rising("offset_axes", offset_axes, rank, len(window))
    window_sizes, point_sizes = iter(window), iter(indices.shape[:-1])
    return x.with_shape(
        tuple(next(window_sizes if i in offset_axes else point_sizes) for i in range(rank))
    )


def fill_number(dtype: np.dtype) -> SCALAR:
    """The number that mode "fill" reads outside of an array, by dtype.

    It is NaN, the least signed or greatest unsigned number, or True.
    """
    if is_integer(dtype):
        info = np.iinfo(dtype)
        return int(info.min if dtype.kind == "i" else info.max)
    return True if is_bool(dtype) else float("nan")


@gather.reference
def gather_reference(
    x: np.ndarray, indices: np.ndarray, *, mode: str, fill: SCALAR | None, **attrs: Any
) -> np.ndarray:
    places, fits = window_places(x.shape, indices, **attrs)
    read = np.broadcast_to(x[places], fits.shape)
    if mode != "fill":
        return read
    number = fill_number(x.dtype) if fill is None else fill
    return np.where(fits, read, np.asarray(number).astype(x.dtype))


@gather.parts
def gather_parts(x: Parts, indices: Value, *, fill: SCALAR | None, **attrs: Any) -> Parts:
    fills = (fill, 0) if fill is None else (fill.real, fill.imag)
    return Parts(*(gather(x[i], indices, fill=fills[i], **attrs) for i in (0, 1)))


def _gather_read(
    index: Sequence[Any],
    load: Callable[..., Any],
    types: Sequence[Type],
    *,
    mode: str,
    fill: SCALAR | None,
    **attrs: Any,
) -> Read:
    x, guarded = types[0], mode == "fill"
    places, guards = place_in_window(index, load, x.shape, guarded=guarded, **attrs)
    number = fill_number(x.dtype) if fill is None else fill
    return Read(0, places, guards, fill=number if guards else None)


gather.body(Gather(_gather_read))


def _gather_tangent(t: Value, out: Value, x: Value, indices: Value, **attrs: Any) -> Value:
    # what is read outside does not depend on x
    return gather(t, indices, **{**attrs, "fill": 0})


gather.jvp([_gather_tangent, None])


@gather.transpose
def gather_transpose(ct: Value, x: Any, indices: Value, **attrs: Any) -> list[Value | None]:
    axes = {theirs: attrs[ours] for ours, theirs in SCATTER_WORDS.items()}
    mode = "drop" if attrs["mode"] == "fill" else attrs["mode"]
    return [OPS["scatter_add"](like(x, 0), indices, ct, **axes, mode=mode), None]


@gather.batch
def gather_batch(
    args: Sequence[Value],
    batched: Sequence[bool],
    *,
    offset_axes: Axes,
    collapsed_axes: Axes,
    operand_batch_axes: Axes,
    indices_batch_axes: Axes,
    start_axes: Axes,
    sizes: tuple[Size, ...],
    **attrs: Any,
) -> Value:
    x, indices = args
    offset_axes = later(offset_axes)
    if batched[1]:
        indices_batch_axes = later(indices_batch_axes)
    if batched[0]:
        collapsed_axes, start_axes = later(collapsed_axes), later(start_axes)
        operand_batch_axes = later(operand_batch_axes)
        sizes = (x.shape[0], *sizes)
    if all(batched):
        operand_batch_axes, indices_batch_axes = (0, *operand_batch_axes), (0, *indices_batch_axes)
        sizes = (1, *sizes[1:])
    elif batched[0]:
        offset_axes = (0, *offset_axes)
    return gather(
        x,
        indices,
        offset_axes=offset_axes,
        collapsed_axes=collapsed_axes,
        operand_batch_axes=operand_batch_axes,
        indices_batch_axes=indices_batch_axes,
        start_axes=start_axes,
        sizes=sizes,
        **attrs,
    )


def take_along(x: Value, indices: Value, axis: int, mode: str = "promise") -> Value:
    """Read x along one axis, at indices of their own for each line of x.

    The indices have an array of places for each line.
    """
    others = tuple(i for i in range(x.rank) if i != axis)
    return gather(
        x,
        reshape(indices, shape=(*indices.shape, 1)),
        offset_axes=(),
        collapsed_axes=(axis,),
        operand_batch_axes=others,
        indices_batch_axes=others,
        start_axes=(axis,),
        sizes=(1,) * x.rank,
        mode=mode,
    )


_ROWS: dict[str, Any] = dict(offset_axes=(1,), collapsed_axes=(0,), start_axes=(0,), sizes=(1, 3))
_PLACES = np.array([[2], [0], [2], [5], [-1]])
gather.samples((4, 3), _PLACES, **_ROWS)
gather.samples((4, 3), _PLACES, **_ROWS, mode="fill")
gather.samples((4, 3), _PLACES, **_ROWS, mode="fill", fill=7.0)
gather.samples(
    (3, 4, 5),
    np.array([[[1, 2], [0, 0]]]),
    offset_axes=(0, 2),
    collapsed_axes=(1,),
    start_axes=(2, 0),
    sizes=(2, 1, 3),
)
gather.samples(
    (4, 3, 2),
    np.array([[[0], [1], [1]], [[2], [0], [3]]]),
    offset_axes=(2,),
    collapsed_axes=(0,),
    operand_batch_axes=(1,),
    indices_batch_axes=(1,),
    start_axes=(0,),
    sizes=(1, 1, 2),
)
gather.samples((0, 3), np.zeros((0, 1), np.int32), **_ROWS)  # nothing is read
gather.samples(
    [1.0, 2.0, 3.0],
    np.array([[2], [9]], np.int32),
    offset_axes=(),
    collapsed_axes=(0,),
    start_axes=(0,),
    sizes=(1,),
    mode="fill",
    expect=[3.0, np.nan],
)
