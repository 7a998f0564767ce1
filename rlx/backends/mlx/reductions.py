"""Rows of reductions, running combinations, and order along an axis."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence

import mlx.core as mx
import numpy as np

from ...ir.types import Type, highest, lowest
from ..graph_table import Row
from .arithmetic import scalar
from .kinds import BOOL, COMPLEX, FLOATS, INTEGERS, REAL
from .memory import dtype_of

Reduce = Callable[..., mx.array]


def accumulated(x: mx.array) -> mx.array:
    """Half-size floats as float32: sums and products are rounded once."""
    return x.astype(mx.float32) if x.dtype in (mx.float16, mx.bfloat16) else x


def _reduction(function: Reduce) -> Reduce:
    """A sum or product; of small integers MLX gives wide ones, which wrap alike."""

    def reduce(x: mx.array, *, axes: Sequence[int]) -> mx.array:
        if not axes:
            return x
        return function(accumulated(x), axis=tuple(axes)).astype(x.dtype)

    return reduce


def _extreme(function: Reduce, of_none: Callable[[np.dtype], float]) -> Reduce:
    """The greatest or least along axes; MLX has none of nothing."""

    def reduce(x: mx.array, *, axes: Sequence[int]) -> mx.array:
        if not axes:
            return x
        if all(x.shape[i] for i in axes):
            return function(x, axis=tuple(axes))
        shape = [n for i, n in enumerate(x.shape) if i not in axes]
        return mx.full(shape, scalar(of_none(dtype_of(x)), x))

    return reduce


def _bitwise(of_bools: Reduce, combine: Reduce, neutral: int) -> Reduce:
    """Bits combined along axes: bools by MLX's own reduction, integers by halves."""

    def reduce(x: mx.array, *, axes: Sequence[int]) -> mx.array:
        if not axes:
            return x
        if x.dtype == mx.bool_:
            return of_bools(x, axis=tuple(axes))
        rest = [i for i in range(x.ndim) if i not in axes]
        line = mx.transpose(x, [*rest, *axes])
        shape, size = [x.shape[i] for i in rest], math.prod(x.shape[i] for i in axes)
        line = line.reshape([*shape, size])
        while size > 1:
            half = (size + 1) // 2
            more = mx.full([*shape, 2 * half - size], mx.array(neutral).astype(x.dtype))
            line = mx.concatenate([line, more], axis=-1)
            line, size = combine(line[..., :half], line[..., half:]), half
        return line[..., 0]

    return reduce


def _is_full(types: Sequence[Type], *, axes: Sequence[int]) -> bool:
    """Whether there is something along the axes: MLX has no greatest of nothing."""
    return all(types[0].shape[i] for i in axes)


def _scan(function: Reduce) -> Reduce:
    """A running combination along an axis."""

    def scan(x: mx.array, *, axis: int, reverse: bool) -> mx.array:
        return function(accumulated(x), axis=axis, reverse=reverse).astype(x.dtype)

    return scan


# -- order --------------------------------------------------------------------------------------


def sort(*xs: mx.array, axis: int, n_keys: int) -> list[mx.array]:
    """Lines in order along an axis: by the last key first, as ties keep their order."""
    order = None
    for key in reversed(xs[:n_keys]):
        moved = key if order is None else mx.take_along_axis(key, order, axis)
        step = mx.argsort(_rank(moved), axis=axis)
        order = step if order is None else mx.take_along_axis(order, step, axis)
    assert order is not None
    return [mx.take_along_axis(x, order, axis) for x in xs]


def _rank(x: mx.array) -> mx.array:
    """What sorts like x: one zero."""
    return x + scalar(0, x) if mx.issubdtype(x.dtype, mx.floating) else x


def top_k(x: mx.array, *, k: int) -> tuple[mx.array, mx.array]:
    """The k greatest along the last axis, the first of equal ones first."""
    last = x.shape[-1] - 1
    order = mx.argsort(_rank(x[..., ::-1]), axis=-1)[..., last + 1 - k :]
    places = mx.array(last, mx.int32) - order[..., ::-1].astype(mx.int32)
    return mx.take_along_axis(x, places, -1), places


def _has_lines(types: Sequence[Type], **attrs: int) -> bool:
    return types[0].size > 0


NUMBERS = INTEGERS | FLOATS
ROWS = {
    "reduce_sum": Row(_reduction(mx.sum), NUMBERS | COMPLEX),
    "reduce_prod": Row(_reduction(mx.prod), NUMBERS | COMPLEX),
    "reduce_max": Row(_extreme(mx.max, lowest), NUMBERS),
    "reduce_min": Row(_extreme(mx.min, highest), NUMBERS),
    "reduce_and": Row(_bitwise(mx.all, mx.bitwise_and, -1), BOOL | INTEGERS, _is_full),
    "reduce_or": Row(_bitwise(mx.any, mx.bitwise_or, 0), BOOL | INTEGERS, _is_full),
    "cumsum": Row(_scan(mx.cumsum), NUMBERS),
    "cumprod": Row(_scan(mx.cumprod), NUMBERS | COMPLEX),
    "cummax": Row(_scan(mx.cummax), NUMBERS),
    "cummin": Row(_scan(mx.cummin), NUMBERS),
    "sort": Row(sort, REAL, _has_lines),
    "top_k": Row(top_k, REAL, _has_lines),
}
