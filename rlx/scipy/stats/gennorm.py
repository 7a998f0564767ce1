"""The generalized normal distribution: exp(-|x| ** beta), normalized."""

from __future__ import annotations

from typing import Any

from ... import numpy as rnp
from ..operands import Tensor, floats
from ..special import gammainc, gammaln


def logpdf(x: Tensor, beta: Tensor) -> Any:
    """The logarithm of the density of the generalized normal distribution."""
    x, beta = floats("gennorm.logpdf", x, beta)
    return rnp.log(0.5 * beta) - gammaln(1 / beta) - rnp.abs(x) ** beta


def pdf(x: Tensor, beta: Tensor) -> Any:
    """The density of the generalized normal distribution."""
    return rnp.exp(logpdf(x, beta))


def cdf(x: Tensor, beta: Tensor) -> Any:
    """The chance of at most x of the generalized normal distribution."""
    x, beta = floats("gennorm.cdf", x, beta)
    return 0.5 + 0.5 * rnp.sign(x) * gammainc(1 / beta, rnp.abs(x) ** beta)
