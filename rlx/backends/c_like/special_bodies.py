"""Functions of floats made of simpler ones, for languages that lack them."""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np

from .arithmetic import Number


def _logistic(result: np.dtype, x: Number) -> Number:
    return 1.0 / (1.0 + (-x).do("exp"))


def _rsqrt(result: np.dtype, x: Number) -> Number:
    return 1.0 / x.do("sqrt")


def _erf_inv(result: np.dtype, x: Number) -> Number:
    """After M. Giles, "Approximating the erfinv function" (2010): seven digits.

    In float64 a step of Halley's method triples them.
    """
    depth = -((1.0 - x) * (1.0 + x)).do("log")
    near = (depth - 2.5).polynomial(
        [2.81022636e-08, 3.43273939e-07, -3.5233877e-06, -4.39150654e-06, 0.00021858087,
         -0.00125372503, -0.00417768164, 0.246640727, 1.50140941]
    )  # fmt: skip
    if result.itemsize == 4:
        far = (depth.do("sqrt") - 3.0).polynomial(
            [-0.000200214257, 0.000100950558, 0.00134934322, -0.00367342844, 0.00573950773,
             -0.0076224613, 0.00943887047, 1.00167406, 2.83297682]
        )  # fmt: skip
    else:
        far = (depth.do("sqrt") - 4.0).polynomial(
            [-1.63404469e-06, -5.32518375e-07, 3.46814691e-05, -7.3327834e-05, 3.07845678e-05,
             -4.7661e-05, 3.40753161e-04, -9.15787921e-04, 1.25254588e-03, 1.00950178, 3.83978435]
        )  # fmt: skip
    y = (depth < 5.0).where(near, far) * x
    if result.itemsize == 8:
        y = _halley(y, x)
    return abs(x).equals(1.0).where(x * math.inf, y)


def _halley(y: Number, x: Number) -> Number:
    """Improve y towards erf(y) = x; near the ends the complement keeps the digits."""
    size_x, size_y = abs(x), abs(y)
    by_erf = size_y.do("erf") - size_x
    by_erfc = (1.0 - size_x) - size_y.do("erfc")
    error = (size_x < 0.5).where(by_erf, by_erfc)
    step = error / ((-(size_y * size_y)).do("exp") * (2 / math.sqrt(math.pi)))
    better = size_y - step / (1.0 + size_y * step)
    return (x < 0.0).where(-better, better)


SPECIAL_BODIES: dict[str, Callable[..., Number]] = {
    "logistic": _logistic,
    "rsqrt": _rsqrt,
    "erf_inv": _erf_inv,
}
