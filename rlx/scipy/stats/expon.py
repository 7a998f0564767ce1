"""The exponential distribution."""

from __future__ import annotations

import math
from typing import Any

from ... import numpy as rnp
from ..operands import Tensor, floats


def logpdf(x: Tensor, loc: Tensor = 0, scale: Tensor = 1) -> Any:
    """The logarithm of the density of the exponential distribution."""
    x, loc, scale = floats("expon.logpdf", x, loc, scale)
    return rnp.where(x < loc, -math.inf, (loc - x) / scale - rnp.log(scale))


def pdf(x: Tensor, loc: Tensor = 0, scale: Tensor = 1) -> Any:
    """The density of the exponential distribution."""
    return rnp.exp(logpdf(x, loc, scale))


def cdf(x: Tensor, loc: Tensor = 0, scale: Tensor = 1) -> Any:
    """The chance of at most x of the exponential distribution."""
    x, loc, scale = floats("expon.cdf", x, loc, scale)
    return -rnp.expm1(rnp.minimum((loc - x) / scale, 0))


def logcdf(x: Tensor, loc: Tensor = 0, scale: Tensor = 1) -> Any:
    """The logarithm of the chance of at most x of the exponential distribution."""
    return rnp.log(cdf(x, loc, scale))


def sf(x: Tensor, loc: Tensor = 0, scale: Tensor = 1) -> Any:
    """The chance of more than x of the exponential distribution."""
    return rnp.exp(logsf(x, loc, scale))


def logsf(x: Tensor, loc: Tensor = 0, scale: Tensor = 1) -> Any:
    """The logarithm of the chance of more than x of the exponential distribution."""
    x, loc, scale = floats("expon.logsf", x, loc, scale)
    return rnp.minimum((loc - x) / scale, 0)


def ppf(q: Tensor, loc: Tensor = 0, scale: Tensor = 1) -> Any:
    """The number that is exceeded with chance 1 - q of the exponential distribution."""
    q, loc, scale = floats("expon.ppf", q, loc, scale)
    is_chance = (q >= 0) & (q <= 1)
    return rnp.where(is_chance, loc - scale * rnp.log1p(-q), math.nan)
