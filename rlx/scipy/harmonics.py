"""Spherical harmonics."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from .. import numpy as rnp
from ..ir.errors import ArgumentError
from ..trace.apply import as_tensor
from ..trace.axes import integer
from ..trace.scan import scan
from .operands import Tensor, floats


def sph_harm_y(
    n: Tensor,
    m: Tensor,
    theta: Tensor,
    phi: Tensor,
    diff_n: int | None = None,
    n_max: int | None = None,
) -> Any:
    """The spherical harmonics of degree n and order m at theta and phi.

    theta is the colatitude, phi the longitude. They are complex and orthonormal on the sphere.
    `n_max` is the greatest degree, which must be given where n is traced; greater degrees are taken
    for it.
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


def _legendre(degree: Any, order: Any, x: Any, y: Any, greatest: int) -> Any:
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
