"""Student's distribution with `df` degrees of freedom."""

from __future__ import annotations

import math
from typing import Any

from ... import numpy as rnp
from ..operands import Tensor, floats
from ..special import gammaln


def logpdf(x: Tensor, df: Tensor, loc: Tensor = 0, scale: Tensor = 1) -> Any:
    """The logarithm of the density of Student's distribution."""
    x, df, loc, scale = floats("t.logpdf", x, df, loc, scale)
    half = df / 2
    size = gammaln(half) + 0.5 * rnp.log(math.pi * df * scale * scale) - gammaln(half + 0.5)
    return -size - (half + 0.5) * rnp.log1p(rnp.square((x - loc) / scale) / df)


def pdf(x: Tensor, df: Tensor, loc: Tensor = 0, scale: Tensor = 1) -> Any:
    """The density of Student's distribution."""
    return rnp.exp(logpdf(x, df, loc, scale))
