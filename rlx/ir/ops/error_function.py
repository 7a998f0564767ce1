"""The error function, its complement and its inverse."""

from __future__ import annotations

import math

import numpy as np

from .arithmetic import mul, neg, square
from .exponential import exp
from .families import pointwise

# Rational approximations of FreeBSD's s_erf.c (Sun Microsystems, 1993), good to 1 ulp of float64:
# (numerator, denominator), lowest power first
_NEAR = (
    [1.28379167095512558561e-01, -3.25042107247001499370e-01, -2.84817495755985104766e-02,
     -5.77027029648944159157e-03, -2.37630166566501626084e-05],
    [1.0, 3.97917223959155352819e-01, 6.50222499887672944485e-02, 5.08130628187576562776e-03,
     1.32494738004321644526e-04, -3.96022827877536812320e-06],
)  # fmt: skip
_AROUND_ONE = (
    [-2.36211856075265944077e-03, 4.14856118683748331666e-01, -3.72207876035701323847e-01,
     3.18346619901161753674e-01, -1.10894694282396677476e-01, 3.54783043256182359371e-02,
     -2.16637559486879084300e-03],
    [1.0, 1.06420880400844228286e-01, 5.40397917702171048937e-01, 7.18286544141962662868e-02,
     1.26171219808761642112e-01, 1.36370839120290507362e-02, 1.19844998467991074170e-02],
)  # fmt: skip
_MIDDLE = (
    [-9.86494403484714822705e-03, -6.93858572707181764372e-01, -1.05586262253232909814e+01,
     -6.23753324503260060396e+01, -1.62396669462573470355e+02, -1.84605092906711035994e+02,
     -8.12874355063065934246e+01, -9.81432934416914548592e+00],
    [1.0, 1.96512716674392571292e+01, 1.37657754143519042600e+02, 4.34565877475229228821e+02,
     6.45387271733267880336e+02, 4.29008140027567833386e+02, 1.08635005541779435134e+02,
     6.57024977031928170135e+00, -6.04244152148580987438e-02],
)  # fmt: skip
_FAR = (
    [-9.86494292470009928597e-03, -7.99283237680523006574e-01, -1.77579549177547519889e+01,
     -1.60636384855821916062e+02, -6.37566443368389627722e+02, -1.02509513161107724954e+03,
     -4.83519191608651397019e+02],
    [1.0, 3.03380607434824582924e+01, 3.25792512996573918826e+02, 1.53672958608443695994e+03,
     3.19985821950859553908e+03, 2.55305040643316442583e+03, 4.74528541206955367215e+02,
     -2.24409524465858183362e+01],
)  # fmt: skip
_ERF_OF_ONE = 8.45062911510467529297e-01  # erf(1), rounded to float32


def _ratio(x: np.ndarray, tables: tuple[list[float], list[float]]) -> np.ndarray:
    above, below = (np.polynomial.polynomial.polyval(x, table) for table in tables)
    return above / below


def _tail(size: np.ndarray) -> np.ndarray:
    """erfc for numbers from 1.25."""
    size = np.clip(size, 1.25, 28.0)
    s = 1 / (size * size)
    ratio = np.where(size < 1 / 0.35, _ratio(s, _MIDDLE), _ratio(s, _FAR))
    # exp(-x * x) in two factors, one of them exact, or its relative error would be large
    z = size.astype(np.float32).astype(np.float64)
    return np.exp(-z * z - 0.5625) * np.exp((z - size) * (z + size) + ratio) / size


def erf_reference(x: np.ndarray) -> np.ndarray:
    """The error function in float64, whatever the dtype."""
    wide = x.astype(np.float64)
    size = np.abs(wide)
    near = wide + wide * _ratio(wide * wide, _NEAR)
    one = np.sign(wide) * (_ERF_OF_ONE + _ratio(size - 1, _AROUND_ONE))
    far = np.sign(wide) * (1 - _tail(size))
    result = np.where(size < 0.84375, near, np.where(size < 1.25, one, far))
    return np.where(np.isnan(wide), wide, result).astype(x.dtype)


def erfc_reference(x: np.ndarray) -> np.ndarray:
    """One minus the error function in float64, exact for large x."""
    return _erfc(x.astype(np.float64)).astype(x.dtype)


def _erfc(x: np.ndarray) -> np.ndarray:
    size = np.abs(x)
    near = 1 - (x + x * _ratio(x * x, _NEAR))
    one = (1 - _ERF_OF_ONE) - _ratio(size - 1, _AROUND_ONE)
    far = _tail(size)
    positive = np.where(size < 1.25, one, far)
    result = np.where(size < 0.84375, near, np.where(x < 0, 2 - positive, positive))
    return np.where(np.isnan(x), x, result)


def erf_inv_reference(x: np.ndarray) -> np.ndarray:
    """Newton steps on erfc from Winitzki's approximation."""
    wide = x.astype(np.float64)
    size = np.abs(wide)
    rest = 1 - size
    inside = np.clip(rest, 1e-300, 1.0)
    log = np.log(inside * (2 - inside))
    term = 2 / (math.pi * 0.147) + log / 2
    y = np.sqrt(np.sqrt(term * term - log / 0.147) - term)
    for _ in range(4):
        # Halley's form of the step: the second derivative of erf is -2 y times the first
        slope = -2 / math.sqrt(math.pi) * np.exp(-y * y)
        miss = np.where(size < 0.5, size - erf_reference(y), _erfc(y) - inside) / slope
        y = y - miss / (1 + y * miss)
    y = np.where(rest > 0, y, np.where(rest == 0, np.inf, np.nan))
    return (np.sign(wide) * y).astype(x.dtype)


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
