"""The Dirichlet distribution of chances that sum to 1."""

from __future__ import annotations

import math
from typing import Any

from ... import numpy as rnp
from ...ir.errors import ShapeError
from ..operands import Tensor, floats
from ..special import gammaln, xlogy

SLACK = 1e-6  # how much chances that count as a whole may miss 1


def logpdf(x: Tensor, alpha: Tensor) -> Any:
    """The logarithm of the density of the chances x, which stand along axis 0.

    The last one may be left out.
    """
    x, alpha = floats("dirichlet.logpdf", x, alpha)
    if alpha.ndim != 1 or x.ndim == 0 or x.shape[0] not in (alpha.shape[0], alpha.shape[0] - 1):
        raise ShapeError(
            f"dirichlet: x is {x.type}, alpha {alpha.type}",
            fix="give a vector alpha, and an x with as many rows or one less",
        )
    if x.shape[0] != alpha.shape[0]:
        x = rnp.concatenate([x, 1 - rnp.sum(x, 0, keepdims=True)])
    is_simplex = rnp.all(x > 0, axis=0) & (rnp.abs(rnp.sum(x, 0) - 1) < SLACK)
    size = rnp.sum(gammaln(alpha)) - gammaln(rnp.sum(alpha))
    powers = rnp.reshape(alpha - 1, (-1,) + (1,) * (x.ndim - 1))
    return rnp.where(is_simplex, rnp.sum(xlogy(powers, x), axis=0) - size, -math.inf)


def pdf(x: Tensor, alpha: Tensor) -> Any:
    """The density of the chances x, which stand along axis 0."""
    return rnp.exp(logpdf(x, alpha))
