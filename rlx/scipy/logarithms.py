"""Logarithms of small differences."""

from __future__ import annotations

import math
from typing import Any

from .. import numpy as rnp
from .operands import Tensor, floats

LOG_TWO = math.log(2.0)


def log1mexp(x: Tensor) -> Any:
    """log(1 - exp(-x)) for x >= 0, exact for small and for large x."""
    (x,) = floats("log1mexp", x)
    is_small = x < LOG_TWO
    # what is not chosen must not spoil the derivative
    small, large = rnp.where(is_small, x, LOG_TWO), rnp.where(is_small, LOG_TWO, x)
    return rnp.where(is_small, rnp.log(-rnp.expm1(-small)), rnp.log1p(-rnp.exp(-large)))
