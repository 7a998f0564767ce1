"""The error function, its complement and inverse: MLX lacks them, or digits.

erf, erfc   FreeBSD's s_erf.c (Sun Microsystems, 1993)
erf_inv     by the quantile of the normal distribution: Wichura, Algorithm AS 241 (1988)
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import mlx.core as mx

from ...ir.ops.error_function import NORMAL_MIDDLE, NORMAL_OUTER, NORMAL_TAIL
from ..error_quotients import AROUND_ONE, ERF_OF_ONE, FAR, MIDDLE, NEAR
from .arithmetic import UNSIGNED_OF, is_negative, scalar
from .exponential import exp

LARGEST = {4: 10.5, 8: 28.0}  # by the bytes of a number: erfc of more is 0
CUT_OFF = {4: 0x1FFF, 8: 0xFFFFFFFF}  # low bits; the square of the others is exact
Quotient = tuple[Sequence[float], Sequence[float]]


def erf(x: mx.array) -> mx.array:
    """The error function."""
    size, near, around, tail = _pieces(x)
    one = scalar(1, x)
    far = mx.where(size < 1.25, scalar(ERF_OF_ONE, x) + around, one - tail)
    result = mx.where(size < 0.84375, size + size * near, far)
    result = mx.where(is_negative(x), -result, result)
    return mx.where(x == x, result, x)


def erfc(x: mx.array) -> mx.array:
    """One minus the error function, exact where that is near 1."""
    size, near, around, tail = _pieces(x)
    one, half = scalar(1, x), scalar(0.5, x)
    result = mx.where(size < 1.25, scalar(1 - ERF_OF_ONE, x) - around, tail)
    result = mx.where(is_negative(x), scalar(2, x) - result, result)
    # from 1/4 on a part of the sum is exact
    low, high = one - (x + x * near), half - (x - half + x * near)
    result = mx.where(size < 0.84375, mx.where(x < 0.25, low, high), result)
    return mx.where(x == x, result, x)


def _pieces(x: mx.array) -> tuple[mx.array, mx.array, mx.array, mx.array]:
    """The size, and what s_erf.c computes near 0, around 1 and from 1.25 on."""
    size = mx.minimum(mx.abs(x), scalar(LARGEST[x.itemsize], x))
    around = _quotient(size - scalar(1, x), AROUND_ONE)
    far = mx.maximum(size, scalar(1, x))
    inverse = scalar(1, x) / (far * far)
    ratio = mx.where(size < 1 / 0.35, _quotient(inverse, MIDDLE), _quotient(inverse, FAR))
    word = UNSIGNED_OF[x.itemsize]
    kept = mx.bitwise_invert(mx.array(CUT_OFF[x.itemsize], word))
    short = mx.bitwise_and(far.view(word), kept).view(x.dtype)
    rest = (short - far) * (short + far) + ratio
    tail = exp(-short * short - scalar(0.5625, x)) * exp(rest) / far
    return size, _quotient(size * size, NEAR), around, tail


def _quotient(x: mx.array, parts: Quotient) -> mx.array:
    return polynomial(x, parts[0]) / polynomial(x, parts[1])


def polynomial(x: mx.array, factors: Sequence[float]) -> mx.array:
    """A polynomial, lowest power first."""
    total = scalar(factors[-1], x)
    for factor in factors[-2::-1]:
        total = total * x + scalar(factor, x)
    return total


def erf_inv(x: mx.array) -> mx.array:
    """The inverse of erf."""
    size = mx.abs(x)
    depth = mx.sqrt(-mx.log((scalar(1, x) - size) / scalar(2, x)))
    middle = size / scalar(2, x) * _quotient(scalar(0.180625, x) - x * x / scalar(4, x),
                                             NORMAL_MIDDLE)  # fmt: skip
    outer = _quotient(depth - scalar(1.6, x), NORMAL_OUTER)
    tail = _quotient(depth - scalar(5, x), NORMAL_TAIL)
    y = mx.where(size < 0.85, middle, mx.where(depth < 5, outer, tail))
    y = y * scalar(1 / math.sqrt(2), x)
    edge = mx.where(size == 1, scalar(math.inf, x), scalar(math.nan, x))
    y = mx.where(size < 1, y, edge)
    return mx.where(is_negative(x), -y, y)
