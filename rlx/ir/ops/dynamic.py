"""Blocks that start at computed places: dynamic_slice, dynamic_update_slice."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from ..body import Gather, Read, Scatter
from ..errors import ArgumentError, DtypeError, ShapeError
from ..graph import OPS, Value
from ..op import define, is_linear
from ..rules import align, batch_size, later, spread_those
from ..types import Type, is_integer
from .constant import full, like, uniform
from .control import filled
from .convert import in_one_dtype
from .families import check_dtypes
from .index import gather
from .movement import check_count, reshape
from .pad_slice import concat, slice


def _check_starts(x: Type, starts: Sequence[Type]) -> None:
    if len(starts) != x.rank:
        raise ArgumentError(
            f"there are {len(starts)} starts for the {x.rank} axes of {x}",
            fix="give one integer scalar for each axis",
        )
    for start in starts:
        if start.rank != 0 or not is_integer(start.dtype):
            raise DtypeError(f"a start is {start}", fix="give an integer scalar: i32[]")


def _clamped(starts: Sequence[np.ndarray], shape: Sequence[int], sizes: Sequence[int]) -> tuple:
    """NumPy slices of the window at starts clamped to fit."""
    lines = zip(starts, shape, sizes, strict=True)
    begin = [min(max(int(start), 0), length - size) for start, length, size in lines]
    return tuple(np.s_[a : a + size] for a, size in zip(begin, sizes, strict=True))


def _stacked(starts: Sequence[Value], batched: Sequence[bool], size: Any) -> Value:
    """Starts, some of them batched, as index vectors along a last axis."""
    columns = in_one_dtype(*align(starts, batched))
    return concat(*(reshape(x, shape=(size, 1)) for x in columns), axis=1)


def _known_starts(
    starts: Sequence[Value], shape: Sequence[Any], sizes: Sequence[Any]
) -> list[int] | None:
    """The clamped starts, if all of them and the shapes are known."""
    numbers: list[Any] = [uniform(s) for s in starts]
    if None in numbers or not all(isinstance(n, int) for n in (*shape, *sizes)):
        return None
    lines = zip(numbers, shape, sizes, strict=True)
    return [min(max(a, 0), n - size) for a, n, size in lines]


@define
def dynamic_slice(x: Type, *starts: Type, sizes: tuple[int, ...]) -> Type:
    """Read a block of the given sizes at starts known at run time, clamped to fit x."""
    _check_starts(x, starts)
    check_count("sizes", sizes, x)
    _check_fits(x, x.with_shape(sizes))
    return x.with_shape(sizes)


def _check_fits(x: Type, block: Type) -> None:
    for i, (length, size) in enumerate(zip(x.shape, block.shape, strict=True)):
        if isinstance(length, int) and isinstance(size, int) and not 0 <= size <= length:
            raise ShapeError(
                f"a block of size {size} does not fit in axis {i} of {x}",
                fix=f"use a size from 0 to {length}",
            )


dynamic_slice.reference(lambda x, *starts, sizes: x[_clamped(starts, x.shape, sizes)])


def _block_place(
    index: Sequence[Any], load: Any, shape: Sequence[Any], sizes: Sequence[Any], first: int
) -> tuple:
    """The place in an array of an index into its block.

    The block's starts are operands from `first`.
    """
    return tuple(
        k + load(first + i, (), 0, length - size)
        for i, (k, length, size) in enumerate(zip(index, shape, sizes, strict=True))
    )


def _dynamic_slice_read(
    index: Sequence[Any], load: Any, types: Sequence[Type], *, sizes: tuple
) -> Read:
    return Read(0, _block_place(index, load, types[0].shape, sizes, first=1))


dynamic_slice.body(Gather(_dynamic_slice_read))


@dynamic_slice.jvp
def dynamic_slice_jvp(primals: Sequence[Value], tangents: Sequence[Any], *, sizes: tuple) -> tuple:
    (x, *starts), (t, *_) = primals, tangents
    return dynamic_slice(x, *starts, sizes=sizes), dynamic_slice(t, *starts, sizes=sizes)


@dynamic_slice.transpose
def dynamic_slice_transpose(ct: Value, x: Any, *starts: Value, sizes: tuple) -> list[Any]:
    zeros = like(x, 0)
    return [dynamic_update_slice(zeros, ct, *starts), *[None] * len(starts)]


@dynamic_slice.batch
def dynamic_slice_batch(args: Sequence[Value], batched: Sequence[bool], *, sizes: tuple) -> Value:
    x, *starts = args
    if not any(batched[1:]):
        zero = full(shape=(), value=0, dtype="int32")
        return dynamic_slice(x, zero, *starts, sizes=(x.shape[0], *sizes))
    size = batch_size(args, batched)
    axes = tuple(range(len(sizes)))
    return gather(
        x,
        _stacked(starts, batched[1:], size),
        offset_axes=later(axes),
        operand_batch_axes=(0,) if batched[0] else (),
        indices_batch_axes=(0,) if batched[0] else (),
        start_axes=later(axes) if batched[0] else axes,
        sizes=(1, *sizes) if batched[0] else sizes,
    )


@dynamic_slice.fold
def dynamic_slice_fold(x: Value, *starts: Value, sizes: tuple) -> Value | None:
    if x.shape == sizes:
        return x
    begin = _known_starts(starts, x.shape, sizes)
    if begin is None:
        return None
    stop = [a + n for a, n in zip(begin, sizes, strict=True)]
    return slice(x, start=begin, stop=stop, step=(1,) * x.rank)


_TWO = np.array(2, np.int32)
dynamic_slice.samples((4, 5), np.array(1), np.array(2), sizes=(2, 3))
dynamic_slice.samples((4, 5), np.array(-7), np.array(9, np.uint8), sizes=(2, 3))
dynamic_slice.samples([1.0, 2.0, 3.0, 4.0], _TWO, sizes=(2,), expect=[3.0, 4.0])
dynamic_slice.samples((), sizes=())


@define
def dynamic_update_slice(x: Type, update: Type, *starts: Type) -> Type:
    """Replace a block of x by `update` at starts known at run time, clamped to fit."""
    check_dtypes(x, update, "the update: update")
    if x.rank != update.rank:
        raise ShapeError(
            f"the update {update} has not the {x.rank} axes of {x}",
            fix="reshape the update: axes of size 1 where the block is one thick",
        )
    _check_fits(x, update)
    _check_starts(x, starts)
    return x


@dynamic_update_slice.reference
def dynamic_update_slice_reference(
    x: np.ndarray, update: np.ndarray, *starts: np.ndarray
) -> np.ndarray:
    result = x.copy()
    result[_clamped(starts, x.shape, update.shape)] = update
    return result


def _dynamic_update_slice_place(index: Sequence[Any], load: Any, types: Sequence[Type]) -> Read:
    return Read(0, _block_place(index, load, types[0].shape, types[1].shape, first=2))


dynamic_update_slice.body(Scatter("set", 1, _dynamic_update_slice_place))


@dynamic_update_slice.jvp
def dynamic_update_slice_jvp(primals: Sequence[Value], tangents: Sequence[Any]) -> tuple:
    x, update, *starts = primals
    out = dynamic_update_slice(x, update, *starts)
    return out, dynamic_update_slice(*filled(tangents[:2], primals[:2]), *starts)


@dynamic_update_slice.transpose
def dynamic_update_slice_transpose(ct: Value, x: Any, update: Any, *starts: Value) -> list[Any]:
    zeros = like(update, 0)
    return [
        dynamic_update_slice(ct, zeros, *starts) if is_linear(x) else None,
        dynamic_slice(ct, *starts, sizes=update.shape) if is_linear(update) else None,
        *[None] * len(starts),
    ]


@dynamic_update_slice.batch
def dynamic_update_slice_batch(args: Sequence[Value], batched: Sequence[bool]) -> Value:
    size = batch_size(args, batched)
    x, update = spread_those(args[:2], batched[:2], size)
    starts = args[2:]
    if not any(batched[2:]):
        zero = full(shape=(), value=0, dtype="int32")
        return dynamic_update_slice(x, update, zero, *starts)
    axes = tuple(range(1, x.rank))
    return OPS["scatter"](
        x,
        _stacked(starts, batched[2:], size),
        update,
        window_axes=axes,
        inserted_axes=(),
        operand_batch_axes=(0,),
        indices_batch_axes=(0,),
        scatter_axes=axes,
        unique=True,
    )


dynamic_update_slice.fold(lambda x, update, *starts: update if x.shape == update.shape else None)
dynamic_update_slice.samples((4, 5), (2, 3), np.array(1), np.array(2))
dynamic_update_slice.samples((4, 5), (2, 5), np.array(3, np.uint8), np.array(9))
dynamic_update_slice.samples([1.0, 2.0, 3.0], [9.0], _TWO, expect=[1.0, 2.0, 9.0])
dynamic_update_slice.samples((2,), (2,), _TWO)
dynamic_update_slice.samples((), ())
