"""The Pareto distribution."""

from __future__ import annotations

import math
from typing import Any

from ... import numpy as rnp
from ..operands import Tensor, floats


def logpdf(x: Tensor, b: Tensor, loc: Tensor = 0, scale: Tensor = 1) -> Any:
    """The logarithm of the density of the Pareto distribution."""
    x, b, loc, scale = floats("pareto.logpdf", x, b, loc, scale)
    logarithm, is_inside = _scaled(x, loc, scale)
    result = rnp.log(b) - rnp.log(scale) - (b + 1) * logarithm
    return rnp.where(is_inside, result, -math.inf)


def pdf(x: Tensor, b: Tensor, loc: Tensor = 0, scale: Tensor = 1) -> Any:
    """The density of the Pareto distribution."""
    return rnp.exp(logpdf(x, b, loc, scale))


def cdf(x: Tensor, b: Tensor, loc: Tensor = 0, scale: Tensor = 1) -> Any:
    """The chance of at most x of the Pareto distribution."""
    x, b, loc, scale = floats("pareto.cdf", x, b, loc, scale)
    logarithm, _ = _scaled(x, loc, scale)
    return -rnp.expm1(-b * logarithm)


def logcdf(x: Tensor, b: Tensor, loc: Tensor = 0, scale: Tensor = 1) -> Any:
    """The logarithm of the chance of at most x of the Pareto distribution."""
    return rnp.log(cdf(x, b, loc, scale))


def sf(x: Tensor, b: Tensor, loc: Tensor = 0, scale: Tensor = 1) -> Any:
    """The chance of more than x of the Pareto distribution."""
    return rnp.exp(logsf(x, b, loc, scale))


def logsf(x: Tensor, b: Tensor, loc: Tensor = 0, scale: Tensor = 1) -> Any:
    """The logarithm of the chance of more than x of the Pareto distribution."""
    x, b, loc, scale = floats("pareto.logsf", x, b, loc, scale)
    logarithm, _ = _scaled(x, loc, scale)
    return -b * logarithm


def ppf(q: Tensor, b: Tensor, loc: Tensor = 0, scale: Tensor = 1) -> Any:
    """The number that is exceeded with chance 1 - q of the Pareto distribution."""
    q, b, loc, scale = floats("pareto.ppf", q, b, loc, scale)
    is_chance = (q >= 0) & (q <= 1)
    return rnp.where(is_chance, loc + scale * rnp.power(1 - q, -1 / b), math.nan)


def _scaled(x: Any, loc: Any, scale: Any) -> Any:
    """The logarithm of x in units of `scale`, 0 below the support, and whether it is inside."""
    is_inside = ~(x < loc + scale)
    return rnp.log(rnp.where(is_inside, (x - loc) / scale, 1.0)), is_inside
