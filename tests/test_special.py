"""`rlx.scipy.special` against the numbers and derivatives of `jax.scipy.special`."""

from __future__ import annotations

import inspect
import math
from typing import Any

import jax
import jax.numpy as jnp
import jax.scipy.special as theirs
import numpy as np
import pytest
import scipy.special

import rlx
import rlx.numpy as rnp
import rlx.scipy.special as ours
from rlx.ir.errors import RlxError

EPSILON = {"float32": float(np.finfo("float32").eps), "float64": float(np.finfo("float64").eps)}
# how many units of the last place a number may differ, where a range loses no more by itself
UNITS = {"float32": 32, "float64": 512}
COUNT = 24

# the ranges of the float arguments, and how much the function magnifies a rounding in them
RANGES: dict[str, Any] = {
    "beta": ((0.2, 6), (0.2, 6), 4),
    "betaln": ((0.2, 8), (0.2, 8), 4),
    "boxcox": ((0.1, 4), (-2, 2), 2),
    "boxcox1p": ((0.1, 4), (-2, 2), 2),
    "comb": ((6, 12), (0.5, 5), 8),
    "dawsn": ((-8, 8), 8),
    "digamma": ((-4, 12), 16),
    "entr": ((0.05, 4), 1),
    "erf": ((-3, 3), 1),
    "erfc": ((-3, 5), 8),
    "erfcx": ((-3, 9), 8),
    "erfinv": ((-0.99, 0.99), 8),
    "exp1": ((0.05, 20), 2),
    "expi": ((-8, 30), 8),
    "expit": ((-9, 9), 2),
    "factorial": ((0, 20), 16),
    "gamma": ((-4, 12), 32),
    "gammainc": ((0.2, 12), (0.1, 15), 8),
    "gammaincc": ((0.2, 12), (0.1, 15), 16),
    "fresnel": ((-6, 6), 8),
    "gammaln": ((-4, 30), 8),
    "gammasgn": ((-4, 4), 1),
    "hyp1f1": ((0.3, 3), (0.5, 4), (-2, 20), 32),
    "i0": ((-12, 12), 4),
    "i0e": ((-20, 20), 2),
    "i1": ((-12, 12), 4),
    "i1e": ((-20, 20), 2),
    "kl_div": ((0.1, 4), (0.1, 4), 4),
    "log_ndtr": ((-9, 4), 8),
    "loggamma": ((0.1, 30), 8),
    "logit": ((0.02, 0.98), 4),
    "ndtr": ((-6, 6), 8),
    "ndtri": ((0.01, 0.99), 4),
    "owens_t": ((-3, 3), (-3, 3), 4),
    "poch": ((0.3, 6), (0.2, 5), 16),
    "rel_entr": ((0.1, 4), (0.1, 4), 4),
    "sici": ((-20, 20), 8),
    "spence": ((0.05, 6), 4),
    "xlog1py": ((-2, 2), (-0.8, 4), 4),
    "xlogy": ((-2, 2), (0.1, 4), 4),
    "zeta": ((1.3, 9), (0.1, 9), 4),
}


POINTS = [0.0, -0.0, 0.5, 1.0, 1.5, 2.0, 8.0, -0.5, -1.0, -2.0, -3.5, np.inf, -np.inf, np.nan]
SHARES = [0.0, 1e-30, 0.25, 0.5, 0.75, 1.0, -0.5, 1.5, np.nan]
# points whose values are compared too
AT_POINTS = {
    **dict.fromkeys(
        "gammaln loggamma gammasgn gamma digamma factorial erf erfc erfcx ndtr log_ndtr dawsn sici "
        "i0 i0e i1 i1e entr expit".split(),
        (POINTS,),
    ),
    **dict.fromkeys("spence exp1".split(), (POINTS[:-3],)),  # jax has NaN for infinity
    "expi": (POINTS[2:-3],),  # and for 0
    **dict.fromkeys("erfinv ndtri logit".split(), (SHARES,)),
    "xlogy": ([0.0, 0.0, 0.0, 0.0, 2.0, 0.0], [0.0, 2.0, -1.0, np.nan, 0.0, np.inf]),
    "xlog1py": ([0.0, 0.0, 0.0, 0.0, 2.0, 0.0], [-1.0, 2.0, -2.0, np.nan, 0.0, np.inf]),
    "rel_entr": ([0.0, 0.0, 1.0, -1.0, 1.0, 0.0], [0.0, 1.0, 0.0, 1.0, -1.0, -1.0]),
    "kl_div": ([0.0, 0.0, 1.0, -1.0, 1.0, 0.0], [0.0, 1.0, 0.0, 1.0, -1.0, -1.0]),
    "boxcox": ([0.0, 1.0, 2.0, 0.0, -1.0], [0.0, 0.0, 0.0, 1.0, 2.0]),
    "gammainc": ([1.0, 0.0, 1.0, -1.0, 1.0, np.nan], [0.0, 2.0, np.inf, 1.0, -1.0, 1.0]),
    "gammaincc": ([1.0, 0.0, 1.0, -1.0, 1.0, np.nan], [0.0, 2.0, np.inf, 1.0, -1.0, 1.0]),
    "betainc": (
        [2.0, 2.0, 0.0, 2.0, 0.0, -1.0, 2.0, np.inf, 2.0],
        [3.0, 3.0, 3.0, 0.0, 0.0, 1.0, 2.0, 1.0, np.nan],
        [0.0, 1.0, 0.5, 0.5, 0.5, 0.5, 1.5, 0.5, 0.5],
    ),
    "zeta": ([1.0, 0.5, 2.0, 3.0, 2.5, np.nan], [1.0, 1.0, 0.0, -1.0, -0.5, 1.0]),
    "comb": ([5.0, 5.0, 5.0, -1.0, 5.0], [0.0, 5.0, 6.0, 1.0, -1.0]),
    "poch": ([1.0, 2.0, -2.5, 3.0], [3.0, 0.0, 2.0, -1.0]),
}
APART = ("gammainc", "gammaincc", "betainc")  # slopes of jax never end there, or are not


def arguments(name: str) -> list[np.ndarray]:
    """Random numbers, then points, from float32: both dtypes start from the same ones."""
    random = np.random.default_rng(0)
    *ranges, _ = RANGES[name]
    points = AT_POINTS.get(name, ([],) * len(ranges)) if name not in APART else ([],) * len(ranges)
    return [
        np.concatenate([random.uniform(*r, COUNT), p]).astype("float32").astype("float64")
        for r, p in zip(ranges, points, strict=True)
    ]


def _leaves(x: Any) -> Any:
    return x if isinstance(x, tuple) else (x,)


def with_slopes(jvp: Any, fn: Any, *xs: Any) -> list[Any]:
    """The values of a function, then its slopes in each argument."""
    ones = [np.ones(x.shape, x.dtype) for x in xs]
    zeros = [np.zeros(x.shape, x.dtype) for x in xs]
    each = [[*zeros[:i], ones[i], *zeros[i + 1 :]] for i in range(len(xs))]
    results = [fn(*xs), *(jvp(fn, xs, tuple(moving))[1] for moving in each)]
    return [leaf for result in results for leaf in _leaves(result)]


def assert_near(got: Any, wanted: Any, dtype: str, factor: float) -> None:
    got, wanted = np.asarray(got), np.asarray(wanted)
    assert got.dtype == dtype
    tolerance = UNITS[dtype] * EPSILON[dtype] * factor
    # near a zero the digits that are left of larger terms count
    np.testing.assert_allclose(got, wanted, rtol=tolerance, atol=tolerance / 8)


@pytest.mark.parametrize("name", RANGES)
def test_values_and_slopes_are_those_of_jax(name: str) -> None:
    mine, other, factor = getattr(ours, name), getattr(theirs, name), RANGES[name][-1]
    xs = arguments(name)
    with jax.enable_x64(True):
        wanted = jax.jit(lambda *xs: with_slopes(jax.jvp, other, *xs))(*xs)
    short = [x.astype("float32") for x in xs]
    compiled = rlx.jit(lambda *xs: with_slopes(rlx.jvp, mine, *xs))(*short)
    for dtype, results in (
        ("float64", with_slopes(rlx.jvp, mine, *xs)),
        ("float32", compiled),
    ):
        values = len(wanted) // (1 + len(xs))
        for i, (got, exact) in enumerate(zip(results, wanted, strict=True)):
            count = None if i < values else COUNT  # slopes at the random places alone
            assert_near(got[:count], exact[:count], dtype, factor)


# -- points where formulas change -----------------------------------------------------------------


@pytest.mark.parametrize("name", APART)
def test_points_are_those_of_jax(name: str) -> None:
    args = [np.array(row, "float32") for row in AT_POINTS[name]]
    mine, wanted = getattr(ours, name), getattr(theirs, name)(*args)
    for got in (mine(*args), rlx.jit(mine)(*args)):
        assert_near(got, wanted, "float32", 1.0)


def test_slopes_at_zero_are_those_of_jax() -> None:
    for name in ("xlogy", "xlog1py"):
        mine, other = getattr(ours, name), getattr(theirs, name)
        for place in ((0.0, 2.0), (2.0, 1.0), (0.0, 0.5)):
            got, wanted = rlx.grad(mine, (0, 1))(*place), jax.grad(other, (0, 1))(*place)
            np.testing.assert_allclose(got, wanted, rtol=4 * EPSILON["float32"])
    assert float(rlx.grad(ours.entr)(0.0)) == float(jax.grad(theirs.entr)(0.0)) == math.inf
    assert float(rlx.grad(ours.i1e)(0.0)) == float(jax.grad(theirs.i1e)(0.0)) == 0.5
    assert float(rlx.grad(ours.spence)(1.0)) == -1.0


# -- orders, parameters, second derivatives -------------------------------------------------------


def test_integer_orders_are_those_of_jax() -> None:
    x = np.array([0.3, 0.9, 1.0, 2.5, 7.0, 30.0])
    with jax.enable_x64(True):
        for n in range(5):
            wanted = theirs.polygamma(n, x)
            assert_near(ours.polygamma(n, x), wanted, "float64", 1.0)
            slope = rlx.jvp(lambda x, n=n: ours.polygamma(n, x), (x,), (x * 0 + 1,))[1]
            assert_near(slope, theirs.polygamma(n + 1, x), "float64", 1.0)
        for n in range(4):
            wanted = jax.vmap(lambda x, n=n: theirs.expn(n, x))(x)
            assert_near(ours.expn(n, x), wanted, "float64", 1.0)
    orders = np.array([0, 1, 2, 0, 1, 2])
    mixed = rlx.jit(ours.polygamma)(orders, x.astype("float32"))
    wanted = [theirs.polygamma(int(n), np.float32(v)) for n, v in zip(orders, x, strict=True)]
    assert_near(mixed, wanted, "float32", 1.0)
    assert ours.polygamma(1, x[None].repeat(2, 0)).shape == (2, 6)


def test_negative_places_of_polygamma_are_exact_where_jax_is_not() -> None:
    # from the reflection formulas, by mpmath
    wanted = [9.8219943446498803, 19.474085068082154, 123.95521103942203, 9.8695944011893577]
    got = ours.polygamma(np.array([1, 1, 2, 1]), np.array([-20.5, -3.25, -3.25, -1e5 - 0.5]))
    assert_near(got, wanted, "float64", 1.0)


def test_incomplete_beta_has_a_slope_in_x_alone() -> None:
    a, b, x = np.array([0.5, 2.0, 30.0]), np.array([3.0, 0.7, 40.0]), np.array([0.1, 0.8, 0.45])
    with jax.enable_x64(True):
        wanted = theirs.betainc(a, b, x)
        slope = jax.jvp(lambda x: theirs.betainc(a, b, x), (x,), (x * 0 + 1,))[1]
    assert_near(ours.betainc(a, b, x), wanted, "float64", 2.0)
    assert_near(
        rlx.jvp(lambda x: ours.betainc(a, b, x), (x,), (x * 0 + 1,))[1], slope, "float64", 2
    )
    assert_near(rlx.jit(ours.betainc)(*np.float32([a, b, x])), wanted, "float32", 1.0)
    with pytest.raises(RlxError, match="no derivative in its parameters"):
        rlx.grad(lambda a: ours.betainc(a, 2.0, 0.5))(1.0)


SECOND = {
    "gammaln": 2.5, "digamma": 2.5, "i0": 1.5, "i1e": 1.5, "erfcx": 0.7, "log_ndtr": -1.5,
    "ndtri": 0.3, "expi": 2.0, "logit": 0.3, "entr": 0.4, "gamma": 3.5,
}  # fmt: skip


def test_second_derivatives_are_those_of_jax() -> None:
    places = list(SECOND.values())

    def each(module: Any, grad: Any) -> Any:
        return lambda xs: [
            grad(grad(getattr(module, name)))(x) for name, x in zip(SECOND, xs, strict=True)
        ]

    with jax.enable_x64(True):
        wanted = jax.jit(each(theirs, jax.grad))(places)
    got = each(ours, rlx.grad)([np.float64(x) for x in places])
    for name, mine, other in zip(SECOND, got, wanted, strict=True):
        np.testing.assert_allclose(mine, other, rtol=1e-9, err_msg=name)


def test_incomplete_gamma_differentiates_twice_in_its_parameter() -> None:
    # the second slopes are mpmath's; jax has none
    for fn, sign in ((ours.gammainc, 1.0), (ours.gammaincc, -1.0)):
        for x, wanted in ((1.0, 0.17399071136775234), (4.0, -0.072384049144994972)):
            second = rlx.grad(rlx.grad(lambda a, x=x, fn=fn: fn(a, x)))(np.float64(1.5))
            np.testing.assert_allclose(second, sign * wanted, rtol=1e-9)


@pytest.mark.parametrize("name", ["gammainc", "zeta", "expi", "betaln"])
def test_vmap_is_a_loop(name: str) -> None:
    xs = [x[:6].reshape(2, 3) for x in arguments(name)]
    fn = getattr(ours, name)
    batched = rlx.vmap(rlx.grad(lambda *xs: fn(*xs).sum()))(*xs)
    wanted = [rlx.grad(lambda *xs: fn(*xs).sum())(*row) for row in zip(*xs, strict=True)]
    np.testing.assert_allclose(batched, wanted, rtol=1e-13)


# -- the rest -------------------------------------------------------------------------------------


def test_sums_of_exponentials_are_those_of_jax() -> None:
    x = np.array([[1.0, -2.0, 300.0], [0.0, -np.inf, 1.0]], "float32")
    b = np.array([1.0, -3.0, 0.5], "float32")
    for call in (
        lambda m: m.logsumexp(x),
        lambda m: m.logsumexp(x, axis=1, keepdims=True),
        lambda m: m.logsumexp(x, axis=1, b=b),
        lambda m: m.logsumexp(x, axis=1, b=-b, return_sign=True),
        lambda m: m.logsumexp(x, axis=0, where=b > 0),
        lambda m: m.softmax(x),
        lambda m: m.log_softmax(x, axis=1),
        lambda m: m.multigammaln(b + 4, 3),
        lambda m: m.comb(x[:, 0] + 4, 2, repetition=True),
        lambda m: m.bernoulli(12),
    ):
        for got, wanted in zip(_leaves(call(ours)), _leaves(call(theirs)), strict=True):
            assert_near(got, wanted, "float32", 1.0)


def test_bernoulli_numbers_beyond_float32_are_infinite() -> None:
    with np.errstate(over="ignore"):
        wanted = scipy.special.bernoulli(100).astype("float32")
    np.testing.assert_allclose(ours.bernoulli(100), wanted, 1e-6)
    assert ours.bernoulli(100_000).shape == (100_001,)  # none of them from those before


def test_complex_sums_of_exponentials_are_those_of_jax() -> None:
    z = np.array([[1 + 2j, -40 + 1j, 3 - 3j], [0.5j, -np.inf, 300 + 1j]], "complex64")
    for call in (
        lambda m: m.scipy.special.logsumexp(z),
        lambda m: m.scipy.special.logsumexp(z, axis=1, b=z[::-1, ::-1].real, return_sign=True),
        lambda m: m.scipy.special.logsumexp(z, axis=0, where=z.imag > 0),
        lambda m: m.numpy.logaddexp(z[0], z[0, ::-1]),
        lambda m: m.grad(lambda z: abs(m.numpy.logaddexp(z, 2j)).sum())(z[0]),
        lambda m: m.grad(lambda z: abs(m.scipy.special.logsumexp(z)).sum())(z[0]),
    ):
        for got, wanted in zip(_leaves(call(rlx)), _leaves(call(jax)), strict=True):
            np.testing.assert_allclose(got, wanted, rtol=1e-5, atol=1e-6)


def test_large_parameters_keep_their_digits() -> None:
    # numbers of mpmath
    a, b = np.array([0.5, 20.0, 1e6]), np.array([1e8, 30.0, 2e6])
    wanted = [-8.63797542780148265, -33.968820791977383, -1909548.29096853296]
    np.testing.assert_allclose(ours.betaln(a, b), wanted, rtol=1e-12)


def test_integers_and_halves_are_promoted_as_in_jax() -> None:
    for name in ("gammaln", "digamma", "i0e", "erfinv", "logit", "gamma"):
        for dtype in ("int32", "bool", "float16", "bfloat16", "float32"):
            x = jnp.asarray([0, 1], dtype)
            wanted = getattr(theirs, name)(x)
            got = getattr(ours, name)(np.asarray(x))
            assert got.dtype.name == wanted.dtype.name, (name, dtype)
            np.testing.assert_array_equal(np.isfinite(np.asarray(got)), np.isfinite(wanted))
    assert ours.gammaln(3.0).dtype == "float32"
    assert ours.xlogy(np.float64(1), np.float32(2)).dtype == "float64"
    assert ours.gammainc(np.ones((2, 1)), np.ones(3)).shape == (2, 3)


def test_what_has_no_meaning_is_refused() -> None:
    complex_number = np.complex64(1 + 1j)
    for call in (
        lambda: ours.gammaln(complex_number),
        lambda: ours.factorial(complex_number),
        lambda: ours.entr(complex_number),
        lambda: ours.digamma("three"),
        lambda: ours.polygamma(1.5, 2.0),
        lambda: ours.expn(1.0, 2.0),
        lambda: ours.zeta(2.0),
        lambda: ours.factorial(3, exact=True),
        lambda: ours.bernoulli(-1),
        lambda: ours.bernoulli(2.5),
        lambda: ours.bernoulli(2**70),
        lambda: ours.log_ndtr(1.0, series_order=31),
        lambda: ours.gammainc(np.ones(2), np.ones(3)),
        lambda: ours.multigammaln(3.0, 1.5),
    ):
        with pytest.raises(RlxError) as caught:
            call()
        assert caught.value.fix


def test_names_of_parameters_are_those_of_jax() -> None:
    for name in ("logsumexp", "comb", "factorial", "log_ndtr", "multigammaln", "softmax"):
        mine, other = (inspect.signature(getattr(m, name)).parameters for m in (ours, theirs))
        assert list(mine) == list(other), name


def test_i0_of_numpy_is_the_one_here() -> None:
    x = np.array([0.0, 0.5, -3.0, 20.0])
    np.testing.assert_allclose(rnp.i0(x), np.i0(x), rtol=1e-14)
    assert rnp.i0(x.astype("float32")).dtype == "float32"


def test_smooth_functions_of_nn_are_those_of_jax() -> None:
    x = np.array([-3.0, -1.0, -0.25, 0.5, 1.0, 4.0], "float32")
    for name in ("squareplus", "sparse_plus", "sparse_sigmoid", "log1mexp"):
        place = abs(x) if name == "log1mexp" else x
        mine, other = getattr(rlx.nn, name), getattr(jax.nn, name)
        assert_near(mine(place), other(place), "float32", 1.0)
        inside = place[abs(abs(place) - 1) > 0.1]  # not at the kinks
        got, wanted = rlx.vmap(rlx.grad(mine))(inside), jax.vmap(jax.grad(other))(inside)
        assert_near(got, wanted, "float32", 1.0)
    assert float(rlx.nn.log1mexp(0.0)) == -math.inf
    assert_near(rlx.nn.squareplus(x, 2), jax.nn.squareplus(x, 2), "float32", 1.0)
    rows = x.reshape(2, 3)
    for options in ({}, {"axis": 1}, {"axis": 0, "keepdims": True}, {"where": rows > -1}):
        got, wanted = rlx.nn.logmeanexp(rows, **options), jax.nn.logmeanexp(rows, **options)
        assert_near(got, wanted, "float32", 1.0)


def test_small_parameters_keep_their_digits() -> None:
    # numbers of mpmath; 1 - gammainc(a, x), as in jax, has none of them right in float32
    a, x = np.array([1e-5, 1e-9, 0.25]), np.array([1e-3, 0.5, 0.0625])
    wanted = np.array([6.33134714052935491e-05, 5.59773595069540638e-10, 0.455146060438083442])
    assert_near(ours.gammaincc(a, x) / wanted, np.ones(3), "float64", 1.0)
    ratio = rlx.jit(ours.gammaincc)(*np.float32([a, x])) / np.float32(wanted)
    assert_near(ratio, np.ones(3), "float32", 1.0)


def test_hypergeometric_function_far_from_zero() -> None:
    # numbers of mpmath; the finite sum is exact
    a, b, x = np.array([1.5, 1.5, 1.5, -3.0]), np.array([2.5, 2.5, 2.5, 2.0]), [-30, 150, -150, 200]
    wanted = [0.00809010796897732467, 1.38904823890248934e63, 0.000723601254558267659]
    got = ours.hyp1f1(a, b, np.array(x, "float64"))
    assert_near(got / np.array([*wanted, -940897 / 3]), np.ones(4), "float64", 1.0)
    assert ours.hyp1f1(0.0, 2.0, 3.0) == 1.0
    assert ours.hyp1f1(1.0, 0.0, 3.0) == math.inf


def test_bessel_functions_of_the_first_kind_are_those_of_jax() -> None:
    z = np.array([[0.5, 3.0], [10.0, -2.0]])
    with jax.enable_x64(True):
        wanted = theirs.bessel_jn(z, v=3, n_iter=40)
        slope = jax.jvp(lambda z: theirs.bessel_jn(z, v=3, n_iter=40), (z,), (z * 0 + 1,))[1]
    fn = rlx.jit(lambda z: ours.bessel_jn(z, v=3, n_iter=40))
    assert_near(fn(z), wanted, "float64", 1.0)
    assert_near(rlx.jvp(fn, (z,), (z * 0 + 1,))[1], slope, "float64", 1.0)
    with pytest.raises(RlxError, match="n_iter is 2"):
        ours.bessel_jn(z, v=3, n_iter=2)
