"""The error function, its complement and its inverse."""

from __future__ import annotations

import math

import numpy as np

from .arithmetic import mul, neg, square
from .exponential import exp
from .families import pointwise

# the C library's, number by number: NumPy has none
_erf = np.vectorize(math.erf, otypes=[np.float64])
_erfc = np.vectorize(math.erfc, otypes=[np.float64])


def erf_reference(x: np.ndarray) -> np.ndarray:
    """The error function in float64, whatever the dtype."""
    return _erf(x.astype(np.float64)).astype(x.dtype)


def erfc_reference(x: np.ndarray) -> np.ndarray:
    """One minus the error function in float64, exact for large x."""
    return _erfc(x.astype(np.float64)).astype(x.dtype)


def erf_inv_reference(x: np.ndarray) -> np.ndarray:
    """Steps of Halley on erf or erfc from Winitzki's approximation, good to three digits."""
    wide = x.astype(np.float64)
    size = np.abs(wide)
    rest = 1 - size
    inside = np.clip(rest, 1e-300, 1.0)
    log = np.log(inside * (2 - inside))
    term = 2 / (math.pi * 0.147) + log / 2
    y = np.sqrt(np.sqrt(term * term - log / 0.147) - term)
    for _ in range(2 if x.dtype.itemsize < 8 else 3):  # each triples the digits
        slope = -2 / math.sqrt(math.pi) * np.exp(-y * y)
        miss = np.where(size < 0.5, size - _erf(y), _erfc(y) - inside) / slope
        y = y - miss / (1 + y * miss)
    y = np.where(rest > 0, y, np.where(rest == 0, np.inf, np.nan))
    return np.copysign(y, wide).astype(x.dtype)


erf = pointwise(
    "erf",
    erf_reference,
    "erf",
    doc="The error function: 2 / sqrt(pi) times the integral of exp(-t * t) from 0 to x.",
    kinds=("float",),
    jvp=[lambda t, out, x: mul(t, mul(exp(neg(square(x))), 2 / math.sqrt(math.pi)))],
    samples=[
        dict(args=((2, 3),)),
        dict(args=([0.0, 0.5, 1.0, -2.0],), expect=list(map(math.erf, [0.0, 0.5, 1.0, -2.0]))),
    ],
)
erfc = pointwise(
    "erfc",
    erfc_reference,
    "erfc",
    doc="One minus the error function, exact where that is near 1.",
    kinds=("float",),
    jvp=[lambda t, out, x: mul(t, mul(exp(neg(square(x))), -2 / math.sqrt(math.pi)))],
    samples=[
        dict(args=((2, 3),)),
        dict(args=([0.0, 0.5, 5.0, -2.0],), expect=list(map(math.erfc, [0.0, 0.5, 5.0, -2.0]))),
    ],
)
erf_inv = pointwise(
    "erf_inv",
    erf_inv_reference,
    "erf_inv",
    doc="The number of this error function; infinite at -1 and 1, NaN outside.",
    kinds=("float",),
    jvp=[lambda t, out, x: mul(t, mul(exp(square(out)), math.sqrt(math.pi) / 2))],
    samples=[
        dict(args=((2, 3),), low=-0.9, high=0.9),
        dict(args=([0.0, math.erf(0.5), math.erf(-1.5), 1.0],), expect=[0.0, 0.5, -1.5, np.inf]),
    ],
)
