"""Circular and hyperbolic functions with their inverses."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import ml_dtypes
import numpy as np

from ..graph import Value
from ..op import Parts
from ..types import is_complex
from .arithmetic import abs, abs_parts, add, div, is_finite, mul, neg, square, sub
from .compare import bit_and, bit_not, bit_or, eq, gt, le, lt, max, min, ne, select
from .constant import like
from .exponential import exp, log, log1p, log_parts, or_zero, rsqrt, sqrt, with_sign
from .families import pointwise

FAR = 22.0  # beyond it sinh and cosh are half of exp, even in doubles

sin = pointwise(
    "sin",
    np.sin,
    "sin",
    doc="Sine.",
    jvp=[lambda t, out, x: mul(t, cos(x))],
    samples=[dict(args=((2, 3),)), dict(args=([0.0, math.pi / 2],), expect=[0.0, 1.0])],
)
cos = pointwise(
    "cos",
    np.cos,
    "cos",
    doc="Cosine.",
    jvp=[lambda t, out, x: neg(mul(t, sin(x)))],
    samples=[dict(args=((2, 3),)), dict(args=([0.0, math.pi],), expect=[1.0, -1.0])],
)
tan = pointwise(
    "tan",
    np.tan,
    "tan",
    doc="Tangent.",
    jvp=[lambda t, out, x: mul(t, square(out) + 1)],
    samples=[
        dict(args=((2, 3),), low=-1.2, high=1.2),
        dict(args=([0.0, math.pi / 4],), expect=[0.0, 1.0]),
    ],
)


def _finite_rsqrt(x: Value) -> Value:
    """1 / sqrt(x), and 0 at 0: a slope that is finite where the value is."""
    return or_zero(rsqrt(x), x)


asin = pointwise(
    "asin",
    np.arcsin,
    "asin",
    doc="Angle in -pi/2..pi/2 of this sine; NaN for real numbers outside of -1..1.",
    jvp=[lambda t, out, x: mul(t, _finite_rsqrt(1 - square(x)))],
    samples=[
        dict(args=((2, 3),), low=-0.9, high=0.9),
        dict(args=([0.0, 1.0],), expect=[0.0, math.pi / 2]),
    ],
)
acos = pointwise(
    "acos",
    np.arccos,
    "acos",
    doc="Angle in 0..pi of this cosine; NaN for real numbers outside of -1..1.",
    jvp=[lambda t, out, x: neg(mul(t, _finite_rsqrt(1 - square(x))))],
    samples=[
        dict(args=((2, 3),), low=-0.9, high=0.9),
        dict(args=([1.0, -1.0],), expect=[0.0, math.pi]),
    ],
)
atan = pointwise(
    "atan",
    np.arctan,
    "atan",
    doc="Angle in -pi/2..pi/2 of this tangent.",
    jvp=[lambda t, out, x: div(t, square(x) + 1)],
    samples=[dict(args=((2, 3),)), dict(args=([0.0, 1.0],), expect=[0.0, math.pi / 4])],
)


def _share(x: Value, y: Value) -> Value:
    """x / (x ** 2 + y ** 2), and 0 at the origin."""
    size = add(square(x), square(y))
    return or_zero(div(x, size), size)


atan2 = pointwise(
    "atan2",
    np.arctan2,
    "atan2",
    doc="Angle in -pi..pi of the point with height y and abscissa x.",
    operands=("y", "x"),
    kinds=("float",),
    jvp=[
        lambda t, out, y, x: mul(t, _share(x, y)),
        lambda t, out, y, x: neg(mul(t, _share(y, x))),
    ],
    samples=[
        dict(args=((2, 3), (2, 3)), low=0.3),
        dict(args=([1.0, 0.0], [0.0, -1.0]), expect=[math.pi / 2, math.pi]),
    ],
)
sinh = pointwise(
    "sinh",
    np.sinh,
    "sinh",
    doc="Hyperbolic sine.",
    jvp=[lambda t, out, x: mul(t, cosh(x))],
    samples=[dict(args=((2, 3),)), dict(args=([0.0, math.log(2)],), expect=[0.0, 0.75])],
)
cosh = pointwise(
    "cosh",
    np.cosh,
    "cosh",
    doc="Hyperbolic cosine.",
    jvp=[lambda t, out, x: mul(t, sinh(x))],
    samples=[dict(args=((2, 3),)), dict(args=([0.0, math.log(2)],), expect=[1.0, 1.25])],
)


def _tanh_reference(x: Any) -> np.ndarray:
    result: Any = np.asarray(np.tanh(x))
    if is_complex(x.dtype):
        # at infinity the zero has the sign of the imaginary part, not that of the sine
        far = np.isinf(x.real) & np.isfinite(x.imag)
        result.imag[far] = np.copysign(0, x.imag[far])
    return result


tanh = pointwise(
    "tanh",
    _tanh_reference,
    "tanh",
    doc="Hyperbolic tangent.",
    jvp=[lambda t, out, x: mul(t, 1 - mul(out, out))],
    samples=[dict(args=((2, 3),)), dict(args=([0.0, math.log(2)],), expect=[0.0, 0.6])],
)
tanh.ufuncs(float=np.tanh)


def _turned(x: Parts) -> Parts:
    """i times a number."""
    return Parts(neg(x.im), x.re)


def _turned_back(x: Parts) -> Parts:
    """-i * x."""
    return Parts(x.im, neg(x.re))


def _grown(x: Value, a: Value, function: Callable[[Value], Value]) -> Value:
    """x times the sinh or cosh of a; where that may overflow, in two steps."""
    half = exp(abs(a) * 0.5)
    sign = select(lt(function(a), like(a, 0)), like(a, -0.5), like(a, 0.5))
    is_large = gt(abs(a), like(a, FAR))
    return select(is_large, x * (half * sign) * half, x * function(a))


@sinh.parts
def sinh_parts(x: Parts) -> Parts:
    re, im = _grown(cos(x.im), x.re, sinh), _grown(sin(x.im), x.re, cosh)
    has_angle = is_finite(x.im)
    is_sized = bit_and(is_finite(x.re), ne(x.re, like(x.re, 0)))
    is_nan = ne(x.re, x.re)
    re = select(bit_or(has_angle, bit_or(is_sized, is_nan)), re, x.re)
    return Parts(re, select(eq(x.im, like(im, 0)), x.im, im))


@cosh.parts
def cosh_parts(x: Parts) -> Parts:
    re, im = _grown(cos(x.im), x.re, cosh), _grown(sin(x.im), x.re, sinh)
    has_angle, is_infinite = is_finite(x.im), eq(abs(x.re), like(re, np.inf))
    re = select(bit_and(is_infinite, bit_not(has_angle)), abs(x.re), re)
    im = select(bit_and(eq(x.re, like(im, 0)), bit_not(has_angle)), like(im, 0), im)
    return Parts(re, select(eq(x.im, like(im, 0)), with_sign(x.im, x.re), im))


@tanh.parts
def tanh_parts(x: Parts) -> Parts:
    # W. Kahan, Branch cuts for complex elementary functions, 1987
    slope, size = tan(x.im), sinh(x.re)
    wide = 1 + slope * slope
    below = 1 + wide * (size * size)
    re, im = div(wide * sqrt(1 + size * size) * size, below), div(slope, below)
    is_far = gt(abs(x.re), like(re, FAR))
    shrunk = exp(neg(abs(x.re)))
    re = select(is_far, with_sign(like(re, 1), x.re), re)
    im = select(is_far, 4 * (sin(x.im) * shrunk) * (cos(x.im) * shrunk), im)
    is_infinite = eq(abs(x.re), like(re, np.inf))
    im = select(is_infinite, with_sign(like(im, 0), x.im), im)
    # an angle without bound leaves only what does not depend on it
    is_known = bit_or(is_finite(x.im), bit_or(is_infinite, eq(x.re, like(re, 0))))
    re = select(is_known, select(eq(x.re, like(re, 0)), x.re, re), like(re, np.nan))
    return Parts(re, select(eq(x.im, like(im, 0)), x.im, im))


sin.parts(lambda x: _turned_back(sinh_parts(_turned(x))))
cos.parts(lambda x: cosh_parts(_turned(x)))
tan.parts(lambda x: _turned_back(tanh_parts(_turned(x))))


asinh = pointwise(
    "asinh",
    np.arcsinh,
    "asinh",
    doc="The number of this hyperbolic sine.",
    jvp=[lambda t, out, x: mul(t, rsqrt(square(x) + 1))],
    samples=[dict(args=((2, 3),)), dict(args=([0.0, 0.75],), expect=[0.0, math.log(2)])],
)
acosh = pointwise(
    "acosh",
    np.arccosh,
    "acosh",
    doc="The number from 0 of this hyperbolic cosine; NaN for real numbers below 1.",
    # two roots: (x - 1)(x + 1) overflows where x * x does
    jvp=[lambda t, out, x: mul(t, mul(_finite_rsqrt(x - 1), _finite_rsqrt(x + 1)))],
    samples=[
        dict(args=((2, 3),), low=1.2, high=3.0),
        dict(args=([1.0, 1.25],), expect=[0.0, math.log(2)]),
    ],
)
atanh = pointwise(
    "atanh",
    np.arctanh,
    "atanh",
    doc="The number of this hyperbolic tangent; NaN for real numbers outside of -1..1.",
    jvp=[lambda t, out, x: div(t, sub(like(x, 1), square(x)))],
    samples=[
        dict(args=((2, 3),), low=-0.9, high=0.9),
        dict(args=([0.0, 0.6],), expect=[0.0, math.log(2)]),
    ],
)


def _arcs(x: Parts) -> tuple[Value, Value]:
    """The abscissa of the angle `asin`, whose height is the real part, and how far it is out.

    T. E. Hull, T. F. Fairgrieve, P. T. P. Tang, Implementing the complex arcsine and arccosine
    functions using exception handling, 1997: of a = (|z + 1| + |z - 1|) / 2 these are
    sqrt(a * a - re * re) and log(a + sqrt(a * a - 1)), with differences that do not cancel.
    """
    re, im = abs(x.re), abs(x.im)
    one, zero = like(re, 1), like(re, 0)
    right, left = abs_parts(Parts(re + 1, im)), abs_parts(Parts(re - 1, im))
    a = (right + left) * 0.5
    is_inside = le(re, one)
    below, beside = right + (re + 1), left + abs(re - 1)
    known = select(eq(beside, zero), one, beside)
    # a - re and a - 1: inside of the unit strip the sum and the quotient, beyond it otherwise
    added = (im * div(im, below) + beside) * 0.5
    share = (div(im, below) + div(im, known)) * 0.5
    first = sqrt(select(is_inside, a + re, a + 1) * added)
    second = sqrt(im) * sqrt(select(is_inside, a + 1, a + re) * share)
    root = select(is_inside, first, second)
    size = log1p(select(is_inside, im * share + second, added + first))
    limit = like(re, math.sqrt(ml_dtypes.finfo(re.dtype).max) / 8)
    is_far = bit_or(gt(re, limit), gt(im, limit))
    return select(is_far, im, root), select(is_far, log_parts(x).re + math.log(2), size)


@asin.parts
def asin_parts(x: Parts) -> Parts:
    root, size = _arcs(x)
    re = select(eq(x.re, like(root, 0)), x.re, atan2(x.re, root))  # even beside NaN
    return Parts(re, with_sign(size, x.im))


@acos.parts
def acos_parts(x: Parts) -> Parts:
    root, size = _arcs(x)
    re = select(eq(x.re, like(root, 0)), like(root, math.pi / 2), atan2(root, x.re))
    return Parts(re, neg(with_sign(size, x.im)))


asinh.parts(lambda x: _turned_back(asin_parts(_turned(x))))


@acosh.parts
def acosh_parts(x: Parts) -> Parts:
    angle = acos_parts(x)
    return Parts(abs(angle.im), with_sign(angle.re, x.im))


@atanh.parts
def atanh_parts(x: Parts) -> Parts:
    re, im = abs(x.re), abs(x.im)
    info, one, infinite = ml_dtypes.finfo(re.dtype), like(re, 1), like(re, np.inf)
    rest = 1 - re
    size = log1p(div(4 * re, rest * rest + im * im)) * 0.25
    angle = atan2(2 * im, rest * (1 + re) - im * im) * 0.5
    # squares vanish beside the pole, and overflow far out
    is_close = bit_and(eq(re, one), lt(im, like(im, math.sqrt(info.tiny) / float(info.eps))))
    size = select(is_close, (math.log(2) - log(im)) * 0.5, size)
    is_infinite = bit_or(eq(re, infinite), eq(im, infinite))
    large, small = max(re, im), min(re, im)
    is_far = bit_or(gt(large, like(large, math.sqrt(info.max) / 8)), is_infinite)
    ratio = div(small, large)
    shrunk = div(div(div(re, large), large), 1 + ratio * ratio)
    size = select(is_infinite, like(re, 0), select(is_far, shrunk, size))
    angle = select(is_far, select(ne(im, im), im, like(im, math.pi / 2)), angle)
    size = select(eq(re, like(re, 0)), re, size)  # even beside NaN
    return Parts(with_sign(size, x.re), with_sign(angle, x.im))


atan.parts(lambda x: _turned_back(atanh_parts(_turned(x))))
