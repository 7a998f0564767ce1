"""The Gumbel distribution of the least of many numbers."""

from __future__ import annotations

import math
from typing import Any

from ... import numpy as rnp
from ..logarithms import log1mexp
from ..operands import Tensor, floats


def logpdf(x: Tensor, loc: Tensor = 0, scale: Tensor = 1) -> Any:
    """The logarithm of the density of the left Gumbel distribution."""
    x, loc, scale = floats("gumbel_l.logpdf", x, loc, scale)
    z = (x - loc) / scale
    return rnp.where(scale > 0, z - rnp.exp(z) - rnp.log(scale), math.nan)


def pdf(x: Tensor, loc: Tensor = 0, scale: Tensor = 1) -> Any:
    """The density of the left Gumbel distribution."""
    return rnp.exp(logpdf(x, loc, scale))


def logcdf(x: Tensor, loc: Tensor = 0, scale: Tensor = 1) -> Any:
    """The logarithm of the chance of at most x of the left Gumbel distribution."""
    x, loc, scale = floats("gumbel_l.logcdf", x, loc, scale)
    return rnp.where(scale > 0, log1mexp(rnp.exp((x - loc) / scale)), math.nan)


def cdf(x: Tensor, loc: Tensor = 0, scale: Tensor = 1) -> Any:
    """The chance of at most x of the left Gumbel distribution."""
    return rnp.exp(logcdf(x, loc, scale))


def ppf(p: Tensor, loc: Tensor = 0, scale: Tensor = 1) -> Any:
    """The number that is exceeded with chance 1 - p of the left Gumbel distribution."""
    p, loc, scale = floats("gumbel_l.ppf", p, loc, scale)
    is_chance = (p > 0) & (p < 1)
    return rnp.where(is_chance, loc + scale * rnp.log(-rnp.log1p(-p)), math.nan)


def sf(x: Tensor, loc: Tensor = 0, scale: Tensor = 1) -> Any:
    """The chance of more than x of the left Gumbel distribution."""
    return rnp.exp(logsf(x, loc, scale))


def logsf(x: Tensor, loc: Tensor = 0, scale: Tensor = 1) -> Any:
    """The logarithm of the chance of more than x of the left Gumbel distribution."""
    x, loc, scale = floats("gumbel_l.logsf", x, loc, scale)
    return rnp.where(scale > 0, -rnp.exp((x - loc) / scale), math.nan)
