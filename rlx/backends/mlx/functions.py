"""Rows of functions of one number: powers, exponentials, circles, rounding."""

from __future__ import annotations

from collections.abc import Callable

import mlx.core as mx

from ..graph_table import Row
from .arithmetic import is_negative, scalar
from .error_function import erf, erf_inv, erfc
from .exponential import cos, exp, sin
from .kinds import FLOATS


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
