"""Distributions of counts."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from ... import numpy as rnp
from ...trace.array import Array
from ..operands import floats
from ..special import betaln, entr, gammaincc, gammaln, xlog1py, xlogy
from .distribution import Distribution, exp_of, formula, is_chance

FAR, COUNTS = 100.0, 260  # of a mean below FAR more than COUNTS do not happen


class bernoulli(Distribution, of="the Bernoulli distribution"):
    """The Bernoulli distribution: 1 with probability p, else 0."""

    @formula
    def logpmf(k: Any, p: Any, loc: Any = 0) -> Array:
        k = k - loc
        result = xlogy(k, p) + xlog1py(1 - k, -p)
        return rnp.where((k < 0) | (k > 1), -math.inf, result)

    pmf = exp_of(logpmf)

    @formula
    def cdf(k: Any, p: Any) -> Array:
        result = rnp.where(k < 0, 0.0, rnp.where(k < 1, 1 - p, 1.0))
        return rnp.where(is_chance(p) & ~rnp.isnan(k), result, math.nan)

    @formula
    def ppf(q: Any, p: Any) -> Array:
        result = rnp.where(q <= 1 - p, 0.0, 1.0)
        return rnp.where(is_chance(p) & is_chance(q), result, math.nan).astype(q.dtype)


class binom(Distribution, of="the binomial distribution"):
    """The binomial distribution: the number of successes in n trials."""

    @formula
    def logpmf(k: Any, n: Any, p: Any, loc: Any = 0) -> Array:
        y = k - loc
        is_inside = (y >= 0) & (y < n + 1)
        y = rnp.where(is_inside, y, 0.0)
        choices = gammaln(n + 1) - gammaln(y + 1) - gammaln(n - y + 1)
        powers = xlogy(y, p) + xlog1py(n - y, -p)
        result = rnp.where((y == 0) & (n == 0) | (powers == 0), 0.0, choices + powers)
        return rnp.where(is_inside, result, -math.inf)

    pmf = exp_of(logpmf)


class nbinom(Distribution, of="the negative binomial distribution"):
    """The negative binomial distribution: the number of failures before n successes."""

    @formula
    def logpmf(k: Any, n: Any, p: Any, loc: Any = 0) -> Array:
        is_inside = ~(k < loc)
        y = rnp.where(is_inside, k - loc, 0.0)
        result = gammaln(y + n) - gammaln(n) - gammaln(y + 1) + xlogy(n, p) + xlog1py(y, -p)
        return rnp.where(is_inside, result, -math.inf)

    pmf = exp_of(logpmf)


class geom(Distribution, of="the geometric distribution"):
    """The geometric distribution: the number of trials up to the first success."""

    @formula
    def logpmf(k: Any, p: Any, loc: Any = 0) -> Array:
        k = k - loc
        return rnp.where(k <= 0, -math.inf, xlog1py(k - 1, -p) + rnp.log(p))

    pmf = exp_of(logpmf)


class betabinom(Distribution, of="the beta-binomial distribution"):
    """The beta-binomial distribution: binomial with a beta distributed probability."""

    @formula
    def logpmf(k: Any, n: Any, a: Any, b: Any, loc: Any = 0) -> Array:
        y = rnp.floor(k) - loc
        is_inside = (y >= -loc) & (y <= n) & (y + a > 0)
        z = rnp.where(is_inside, y, 0.0)
        choices = -rnp.log1p(n) - betaln(n - z + 1, z + 1)
        result = choices + betaln(z + a, n - z + b) - betaln(a, b)
        result = rnp.where((y == 0) & (n == 0), 0.0, result)
        result = rnp.where(is_inside | rnp.isnan(y), result, -math.inf)
        return rnp.where((n < 0) | (a <= 0) | (b <= 0) | rnp.isnan(y), math.nan, result)

    pmf = exp_of(logpmf)


class poisson(Distribution, of="the Poisson distribution"):
    """The Poisson distribution."""

    @formula
    def logpmf(k: Any, mu: Any, loc: Any = 0) -> Array:
        y = k - loc
        is_inside = ~(y < 0) & (rnp.round(k) == k)
        y = rnp.where(is_inside, y, 0.0)
        return rnp.where(is_inside, xlogy(y, mu) - gammaln(y + 1) - mu, -math.inf)

    pmf = exp_of(logpmf)

    @formula
    def cdf(k: Any, mu: Any, loc: Any = 0) -> Array:
        y = rnp.floor(1 + k - loc)
        return rnp.where(y < 1, 0.0, gammaincc(rnp.maximum(y, 1), mu))

    @staticmethod
    def entropy(mu: Any, loc: Any = 0) -> Array:
        """The entropy of the Poisson distribution.

        Below a mean of 100 it is a sum over counts, above an asymptotic series.
        """
        mu, loc = rnp.broadcast_arrays(*floats("poisson.entropy", mu, loc))
        is_far = mu >= FAR
        near = rnp.where(is_far, FAR, mu)
        counts = np.arange(COUNTS).astype(mu.dtype).reshape((-1,) + (1,) * mu.ndim)
        total = rnp.sum(entr(poisson.pmf(counts, near)), axis=0)
        far = rnp.where(is_far, mu, FAR)
        series = 1 / (12 * far) + 1 / (24 * far**2) + 19 / (360 * far**3)
        return rnp.where(is_far, 0.5 * rnp.log(2 * math.pi * math.e * far) - series, total)
