"""The Gumbel distribution of the greatest of many numbers."""

from __future__ import annotations

import math
from typing import Any

from ... import numpy as rnp
from ..logarithms import log1mexp
from ..operands import Tensor, floats


def logpdf(x: Tensor, loc: Tensor = 0, scale: Tensor = 1) -> Any:
    """The logarithm of the density of the right Gumbel distribution."""
    x, loc, scale = floats("gumbel_r.logpdf", x, loc, scale)
    z = (x - loc) / scale
    return rnp.where(scale > 0, -rnp.log(scale) - z - rnp.exp(-z), math.nan)


def pdf(x: Tensor, loc: Tensor = 0, scale: Tensor = 1) -> Any:
    """The density of the right Gumbel distribution."""
    return rnp.exp(logpdf(x, loc, scale))


def logcdf(x: Tensor, loc: Tensor = 0, scale: Tensor = 1) -> Any:
    """The logarithm of the chance of at most x of the right Gumbel distribution."""
    x, loc, scale = floats("gumbel_r.logcdf", x, loc, scale)
    return rnp.where(scale > 0, -rnp.exp((loc - x) / scale), math.nan)


def cdf(x: Tensor, loc: Tensor = 0, scale: Tensor = 1) -> Any:
    """The chance of at most x of the right Gumbel distribution."""
    return rnp.exp(logcdf(x, loc, scale))


def ppf(p: Tensor, loc: Tensor = 0, scale: Tensor = 1) -> Any:
    """The number that is exceeded with chance 1 - p of the right Gumbel distribution."""
    p, loc, scale = floats("gumbel_r.ppf", p, loc, scale)
    is_chance = (p > 0) & (p < 1)
    return rnp.where(is_chance, loc - scale * rnp.log(-rnp.log(p)), math.nan)


def sf(x: Tensor, loc: Tensor = 0, scale: Tensor = 1) -> Any:
    """The chance of more than x of the right Gumbel distribution."""
    x, loc, scale = floats("gumbel_r.sf", x, loc, scale)
    return rnp.where(scale > 0, -rnp.expm1(-rnp.exp((loc - x) / scale)), math.nan)


def logsf(x: Tensor, loc: Tensor = 0, scale: Tensor = 1) -> Any:
    """The logarithm of the chance of more than x of the right Gumbel distribution."""
    x, loc, scale = floats("gumbel_r.logsf", x, loc, scale)
    return rnp.where(scale > 0, log1mexp(rnp.exp((loc - x) / scale)), math.nan)
