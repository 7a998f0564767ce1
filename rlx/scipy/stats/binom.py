"""The binomial distribution: how many of n throws of a coin are heads."""

from __future__ import annotations

import math
from typing import Any

from ... import numpy as rnp
from ..operands import Tensor, floats
from ..special import gammaln, xlog1py, xlogy


def logpmf(k: Tensor, n: Tensor, p: Tensor, loc: Tensor = 0) -> Any:
    """The logarithm of the chance of k of the binomial distribution."""
    k, n, p, loc = floats("binom.logpmf", k, n, p, loc)
    y = k - loc
    is_inside = (y >= 0) & (y < n + 1)
    y = rnp.where(is_inside, y, 0.0)
    choices = gammaln(n + 1) - gammaln(y + 1) - gammaln(n - y + 1)
    powers = xlogy(y, p) + xlog1py(n - y, -p)
    result = rnp.where((y == 0) & (n == 0) | (powers == 0), 0.0, choices + powers)
    return rnp.where(is_inside, result, -math.inf)


def pmf(k: Tensor, n: Tensor, p: Tensor, loc: Tensor = 0) -> Any:
    """The chance of k of the binomial distribution."""
    return rnp.exp(logpmf(k, n, p, loc))
