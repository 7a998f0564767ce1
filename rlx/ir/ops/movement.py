"""Movement that keeps or repeats all elements.

The ops are reshape, transpose, flip, broadcast.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from ..body import Move, Read, View
from ..errors import AxisError, ShapeError
from ..graph import OPS, Value
from ..op import ALIGNED, define
from ..rules import later
from ..types import Size, Type
from .constant import full, maker, uniform


def check_count(name: str, items: Sequence[Any], x: Type) -> None:
    """Raise unless there is one item for each axis of x."""
    if len(items) != x.rank:
        raise ShapeError(
            f"`{name}` has {len(items)} numbers for the {x.rank} axes of {x}",
            fix=f"give {x.rank} numbers",
        )


def uniform_fold(x: Value, shape: Sequence[Size]) -> Value | None:
    """Movement of one number is that number in the new shape."""
    number = uniform(x)
    return None if number is None else full(shape=tuple(shape), value=number, dtype=x.dtype)


@define
def reshape(x: Type, *, shape: tuple[Size, ...]) -> Type:
    """The same elements in row-major order under another shape: `f32[6] → f32[2, 3]`."""
    if any(isinstance(n, int) and n < 0 for n in shape):
        raise ShapeError(f"the shape {shape} has a negative size", fix="use sizes of 0 or more")
    if math.prod(shape) != math.prod(x.shape):
        raise ShapeError(
            f"{x} has {math.prod(x.shape)} elements, the shape {shape} {math.prod(shape)}",
            fix="pick sizes with the same product",
        )
    return x.with_shape(shape)


reshape.reference(np.reshape)
reshape.body(View())
reshape.transpose(lambda ct, x, *, shape: [reshape(ct, shape=x.shape)])


@reshape.batch
def reshape_batch(args: Sequence[Value], batched: Sequence[bool], *, shape: tuple) -> Value:
    return reshape(args[0], shape=(args[0].shape[0], *shape))


@reshape.fold
def reshape_fold(x: Value, *, shape: tuple[Size, ...]) -> Value | None:
    if x.shape == shape:
        return x
    before = maker(x, "reshape")
    return reshape(before.args[0], shape=shape) if before else uniform_fold(x, shape)


reshape.samples((2, 3), shape=(3, 2))
reshape.samples([[1.0, 2.0], [3.0, 4.0]], shape=(4,), expect=[1.0, 2.0, 3.0, 4.0])
reshape.samples((), shape=(1, 1))


@define
def transpose(x: Type, *, axes: tuple[int, ...]) -> Type:
    """Axes in another order: axis i of the result is axis `axes[i]` of the operand."""
    if sorted(axes) != list(range(x.rank)):
        raise AxisError(
            f"{axes} is no order of the {x.rank} axes of {x}",
            fix=f"name each axis from 0 to {x.rank - 1} once",
        )
    return x.with_shape(tuple(x.shape[i] for i in axes))


transpose.reference(np.transpose)


def _inverse(axes: Sequence[int]) -> tuple[int, ...]:
    return tuple(sorted(range(len(axes)), key=axes.__getitem__))


transpose.body(Move(lambda index, types, *, axes: Read(0, tuple(index[i] for i in _inverse(axes)))))
transpose.transpose(lambda ct, x, *, axes: [transpose(ct, axes=_inverse(axes))])


@transpose.batch
def transpose_batch(args: Sequence[Value], batched: Sequence[bool], *, axes: tuple) -> Value:
    return transpose(args[0], axes=(0, *later(axes)))


@transpose.fold
def transpose_fold(x: Value, *, axes: tuple[int, ...]) -> Value | None:
    if axes == tuple(range(x.rank)):
        return x
    if before := maker(x, "transpose"):
        return transpose(before.args[0], axes=tuple(before.attrs["axes"][i] for i in axes))
    return uniform_fold(x, [x.shape[i] for i in axes])


transpose.samples((2, 3, 4), axes=(2, 0, 1))
transpose.samples([[1.0, 2.0], [3.0, 4.0]], axes=(1, 0), expect=[[1.0, 3.0], [2.0, 4.0]])


@define
def flip(x: Type, *, axes: tuple[int, ...]) -> Type:
    """The elements in reverse order along axes."""
    if len(set(axes)) != len(axes) or not all(0 <= i < x.rank for i in axes):
        raise AxisError(
            f"{axes} are not different axes of {x}", fix=f"pick axes from 0 to {x.rank - 1}"
        )
    return x


flip.reference(lambda x, *, axes: np.flip(x, axes))


def _flip_read(index: Sequence[Any], types: Sequence[Type], *, axes: tuple[int, ...]) -> Read:
    sizes = types[0].shape
    return Read(0, tuple(sizes[i] - 1 - k if i in axes else k for i, k in enumerate(index)))


flip.body(Move(_flip_read))
flip.transpose(lambda ct, x, *, axes: [flip(ct, axes=axes)])
flip.batch(ALIGNED, "axes")


@flip.fold
def flip_fold(x: Value, *, axes: tuple[int, ...]) -> Value | None:
    axes = tuple(i for i in axes if x.shape[i] != 1)
    if not axes:
        return x
    if before := maker(x, "flip"):
        return flip(before.args[0], axes=tuple(sorted(set(before.attrs["axes"]) ^ set(axes))))
    return uniform_fold(x, x.shape)


flip.samples((2, 3), axes=(0, 1))
flip.samples([1.0, 2.0, 3.0], axes=(0,), expect=[3.0, 2.0, 1.0])


@define
def broadcast(x: Type, *, shape: tuple[Size, ...], axes: tuple[int, ...]) -> Type:
    """Repeat along new axes and axes of size 1.

    Operand axis i is result axis `axes[i]`.
    """
    check_count("axes", axes, x)
    if list(axes) != sorted(set(axes)) or not all(0 <= i < len(shape) for i in axes):
        raise AxisError(
            f"the axes {axes} are not rising axes of the shape {shape}",
            fix="transpose the operand first, so that its axes keep their order",
        )
    for i, axis in enumerate(axes):
        if x.shape[i] != shape[axis] and x.shape[i] != 1:
            raise ShapeError(
                f"size {x.shape[i]} of axis {i} of {x} is neither 1 nor {shape[axis]}",
                fix=f"make axis {axis} of the shape {shape} equal to it",
            )
    return x.with_shape(shape)


@broadcast.reference
def broadcast_reference(x: np.ndarray, *, shape: tuple, axes: tuple[int, ...]) -> np.ndarray:
    new = [i for i in range(len(shape)) if i not in axes]
    return np.broadcast_to(np.expand_dims(x, new), shape)


def _broadcast_read(
    index: Sequence[Any], types: Sequence[Type], *, shape: tuple, axes: tuple[int, ...]
) -> Read:
    sizes = types[0].shape
    return Read(0, tuple(0 if sizes[i] == 1 else index[axis] for i, axis in enumerate(axes)))


broadcast.body(Move(_broadcast_read))


@broadcast.transpose
def broadcast_transpose(ct: Value, x: Value, *, shape: tuple, axes: tuple) -> list[Value]:
    stretched = [a for i, a in enumerate(axes) if x.shape[i] == 1 and shape[a] != 1]
    summed = [a for a in range(len(shape)) if a not in axes or a in stretched]
    return [reshape(OPS["reduce_sum"](ct, axes=summed), shape=x.shape)]


@broadcast.batch
def broadcast_batch(
    args: Sequence[Value], batched: Sequence[bool], *, shape: tuple, axes: tuple[int, ...]
) -> Value:
    (x,) = args
    return broadcast(x, shape=(x.shape[0], *shape), axes=(0, *later(axes)))


@broadcast.fold
def broadcast_fold(x: Value, *, shape: tuple[Size, ...], axes: tuple[int, ...]) -> Value | None:
    if x.shape == shape:
        return x
    if before := maker(x, "broadcast"):
        return broadcast(
            before.args[0], shape=shape, axes=tuple(axes[i] for i in before.attrs["axes"])
        )
    return uniform_fold(x, shape)


broadcast.samples((3,), shape=(2, 3), axes=(1,))
broadcast.samples((2, 1, 3), shape=(4, 2, 5, 3), axes=(1, 2, 3))
broadcast.samples([1.0, 2.0], shape=(2, 2), axes=(0,), expect=[[1.0, 1.0], [2.0, 2.0]])
