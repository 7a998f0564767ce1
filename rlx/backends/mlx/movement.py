"""Rows of movement: constants, shapes, cuts, windows."""

from __future__ import annotations

from collections.abc import Sequence

import mlx.core as mx
import numpy as np

from ..graph_table import Row
from .kinds import REAL, STORED
from .memory import STORED as FORMS
from .memory import to_mlx


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
