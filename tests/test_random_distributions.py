"""Distributions made by rejection and from others: the numbers of `jax.random`, and moments."""

from __future__ import annotations

from typing import Any

import jax
import numpy as np
import pytest

import rlx
import rlx.random as random
from rlx.ir.errors import AttributeValueError, DtypeError, ShapeError

SEED = 7
SIZES = np.array([0.1, 0.5, 1.0, 2.5, 40.0], np.float32)
RATES = np.array([0.0, 0.3, 4.0, 12.0, 300.0], np.float32)
TRIALS = np.array([0.0, 1.0, 9.0, 40.0, 2000.0], np.float32)
CHANCES = np.array([0.1, 0.2, 0.3, 0.4], np.float32)
MEANS = np.arange(12, dtype=np.float32).reshape(4, 3)
COVARIANCE = np.array([[2, 0.5, 0], [0.5, 1, 0.3], [0, 0.3, 3]], np.float32)
CASES: dict[str, tuple[str, tuple[Any, ...], dict[str, Any]]] = {
    "gamma": ("gamma", (SIZES, (40, 5)), {}),
    "gamma of strange parameters": ("gamma", (np.float32([0, np.inf, np.nan, -1]),), {}),
    "loggamma": ("loggamma", (SIZES, (40, 5)), {}),
    "beta": ("beta", (SIZES, 0.3), {}),
    "dirichlet": ("dirichlet", (SIZES, (20,)), {}),
    "chisquare": ("chisquare", (3.0, (60,)), {}),
    "t": ("t", (4.0, (60,)), {}),
    "f": ("f", (3.0, 5.0, (60,)), {}),
    "poisson": ("poisson", (RATES, (60, 5)), {}),
    "binomial": ("binomial", (TRIALS, 0.3, (60, 5)), {}),
    "binomial of strange parameters": (
        "binomial",
        (
            np.float32([5, np.nan, -1, np.inf, 5, 5, 5.5, 3, 3]),
            np.float32([1, 0.5, 0.5, 0.5, np.nan, -0.1, 0.7, 0, 2]),
        ),
        {},
    ),
    "multinomial": ("multinomial", (np.float32([[3], [500]]), CHANCES), {"shape": (2, 6, 4)}),
    "maxwell": ("maxwell", ((60,),), {}),
    "double_sided_maxwell": ("double_sided_maxwell", (1.0, SIZES, (20,)), {}),
    "wald": ("wald", (SIZES[:4], (20, 4)), {}),  # a mean of 40 leaves half of the digits
    "generalized_normal": ("generalized_normal", (3.0, (60,)), {}),
    "multivariate_normal": ("multivariate_normal", (MEANS, COVARIANCE), {}),
    "multivariate_normal, more": ("multivariate_normal", (MEANS[0], COVARIANCE, (6, 3)), {}),
    "orthogonal": ("orthogonal", (4, (3,)), {}),
    "orthogonal rows": ("orthogonal", (2,), {"m": 5}),
    "orthogonal columns": ("orthogonal", (5,), {"m": 2}),
    "unitary": ("orthogonal", (3, (), "complex64"), {}),
    "ball": ("ball", (3, 1.5, (20,)), {}),
}


def assert_near(ours: Any, theirs: np.ndarray) -> None:
    """Counts are equal; floats agree up to the roundings of a few cancellations."""
    ours = np.asarray(ours)
    assert (ours.dtype, ours.shape) == (theirs.dtype, theirs.shape)
    tolerance = 0 if theirs.dtype.kind == "i" else 512 * np.finfo(theirs.dtype).eps
    np.testing.assert_allclose(ours, theirs, rtol=tolerance, atol=tolerance)


@pytest.mark.parametrize("case", CASES)
def test_numbers_are_those_of_jax(case: str):
    name, args, options = CASES[case]
    theirs = jax.jit(lambda key: getattr(jax.random, name)(key, *args, **options))
    expected = np.asarray(theirs(jax.random.PRNGKey(SEED)))
    assert_near(getattr(random, name)(random.key(SEED), *args, **options), expected)


# -- moments --------------------------------------------------------------------------------------

COUNT = 4000
MOMENTS: list[tuple[str, tuple[Any, ...], float, float]] = [
    ("gamma", (0.4,), 0.4, 0.4),
    ("gamma", (6.0,), 6.0, 6.0),
    ("beta", (2.0, 3.0), 2 / 5, 6 / 25 / 6),
    ("chisquare", (5.0,), 5.0, 10.0),
    ("t", (8.0,), 0.0, 8 / 6),
    ("f", (4.0, 20.0), 20 / 18, 2 * 20**2 * 22 / (4 * 18**2 * 16)),
    ("poisson", (3.5,), 3.5, 3.5),
    ("poisson", (60.0,), 60.0, 60.0),
    ("binomial", (12.0, 0.3), 3.6, 2.52),
    ("binomial", (200.0, 0.8), 160.0, 32.0),
    ("maxwell", (), (8 / np.pi) ** 0.5, 3 - 8 / np.pi),
    ("double_sided_maxwell", (1.0, 2.0), 1.0, 12.0),
    ("wald", (0.5,), 0.5, 0.125),
    ("generalized_normal", (2.0,), 0.0, 0.5),
]


@pytest.mark.parametrize(("name", "parameters", "mean", "variance"), MOMENTS)
def test_moments(name: str, parameters: tuple[float, ...], mean: float, variance: float):
    drawn = getattr(random, name)(random.key(3), *parameters, (COUNT,))
    drawn = np.asarray(drawn).astype(np.float64)
    assert abs(drawn.mean() - mean) < 5 * (variance / COUNT) ** 0.5
    fourth = np.mean((drawn - mean) ** 4)
    assert abs(np.mean((drawn - mean) ** 2) - variance) < 5 * (fourth / COUNT) ** 0.5


def test_lines_of_dirichlet_and_multinomial_sum_up():
    alpha = np.array([0.2, 1.0, 3.8], np.float32)
    lines = np.asarray(random.dirichlet(random.key(1), alpha, (COUNT,)))
    np.testing.assert_allclose(lines.sum(-1), 1, rtol=4 * np.finfo(np.float32).eps)
    share = alpha / alpha.sum()
    bound = 5 * np.sqrt(share * (1 - share) / (alpha.sum() + 1) / COUNT)
    assert (abs(lines.mean(0) - share) < bound).all()
    counts = np.asarray(random.multinomial(random.key(2), 30.0, CHANCES, shape=(COUNT, 4)))
    assert (counts.sum(-1) == 30).all()
    bound = 5 * np.sqrt(30 * CHANCES * (1 - CHANCES) / COUNT)
    assert (abs(counts.mean(0) - 30 * CHANCES) < bound).all()


@pytest.mark.parametrize("method", ["cholesky", "eigh", "svd"])
def test_covariance_of_multivariate_normal(method: str):
    drawn = random.multivariate_normal(random.key(4), MEANS[1], COVARIANCE, (COUNT,), method=method)
    moved = np.asarray(drawn).astype(np.float64) - MEANS[1]
    products = moved[:, :, None] * moved[:, None, :]
    bound = 5 * products.std(0) / COUNT**0.5
    assert (abs(products.mean(0) - COVARIANCE) < bound).all()


@pytest.mark.parametrize("p", [1.0, 2.0, 4.0])
def test_points_fill_the_ball(p: float):
    points = np.asarray(random.ball(random.key(5), 2, p, (COUNT,))).astype(np.float64)
    radius = (abs(points) ** p).sum(-1) ** (1 / p)
    assert radius.max() <= 1 + 1e-6
    # half of the radius holds a quarter of the area
    assert abs(np.mean(radius < 0.5) - 0.25) < 5 * (0.25 * 0.75 / COUNT) ** 0.5


# -- transforms and dtypes ------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["gamma", "poisson"])
def test_compiled_and_batched(name: str):
    def draw(key: Any) -> Any:
        return getattr(random, name)(key, 20.0, (7,))

    keys = random.split(random.key(0), 3)
    wanted = np.stack([np.asarray(draw(key)) for key in keys])
    tolerance = 64 * np.finfo(np.float32).eps
    np.testing.assert_allclose(np.asarray(rlx.vmap(draw)(keys)), wanted, rtol=tolerance)
    np.testing.assert_allclose(np.asarray(rlx.jit(draw)(keys[1])), wanted[1], rtol=tolerance)


@pytest.mark.parametrize("dtype", ["float16", "bfloat16", "float64"])
def test_other_widths(dtype: str):
    drawn = random.gamma(random.key(0), 2.0, (500,), dtype)
    assert drawn.dtype == dtype
    drawn = np.asarray(drawn).astype(np.float64)
    assert abs(drawn.mean() - 2) < 5 * (2 / 500) ** 0.5
    assert random.poisson(random.key(0), 2.0, dtype="int64").dtype == "int64"


@pytest.mark.parametrize("name", ["gamma", "loggamma", "chisquare", "t"])
def test_no_numbers(name: str):
    assert getattr(random, name)(random.key(0), 2.0, (0,)).shape == (0,)


def test_scales_have_derivatives():
    key = random.key(0)
    slope = rlx.grad(lambda x: (x * random.gamma(key, 2.0, (5,))).sum())(3.0)
    np.testing.assert_allclose(slope, np.asarray(random.gamma(key, 2.0, (5,))).sum(), rtol=1e-6)


@pytest.mark.parametrize("name", ["gamma", "loggamma"])
def test_samples_follow_the_shape_parameter(name: str):
    key = random.key(2)
    numbers = np.asarray(random.gamma(key, SIZES))
    slopes = np.asarray(jax.lax.random_gamma_grad(SIZES, numbers))
    slopes = slopes if name == "gamma" else slopes / numbers
    tolerance = 64 * np.finfo(np.float32).eps

    def total(a: Any) -> Any:
        return getattr(random, name)(key, a).sum()

    np.testing.assert_allclose(rlx.grad(total)(SIZES), slopes, rtol=tolerance)
    np.testing.assert_allclose(rlx.jit(rlx.grad(total))(SIZES), slopes, rtol=tolerance)
    many = np.stack([SIZES, SIZES])
    np.testing.assert_allclose(rlx.vmap(rlx.grad(total))(many)[1], slopes, rtol=tolerance)
    tangent = rlx.jvp(total, (SIZES,), (np.ones_like(SIZES),))[1]
    np.testing.assert_allclose(tangent, slopes.sum(), rtol=tolerance)


def test_the_mean_of_derivatives_is_the_derivative_of_the_mean():
    # the mean of gamma(a) is a, that of beta(a, b) is a / (a + b)
    key = random.key(9)
    for draw, a, wanted in (
        (lambda a: random.gamma(key, a, (COUNT,)), 1.7, 1.0),
        (lambda a: random.beta(key, a, 2.0, (COUNT,)), 3.0, 2 / 25),
    ):
        slopes = np.asarray(rlx.jvp(draw, (a,), (1.0,))[1]).astype(np.float64)
        assert abs(slopes.mean() - wanted) < 5 * slopes.std() / COUNT**0.5


# -- keys and errors ------------------------------------------------------------------------------


def test_what_keys_are():
    key = random.key(0)
    assert random.key_impl(key) == jax.random.key_impl(jax.random.PRNGKey(0))
    assert random.key_dtype() == key.dtype
    assert random.clone(key).tolist() == key.tolist()


@pytest.mark.parametrize(
    ("call", "error"),
    [
        (lambda key: random.gamma(key, 2.0, dtype="int32"), DtypeError),
        (lambda key: random.poisson(key, 2.0, dtype="float32"), DtypeError),
        (lambda key: random.beta(key, np.ones(2), np.ones(3)), ShapeError),
        (lambda key: random.dirichlet(key, 1.0), ShapeError),
        (lambda key: random.multinomial(key, 3, 1.0), ShapeError),
        (lambda key: random.key_dtype("philox"), AttributeValueError),
        (lambda key: random.multivariate_normal(key, 1.0, np.eye(2)), ShapeError),
        (lambda key: random.multivariate_normal(key, np.ones(3), np.eye(2)), ShapeError),
        (
            lambda key: random.multivariate_normal(key, np.ones(2), np.eye(2), method="lu"),
            AttributeValueError,
        ),
        (lambda key: random.orthogonal(key, 3, dtype="int32"), DtypeError),
        (lambda key: random.clone(3), ShapeError),
    ],
)
def test_bad_input_is_an_error_with_a_fix(call: Any, error: type):
    with pytest.raises(error) as caught:
        call(random.key(0))
    assert caught.value.where
    assert caught.value.fix
