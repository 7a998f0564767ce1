"""Special functions that are sums: hyp2f1, wofz, sph_harm_y, complex loggamma."""

from __future__ import annotations

import functools
import math
from collections.abc import Callable
from typing import Any

import numpy as np

from .. import numpy as rnp
from ..ir.config import config
from ..ir.errors import ArgumentError
from ..trace.apply import apply, as_tensor
from ..trace.array import Array
from ..trace.axes import integer
from ..trace.promotion import broadcast_operands, promote_operands
from ..trace.scan import scan
from ..transforms.custom import custom_jvp
from ..transforms.jit.jit import jit
from .operands import Tensor, floats

SERIES_TERMS = 160  # of a series at 0, for arguments up to a half
STEP_TERMS = 64  # of a series at a place from which 1 is twice as far as the argument


def hyp2f1(a: Tensor, b: Tensor, c: Tensor, x: Tensor) -> Array:
    """Gauss's hypergeometric function 2F1(a, b; c; x), for moderate a, b and c.

    Above x = 1/2 the series is continued along its differential equation, so c - a - b may be any
    number. NaN for x > 1, unless a or b ends the series.
    """
    operands = broadcast_operands("hyp2f1", *floats("hyp2f1", a, b, c, x))
    return _compiled(config.device)(*operands)


@functools.cache
def _compiled(device: str | None) -> Callable[..., Any]:
    """The function compiled for a device, the default one."""
    return jit(_gauss)


def _gauss(a: Any, b: Any, c: Any, x: Any) -> Array:
    ends_b = (b <= 0) & (b == rnp.round(b))
    a, b = rnp.where(ends_b, b, a), rnp.where(ends_b, a, b)
    is_finite_sum = (a <= 0) & (a == rnp.round(a))
    is_negative = (x < 0) & ~is_finite_sum
    # https://dlmf.nist.gov/15.8.E1 takes the negative numbers to those up to 1
    y = rnp.where(is_negative, x / (x - 1), x)
    second = rnp.where(is_negative, c - b, b)
    is_one = (y == 1) & ~is_finite_sum
    inside = rnp.where((y > 1) | is_one, 0.0, y)
    value = _continued(a, second, c, rnp.where(is_finite_sum, 0.0, inside))
    value = rnp.where(is_finite_sum, _series(a, b, c, rnp.where(is_finite_sum, x, 0.0))[0], value)
    value = rnp.where(is_negative, (1 - rnp.where(is_negative, x, 0.0)) ** -a * value, value)
    value = rnp.where(is_one, _at_one(a, b, c), value)
    return rnp.where((y > 1) & ~is_finite_sum, math.nan, value)


def _at_one(a: Any, b: Any, c: Any) -> Array:
    """Gauss's sum, if it is one."""
    rest = c - a - b
    size, sign = 0.0, 1.0
    for part, way in ((c, 1), (rest, 1), (c - a, -1), (c - b, -1)):
        below = (part <= 0) & (part == rnp.floor(part))
        size = size + way * rnp.where(below, math.inf, apply("lgamma", rnp.where(below, 1.0, part)))
        # the gamma function is negative between -1 and 0, and so on
        sign = sign * rnp.where((part < 0) & (rnp.floor(part) % 2 != 0), -1.0, 1.0)
    return rnp.where(rest > 0, sign * rnp.exp(size), math.inf)


def _series(a: Any, b: Any, c: Any, x: Any) -> tuple[Array, Array]:
    """The sum and its derivative."""

    def step(carry: Any, k: Any) -> Any:
        term, total, slope = carry
        ratio = (a + k) * (b + k) / ((c + k) * (k + 1))
        slope = slope + term * ratio * (k + 1)
        term = term * ratio * x
        return (term, total + term, slope), None

    one = rnp.ones_like(x)
    (_, total, slope), _ = scan(step, (one, one, 0 * x), np.arange(SERIES_TERMS).astype(x.dtype))
    return total, slope


def _continued(a: Any, b: Any, c: Any, x: Any) -> Array:
    """The function at x from 0 to 1, from the series at a half or below on."""
    start = rnp.minimum(x, 0.5)
    value, slope = _series(a, b, c, start)

    def step(carry: Any, _: Any) -> Any:
        place, value, slope = carry
        following = rnp.minimum(x, (1 + place) / 2)
        value, slope = _moved(a, b, c, place, following - place, value, slope)
        return (following, value, slope), None

    count = 2 + int(-math.log2(float(rnp.finfo(x.dtype).eps)))
    (_, value, _), _ = scan(step, (start, value, slope), length=count)
    return value


def _moved(a: Any, b: Any, c: Any, z: Any, by: Any, value: Any, slope: Any) -> tuple[Array, Array]:
    """The value and slope at z + by, by Taylor's series of the differential equation's solution.

    Its terms, not its coefficients, are carried along: those overflow near 1.
    """
    is_still = by == 0
    z, h = rnp.where(is_still, 0.5, z), rnp.where(is_still, 0.25, by)
    middle, unit = c - (a + b + 1) * z, h / (z * (1 - z))

    def step(carry: Any, n: Any) -> Any:
        before, here, total, rise = carry
        after = (n + a) * (n + b) * before * h - ((1 - 2 * z) * n + middle) * (n + 1) * here
        after = after * unit / ((n + 2) * (n + 1))
        return (here, after, total + after, rise + (n + 2) * after), None

    first = slope * h
    places = np.arange(STEP_TERMS).astype(z.dtype)
    (_, _, total, rise), _ = scan(step, (value, first, value + first, first), places)
    return rnp.where(is_still, value, total), rnp.where(is_still, slope, rise / h)


# -- the logarithm of the gamma function of complex numbers ----------------------------------------


SHIFTS = 10  # so many places to the right Stirling's series has the digits
# Bernoulli numbers B_2k / (2k (2k - 1))
SERIES = (1 / 12, -1 / 360, 1 / 1260, -1 / 1680, 1 / 1188, -691 / 360360, 1 / 156, -3617 / 122400)


def complex_loggamma(z: Any) -> Any:
    """The principal branch of the logarithm of the gamma function."""
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


# -- the Faddeeva function, which gives the error function of complex numbers ----------------------


FADDEEVA_TERMS = 64
FAR, FAR_TERMS = 7.0, 24  # from there on a continued fraction


def _coefficients() -> tuple[float, list[float]]:
    """Weideman's scale and coefficients, the highest power first."""
    scale = math.sqrt(FADDEEVA_TERMS / math.sqrt(2))
    half = 2 * FADDEEVA_TERMS
    t = scale * np.tan(np.arange(-half + 1, half) * math.pi / (2 * half))
    f = np.concatenate([[0.0], np.exp(-t * t) * (scale * scale + t * t)])
    spectrum = np.real(np.fft.fft(np.fft.fftshift(f))) / (2 * half)
    return scale, spectrum[1 : FADDEEVA_TERMS + 1][::-1].tolist()


SCALE, COEFFICIENTS = _coefficients()


def wofz(z: Tensor) -> Array:
    """The Faddeeva function exp(-z ** 2) * erfc(-i z).

    Weideman, "Computation of the complex error function", 1994; far from 0 a continued fraction.
    """
    x = as_tensor(promote_operands(as_tensor(z), inexact=True)[0])
    if not rnp.iscomplexobj(x):
        x = rnp.astype(x, "complex128" if x.dtype.itemsize == 8 else "complex64")
    return _wofz(x)


@custom_jvp
def _wofz(z: Any) -> Array:
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


def _near(z: Any) -> Array:
    below = SCALE - 1j * z
    turned = (SCALE + 1j * z) / below
    total = 0 * z + COEFFICIENTS[0]
    for coefficient in COEFFICIENTS[1:]:
        total = total * turned + coefficient
    return 2 * total / (below * below) + (1 / math.sqrt(math.pi)) / below


def _far(z: Any) -> Array:
    """A continued fraction, https://dlmf.nist.gov/7.9.E1."""
    below = z
    for k in range(FAR_TERMS, 0, -1):
        below = z - k / 2 / below
    return 1j / math.sqrt(math.pi) / below


# -- spherical harmonics ---------------------------------------------------------------------------


def sph_harm_y(
    n: Tensor,
    m: Tensor,
    theta: Tensor,
    phi: Tensor,
    diff_n: int | None = None,
    n_max: int | None = None,
) -> Array:
    """The spherical harmonics of degree n and order m at theta and phi.

    `theta` is the colatitude, `phi` the longitude; the functions are orthonormal on the sphere.
    `n_max`, the largest degree, must be given where n is traced; larger degrees are clamped to it.
    """
    if diff_n is not None:
        raise ArgumentError(
            "sph_harm_y: derivatives do not come along",
            fix="leave out diff_n, and use rlx.jvp",
        )
    greatest = int(np.max(np.asarray(n))) if n_max is None else integer("sph_harm_y: n_max", n_max)
    degree, order = rnp.minimum(as_tensor(n), greatest), as_tensor(m)
    theta, phi = floats("sph_harm_y", rnp.atleast_1d(as_tensor(theta)), phi)
    degree, order, theta, phi = rnp.broadcast_arrays(degree, order, theta, phi)
    size = rnp.abs(order)
    value = _legendre(degree, size, rnp.cos(theta), rnp.sin(theta), greatest)
    angle = size * phi
    sign = rnp.where((order < 0) & (size % 2 == 1), -1.0, 1.0)
    imaginary = rnp.where(order < 0, -1.0, 1.0) * rnp.sin(angle)
    return sign * value * (rnp.cos(angle) + 1j * imaginary)


def _legendre(degree: Any, order: Any, x: Any, y: Any, greatest: int) -> Array:
    """The normalized associated Legendre functions at (cos, sin), for orders of 0 or more.

    They rise in degree from that of the order, where they are a power of the sine.
    https://dlmf.nist.gov/14.10.E3
    """
    order = rnp.astype(order, x.dtype)

    def step(carry: Any, k: Any) -> Any:
        before, here, power, found = carry
        power = power * rnp.where(k > 0, -rnp.sqrt((2 * k + 1) / rnp.maximum(2 * k, 1)) * y, 1.0)
        is_above = k > order
        gap = rnp.where(is_above, k * k - order * order, 1.0)
        last = rnp.where(is_above, (k - 1) ** 2 - order * order, 0.0)
        share = rnp.sqrt(last / (4 * (k - 1) ** 2 - 1 + (k < 1)))
        rise = rnp.sqrt(rnp.where(is_above, 4 * k * k - 1, 1.0) / gap)
        value = rnp.where(
            k == order, power, rnp.where(is_above, rise * (x * here - share * before), 0.0)
        )
        found = rnp.where(rnp.astype(degree, x.dtype) == k, value, found)
        return (here, value, power, found), None

    first = rnp.full_like(x, 1 / math.sqrt(4 * math.pi))
    start = (0 * x, 0 * x, first, 0 * x)
    (_, _, _, found), _ = scan(step, start, np.arange(greatest + 1).astype(x.dtype))
    return found
