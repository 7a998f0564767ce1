"""Rows of sums along axes: products, convolutions, reductions, order, norms."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

import mlx.core as mx
import numpy as np

from ...ir.types import Type, empty_result
from ..graph_table import Row, has_elements
from .arithmetic import UNSIGNED_OF, scalar
from .memory import (
    BOOL,
    COMPLEX,
    DOUBLE,
    FLOATS,
    FORMS,
    HALVES,
    INTEGERS,
    REAL,
    SINGLE,
    dtype_of,
    to_mlx,
)

Pairs = tuple[tuple[int, ...], tuple[int, ...]]
LIMB = 16  # bits of a limb: of two, 2**21 products sum up exactly in float64
Reduce = Callable[..., mx.array]
NUMBERS = INTEGERS | FLOATS


def dot_general(
    x: mx.array, y: mx.array, *, contract: Pairs, batch: Pairs, dtype: np.dtype | None
) -> mx.array:
    """The product of two arrays, summed over pairs of axes."""
    form = x.dtype if dtype is None else FORMS[dtype]
    left, right = _as_matrices(x, contract[0], batch[0]), _as_matrices(y, contract[1], batch[1])
    shape = [x.shape[i] for i in batch[0]]
    shape += [x.shape[i] for i in _free(x.ndim, contract[0], batch[0])]
    shape += [y.shape[i] for i in _free(y.ndim, contract[1], batch[1])]
    if 0 in (x.size, y.size):
        return mx.zeros(shape, form)
    if mx.issubdtype(form, mx.integer):
        product = _whole_product(left.astype(form), right.astype(form))
    else:
        wide = mx.float32 if form in (mx.float16, mx.bfloat16) else form
        product = mx.matmul(left.astype(wide), mx.swapaxes(right.astype(wide), 1, 2)).astype(form)
    return product.reshape(shape)


def _free(rank: int, *used: Sequence[int]) -> list[int]:
    return [i for i in range(rank) if not any(i in axes for axes in used)]


def _as_matrices(x: mx.array, depth: Sequence[int], batch: Sequence[int]) -> mx.array:
    """The array as (batch, free, depth)."""
    free = _free(x.ndim, depth, batch)
    groups, rows, inner = (math.prod(x.shape[i] for i in axes) for axes in (batch, free, depth))
    return mx.transpose(x, [*batch, *free, *depth]).reshape([groups, rows, inner])


def _whole_product(x: mx.array, y: mx.array) -> mx.array:
    """The product of integer matrices, the second one transposed; it wraps around.

    MLX multiplies no integers. Their limbs are multiplied in float64, where the sums are exact, and
    added up modulo the size of a word.
    """
    word = UNSIGNED_OF[x.itemsize]
    limbs = range(max(8 * x.itemsize // LIMB, 1))
    parts = [[_limb(a, i) for i in limbs] for a in (x, y)]
    total = mx.zeros((x.shape[0], x.shape[1], y.shape[1]), mx.uint64)
    for i in limbs:
        for j in limbs[: len(limbs) - i]:
            product = mx.matmul(parts[0][i], mx.swapaxes(parts[1][j], 1, 2))
            shift = mx.array(LIMB * (i + j), mx.uint64)
            total = total + mx.left_shift(product.astype(mx.uint64), shift)
    return total.astype(word).view(x.dtype)


def _limb(x: mx.array, number: int) -> mx.array:
    """Some bits of integers, as float64."""
    bits = x.view(UNSIGNED_OF[x.itemsize]).astype(mx.uint64)
    bits = mx.right_shift(bits, mx.array(LIMB * number, mx.uint64))
    return mx.bitwise_and(bits, mx.array(2**LIMB - 1, mx.uint64)).astype(mx.float64)


def _multiplies(
    types: Sequence[Type], *, contract: Pairs, batch: Pairs, dtype: np.dtype | None
) -> bool:
    """Whether sums of limbs are exact."""
    return math.prod(types[0].shape[i] for i in contract[0]) <= 2**21


# -- convolution ----------------------------------------------------------------------------------


def conv_general_dilated(
    x: mx.array,
    kernel: mx.array,
    *,
    window_strides: Sequence[int],
    padding: Sequence[tuple[int, int]],
    lhs_dilation: Sequence[int],
    rhs_dilation: Sequence[int],
    feature_group_count: int,
    batch_group_count: int,
    dtype: np.dtype | None,
) -> mx.array:
    """Sums of products of a kernel with windows of x: MLX has the features last."""
    form = x.dtype if dtype is None else FORMS[dtype]
    wide = mx.float32 if form in (mx.float16, mx.bfloat16) else form
    made = mx.conv_general(
        mx.moveaxis(x.astype(wide), 1, -1),
        mx.moveaxis(kernel.astype(wide), 1, -1),
        stride=list(window_strides),
        padding=([p[0] for p in padding], [p[1] for p in padding]),
        kernel_dilation=list(rhs_dilation),
        input_dilation=list(lhs_dilation),
        groups=feature_group_count,
    )
    return mx.moveaxis(made, -1, 1).astype(form)


def _convolves(
    types: Sequence[Type],
    *,
    padding: Sequence[tuple[int, int]],
    lhs_dilation: Sequence[int],
    rhs_dilation: Sequence[int],
    feature_group_count: int,
    batch_group_count: int,
    **attrs: Any,
) -> bool:
    """Whether MLX has such a convolution; others are sums of products."""
    x, kernel = types
    if x.size == 0 or kernel.size == 0 or batch_group_count > 1 or min(map(min, padding)) < 0:
        return False
    for i, size in enumerate(kernel.shape[2:]):
        length = (x.shape[i + 2] - 1) * lhs_dilation[i] + 1 + sum(padding[i])
        if (size - 1) * rhs_dilation[i] + 1 > length:
            return False
    return x.rank == 3 or x.rank == 4 or (x.rank == 5 and feature_group_count == 1)


# -- Fourier --------------------------------------------------------------------------------------


def fft(x: mx.array, *, kind: str, lengths: Sequence[int]) -> mx.array:
    """A discrete Fourier transform over the last axes."""
    axes = tuple(range(-len(lengths), 0))
    if kind == "irfft":
        return mx.fft.irfftn(x, s=tuple(lengths), axes=axes)
    return {"fft": mx.fft.fftn, "ifft": mx.fft.ifftn, "rfft": mx.fft.rfftn}[kind](x, axes=axes)


# -- reductions, running combinations, order ------------------------------------------------------


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
    "sum_in_turn": Row(_reduction(_rounded_once(mx.sum), "add"), NUMBERS | COMPLEX),
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
    "dot_general": Row(dot_general, FLOATS | INTEGERS, _multiplies),
    "conv_general_dilated": Row(conv_general_dilated, FLOATS - DOUBLE, _convolves),
    "fft": Row(fft, SINGLE | {"complex64"}, has_elements),
}
