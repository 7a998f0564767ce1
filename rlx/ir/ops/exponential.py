"""Powers, roots, exponentials and logarithms."""

from __future__ import annotations

import math
from typing import Any

import ml_dtypes
import numpy as np

from ..graph import OPS, Value
from ..op import Op, Parts
from ..types import is_complex, is_float
from .arithmetic import abs, abs_parts, div, div_parts, is_finite, mul, mul_parts, neg, sub, trunc
from .compare import bit_and, bit_not, bit_or, eq, ge, gt, lt, max, min, ne, select
from .constant import is_all, like
from .convert import convert, in_float32
from .families import pointwise

MOST_PRODUCTS = 100  # the whole powers of complex numbers below are products


def or_zero(slope: Value, size: Value) -> Value:
    """The slope, and 0 where `size` is 0.

    Where a root is 0 its slope is infinite. Gradients shall be finite where values are, so there
    it counts as 0, as that of `abs` does.
    """
    return select(eq(size, like(size, 0)), like(slope, 0), slope)


def with_sign(size: Value, x: Value) -> Value:
    """`size`, negated where x is negative; -0 is."""
    is_negative = bit_or(lt(x, like(x, 0)), lt(div(like(x, 1), x), like(x, 0)))
    return select(is_negative, neg(size), size)


sqrt = pointwise(
    "sqrt",
    np.sqrt,
    "sqrt",
    doc="Square root; NaN for negative real numbers. The derivative at 0 is 0.",
    jvp=[lambda t, out, x: mul(t, or_zero(div(like(out, 0.5), out), out))],
    samples=[dict(args=((2, 3),), low=0.1), dict(args=([4.0, 0.25],), expect=[2.0, 0.5])],
)


@sqrt.parts
def sqrt_parts(x: Parts) -> Parts:
    # the root of the larger part's half and the length's; the other part is |im| over twice that
    info = ml_dtypes.finfo(x.re.dtype)
    size = max(abs(x.re), abs(x.im))
    is_large = gt(size, like(size, float(info.max) / 4))
    is_small = lt(size, like(size, float(info.tiny) * 4**12))
    one = like(size, 1)
    scale = select(is_large, like(size, 0.25**2), select(is_small, like(size, 4.0**12), one))
    back = select(is_large, like(size, 4.0), select(is_small, like(size, 0.5**12), one))
    re, im = x.re * scale, x.im * scale
    root = sqrt((abs(re) + abs_parts(Parts(re, im))) * 0.5)
    other = select(eq(size, like(size, 0)), size, div(abs(im), root * 2)) * back
    root = root * back
    infinite = like(size, np.inf)
    is_right, is_high = ge(x.re, like(x.re, 0)), eq(abs(x.im), infinite)
    is_far = eq(abs(x.re), infinite)
    beside = select(ne(x.im, x.im), x.im, like(x.im, 0))  # of an infinite part
    other = select(is_far, beside, other)
    re = select(is_high, infinite, select(is_right, root, other))
    im = with_sign(select(is_high, infinite, select(is_right, other, root)), x.im)
    return Parts(re, im)


rsqrt = pointwise(
    "rsqrt",
    lambda x: (1 / np.sqrt(x)).astype(x.dtype),
    "rsqrt",
    doc="One divided by the square root.",
    jvp=[lambda t, out, x: mul(t, mul(div(out, x), -0.5))],
    samples=[dict(args=((2, 3),), low=0.1), dict(args=([4.0, 0.25],), expect=[0.5, 2.0])],
)


@rsqrt.parts
def rsqrt_parts(x: Parts) -> Parts:
    one = like(x.re, 1)
    return div_parts(Parts(one, like(x.re, 0)), sqrt_parts(x))


cbrt = pointwise(
    "cbrt",
    np.cbrt,
    "cbrt",
    doc="Cube root, negative for negative numbers. The derivative at 0 is 0.",
    kinds=("float",),
    jvp=[lambda t, out, x: mul(t, or_zero(div(like(out, 1 / 3), mul(out, out)), out))],
    samples=[dict(args=((2, 3),), low=0.1), dict(args=([8.0, -27.0],), expect=[2.0, -3.0])],
)
exp = pointwise(
    "exp",
    np.exp,
    "exp",
    doc="e to the power of x.",
    jvp=[lambda t, out, x: mul(t, out)],
    samples=[dict(args=((2, 3),)), dict(args=([0.0, 1.0],), expect=[1.0, math.e])],
)


def _rotated(x: Parts, power: Op, most: float) -> Parts:
    """A power of the real part, turned by the imaginary part; `most` is where it overflows."""
    # where it may overflow it is multiplied in two steps
    is_large = gt(x.re, like(x.re, most - 1))
    length = power(select(is_large, x.re * 0.5, x.re))
    rest = select(is_large, length, like(length, 1))
    re, im = (length * part * rest for part in (OPS["cos"](x.im), OPS["sin"](x.im)))
    has_angle = is_finite(x.im)
    vanishes, grows = (eq(x.re, like(x.re, number)) for number in (-np.inf, np.inf))
    without = select(vanishes, like(re, 0), select(grows, x.re, re))
    re = select(has_angle, re, without)
    im = select(bit_and(vanishes, bit_not(has_angle)), like(im, 0), im)
    return Parts(re, select(eq(x.im, like(im, 0)), x.im, im))


@exp.parts
def exp_parts(x: Parts) -> Parts:
    return _rotated(x, exp, math.log(ml_dtypes.finfo(x.re.dtype).max))


exp2 = pointwise(
    "exp2",
    np.exp2,
    "exp2",
    doc="2 to the power of x.",
    jvp=[lambda t, out, x: mul(t, mul(out, math.log(2)))],
    samples=[dict(args=((2, 3),)), dict(args=([0.0, 3.0, -1.0],), expect=[1.0, 8.0, 0.5])],
)


@exp2.parts
def exp2_parts(x: Parts) -> Parts:
    most = math.log2(ml_dtypes.finfo(x.re.dtype).max)
    return _rotated(Parts(x.re, x.im * math.log(2)), exp2, most)


def _expm1_reference(x: Any) -> np.ndarray:
    result = np.expm1(x)
    if is_complex(x.dtype):
        # NumPy makes NaN of infinity times zero; the real part of nothing is +0
        result = np.where(np.isinf(x.real), np.exp(x) - 1, result)
        result.imag[x.imag == 0] = x.imag[x.imag == 0]
        result.real += 0
    return result


expm1 = pointwise(
    "expm1",
    _expm1_reference,
    "expm1",
    doc="exp(x) - 1, exact for small x.",
    jvp=[lambda t, out, x: mul(t, out + 1)],
    samples=[dict(args=((2, 3),)), dict(args=([0.0, 1e-20],), expect=[0.0, 1e-20])],
)
expm1.ufuncs(float=np.expm1)


@expm1.parts
def expm1_parts(x: Parts) -> Parts:
    half = OPS["sin"](x.im * 0.5)
    near = expm1(x.re) * OPS["cos"](x.im) - 2 * (half * half)  # exp(re) * cos(im) - 1
    power = exp_parts(x)
    is_near = lt(abs(x.re), like(x.re, 1))
    return Parts(select(is_near, near, power.re - 1) + 0.0, power.im)


log = pointwise(
    "log",
    np.log,
    "log",
    doc="Natural logarithm; -inf at 0, NaN for negative real numbers.",
    jvp=[lambda t, out, x: div(t, x)],
    samples=[dict(args=((2, 3),), low=0.1), dict(args=([1.0, 0.0],), expect=[0.0, -np.inf])],
)


@log.parts
def log_parts(x: Parts) -> Parts:
    a, b = abs(x.re), abs(x.im)
    large, small = max(a, b), min(a, b)
    ratio = div(small, large)
    far = log(large) + log1p(ratio * ratio) * 0.5
    near = log1p((large - 1) * (large + 1) + small * small) * 0.5  # log would cancel
    is_near = bit_and(gt(large, like(large, 0.5)), lt(large, like(large, 1.5)))
    length = select(is_near, near, far)
    length = select(eq(large, like(large, 0)), like(large, -np.inf), length)
    is_infinite = bit_or(eq(a, like(a, np.inf)), eq(b, like(b, np.inf)))
    length = select(is_infinite, like(large, np.inf), length)
    return Parts(length, OPS["atan2"](x.im, x.re))


log1p = pointwise(
    "log1p",
    np.log1p,
    "log1p",
    doc="log(1 + x), exact for small x.",
    jvp=[lambda t, out, x: div(t, x + 1)],
    samples=[dict(args=((2, 3),), low=-0.5), dict(args=([0.0, 1e-20],), expect=[0.0, 1e-20])],
)


@log1p.parts
def log1p_parts(x: Parts) -> Parts:
    far = log_parts(Parts(x.re + 1, x.im))
    near = log1p(x.re * (x.re + 2) + x.im * x.im) * 0.5  # the 1 would hide a small x
    is_near = lt(max(abs(x.re), abs(x.im)), like(x.re, 0.5))
    return Parts(select(is_near, near, far.re), far.im)


logistic = pointwise(
    "logistic",
    in_float32(lambda x: 1 / (1 + np.exp(-x))),
    "logistic",
    doc="1 / (1 + exp(-x)), the sigmoid.",
    jvp=[lambda t, out, x: mul(t, mul(out, 1 - out))],
    samples=[dict(args=((2, 3),)), dict(args=([0.0, -1000.0, 1000.0],), expect=[0.5, 0.0, 1.0])],
)


@logistic.parts
def logistic_parts(x: Parts) -> Parts:
    power = exp_parts(Parts(neg(x.re), neg(x.im)))
    one = like(x.re, 1)
    return div_parts(Parts(one, like(x.re, 0)), Parts(power.re + 1, power.im))


exp.fold(lambda x: like(x, 1) if is_all(x, 0) else None)
log.fold(lambda x: like(x, 0) if is_all(x, 1) else None)


def _pow_jvp_x(t: Value, out: Value, x: Value, y: Value) -> Value:
    """y * x ** (y - 1), and 0 where that is infinite though x ** y is not."""
    slope = mul(y, pow(x, sub(y, like(y, 1))))
    # 0 times infinity is NaN; what is finite stays, since along y it has a slope of its own
    is_flat = bit_and(eq(y, like(y, 0)), ne(slope, slope))
    if is_float(y.dtype):
        is_root = bit_and(lt(y, like(y, 1)), gt(y, like(y, 0)))
        is_flat = bit_or(is_flat, bit_and(eq(x, like(x, 0)), is_root))
    return mul(t, select(is_flat, like(y, 0), slope))


def _pow_jvp_y(t: Value, out: Value, x: Value, y: Value) -> Value:
    """log(x) * x ** y, and 0 where x is 0."""
    positive = select(eq(x, like(x, 0)), like(x, 1), x)
    return mul(t, mul(log(positive), out))


def _pow_reference(x: np.ndarray, y: np.ndarray) -> np.ndarray:
    # where one exponent of 0.5 serves all, NumPy takes the root, which differs at -0 and -inf;
    # a copy has an exponent for each
    return np.power(np.atleast_1d(x), np.array(y, ndmin=1)).reshape(x.shape)


pow = pointwise(
    "pow",
    _pow_reference,
    "pow",
    doc="x to the power of y; x ** 0 is 1. For integer powers see `integer_pow`.\n\n"
    "The derivative of a root (0 < y < 1) at 0 is 0.",
    operands=("x", "y"),
    jvp=[_pow_jvp_x, _pow_jvp_y],
    samples=[
        dict(args=((2, 3), (2, 3)), low=0.1),
        dict(args=([2.0, 9.0, 0.0, -2.0], [3.0, 0.5, 0.0, 2.0]), expect=[8.0, 3.0, 1.0, 4.0]),
    ],
)


@pow.parts
def pow_parts(x: Parts, y: Parts) -> Parts:
    # as NumPy: small whole powers are products
    power = exp_parts(_infinite_product(y, log_parts(x)))
    zero = like(y.re, 0)
    is_real = eq(y.im, zero)
    is_whole = bit_and(eq(trunc(y.re), y.re), lt(abs(y.re), like(y.re, MOST_PRODUCTS)))
    is_product = bit_and(is_real, is_whole)
    product = _whole_power(x, select(is_product, y.re, zero))
    re, im = (select(is_product, *each) for each in zip(product[:2], power[:2], strict=True))
    # of zero there is no logarithm
    is_zero = bit_and(eq(x.re, zero), eq(x.im, zero))
    of_zero = select(gt(y.re, zero), zero, like(zero, np.nan))
    re, im = select(is_zero, of_zero, re), select(is_zero, of_zero, im)
    is_one = bit_and(is_real, eq(y.re, zero))
    return Parts(select(is_one, like(re, 1), re), select(is_one, zero, im))


def _infinite_product(x: Parts, y: Parts) -> Parts:
    """The product, infinite where a number is, whatever the angles (C99, annex G.5.1)."""
    re, im, _ = mul_parts(x, y)
    is_lost = bit_and(ne(re, re), ne(im, im))
    far = mul_parts(*map(_direction, (x, y)))
    is_infinite = bit_and(is_lost, bit_or(*map(_is_infinite, (x, y))))
    many = like(re, np.inf)
    return Parts(select(is_infinite, far.re * many, re), select(is_infinite, far.im * many, im))


def _is_infinite(x: Parts) -> Value:
    return bit_or(*(eq(abs(part), like(part, np.inf)) for part in x[:2]))


def _direction(x: Parts) -> Parts:
    """Ones for infinite parts and zeros beside them; zeros for NaNs."""
    is_infinite = _is_infinite(x)
    parts = []
    for part in x[:2]:
        number = select(ne(part, part), like(part, 0), part)
        one = with_sign(like(part, 1), part)
        is_wide = eq(abs(part), like(part, np.inf))
        parts.append(select(is_infinite, select(is_wide, one, like(part, 0)), number))
    return Parts(*parts)


def _whole_power(x: Parts, exponent: Value) -> Parts:
    """The product of as many numbers, below `MOST_PRODUCTS`; of a negative one its reciprocal."""
    count = convert(abs(exponent), dtype=np.dtype(np.int32))
    one = Parts(like(x.re, 1), like(x.re, 0))
    made, is_begun = one, lt(count, like(count, 0))
    for place in range((MOST_PRODUCTS - 1).bit_length()):
        is_factor = ne(bit_and(count, like(count, 1 << place)), like(count, 0))
        longer = mul_parts(made, x)
        # a product by 1 would spoil infinities
        longer = (select(is_begun, *each) for each in zip(longer[:2], x[:2], strict=True))
        made = Parts(*(select(is_factor, *e) for e in zip(longer, made[:2], strict=True)))
        is_begun = bit_or(is_begun, is_factor)
        x = mul_parts(x, x)
    inverse = div_parts(one, made)
    is_negative = lt(exponent, like(exponent, 0))
    return Parts(select(is_negative, inverse.re, made.re), select(is_negative, inverse.im, made.im))


@pow.fold
def pow_fold(x: Value, y: Value) -> Value | None:
    if is_all(y, 0):
        return like(x, 1)
    if is_all(y, 1):
        return x
    if is_all(y, 2):
        return mul(x, x)
    return div(like(x, 1), x) if is_all(y, -1) else None
