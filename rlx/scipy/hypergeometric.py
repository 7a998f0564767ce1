"""Gauss's hypergeometric function."""

from __future__ import annotations

import functools
import math
from collections.abc import Callable
from typing import Any

import numpy as np

from .. import numpy as rnp
from ..ir.config import config
from ..trace.apply import apply
from ..trace.promotion import broadcast_operands
from ..trace.scan import scan
from ..transforms.jit.jit import jit
from .operands import Tensor, floats

TERMS = 160  # of a series at 0, for arguments up to a half
STEP_TERMS = 64  # of a series at a place from which 1 is twice as far as the argument


def hyp2f1(a: Tensor, b: Tensor, c: Tensor, x: Tensor) -> Any:
    """Gauss's function, the sum of (a)_k * (b)_k / (c)_k * x ** k / k!.

    It is for moderate a, b and c. Above a half the sum is continued toward 1 along the differential
    equation, so that c - a - b may be any number. For x > 1 it is NaN, unless a or b ends the sum.
    """
    operands = broadcast_operands("hyp2f1", *floats("hyp2f1", a, b, c, x))
    return _compiled(config.device)(*operands)


@functools.cache
def _compiled(device: str | None) -> Callable[..., Any]:
    """The function compiled for a device, the default one."""
    return jit(_gauss)


def _gauss(a: Any, b: Any, c: Any, x: Any) -> Any:
    ends_b = (b <= 0) & (b == rnp.round(b))
    a, b = rnp.where(ends_b, b, a), rnp.where(ends_b, a, b)
    is_finite_sum = (a <= 0) & (a == rnp.round(a))
    is_negative = (x < 0) & ~is_finite_sum
    # https://dlmf.nist.gov/15.8.E1 takes the negative numbers to those up to 1
    y = rnp.where(is_negative, x / (x - 1), x)
    second = rnp.where(is_negative, c - b, b)
    is_one = (y == 1) & ~is_finite_sum
    inside = rnp.where((y > 1) | is_one, 0.0, y)
    value = _continued(a, second, c, rnp.where(is_finite_sum, 0.0, inside))
    value = rnp.where(is_finite_sum, _series(a, b, c, rnp.where(is_finite_sum, x, 0.0))[0], value)
    value = rnp.where(is_negative, (1 - rnp.where(is_negative, x, 0.0)) ** -a * value, value)
    value = rnp.where(is_one, _at_one(a, b, c), value)
    return rnp.where((y > 1) & ~is_finite_sum, math.nan, value)


def _at_one(a: Any, b: Any, c: Any) -> Any:
    """Gauss's sum, if it is one."""
    rest = c - a - b
    size, sign = 0.0, 1.0
    for part, way in ((c, 1), (rest, 1), (c - a, -1), (c - b, -1)):
        below = (part <= 0) & (part == rnp.floor(part))
        size = size + way * rnp.where(below, math.inf, apply("lgamma", rnp.where(below, 1.0, part)))
        # the gamma function is negative between -1 and 0, and so on
        sign = sign * rnp.where((part < 0) & (rnp.floor(part) % 2 != 0), -1.0, 1.0)
    return rnp.where(rest > 0, sign * rnp.exp(size), math.inf)


def _series(a: Any, b: Any, c: Any, x: Any) -> tuple[Any, Any]:
    """The sum and its derivative."""

    def step(carry: Any, k: Any) -> Any:
        term, total, slope = carry
        ratio = (a + k) * (b + k) / ((c + k) * (k + 1))
        slope = slope + term * ratio * (k + 1)
        term = term * ratio * x
        return (term, total + term, slope), None

    one = rnp.ones_like(x)
    (_, total, slope), _ = scan(step, (one, one, 0 * x), np.arange(TERMS).astype(x.dtype))
    return total, slope


def _continued(a: Any, b: Any, c: Any, x: Any) -> Any:
    """The function at x from 0 to 1, from the series at a half or below on."""
    start = rnp.minimum(x, 0.5)
    value, slope = _series(a, b, c, start)

    def step(carry: Any, _: Any) -> Any:
        place, value, slope = carry
        following = rnp.minimum(x, (1 + place) / 2)
        value, slope = _moved(a, b, c, place, following - place, value, slope)
        return (following, value, slope), None

    count = 2 + int(-math.log2(float(rnp.finfo(x.dtype).eps)))
    (_, value, _), _ = scan(step, (start, value, slope), length=count)
    return value


def _moved(a: Any, b: Any, c: Any, z: Any, by: Any, value: Any, slope: Any) -> tuple[Any, Any]:
    """The value and slope at z + by, by Taylor's series of the differential equation's solution.

    Its terms, not its coefficients, are carried along: those overflow near 1.
    """
    is_still = by == 0
    z, h = rnp.where(is_still, 0.5, z), rnp.where(is_still, 0.25, by)
    middle, unit = c - (a + b + 1) * z, h / (z * (1 - z))

    def step(carry: Any, n: Any) -> Any:
        before, here, total, rise = carry
        after = (n + a) * (n + b) * before * h - ((1 - 2 * z) * n + middle) * (n + 1) * here
        after = after * unit / ((n + 2) * (n + 1))
        return (here, after, total + after, rise + (n + 2) * after), None

    first = slope * h
    places = np.arange(STEP_TERMS).astype(z.dtype)
    (_, _, total, rise), _ = scan(step, (value, first, value + first, first), places)
    return rnp.where(is_still, value, total), rnp.where(is_still, slope, rise / h)
