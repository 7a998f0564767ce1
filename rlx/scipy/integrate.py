"""Integrals of samples under the names of `jax.scipy.integrate`."""

from __future__ import annotations

from .. import numpy as rnp
from ..trace.array import Array
from .operands import Tensor


def trapezoid(y: Tensor, x: Tensor | None = None, dx: Tensor = 1.0, axis: int = -1) -> Array:
    """The integral along an axis by the trapezoidal rule.

    Samples are at `x`, or `dx` apart.

    >>> trapezoid([1.0, 2.0, 4.0])
    Array(4.5, dtype=float32)
    """
    return rnp.trapezoid(y, x, dx, axis)
