"""Rows of functions of one number: powers, exponentials, circles, rounding."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence

import mlx.core as mx

from ...ir.ops.error_function import NORMAL_MIDDLE, NORMAL_OUTER, NORMAL_TAIL
from ..erf_coefficients import AROUND_ONE, ERF_OF_ONE, FAR, MIDDLE, NEAR
from ..graph_table import Row
from .arithmetic import UNSIGNED_OF, is_negative, scalar
from .memory import FLOATS

# -- the error function, its complement and inverse: MLX lacks them, or digits ---------------------
#
# erf, erfc FreeBSD's s_erf.c (Sun Microsystems, 1993) erf_inv by the quantile of the normal
# distribution: Wichura, Algorithm AS 241 (1988)


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


# -- exponentials and circular functions, which MLX's processor has in few digits ------------------
#
# Its exp of float32 loses digits where |x| is large; exp, sin and cos of float64 have those of
# float32.


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


def wide(function: Callable[..., mx.array]) -> Callable[..., mx.array]:
    """A function that computes half-size floats in float32, rounded once."""

    def widened(*xs: mx.array) -> mx.array:
        if xs[0].dtype not in (mx.float16, mx.bfloat16):
            return function(*xs)
        return function(*(x.astype(mx.float32) for x in xs)).astype(xs[0].dtype)

    return widened


def cube_root(x: mx.array) -> mx.array:
    """The cube root: a power of the size, made exact by a step of Newton's."""
    size = mx.abs(x)
    is_plain = mx.logical_and(size > 0, mx.isfinite(x))
    safe = mx.where(is_plain, size, scalar(1, x))
    root = mx.power(safe, scalar(1 / 3, x))
    root = root - (root - safe / (root * root)) / scalar(3, x)
    return mx.where(is_plain, mx.where(is_negative(x), -root, root), x)


def power_of_two(x: mx.array) -> mx.array:
    """2 to the power of x."""
    return mx.power(scalar(2, x), x)


def logistic(x: mx.array) -> mx.array:
    """1 / (1 + exp(-x))."""
    return scalar(1, x) / (scalar(1, x) + exp(-x))


ROWS = {
    "sqrt": Row(mx.sqrt, FLOATS),
    "rsqrt": Row(wide(lambda x: scalar(1, x) / mx.sqrt(x)), FLOATS),
    "cbrt": Row(wide(cube_root), FLOATS),
    "exp": Row(wide(exp), FLOATS),
    "exp2": Row(wide(power_of_two), FLOATS),
    "expm1": Row(wide(mx.expm1), FLOATS),
    "log": Row(wide(mx.log), FLOATS),
    "log1p": Row(wide(mx.log1p), FLOATS),
    "logistic": Row(wide(logistic), FLOATS),
    "pow": Row(wide(mx.power), FLOATS),
    "sin": Row(wide(sin), FLOATS),
    "cos": Row(wide(cos), FLOATS),
    "tan": Row(wide(mx.tan), FLOATS),
    "asin": Row(wide(mx.arcsin), FLOATS),
    "acos": Row(wide(mx.arccos), FLOATS),
    "atan": Row(wide(mx.arctan), FLOATS),
    "atan2": Row(wide(mx.arctan2), FLOATS),
    "sinh": Row(wide(mx.sinh), FLOATS),
    "cosh": Row(wide(mx.cosh), FLOATS),
    "tanh": Row(wide(mx.tanh), FLOATS),
    "asinh": Row(wide(mx.arcsinh), FLOATS),
    "acosh": Row(wide(mx.arccosh), FLOATS),
    "atanh": Row(wide(mx.arctanh), FLOATS),
    "erf": Row(wide(erf), FLOATS),
    "erfc": Row(wide(erfc), FLOATS),
    "erf_inv": Row(wide(erf_inv), FLOATS),
    "floor": Row(mx.floor, FLOATS),
    "ceil": Row(mx.ceil, FLOATS),
    "round": Row(mx.round, FLOATS),
    "trunc": Row(mx.trunc, FLOATS),
}
