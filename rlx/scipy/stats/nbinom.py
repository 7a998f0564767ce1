"""The negative binomial distribution: how many tails before n heads."""

from __future__ import annotations

import math
from typing import Any

from ... import numpy as rnp
from ..operands import Tensor, floats
from ..special import gammaln, xlog1py, xlogy


def logpmf(k: Tensor, n: Tensor, p: Tensor, loc: Tensor = 0) -> Any:
    """The logarithm of the chance of k of the negative binomial distribution."""
    k, n, p, loc = floats("nbinom.logpmf", k, n, p, loc)
    is_inside = ~(k < loc)
    y = rnp.where(is_inside, k - loc, 0.0)
    result = gammaln(y + n) - gammaln(n) - gammaln(y + 1) + xlogy(n, p) + xlog1py(y, -p)
    return rnp.where(is_inside, result, -math.inf)


def pmf(k: Tensor, n: Tensor, p: Tensor, loc: Tensor = 0) -> Any:
    """The chance of k of the negative binomial distribution."""
    return rnp.exp(logpmf(k, n, p, loc))
