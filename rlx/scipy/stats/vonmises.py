"""The von Mises distribution of angles around 0."""

from __future__ import annotations

import math
from typing import Any

from ... import numpy as rnp
from ..operands import Tensor, floats
from ..special import i0e


def logpdf(x: Tensor, kappa: Tensor) -> Any:
    """The logarithm of the density of the von Mises distribution."""
    x, kappa = floats("vonmises.logpdf", x, kappa)
    result = kappa * (rnp.cos(x) - 1) - rnp.log(2 * math.pi * i0e(kappa))
    return rnp.where(kappa > 0, result, math.nan)


def pdf(x: Tensor, kappa: Tensor) -> Any:
    """The density of the von Mises distribution."""
    return rnp.exp(logpdf(x, kappa))
