"""Special functions of complex numbers, of Gauss, and on the sphere, against SciPy's numbers."""

from __future__ import annotations

import inspect
from typing import Any

import jax.scipy.special as theirs
import numpy as np
import pytest
import scipy.special as exact

import rlx
import rlx.scipy.special as ours
from rlx.ir.errors import RlxError

RANDOM = np.random.default_rng(0)


def close(got: Any, wanted: Any, tolerance: float) -> None:
    """Agreement in size, for complex numbers of both parts together."""
    got, wanted = np.asarray(got), np.asarray(wanted)
    error = np.abs(got - wanted) / np.maximum(np.abs(wanted), 1e-300)
    assert np.nanmax(error) < tolerance
    np.testing.assert_array_equal(np.isnan(got), np.isnan(wanted))


def test_all_names_of_jax_are_there() -> None:
    for name, other in vars(theirs).items():
        if not name.startswith("_") and callable(other):
            assert hasattr(ours, name), name
    for name in ("hyp2f1", "sph_harm_y", "wofz"):
        mine, other = (inspect.signature(getattr(m, name)).parameters for m in (ours, theirs))
        assert [(p.name, p.default) for p in mine.values()] == [
            (p.name, p.default) for p in other.values()
        ]


def test_faddeeva() -> None:
    z = RANDOM.normal(size=300) * 4 + 1j * RANDOM.normal(size=300) * 2
    close(rlx.jit(ours.wofz)(z), exact.wofz(z), 1e-13)
    single = z[np.abs(z.imag) < 3].astype("complex64")
    got = ours.wofz(single)
    assert got.dtype == "complex64"
    close(got, exact.wofz(single.astype("complex128")), 1e-4)  # exp(-z * z) magnifies roundings
    x = np.linspace(-20, 20, 81)
    np.testing.assert_allclose(ours.wofz(x).real, np.exp(-x * x), rtol=1e-14)
    np.testing.assert_allclose(ours.wofz(x).imag, exact.wofz(x).imag, rtol=1e-12, atol=1e-15)
    slope = rlx.jvp(ours.wofz, (z,), (np.ones(300, "complex128"),))[1]
    close(slope, 2j / np.sqrt(np.pi) - 2 * z * exact.wofz(z), 1e-9)


def test_gamma_of_complex_numbers() -> None:
    z = RANDOM.normal(size=300) * 8 + 1j * RANDOM.normal(size=300) * 6
    z = np.concatenate([z, [-2.5 + 0j, 3 + 0j, -3.5 - 1e-9j, 0.5j, 40 + 3j, 1 + 0j]])
    np.testing.assert_allclose(ours.loggamma(z), exact.loggamma(z), rtol=1e-13, atol=1e-13)
    close(ours.gamma(z), exact.gamma(z), 1e-12)
    slope = rlx.jvp(ours.loggamma, (z[:50],), (np.ones(50, "complex128"),))[1]
    np.testing.assert_allclose(slope, exact.digamma(z[:50]), rtol=1e-11, atol=1e-12)
    assert ours.loggamma(np.complex64(1 + 1j)).dtype == "complex64"


def test_gauss() -> None:
    a, b, c = RANDOM.uniform(-3, 3, (3, 300))
    near = 1 - 10.0 ** RANDOM.uniform(-8, -1, 50)
    x = np.concatenate([RANDOM.uniform(-1, 1, 150), RANDOM.uniform(-20, 1, 100), near])
    compiled = rlx.jit(ours.hyp2f1)
    error = np.abs(compiled(a, b, c, x) / exact.hyp2f1(a, b, c, x) - 1)
    assert np.quantile(error, 0.9) < 1e-13
    assert np.quantile(error, 0.99) < 1e-11  # others lie near a zero
    # where c - a - b is whole, at 1, sums that end, 0, and where it is none
    table = np.array([
        (1, 1, 2, 1 - 1e-9), (0.5, 0.5, 1.5, 0.99), (1, 2, 5, 0.999), (0.3, 0.4, 2, 1),
        (-3, 2, 1.5, 4), (2, -4, 0.5, -7), (1.5, 2, 3, 0), (2, 3, 4, -1e6), (1, 2, 3, 1),
    ]).T  # fmt: skip
    np.testing.assert_allclose(compiled(*table), exact.hyp2f1(*table), rtol=1e-11)
    assert np.isnan(compiled(1.0, 2.0, 3.5, 2.0))
    singles = np.array([1.2, 0.7, 2.0], "float32")
    got = rlx.jit(lambda x: ours.hyp2f1(*singles, x))(x.astype("float32"))
    assert got.dtype == "float32"
    wide = [y.astype("float64") for y in (*singles, x.astype("float32"))]
    close(got, exact.hyp2f1(*wide), 2e-5)


def test_gauss_has_slopes_in_all_arguments() -> None:
    points = np.array([(0.7, 1.3, 2.1, place) for place in (0.8, -1.5, 0.2)]).T
    slopes = rlx.jit(rlx.grad(lambda *xs: ours.hyp2f1(*xs).sum(), (0, 1, 2, 3)))(*points)
    for i, slope in enumerate(slopes):
        step = np.zeros((4, 1))
        step[i] = 1e-5
        ends = [exact.hyp2f1(*(points + s * step)) for s in (1, -1)]
        np.testing.assert_allclose(slope, (ends[0] - ends[1]) / 2e-5, rtol=1e-7)


def test_harmonics() -> None:
    n = np.array([0, 1, 2, 5, 5, 7, 3, 10, 40])
    m = np.array([0, -1, 2, -3, 5, 0, 1, -10, 17])
    theta, phi = RANDOM.uniform(0, np.pi, 9), RANDOM.uniform(0, 6, 9)
    wanted = exact.sph_harm_y(n, m, theta, phi)
    np.testing.assert_allclose(ours.sph_harm_y(n, m, theta, phi), wanted, atol=1e-13)
    compiled = rlx.jit(lambda n, *rest: ours.sph_harm_y(n, *rest, n_max=40))(n, m, theta, phi)
    np.testing.assert_allclose(compiled, wanted, atol=1e-13)
    assert ours.sph_harm_y(2, 1, 0.3, 0.4).shape == (1,)
    assert ours.sph_harm_y(2, 1, np.float32(0.3), 0.4).dtype == "complex64"
    table = ours.sph_harm_y(n[:, None], m[:, None], theta, phi)
    np.testing.assert_allclose(np.diagonal(table), wanted, atol=1e-13)
    slope = rlx.jvp(lambda t: ours.sph_harm_y(n, m, t, phi), (theta,), (np.ones(9),))[1]
    ends = [exact.sph_harm_y(n, m, theta + h, phi) for h in (1e-6, -1e-6)]
    np.testing.assert_allclose(slope, (ends[0] - ends[1]) / 2e-6, atol=1e-6)
    with pytest.raises(RlxError, match="diff_n"):
        ours.sph_harm_y(2, 1, 0.3, 0.4, diff_n=1)
