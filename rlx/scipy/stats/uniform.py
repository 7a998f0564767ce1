"""The uniform distribution from `loc` to `loc + scale`."""

from __future__ import annotations

import math
from typing import Any

from ... import numpy as rnp
from ..operands import Tensor, floats


def logpdf(x: Tensor, loc: Tensor = 0, scale: Tensor = 1) -> Any:
    """The logarithm of the density of the uniform distribution."""
    x, loc, scale = floats("uniform.logpdf", x, loc, scale)
    return rnp.where((x < loc) | (x > loc + scale), -math.inf, -rnp.log(scale) + 0 * x)


def pdf(x: Tensor, loc: Tensor = 0, scale: Tensor = 1) -> Any:
    """The density of the uniform distribution."""
    return rnp.exp(logpdf(x, loc, scale))


def cdf(x: Tensor, loc: Tensor = 0, scale: Tensor = 1) -> Any:
    """The chance of at most x of the uniform distribution."""
    x, loc, scale = floats("uniform.cdf", x, loc, scale)
    result = rnp.where(x > loc + scale, 1.0, (x - loc) / scale)
    return rnp.where(x < loc, 0.0, result)


def ppf(q: Tensor, loc: Tensor = 0, scale: Tensor = 1) -> Any:
    """The number that is exceeded with chance 1 - q of the uniform distribution."""
    q, loc, scale = floats("uniform.ppf", q, loc, scale)
    is_chance = (q >= 0) & (q <= 1)
    return rnp.where(is_chance, loc + scale * q, math.nan)
