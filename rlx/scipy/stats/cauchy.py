"""The Cauchy distribution."""

from __future__ import annotations

import math
from typing import Any

from ... import numpy as rnp
from ..operands import Tensor, floats


def logpdf(x: Tensor, loc: Tensor = 0, scale: Tensor = 1) -> Any:
    """The logarithm of the density of the Cauchy distribution."""
    x, loc, scale = floats("cauchy.logpdf", x, loc, scale)
    return -rnp.log(math.pi * scale) - rnp.log1p(rnp.square((x - loc) / scale))


def pdf(x: Tensor, loc: Tensor = 0, scale: Tensor = 1) -> Any:
    """The density of the Cauchy distribution."""
    return rnp.exp(logpdf(x, loc, scale))


def cdf(x: Tensor, loc: Tensor = 0, scale: Tensor = 1) -> Any:
    """The chance of at most x of the Cauchy distribution."""
    x, loc, scale = floats("cauchy.cdf", x, loc, scale)
    return 0.5 + rnp.arctan((x - loc) / scale) / math.pi


def logcdf(x: Tensor, loc: Tensor = 0, scale: Tensor = 1) -> Any:
    """The logarithm of the chance of at most x of the Cauchy distribution."""
    return rnp.log(cdf(x, loc, scale))


def sf(x: Tensor, loc: Tensor = 0, scale: Tensor = 1) -> Any:
    """The chance of more than x of the Cauchy distribution."""
    x, loc, scale = floats("cauchy.sf", x, loc, scale)
    return 0.5 + rnp.arctan((loc - x) / scale) / math.pi


def logsf(x: Tensor, loc: Tensor = 0, scale: Tensor = 1) -> Any:
    """The logarithm of the chance of more than x of the Cauchy distribution."""
    return rnp.log(sf(x, loc, scale))


def ppf(q: Tensor, loc: Tensor = 0, scale: Tensor = 1) -> Any:
    """The number that is exceeded with chance 1 - q of the Cauchy distribution."""
    q, loc, scale = floats("cauchy.ppf", q, loc, scale)
    return loc + scale * rnp.tan(math.pi * q - math.pi / 2)


def isf(q: Tensor, loc: Tensor = 0, scale: Tensor = 1) -> Any:
    """The number that is exceeded with chance q of the Cauchy distribution."""
    q, loc, scale = floats("cauchy.isf", q, loc, scale)
    return loc + scale * rnp.tan(math.pi / 2 - math.pi * q)
