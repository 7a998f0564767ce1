"""Exponentials and circular functions, which MLX's processor has in few digits.

Its exp of float32 loses digits where |x| is large; exp, sin and cos of float64 have those of
float32.
"""

from __future__ import annotations

import math

import mlx.core as mx

from .arithmetic import is_negative, scalar

# log(2) in two parts: the first times a small integer is exact
LOG2 = {
    4: (0.693359375, -2.12194440e-4),
    8: (6.93147180369123816490e-01, 1.90821492927058770002e-10),
}
FARTHEST = {4: 110.0, 8: 760.0}  # exp is 0 or infinite beyond


def exp(x: mx.array) -> mx.array:
    """e to the power of x: a power of two times that of a rest, which is small."""
    high, low = LOG2[x.itemsize]
    end = scalar(FARTHEST[x.itemsize], x)
    inside = mx.maximum(mx.minimum(x, end), -end)
    count = mx.round(inside * scalar(1 / math.log(2), x))
    rest = inside - count * scalar(high, x) - count * scalar(low, x)
    power = mx.expm1(rest) + scalar(1, x)
    half = mx.floor(count * scalar(0.5, x))  # in two steps: the whole power may overflow
    return power * _power_of_two(half) * _power_of_two(count - half)


def _power_of_two(count: mx.array) -> mx.array:
    """2 to the power of whole numbers, whose exponents are those of normal numbers."""
    if count.itemsize == 4:
        bits = mx.left_shift(count.astype(mx.int32) + 127, mx.array(23, mx.int32))
    else:
        bits = mx.left_shift(count.astype(mx.int64) + 1023, mx.array(52, mx.int64))
    return mx.where(count == count, bits.view(count.dtype), count)


def sin(x: mx.array) -> mx.array:
    """The sine: of doubles the tangent times the cosine."""
    if x.itemsize == 4:
        return mx.where(x == 0, x, mx.sin(x))  # that of -0 is -0
    return mx.tan(x) * cos(x)


def cos(x: mx.array) -> mx.array:
    """The cosine by the tangent, exact beside its poles too."""
    if x.itemsize == 4:
        return mx.cos(x)
    slope, half = mx.tan(x), mx.tan(x * scalar(0.5, x))
    size = scalar(1, x) / mx.sqrt(scalar(1, x) + slope * slope)
    is_left = mx.where(mx.abs(slope) < 1, mx.abs(half) > 1, is_negative(slope) != is_negative(half))
    return mx.where(is_left, -size, size)
