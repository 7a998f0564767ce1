"""The logistic distribution."""

from __future__ import annotations

from typing import Any

from ... import numpy as rnp
from ..operands import Tensor, floats
from ..special import expit, logit


def logpdf(x: Tensor, loc: Tensor = 0, scale: Tensor = 1) -> Any:
    """The logarithm of the density of the logistic distribution."""
    x, loc, scale = floats("logistic.logpdf", x, loc, scale)
    half = (x - loc) / scale / 2
    return -2 * rnp.logaddexp(half, -half) - rnp.log(scale)


def pdf(x: Tensor, loc: Tensor = 0, scale: Tensor = 1) -> Any:
    """The density of the logistic distribution."""
    return rnp.exp(logpdf(x, loc, scale))


def cdf(x: Tensor, loc: Tensor = 0, scale: Tensor = 1) -> Any:
    """The chance of at most x of the logistic distribution."""
    x, loc, scale = floats("logistic.cdf", x, loc, scale)
    return expit((x - loc) / scale)


def sf(x: Tensor, loc: Tensor = 0, scale: Tensor = 1) -> Any:
    """The chance of more than x of the logistic distribution."""
    x, loc, scale = floats("logistic.sf", x, loc, scale)
    return expit((loc - x) / scale)


def ppf(x: Tensor, loc: Tensor = 0, scale: Tensor = 1) -> Any:
    """The number that is exceeded with chance 1 - x of the logistic distribution."""
    x, loc, scale = floats("logistic.ppf", x, loc, scale)
    return loc + scale * logit(x)


def isf(x: Tensor, loc: Tensor = 0, scale: Tensor = 1) -> Any:
    """The number that is exceeded with chance x of the logistic distribution."""
    x, loc, scale = floats("logistic.isf", x, loc, scale)
    return loc - scale * logit(x)
