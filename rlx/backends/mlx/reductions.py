"""Rows of reductions, running combinations, order and normalization along axes."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence

import mlx.core as mx
import numpy as np

from ...ir.types import empty_result
from ..graph_table import Row, has_elements
from .arithmetic import scalar
from .memory import BOOL, COMPLEX, FLOATS, HALVES, INTEGERS, REAL, SINGLE, dtype_of, to_mlx

Reduce = Callable[..., mx.array]


def accumulated(x: mx.array) -> mx.array:
    """Half-size floats as float32: sums and products are rounded once."""
    return x.astype(mx.float32) if x.dtype in (mx.float16, mx.bfloat16) else x


def _reduction(function: Reduce, combine: str) -> Reduce:
    """A row that reduces along axes; MLX goes astray where there is nothing."""

    def reduce(x: mx.array, *, axes: Sequence[int]) -> mx.array:
        if not axes:
            return x
        if x.size:
            return function(x, axis=tuple(axes)).astype(x.dtype)
        shape = [n for i, n in enumerate(x.shape) if i not in axes]
        dtype = dtype_of(x)
        return mx.full(shape, to_mlx(np.asarray(empty_result(combine, dtype)).astype(dtype)))

    return reduce


def _rounded_once(function: Reduce) -> Reduce:
    return lambda x, *, axis: function(accumulated(x), axis=axis)


def _bitwise(of_bools: Reduce, combine: Reduce) -> Reduce:
    """Bits combined along axes: bools by MLX's own reduction, integers by halves."""

    def reduce(x: mx.array, *, axis: Sequence[int]) -> mx.array:
        if x.dtype == mx.bool_:
            return of_bools(x, axis=axis)
        rest = [i for i in range(x.ndim) if i not in axis]
        shape, size = [x.shape[i] for i in rest], math.prod(x.shape[i] for i in axis)
        line = mx.transpose(x, [*rest, *axis]).reshape([*shape, size])
        while size > 1:  # the middle one of an odd count is combined with itself
            half = (size + 1) // 2
            line, size = combine(line[..., :half], line[..., size - half :]), half
        return line[..., 0]

    return reduce


def _scan(function: Reduce) -> Reduce:
    """A running combination along an axis."""

    def scan(x: mx.array, *, axis: int, reverse: bool) -> mx.array:
        if not x.size:
            return x
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


NUMBERS = INTEGERS | FLOATS


# -- layers ---------------------------------------------------------------------------------------


def softmax(x: mx.array, *, axes: Sequence[int]) -> mx.array:
    """The softmax; half-size floats are summed in float32."""
    return mx.softmax(x, axis=tuple(axes), precise=True)


def layer_norm(x: mx.array, scale: mx.array, bias: mx.array, *, eps: float) -> mx.array:
    """The last axis normalized, times a scale, plus a bias."""
    return mx.fast.layer_norm(x, scale, bias, eps)


def rms_norm(x: mx.array, scale: mx.array, *, eps: float) -> mx.array:
    """The last axis over the root of its mean square, times a scale."""
    return mx.fast.rms_norm(x, scale, eps)


ROWS = {
    "reduce_sum": Row(_reduction(_rounded_once(mx.sum), "add"), NUMBERS | COMPLEX),
    "reduce_prod": Row(_reduction(_rounded_once(mx.prod), "mul"), NUMBERS | COMPLEX),
    "reduce_max": Row(_reduction(mx.max, "max"), NUMBERS),
    "reduce_min": Row(_reduction(mx.min, "min"), NUMBERS),
    "reduce_and": Row(_reduction(_bitwise(mx.all, mx.bitwise_and), "and"), BOOL | INTEGERS),
    "reduce_or": Row(_reduction(_bitwise(mx.any, mx.bitwise_or), "or"), BOOL | INTEGERS),
    "cumsum": Row(_scan(mx.cumsum), NUMBERS),
    "cumprod": Row(_scan(mx.cumprod), NUMBERS | COMPLEX),
    "cummax": Row(_scan(mx.cummax), NUMBERS),
    "cummin": Row(_scan(mx.cummin), NUMBERS),
    "sort": Row(sort, REAL, has_elements),
    "top_k": Row(top_k, REAL, has_elements),
    "layer_norm": Row(layer_norm, HALVES | SINGLE, has_elements),
    "rms_norm": Row(rms_norm, HALVES | SINGLE, has_elements),
    "softmax": Row(softmax, HALVES | SINGLE, has_elements),
}
