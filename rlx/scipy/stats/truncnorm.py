"""The normal distribution cut off below a and above b, in units of `scale`."""

from __future__ import annotations

import math
from typing import Any

from ... import numpy as rnp
from ..logarithms import log1mexp
from ..operands import Tensor, floats
from ..special import log_ndtr, ndtr
from .norm import logpdf as normal_logpdf


def logpdf(x: Tensor, a: Tensor, b: Tensor, loc: Tensor = 0, scale: Tensor = 1) -> Any:
    """The logarithm of the density of the truncated normal distribution."""
    x, a, b, loc, scale = floats("truncnorm.logpdf", x, a, b, loc, scale)
    z = (x - loc) / scale
    result = normal_logpdf(x, loc, scale) - _log_mass(a, b)
    result = rnp.where((z < a) | (z > b), -math.inf, result)
    return rnp.where(a >= b, math.nan, result)


def pdf(x: Tensor, a: Tensor, b: Tensor, loc: Tensor = 0, scale: Tensor = 1) -> Any:
    """The density of the truncated normal distribution."""
    return rnp.exp(logpdf(x, a, b, loc, scale))


def logcdf(x: Tensor, a: Tensor, b: Tensor, loc: Tensor = 0, scale: Tensor = 1) -> Any:
    """The logarithm of the chance of at most x of the truncated normal distribution."""
    x, a, b, loc, scale = floats("truncnorm.logcdf", x, a, b, loc, scale)
    return _log_share((x - loc) / scale, a, b)


def cdf(x: Tensor, a: Tensor, b: Tensor, loc: Tensor = 0, scale: Tensor = 1) -> Any:
    """The chance of at most x of the truncated normal distribution."""
    return rnp.exp(logcdf(x, a, b, loc, scale))


def logsf(x: Tensor, a: Tensor, b: Tensor, loc: Tensor = 0, scale: Tensor = 1) -> Any:
    """The logarithm of the chance of more than x of the truncated normal distribution."""
    x, a, b, loc, scale = floats("truncnorm.logsf", x, a, b, loc, scale)
    return _log_share((loc - x) / scale, -b, -a)


def sf(x: Tensor, a: Tensor, b: Tensor, loc: Tensor = 0, scale: Tensor = 1) -> Any:
    """The chance of more than x of the truncated normal distribution."""
    return rnp.exp(logsf(x, a, b, loc, scale))


def _log_share(z: Any, a: Any, b: Any) -> Any:
    """The logarithm of the share of what lies between a and b that is up to z."""
    inside = rnp.clip(z, a, b)
    whole = _log_mass(a, b)
    below, above = _log_mass(a, inside) - whole, _log_mass(inside, b) - whole
    # near 1 the part above has the digits
    result = rnp.where(below > -0.1, rnp.log1p(-rnp.exp(rnp.minimum(above, -1e-3))), below)
    result = rnp.where(z >= b, 0.0, rnp.where(z <= a, -math.inf, result))
    return rnp.where((a >= b) | rnp.isnan(z), math.nan, result)


def _log_mass(a: Any, b: Any) -> Any:
    """The logarithm of how much of the normal distribution is from a to b."""
    is_right = a > 0
    is_central = (a <= 0) & (b > 0)
    low, high = rnp.where(is_right, -b, a), rnp.where(is_right, -a, b)
    most, least = log_ndtr(high), log_ndtr(low)
    tail = most + log1mexp(rnp.maximum(most - least, 0))
    central = rnp.log1p(-ndtr(a) - ndtr(-b))
    return rnp.where(is_central, central, tail)
