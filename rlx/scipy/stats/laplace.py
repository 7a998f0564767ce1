"""The Laplace distribution, exponential to both sides."""

from __future__ import annotations

from typing import Any

from ... import numpy as rnp
from ..operands import Tensor, floats


def logpdf(x: Tensor, loc: Tensor = 0, scale: Tensor = 1) -> Any:
    """The logarithm of the density of the Laplace distribution."""
    x, loc, scale = floats("laplace.logpdf", x, loc, scale)
    return -rnp.abs(x - loc) / scale - rnp.log(2 * scale)


def pdf(x: Tensor, loc: Tensor = 0, scale: Tensor = 1) -> Any:
    """The density of the Laplace distribution."""
    return rnp.exp(logpdf(x, loc, scale))


def cdf(x: Tensor, loc: Tensor = 0, scale: Tensor = 1) -> Any:
    """The chance of at most x of the Laplace distribution."""
    x, loc, scale = floats("laplace.cdf", x, loc, scale)
    z = (x - loc) / scale
    tail = 0.5 * rnp.exp(-rnp.abs(z))
    return rnp.where(z <= 0, tail, 1 - tail)
