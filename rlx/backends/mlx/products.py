"""Rows of products summed over axes: matrix products, convolutions, transforms."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import mlx.core as mx
import numpy as np

from ...ir.types import Type
from ..graph_table import Row, has_elements
from .arithmetic import UNSIGNED_OF
from .memory import DOUBLE, FLOATS, FORMS, INTEGERS, SINGLE

Pairs = tuple[tuple[int, ...], tuple[int, ...]]
LIMB = 16  # bits of a limb: of two, 2**21 products sum up exactly in float64


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


ROWS = {
    "dot_general": Row(dot_general, FLOATS | INTEGERS, _multiplies),
    "conv_general_dilated": Row(conv_general_dilated, FLOATS - DOUBLE, _convolves),
    "fft": Row(fft, SINGLE | {"complex64"}, has_elements),
}
