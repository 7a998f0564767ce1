"""Circular and hyperbolic functions with their inverses."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from ..graph import Value
from ..types import is_complex
from .arithmetic import add, div, mul, neg, square, sub
from .exponential import or_zero, rsqrt
from .families import pointwise
from .known import like

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
