"""The error function, its complement and its inverse."""

from __future__ import annotations

import math
from collections.abc import Sequence

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


# Wichura, Algorithm AS 241, Applied Statistics 37 (1988): the normal quantile to 16 digits, as
# quotients of polynomials (lowest power first), near the middle, further out, in the tails
NORMAL_MIDDLE = (
    (3.3871328727963666080, 133.14166789178437745, 1971.5909503065514427, 13731.693765509461125,
     45921.953931549871457, 67265.770927008700853, 33430.575583588128105, 2509.0809287301226727),
    (1.0, 42.313330701600911252, 687.18700749205790830, 5394.1960214247511077,
     21213.794301586595867, 39307.895800092710610, 28729.085735721942674, 5226.4952788528545610),
)  # fmt: skip
NORMAL_OUTER = (
    (1.42343711074968357734, 4.63033784615654529590, 5.76949722146069140550, 3.64784832476320460504,
     1.27045825245236838258, 0.241780725177450611770, 0.0227238449892691845833,
     7.74545014278341407640e-4),
    (1.0, 2.05319162663775882187, 1.67638483018380384940, 0.689767334985100004550,
     0.148103976427480074590, 0.0151986665636164571966, 5.47593808499534494600e-4,
     1.05075007164441684324e-9),
)  # fmt: skip
NORMAL_TAIL = (
    (6.65790464350110377720, 5.46378491116411436990, 1.78482653991729133580, 0.29656057182850489123,
     0.0265321895265761230930, 0.00124266094738807843860, 2.71155556874348757815e-5,
     2.01033439929228813265e-7),
    (1.0, 0.599832206555887937690, 0.136929880922735805310, 0.0148753612908506148525,
     7.86869131145613259100e-4, 1.84631831751005468180e-5, 1.42151175831644588870e-7,
     2.04426310338993978564e-15),
)  # fmt: skip


def erf_inv_reference(x: np.ndarray) -> np.ndarray:
    """The inverse in float64, by the quantile of the normal distribution."""
    wide = x.astype(np.float64)
    size = np.abs(wide)
    depth = np.sqrt(-np.log((1 - size) / 2))
    middle = size / 2 * _quotient(0.180625 - wide * wide / 4, *NORMAL_MIDDLE)
    outside = np.where(
        depth < 5, _quotient(depth - 1.6, *NORMAL_OUTER), _quotient(depth - 5, *NORMAL_TAIL)
    )
    y = np.where(size < 0.85, middle, outside) / math.sqrt(2)
    y = np.where(size < 1, y, np.where(size == 1, np.inf, np.nan))
    return np.copysign(y, wide).astype(x.dtype)


def _quotient(x: np.ndarray, above: Sequence[float], below: Sequence[float]) -> np.ndarray:
    return np.polyval(above[::-1], x) / np.polyval(below[::-1], x)


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
