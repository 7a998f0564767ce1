"""The beta distribution."""

from __future__ import annotations

import math
from typing import Any

from ... import numpy as rnp
from ..operands import Tensor, floats
from ..special import betainc, betaln, xlog1py, xlogy


def logpdf(x: Tensor, a: Tensor, b: Tensor, loc: Tensor = 0, scale: Tensor = 1) -> Any:
    """The logarithm of the density of the beta distribution."""
    x, a, b, loc, scale = floats("beta.logpdf", x, a, b, loc, scale)
    y = (x - loc) / scale
    is_inside = (x >= loc) & (x <= loc + scale)
    y = rnp.where(is_inside, y, 0.5)
    result = xlogy(a - 1, y) + xlog1py(b - 1, -y) - betaln(a, b) - rnp.log(scale)
    result = rnp.where(is_inside | rnp.isnan(x), result, -math.inf)
    return rnp.where((a <= 0) | (b <= 0) | (scale <= 0) | rnp.isnan(x), math.nan, result)


def pdf(x: Tensor, a: Tensor, b: Tensor, loc: Tensor = 0, scale: Tensor = 1) -> Any:
    """The density of the beta distribution."""
    return rnp.exp(logpdf(x, a, b, loc, scale))


def cdf(x: Tensor, a: Tensor, b: Tensor, loc: Tensor = 0, scale: Tensor = 1) -> Any:
    """The chance of at most x of the beta distribution."""
    x, a, b, loc, scale = floats("beta.cdf", x, a, b, loc, scale)
    return betainc(a, b, rnp.clip((x - loc) / scale, 0, 1))


def logcdf(x: Tensor, a: Tensor, b: Tensor, loc: Tensor = 0, scale: Tensor = 1) -> Any:
    """The logarithm of the chance of at most x of the beta distribution."""
    return rnp.log(cdf(x, a, b, loc, scale))


def sf(x: Tensor, a: Tensor, b: Tensor, loc: Tensor = 0, scale: Tensor = 1) -> Any:
    """The chance of more than x of the beta distribution."""
    x, a, b, loc, scale = floats("beta.sf", x, a, b, loc, scale)
    return betainc(b, a, 1 - rnp.clip((x - loc) / scale, 0, 1))


def logsf(x: Tensor, a: Tensor, b: Tensor, loc: Tensor = 0, scale: Tensor = 1) -> Any:
    """The logarithm of the chance of more than x of the beta distribution."""
    return rnp.log(sf(x, a, b, loc, scale))
