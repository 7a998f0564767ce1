"""The Poisson distribution: how many of many rare things happen."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from ... import numpy as rnp
from ..operands import Tensor, floats
from ..special import entr, gammaincc, gammaln, xlogy

FAR, COUNTS = 100.0, 260  # of a mean below FAR more than COUNTS do not happen


def logpmf(k: Tensor, mu: Tensor, loc: Tensor = 0) -> Any:
    """The logarithm of the chance of k of the Poisson distribution."""
    k, mu, loc = floats("poisson.logpmf", k, mu, loc)
    y = k - loc
    is_inside = ~(y < 0) & (rnp.round(k) == k)
    y = rnp.where(is_inside, y, 0.0)
    return rnp.where(is_inside, xlogy(y, mu) - gammaln(y + 1) - mu, -math.inf)


def pmf(k: Tensor, mu: Tensor, loc: Tensor = 0) -> Any:
    """The chance of k of the Poisson distribution."""
    return rnp.exp(logpmf(k, mu, loc))


def cdf(k: Tensor, mu: Tensor, loc: Tensor = 0) -> Any:
    """The chance of at most k of the Poisson distribution."""
    k, mu, loc = floats("poisson.cdf", k, mu, loc)
    y = rnp.floor(1 + k - loc)
    return rnp.where(y < 1, 0.0, gammaincc(rnp.maximum(y, 1), mu))


def entropy(mu: Tensor, loc: Tensor = 0) -> Any:
    """The entropy of the Poisson distribution.

    Below a mean of 100 it is summed over the numbers that happen, from there on a series.
    """
    mu, loc = rnp.broadcast_arrays(*floats("poisson.entropy", mu, loc))
    is_far = mu >= FAR
    near = rnp.where(is_far, FAR, mu)
    counts = np.arange(COUNTS).astype(mu.dtype).reshape((-1,) + (1,) * mu.ndim)
    total = rnp.sum(entr(pmf(counts, near)), axis=0)
    far = rnp.where(is_far, mu, FAR)
    series = 1 / (12 * far) + 1 / (24 * far**2) + 19 / (360 * far**3)
    return rnp.where(is_far, 0.5 * rnp.log(2 * math.pi * math.e * far) - series, total)
