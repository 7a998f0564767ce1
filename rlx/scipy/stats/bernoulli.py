"""The distribution of one throw of a coin: 1 with chance p, else 0."""

from __future__ import annotations

import math
from typing import Any

from ... import numpy as rnp
from ..operands import Tensor, floats
from ..special import xlog1py, xlogy


def logpmf(k: Tensor, p: Tensor, loc: Tensor = 0) -> Any:
    """The logarithm of the chance of k of the Bernoulli distribution."""
    k, p, loc = floats("bernoulli.logpmf", k, p, loc)
    k = k - loc
    result = xlogy(k, p) + xlog1py(1 - k, -p)
    return rnp.where((k < 0) | (k > 1), -math.inf, result)


def pmf(k: Tensor, p: Tensor, loc: Tensor = 0) -> Any:
    """The chance of k of the Bernoulli distribution."""
    return rnp.exp(logpmf(k, p, loc))


def cdf(k: Tensor, p: Tensor) -> Any:
    """The chance of at most k of the Bernoulli distribution."""
    k, p = floats("bernoulli.cdf", k, p)
    result = rnp.where(k < 0, 0.0, rnp.where(k < 1, 1 - p, 1.0))
    return rnp.where(_is_chance(p) & ~rnp.isnan(k), result, math.nan)


def ppf(q: Tensor, p: Tensor) -> Any:
    """The number that is exceeded with chance 1 - q of the Bernoulli distribution."""
    q, p = floats("bernoulli.ppf", q, p)
    result = rnp.where(q <= 1 - p, 0.0, 1.0)
    return rnp.where(_is_chance(p) & _is_chance(q), result, math.nan).astype(q.dtype)


def _is_chance(p: Any) -> Any:
    return (p >= 0) & (p <= 1)
