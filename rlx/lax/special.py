"""Special functions and Fourier transforms, without promotion."""

from __future__ import annotations

import enum
from collections.abc import Sequence
from typing import Any

from ..ir.errors import AttributeValueError
from ..ir.types import as_dtype
from ..trace.apply import apply, as_tensor
from ..trace.promotion import convert
from .operands import Tensor, elementwise, integers, strict


def lgamma(x: Tensor) -> Any:
    """The logarithm of the absolute value of the gamma function."""
    return apply("lgamma", as_tensor(x))


def digamma(x: Tensor) -> Any:
    """The derivative of `lgamma`."""
    return apply("digamma", as_tensor(x))


def polygamma(m: Tensor, x: Tensor) -> Any:
    """The derivative of `digamma` of order m, a whole number, at x."""
    m, x = strict("polygamma", m, x)
    return apply("polygamma", convert(m, as_dtype("int32")), x)


def zeta(x: Tensor, q: Tensor) -> Any:
    """The sum of (q + k) to the power -x over all k from 0 on."""
    return elementwise("zeta", "zeta", x, q)


def igamma(a: Tensor, x: Tensor) -> Any:
    """The incomplete gamma function from 0 to x, divided by the whole."""
    return elementwise("igamma", "igamma", a, x)


def igammac(a: Tensor, x: Tensor) -> Any:
    """The incomplete gamma function from x on, divided by the whole."""
    return elementwise("igammac", "igammac", a, x)


def igamma_grad_a(a: Tensor, x: Tensor) -> Any:
    """The derivative of `igamma` by its first argument."""
    return elementwise("igamma_grad_a", "igamma_grad_a", a, x)


def random_gamma_grad(a: Tensor, x: Tensor) -> Any:
    """The derivative of a sample x of the gamma distribution by its shape a."""
    return elementwise("random_gamma_grad", "random_gamma_grad", a, x)


def betainc(a: Tensor, b: Tensor, x: Tensor) -> Any:
    """The incomplete beta function from 0 to x, divided by the whole."""
    return elementwise("betainc", "betainc", a, b, x)


def bessel_i0e(x: Tensor) -> Any:
    """The modified Bessel function of order 0, times exp(-|x|)."""
    return apply("bessel_i0e", as_tensor(x))


def bessel_i1e(x: Tensor) -> Any:
    """The modified Bessel function of order 1, times exp(-|x|)."""
    return apply("bessel_i1e", as_tensor(x))


class FftType(enum.Enum):
    """Which Fourier transform `fft` does."""

    FFT = "fft"
    IFFT = "ifft"
    RFFT = "rfft"
    IRFFT = "irfft"


def fft(x: Tensor, fft_type: Any, fft_lengths: Sequence[int]) -> Any:
    """The Fourier transform over the last one to three axes, of these sizes.

    `fft_type` is "FFT", "IFFT", "RFFT" or "IRFFT", whose sizes are those of the result.
    """
    kind = str(getattr(fft_type, "name", fft_type)).lower()
    if kind not in {each.value for each in FftType}:
        raise AttributeValueError(
            f"fft: there is no transform {fft_type!r}",
            fix="use one of FFT, IFFT, RFFT, IRFFT",
        )
    lengths = integers("fft: the lengths", fft_lengths)
    return apply("fft", as_tensor(x), kind=kind, lengths=lengths)
