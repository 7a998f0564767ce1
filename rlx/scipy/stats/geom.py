"""The geometric distribution: the number of the first throw that is heads."""

from __future__ import annotations

import math
from typing import Any

from ... import numpy as rnp
from ..operands import Tensor, floats
from ..special import xlog1py


def logpmf(k: Tensor, p: Tensor, loc: Tensor = 0) -> Any:
    """The logarithm of the chance of k of the geometric distribution."""
    k, p, loc = floats("geom.logpmf", k, p, loc)
    k = k - loc
    return rnp.where(k <= 0, -math.inf, xlog1py(k - 1, -p) + rnp.log(p))


def pmf(k: Tensor, p: Tensor, loc: Tensor = 0) -> Any:
    """The chance of k of the geometric distribution."""
    return rnp.exp(logpmf(k, p, loc))
