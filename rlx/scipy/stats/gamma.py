"""The gamma distribution."""

from __future__ import annotations

import math
from typing import Any

from ... import numpy as rnp
from ..operands import Tensor, floats
from ..special import gammainc, gammaincc, gammaln, xlogy


def logpdf(x: Tensor, a: Tensor, loc: Tensor = 0, scale: Tensor = 1) -> Any:
    """The logarithm of the density of the gamma distribution."""
    x, a, loc, scale = floats("gamma.logpdf", x, a, loc, scale)
    is_inside = x >= loc
    y = rnp.where(is_inside, (x - loc) / scale, 1.0)
    result = xlogy(a - 1, y) - y - gammaln(a) - rnp.log(scale)
    return rnp.where(is_inside, result, -math.inf)


def pdf(x: Tensor, a: Tensor, loc: Tensor = 0, scale: Tensor = 1) -> Any:
    """The density of the gamma distribution."""
    return rnp.exp(logpdf(x, a, loc, scale))


def cdf(x: Tensor, a: Tensor, loc: Tensor = 0, scale: Tensor = 1) -> Any:
    """The chance of at most x of the gamma distribution."""
    x, a, loc, scale = floats("gamma.cdf", x, a, loc, scale)
    return gammainc(a, rnp.maximum((x - loc) / scale, 0))


def logcdf(x: Tensor, a: Tensor, loc: Tensor = 0, scale: Tensor = 1) -> Any:
    """The logarithm of the chance of at most x of the gamma distribution."""
    return rnp.log(cdf(x, a, loc, scale))


def sf(x: Tensor, a: Tensor, loc: Tensor = 0, scale: Tensor = 1) -> Any:
    """The chance of more than x of the gamma distribution."""
    x, a, loc, scale = floats("gamma.sf", x, a, loc, scale)
    return gammaincc(a, rnp.maximum((x - loc) / scale, 0))


def logsf(x: Tensor, a: Tensor, loc: Tensor = 0, scale: Tensor = 1) -> Any:
    """The logarithm of the chance of more than x of the gamma distribution."""
    return rnp.log(sf(x, a, loc, scale))
