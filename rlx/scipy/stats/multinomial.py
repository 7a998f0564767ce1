"""The multinomial distribution: how n things fall into classes of chances p."""

from __future__ import annotations

import math
from typing import Any

from ... import numpy as rnp
from ...ir.errors import DtypeError
from ...trace.apply import as_tensor
from ..operands import Tensor, floats
from ..special import gammaln, xlogy


def logpmf(x: Tensor, n: Tensor, p: Tensor) -> Any:
    """The logarithm of the chance of the counts x, integers along the last axis."""
    x, n = as_tensor(x), as_tensor(n)
    for counts in (x, n):
        if counts.dtype.kind not in "biu":
            raise DtypeError(
                f"multinomial: the counts are {counts.type}",
                fix="convert them to an integer dtype",
            )
    (p,) = floats("multinomial.logpmf", p)
    is_all = rnp.sum(x, axis=-1) == n
    x, n = rnp.astype(x, p.dtype), rnp.astype(n, p.dtype)
    result = gammaln(n + 1) + rnp.sum(xlogy(x, p) - gammaln(x + 1), axis=-1)
    return rnp.where(is_all, result, -math.inf)


def pmf(x: Tensor, n: Tensor, p: Tensor) -> Any:
    """The chance of the counts x, integers along the last axis."""
    return rnp.exp(logpmf(x, n, p))
