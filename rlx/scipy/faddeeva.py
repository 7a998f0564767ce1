"""The Faddeeva function, which gives the error function of complex numbers."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from .. import numpy as rnp
from ..trace.apply import as_tensor
from ..trace.promotion import promote_operands
from ..transforms import custom_jvp
from .operands import Tensor

TERMS = 64
FAR, FAR_TERMS = 7.0, 24  # from there on a continued fraction


def _coefficients() -> tuple[float, list[float]]:
    """Weideman's scale and coefficients, the highest power first."""
    scale = math.sqrt(TERMS / math.sqrt(2))
    half = 2 * TERMS
    t = scale * np.tan(np.arange(-half + 1, half) * math.pi / (2 * half))
    f = np.concatenate([[0.0], np.exp(-t * t) * (scale * scale + t * t)])
    spectrum = np.real(np.fft.fft(np.fft.fftshift(f))) / (2 * half)
    return scale, spectrum[1 : TERMS + 1][::-1].tolist()


SCALE, COEFFICIENTS = _coefficients()


def wofz(z: Tensor) -> Any:
    """exp(-z * z) * erfc(-1j * z), complex.

    Weideman, "Computation of the complex error function", 1994; far from 0 a continued fraction.
    """
    x = as_tensor(promote_operands(as_tensor(z), inexact=True)[0])
    if not rnp.iscomplexobj(x):
        x = rnp.astype(x, "complex128" if x.dtype.itemsize == 8 else "complex64")
    return _wofz(x)


@custom_jvp
def _wofz(z: Any) -> Any:
    is_below = rnp.imag(z) < 0
    up = rnp.where(is_below, -z, z)
    is_far = rnp.abs(up) > FAR
    value = rnp.where(is_far, _far(rnp.where(is_far, up, FAR)), _near(rnp.where(is_far, 0.0, up)))
    # on the real axis the real part is too small for the digits of both
    power = rnp.exp(-z * z)
    is_real = rnp.imag(z) == 0
    value = rnp.where(is_real, rnp.real(power) + 1j * rnp.imag(value), value)
    return rnp.where(is_below, 2 * power - value, value)


@_wofz.defjvp
def _wofz_jvp(primals: Any, tangents: Any) -> Any:
    (z,), (t,) = primals, tangents
    value = _wofz(z)
    return value, t * (2j / math.sqrt(math.pi) - 2 * z * value)


def _near(z: Any) -> Any:
    below = SCALE - 1j * z
    turned = (SCALE + 1j * z) / below
    total = 0 * z + COEFFICIENTS[0]
    for coefficient in COEFFICIENTS[1:]:
        total = total * turned + coefficient
    return 2 * total / (below * below) + (1 / math.sqrt(math.pi)) / below


def _far(z: Any) -> Any:
    """A continued fraction, https://dlmf.nist.gov/7.9.E1."""
    below = z
    for k in range(FAR_TERMS, 0, -1):
        below = z - k / 2 / below
    return 1j / math.sqrt(math.pi) / below
