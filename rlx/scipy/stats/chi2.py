"""The distribution of a sum of squares of `df` normal numbers."""

from __future__ import annotations

import math
from typing import Any

from ... import numpy as rnp
from ..operands import Tensor, floats
from ..special import gammainc, gammaincc, gammaln


def logpdf(x: Tensor, df: Tensor, loc: Tensor = 0, scale: Tensor = 1) -> Any:
    """The logarithm of the density of the chi-squared distribution."""
    x, df, loc, scale = floats("chi2.logpdf", x, df, loc, scale)
    is_inside = ~(x < loc)
    y = rnp.where(is_inside, (x - loc) / scale, 1.0)
    kernel = (df / 2 - 1) * rnp.log(y) - y / 2
    result = kernel - gammaln(df / 2) - df / 2 * math.log(2) - rnp.log(scale)
    return rnp.where(is_inside, result, -math.inf)


def pdf(x: Tensor, df: Tensor, loc: Tensor = 0, scale: Tensor = 1) -> Any:
    """The density of the chi-squared distribution."""
    return rnp.exp(logpdf(x, df, loc, scale))


def cdf(x: Tensor, df: Tensor, loc: Tensor = 0, scale: Tensor = 1) -> Any:
    """The chance of at most x of the chi-squared distribution."""
    x, df, loc, scale = floats("chi2.cdf", x, df, loc, scale)
    return gammainc(df / 2, rnp.maximum((x - loc) / (2 * scale), 0))


def logcdf(x: Tensor, df: Tensor, loc: Tensor = 0, scale: Tensor = 1) -> Any:
    """The logarithm of the chance of at most x of the chi-squared distribution."""
    return rnp.log(cdf(x, df, loc, scale))


def sf(x: Tensor, df: Tensor, loc: Tensor = 0, scale: Tensor = 1) -> Any:
    """The chance of more than x of the chi-squared distribution."""
    x, df, loc, scale = floats("chi2.sf", x, df, loc, scale)
    return gammaincc(df / 2, rnp.maximum((x - loc) / (2 * scale), 0))


def logsf(x: Tensor, df: Tensor, loc: Tensor = 0, scale: Tensor = 1) -> Any:
    """The logarithm of the chance of more than x of the chi-squared distribution."""
    return rnp.log(sf(x, df, loc, scale))
