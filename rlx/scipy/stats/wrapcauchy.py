"""The Cauchy distribution wrapped around the circle, angles 0 to 2 * pi."""

from __future__ import annotations

import math
from typing import Any

from ... import numpy as rnp
from ..operands import Tensor, floats


def logpdf(x: Tensor, c: Tensor) -> Any:
    """The logarithm of the density of the wrapped Cauchy distribution."""
    x, c = floats("wrapcauchy.logpdf", x, c)
    result = rnp.log((1 - c * c) / (2 * math.pi)) - rnp.log(1 + c * c - 2 * c * rnp.cos(x))
    is_inside = (x >= 0) & (x <= 2 * math.pi)
    return rnp.where((c > 0) & (c < 1), rnp.where(is_inside, result, -math.inf), math.nan)


def pdf(x: Tensor, c: Tensor) -> Any:
    """The density of the wrapped Cauchy distribution."""
    return rnp.exp(logpdf(x, c))
