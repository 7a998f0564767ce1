"""The logarithm of the gamma function of complex numbers."""

from __future__ import annotations

import math
from typing import Any

from .. import numpy as rnp

SHIFTS = 10  # so many places to the right Stirling's series has the digits
# Bernoulli numbers B_2k / (2k (2k - 1))
SERIES = (1 / 12, -1 / 360, 1 / 1260, -1 / 1680, 1 / 1188, -691 / 360360, 1 / 156, -3617 / 122400)


def complex_loggamma(z: Any) -> Any:
    """The logarithm that is real for positive numbers and jumps at negative ones."""
    is_left = rnp.real(z) < 0.5
    right = _right(rnp.where(is_left, 1 - z, z))
    # Hare, "Computing the principal branch of log-Gamma", 1997
    turns = rnp.copysign(2 * math.pi, rnp.imag(z)) * rnp.floor(0.5 * rnp.real(z) + 0.25)
    safe = rnp.where(is_left, z, 0.25)
    reflected = math.log(math.pi) + 1j * turns - rnp.log(_sine(safe)) - right
    return rnp.where(is_left, reflected, right)


def _sine(z: Any) -> Any:
    """sin(pi z), exact near whole numbers."""
    x = rnp.real(z)
    nearest = rnp.round(x)
    sign = 1 - 2 * rnp.abs(nearest % 2)
    rest = math.pi * (x - nearest)
    y = math.pi * rnp.imag(z)
    return sign * (rnp.sin(rest) * rnp.cosh(y) + 1j * rnp.cos(rest) * rnp.sinh(y))


def _right(z: Any) -> Any:
    """For real parts of a half and more: shifted to the right, Stirling's series."""
    logarithms = 0 * z
    for k in range(SHIFTS):
        logarithms = logarithms + rnp.log(z + k)
    far = z + SHIFTS
    inverse = 1 / far
    square, total = inverse * inverse, 0 * z
    for coefficient in reversed(SERIES):
        total = total * square + coefficient
    series = (far - 0.5) * rnp.log(far) - far + 0.5 * math.log(2 * math.pi) + total * inverse
    return series - logarithms
