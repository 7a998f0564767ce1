"""The binomial distribution whose chance has a beta distribution."""

from __future__ import annotations

import math
from typing import Any

from ... import numpy as rnp
from ..operands import Tensor, floats
from ..special import betaln


def logpmf(k: Tensor, n: Tensor, a: Tensor, b: Tensor, loc: Tensor = 0) -> Any:
    """The logarithm of the chance of k of the beta-binomial distribution."""
    k, n, a, b, loc = floats("betabinom.logpmf", k, n, a, b, loc)
    y = rnp.floor(k) - loc
    is_inside = (y >= -loc) & (y <= n) & (y + a > 0)
    z = rnp.where(is_inside, y, 0.0)
    choices = -rnp.log1p(n) - betaln(n - z + 1, z + 1)
    result = choices + betaln(z + a, n - z + b) - betaln(a, b)
    result = rnp.where((y == 0) & (n == 0), 0.0, result)
    result = rnp.where(is_inside | rnp.isnan(y), result, -math.inf)
    return rnp.where((n < 0) | (a <= 0) | (b <= 0) | rnp.isnan(y), math.nan, result)


def pmf(k: Tensor, n: Tensor, a: Tensor, b: Tensor, loc: Tensor = 0) -> Any:
    """The chance of k of the beta-binomial distribution."""
    return rnp.exp(logpmf(k, n, a, b, loc))
