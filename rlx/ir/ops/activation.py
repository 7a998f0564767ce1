"""Activation functions: relu, gelu, silu, softplus."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np

from ..graph import Value
from ..op import ALIGNED, Op, define
from ..types import Type
from .arithmetic import abs, add, mul, neg, square, sub
from .compare import gt, max, ne, select
from .constant import like
from .convert import in_float32
from .error_function import erfc, erfc_reference
from .exponential import exp, log1p, logistic
from .families import ORDERED, check_kind, check_same


def _activation(
    made: Op,
    reference: Callable[..., Any],
    meaning: Callable[..., Value],
    slope: Callable[..., Value],
) -> None:
    """Attach the rules all activations share, which get float32 or wider numbers.

    `slope` gives the derivative.
    """
    push = in_float32(lambda x, t, **attrs: mul(t, slope(x, **attrs)))
    made.reference(in_float32(reference))
    made.expand(in_float32(meaning))
    made.jvp([lambda t, out, x, **attrs: push(x, t, **attrs)])
    made.batch(ALIGNED)


@define
def relu(x: Type) -> Type:
    """The number, or 0 if it is negative; the derivative at 0 is 0."""
    check_kind(x, ORDERED)
    return x


relu.reference(lambda x: np.maximum(x, x.dtype.type(0)))
relu.expand(lambda x: max(x, like(x, 0)))
relu.jvp([lambda t, out, x: select(gt(x, like(x, 0)), t, like(t, 0))])
relu.batch(ALIGNED)
relu.samples((2, 3))
relu.samples([-1.0, 2.0, np.nan], expect=[0.0, 2.0, np.nan])


@define
def silu(x: Type) -> Type:
    """The number times its logistic, x / (1 + exp(-x)); also called swish."""
    check_kind(x, ["float"])
    return x


def _silu_reference(x: np.ndarray) -> np.ndarray:
    return x / (1 + np.exp(-x))


def _silu_slope(x: Value) -> Value:
    share = logistic(x)
    return mul(share, add(mul(x, sub(like(x, 1), share)), 1))


_activation(silu, _silu_reference, lambda x: mul(x, logistic(x)), _silu_slope)
silu.samples((2, 3))
silu.samples([0.0, math.log(3.0)], expect=[0.0, 0.75 * math.log(3.0)])


@define
def softplus(x: Type) -> Type:
    """log(1 + exp(x)), a smooth relu."""
    check_kind(x, ["float"])
    return x


def _softplus_reference(x: np.ndarray) -> np.ndarray:
    return np.logaddexp(x, x.dtype.type(0))


def _softplus_meaning(x: Value) -> Value:
    return add(max(x, like(x, 0)), log1p(exp(neg(abs(x)))))


_activation(softplus, _softplus_reference, _softplus_meaning, logistic)
softplus.samples((2, 3))
softplus.samples([0.0, -1e3, 1e3], expect=[math.log(2.0), 0.0, 1e3])


@define
def logaddexp(x: Type, y: Type) -> Type:
    """log(exp(x) + exp(y)) without overflow."""
    check_kind(x, ["float"])
    return check_same(x, y)


logaddexp.reference(in_float32(np.logaddexp))


@logaddexp.expand
@in_float32
def logaddexp_expand(x: Value, y: Value) -> Value:
    tail = log1p(exp(neg(abs(_gap(x, y)))))
    return add(max(x, y), tail)


def _gap(x: Value, y: Value) -> Value:
    """x - y, and 0 for equal infinities."""
    gap = sub(x, y)
    return select(ne(gap, gap), like(gap, 0), gap)


@in_float32
def _logaddexp_tangent(x: Value, y: Value, t: Value) -> Value:
    return mul(t, logistic(_gap(x, y)))


logaddexp.jvp(
    [
        lambda t, out, x, y: _logaddexp_tangent(x, y, t),
        lambda t, out, x, y: _logaddexp_tangent(y, x, t),
    ]
)
logaddexp.batch(ALIGNED)
logaddexp.samples((2, 3), (2, 3))
logaddexp.samples([0.0, 1e3, -np.inf], [0.0, -1e3, -np.inf], expect=[math.log(2.0), 1e3, -np.inf])

# the tanh form 0.5 * x * (1 + tanh(u)) is x * logistic(2 * u), which does not cancel for x < 0;
# 2 * u = LINEAR * x + CUBIC * x ** 3
LINEAR = 2 * math.sqrt(2 / math.pi)
CUBIC = LINEAR * 0.044715


@define
def gelu(x: Type, *, approximate: bool) -> Type:
    """The number times the normal distribution function at it.

    `approximate` is the tanh form.
    """
    check_kind(x, ["float"])
    return x


def _gelu_reference(x: np.ndarray, *, approximate: bool) -> np.ndarray:
    if approximate:
        return 0.5 * x * (1 + np.tanh(math.sqrt(2 / math.pi) * (x + 0.044715 * x**3)))
    return 0.5 * x * erfc_reference(-x * math.sqrt(0.5))


def _gelu_meaning(x: Value, *, approximate: bool) -> Value:
    return mul(x, _gelu_share(x, approximate))


def _gelu_share(x: Value, approximate: bool) -> Value:
    if approximate:
        return logistic(mul(x, add(mul(square(x), CUBIC), LINEAR)))
    return mul(erfc(mul(x, -math.sqrt(0.5))), 0.5)


def _gelu_slope(x: Value, *, approximate: bool) -> Value:
    share, squared = _gelu_share(x, approximate), square(x)
    if approximate:
        inner = add(mul(squared, 3 * CUBIC), LINEAR)
        density = mul(mul(share, sub(like(x, 1), share)), inner)
    else:
        density = mul(exp(mul(squared, -0.5)), 1 / math.sqrt(2 * math.pi))
    return add(share, mul(x, density))


_activation(gelu, _gelu_reference, _gelu_meaning, _gelu_slope)
gelu.samples((2, 3), approximate=True)
gelu.samples((2, 3), approximate=False)
# phi(1) = 0.841344746068543 from a table; the tanh form differs in the fourth digit
gelu.samples([0.0, 1.0, -1.0], approximate=False, expect=[0.0, 0.84134474607, -0.15865525393])
gelu.samples([0.0, 1.0, -1.0], approximate=True, expect=[0.0, 0.841191990, -0.158808010])
