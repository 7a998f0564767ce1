"""The normal distribution."""

from __future__ import annotations

import math
from typing import Any

from ... import numpy as rnp
from ..operands import Tensor, floats
from ..special import log_ndtr, ndtr, ndtri


def logpdf(x: Tensor, loc: Tensor = 0, scale: Tensor = 1) -> Any:
    """The logarithm of the density of the normal distribution."""
    x, loc, scale = floats("norm.logpdf", x, loc, scale)
    return -0.5 * (rnp.log(2 * math.pi * scale * scale) + rnp.square((x - loc) / scale))


def pdf(x: Tensor, loc: Tensor = 0, scale: Tensor = 1) -> Any:
    """The density of the normal distribution."""
    return rnp.exp(logpdf(x, loc, scale))


def cdf(x: Tensor, loc: Tensor = 0, scale: Tensor = 1) -> Any:
    """The chance of at most x of the normal distribution."""
    x, loc, scale = floats("norm.cdf", x, loc, scale)
    return ndtr((x - loc) / scale)


def logcdf(x: Tensor, loc: Tensor = 0, scale: Tensor = 1) -> Any:
    """The logarithm of the chance of at most x of the normal distribution."""
    x, loc, scale = floats("norm.logcdf", x, loc, scale)
    return log_ndtr((x - loc) / scale)


def sf(x: Tensor, loc: Tensor = 0, scale: Tensor = 1) -> Any:
    """The chance of more than x of the normal distribution."""
    x, loc, scale = floats("norm.sf", x, loc, scale)
    return ndtr((loc - x) / scale)


def logsf(x: Tensor, loc: Tensor = 0, scale: Tensor = 1) -> Any:
    """The logarithm of the chance of more than x of the normal distribution."""
    x, loc, scale = floats("norm.logsf", x, loc, scale)
    return log_ndtr((loc - x) / scale)


def ppf(q: Tensor, loc: Tensor = 0, scale: Tensor = 1) -> Any:
    """The number that is exceeded with chance 1 - q of the normal distribution."""
    q, loc, scale = floats("norm.ppf", q, loc, scale)
    return ndtri(q) * scale + loc


def isf(q: Tensor, loc: Tensor = 0, scale: Tensor = 1) -> Any:
    """The number that is exceeded with chance q of the normal distribution."""
    q, loc, scale = floats("norm.isf", q, loc, scale)
    return loc - ndtri(q) * scale
