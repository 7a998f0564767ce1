"""`rlx.scipy.stats` against the numbers and derivatives of `jax.scipy.stats`."""

from __future__ import annotations

import importlib
import inspect
import pickle
from typing import Any

import jax
import jax.scipy.stats as theirs
import numpy as np
import pytest
import scipy.stats

import rlx
import rlx.scipy.stats as ours
from rlx.ir.errors import RlxError

EPSILON = {"float32": float(np.finfo("float32").eps), "float64": float(np.finfo("float64").eps)}
UNITS = {"float32": 64, "float64": 1024}  # of the last place that a number may differ
NORMAL = (-3.0, -0.5, 0.0, 0.25, 1.0, 2.0, 4.0)
POSITIVE = (-1.0, 0.3, 0.7, 1.0, 1.8, 3.0, 9.0)
COUNTS = (-1.0, 0.0, 1.0, 2.0, 3.0, 5.0, 6.0)
SHARE = (-0.2, 0.1, 0.25, 0.5, 0.75, 0.9, 1.3)
INSIDE = (0.05, 0.1, 0.25, 0.5, 0.75, 0.9, 0.95)
# places, then the parameters of each distribution
CASES: dict[str, tuple[Any, ...]] = {
    "bernoulli": (COUNTS, 0.3),
    "beta": (SHARE, 2.0, 1.5),
    "betabinom": (COUNTS, 5.0, 2.0, 1.5),
    "binom": (COUNTS, 5.0, 0.4),
    "cauchy": (NORMAL, 0.3, 1.7),
    "chi2": (POSITIVE, 3.0, -0.1, 1.2),
    "expon": (POSITIVE, 0.2, 1.7),
    "gamma": (POSITIVE, 2.3, 0.1, 1.7),
    "gennorm": (NORMAL, 1.6),
    "geom": (COUNTS, 0.3),
    "gumbel_l": (NORMAL, 0.3, 1.7),
    "gumbel_r": (NORMAL, 0.3, 1.7),
    "laplace": (NORMAL, 0.3, 1.7),
    "logistic": (NORMAL, 0.3, 1.7),
    "nbinom": (COUNTS, 2.5, 0.4),
    "norm": (NORMAL, 0.3, 1.7),
    "pareto": (POSITIVE, 2.3, 0.1, 0.8),
    "poisson": (COUNTS, 2.3),
    "t": (NORMAL, 3.5, 0.3, 1.7),
    "truncnorm": (NORMAL, -1.5, 2.2, 0.1, 1.3),
    "uniform": (POSITIVE, 0.2, 2.5),
    "vonmises": (NORMAL, 1.7),
    "wrapcauchy": (POSITIVE, 0.4),
}
KINDS = ("logpdf", "pdf", "logpmf", "pmf", "cdf", "logcdf", "sf", "logsf", "ppf", "isf")
FUNCTIONS = [(d, k) for d in CASES for k in KINDS if hasattr(getattr(theirs, d), k)]


def arguments(name: str, kind: str) -> list[Any]:
    places, *parameters = CASES[name]
    chances = kind in ("ppf", "isf")
    if name == "bernoulli" and kind in ("cdf", "ppf"):
        parameters = parameters[:1]
    return [np.array(INSIDE if chances else places), *map(np.float64, parameters)]


def close(got: Any, wanted: Any, dtype: str) -> None:
    got, wanted = np.asarray(got), np.asarray(wanted)
    assert got.dtype == dtype
    tolerance = UNITS[dtype] * EPSILON[dtype]
    np.testing.assert_allclose(got, wanted, rtol=tolerance, atol=tolerance / 8)


def test_names_and_parameters_are_those_of_jax() -> None:
    for name in [*CASES, "dirichlet", "multinomial", "multivariate_normal"]:
        other, mine = getattr(theirs, name), getattr(ours, name)
        for kind in filter(lambda n: not n.startswith("_"), dir(other)):
            wanted = inspect.signature(getattr(other, kind)).parameters.values()
            got = inspect.signature(getattr(mine, kind)).parameters.values()
            assert [(p.name, p.default) for p in got] == [(p.name, p.default) for p in wanted]


@pytest.mark.parametrize("name", CASES)
def test_values_are_those_of_scipy(name: str) -> None:
    for kind in [k for d, k in FUNCTIONS if d == name]:
        xs = arguments(name, kind)
        mine = getattr(getattr(ours, name), kind)
        with np.errstate(all="ignore"):
            wanted = getattr(getattr(scipy.stats, name), kind)(*xs)
        close(mine(*xs), wanted, "float64")
        close(mine(*[x.astype("float32") for x in xs]), wanted, "float32")


def slopes(module: Any, grad: Any) -> Any:
    """The slopes of all distributions in all their arguments, where they have one."""

    def each() -> dict[str, Any]:
        result = {}
        for name in CASES:
            kinds = [k for k in ("logpdf", "logpmf", "cdf") if (name, k) in FUNCTIONS]
            for kind in kinds[:1] if name in ("beta", "bernoulli") else kinds:
                xs = arguments(name, kind)
                xs[0] = xs[0][2:5]
                # those of jax in the scale of a Gumbel distribution are an error
                order = (0, 1) if name.startswith("gumbel") else tuple(range(len(xs)))
                fn = getattr(getattr(module, name), kind)
                result[f"{name}.{kind}"] = grad(lambda *xs, fn=fn: fn(*xs).sum(), order)(*xs)
        return result

    return each


def test_slopes_are_those_of_jax() -> None:
    with jax.enable_x64(True):
        wanted = jax.jit(slopes(theirs, jax.grad))()
    got = slopes(ours, rlx.grad)()
    assert set(got) == set(wanted)
    for name, mine in got.items():
        for one, other in zip(mine, wanted[name], strict=True):
            np.testing.assert_allclose(one, other, rtol=1e-9, atol=1e-11, err_msg=name)


def test_gumbel_has_a_slope_in_its_scale() -> None:
    for module in (ours.gumbel_l, ours.gumbel_r):
        slope = rlx.grad(module.logpdf, 2)(np.float64(0.4), np.float64(0.3), np.float64(1.7))
        step = 1e-6
        ends = [float(module.logpdf(np.float64(0.4), 0.3, 1.7 + h)) for h in (step, -step)]
        np.testing.assert_allclose(slope, (ends[0] - ends[1]) / (2 * step), rtol=1e-8)


# -- of several numbers ---------------------------------------------------------------------------

RANDOM = np.random.default_rng(0)
ROOT = RANDOM.normal(size=(3, 3))
COV = ROOT @ ROOT.T + np.eye(3)


def test_vectors_are_those_of_scipy() -> None:
    x, mean = RANDOM.normal(size=(2, 5, 3)), RANDOM.normal(size=3)
    normal = scipy.stats.multivariate_normal
    close(ours.multivariate_normal.logpdf(x, mean, COV), normal.logpdf(x, mean, COV), "float64")
    close(
        ours.multivariate_normal.pdf(x[0, 0], mean, COV), normal.pdf(x[0, 0], mean, COV), "float64"
    )
    many = ours.multivariate_normal.logpdf(x[0, :2], mean, np.stack([COV, 2 * COV]))
    close(many, [normal.logpdf(x[0, i], mean, (i + 1) * COV) for i in range(2)], "float64")
    close(ours.multivariate_normal.logpdf(x, mean, 2.0), normal.logpdf(x, mean, 2.0), "float64")
    close(
        ours.multivariate_normal.logpdf(x[..., 0], 0.5, 2.0),
        normal.logpdf(x[..., :1], 0.5, 2.0),
        "float64",
    )
    alpha = np.array([0.5, 2.0, 3.5])
    share = RANDOM.dirichlet(alpha, 4).T
    for place in (share, share[:-1], share[:, 0]):
        close(ours.dirichlet.pdf(place, alpha), scipy.stats.dirichlet.pdf(place, alpha), "float64")
    assert ours.dirichlet.logpdf([0.5, 0.7, 0.1], alpha) == -np.inf
    chances, counts = np.array([0.2, 0.3, 0.5]), np.array([[1, 0, 3], [2, 2, 1]])
    wanted = scipy.stats.multinomial.pmf(counts, counts.sum(-1), chances)
    close(ours.multinomial.pmf(counts, counts.sum(-1), chances), wanted, "float64")
    assert ours.multinomial.pmf(counts[0], 5, chances) == 0
    close(
        ours.poisson.entropy([0.0, 0.3, 7.0, 60.0]),
        scipy.stats.poisson.entropy([0.0, 0.3, 7.0, 60.0]),
        "float32",
    )
    far = np.array([99.0, 100.0, 400.0])
    np.testing.assert_allclose(
        ours.poisson.entropy(far), scipy.stats.poisson.entropy(far), rtol=1e-9
    )


def test_slopes_and_batches_of_vectors() -> None:
    x, mean = RANDOM.normal(size=(4, 3)), RANDOM.normal(size=3)
    density = ours.multivariate_normal.logpdf
    slopes = rlx.jit(rlx.grad(lambda x, m, c: density(x, m, c).sum(), (0, 1)))(x, mean, COV)
    pull = -np.linalg.solve(COV, (x - mean).T).T
    np.testing.assert_allclose(slopes[0], pull, rtol=1e-12)
    np.testing.assert_allclose(slopes[1], -pull.sum(0), rtol=1e-12)
    rows = rlx.vmap(density, (0, None, None))(x, mean, COV)
    np.testing.assert_allclose(rows, density(x, mean, COV), rtol=1e-13)


# -- samples --------------------------------------------------------------------------------------


def test_samples_are_those_of_scipy() -> None:
    x = RANDOM.integers(0, 4, (5, 6))
    for axis in (0, 1, -1, None):
        for keepdims in (False, True):
            got = ours.mode(x, axis, keepdims=keepdims)
            wanted = scipy.stats.mode(x, axis, keepdims=keepdims)
            np.testing.assert_array_equal(got.mode, wanted.mode)
            np.testing.assert_array_equal(got.count, wanted.count)
            close(
                ours.sem(x, axis, keepdims=keepdims),
                scipy.stats.sem(x, axis, keepdims=keepdims),
                "float32",
            )
        for method in ("average", "min", "max", "dense", "ordinal"):
            got = rlx.jit(lambda x, method=method, axis=axis: ours.rankdata(x, method, axis=axis))(
                x
            )
            np.testing.assert_array_equal(got, scipy.stats.rankdata(x, method, axis=axis))
    holes = np.array([1.0, np.nan, 2.0, np.nan, 5.0])
    assert ours.mode(holes).count == 2
    assert np.isnan(ours.mode(holes).mode)
    assert np.isnan(ours.rankdata(holes)).all()
    close(ours.sem(holes, nan_policy="omit"), scipy.stats.sem(holes, nan_policy="omit"), "float64")


def test_kernel_densities_are_those_of_scipy() -> None:
    points, places = RANDOM.normal(size=(2, 30)), RANDOM.normal(size=(2, 7))
    for settings in (
        {},
        {"bw_method": "silverman"},
        {"bw_method": 0.3, "weights": np.arange(1.0, 31.0)},
    ):
        mine, other = (
            ours.gaussian_kde(points, **settings),
            scipy.stats.gaussian_kde(points, **settings),
        )
        np.testing.assert_allclose(rlx.jit(mine)(places), other(places), rtol=1e-11)
        np.testing.assert_allclose(mine.logpdf(places), other.logpdf(places), rtol=1e-11)
        np.testing.assert_allclose(mine.covariance, other.covariance, rtol=1e-12)
        np.testing.assert_allclose(mine.integrate_kde(mine), other.integrate_kde(other), rtol=1e-11)
        np.testing.assert_allclose(
            mine.integrate_gaussian(places[:, 0], np.eye(2)),
            other.integrate_gaussian(places[:, 0], np.eye(2)),
            rtol=1e-11,
        )
    line, other = ours.gaussian_kde(points[0]), scipy.stats.gaussian_kde(points[0])
    np.testing.assert_allclose(
        line.integrate_box_1d(-1.0, 0.5), other.integrate_box_1d(-1.0, 0.5), rtol=1e-12
    )
    # a container of arrays: it goes through transforms
    slope = rlx.grad(lambda kde: kde.logpdf(places).sum())(ours.gaussian_kde(points))
    assert slope.dataset.shape == points.shape


def test_kernel_densities_are_resampled() -> None:
    kde = ours.gaussian_kde(RANDOM.normal(size=(2, 30)))
    points = kde.resample(rlx.random.key(3), (4000,))
    assert points.shape == (2, 4000)
    # the spread is that of the data and that of each point together
    spread = np.cov(kde.dataset, bias=True) + np.asarray(kde.covariance)
    deviation = np.sqrt(np.diag(spread) / 4000)
    assert (np.abs(np.mean(points, 1) - np.mean(kde.dataset, 1)) < 5 * deviation).all()
    np.testing.assert_allclose(np.cov(points), spread, atol=8 * spread.max() / np.sqrt(4000))


def test_what_has_no_meaning_is_refused() -> None:
    for call in (
        lambda: ours.norm.pdf(1j),
        lambda: ours.norm(0.0, scale=2.0),
        lambda: ours.multinomial.pmf([1.0, 2.0], 3, [0.5, 0.5]),
        lambda: ours.dirichlet.pdf([0.5, 0.5], [1.0]),
        lambda: ours.multivariate_normal.pdf([1.0, 2.0], [0.0, 0.0], np.eye(3)),
        lambda: ours.multivariate_normal.logpdf(1.0, 0.0, 1.0, allow_singular=True),
        lambda: ours.mode([1, 2], nan_policy="omit"),
        lambda: ours.rankdata([1, 2], "best"),
        lambda: ours.sem([1.0], nan_policy="raise"),
        lambda: ours.gaussian_kde([1.0]),
        lambda: ours.gaussian_kde([1.0, 2.0], "wide"),
        lambda: ours.gaussian_kde([1.0, 2.0], weights=[1.0]),
        lambda: ours.gaussian_kde([1.0, 2.0]).set_bandwidth(),
        lambda: ours.gaussian_kde([1.0, 2.0])(np.ones((2, 3))),
    ):
        with pytest.raises(RlxError) as caught:
            call()
        assert caught.value.fix


DISTRIBUTIONS = sorted({*CASES, "dirichlet", "multinomial", "multivariate_normal"})


@pytest.mark.parametrize("name", DISTRIBUTIONS)
def test_functions_of_a_distribution_are_found_like_those_of_a_module(name: str) -> None:
    module = importlib.import_module(f"rlx.scipy.stats.{name}")
    assert module is getattr(ours, name)
    for kind in (k for k in KINDS if hasattr(getattr(theirs, name), k)):
        function = getattr(module, kind)
        assert (function.__name__, function.__qualname__) == (kind, f"{name}.{kind}")
        assert str(inspect.getdoc(function)).endswith(".")
        assert pickle.loads(pickle.dumps(function)) is function
        with pytest.raises(TypeError, match=rf"{name}\.\w+[:(].*missing"):
            function()


def test_functions_that_follow_from_others_are_called_by_their_own_names() -> None:
    for call in (ours.chi2.pdf, ours.norm.pdf, ours.beta.logsf, ours.dirichlet.pdf):
        for keywords in ({}, {"axsi": 0}):
            with pytest.raises(TypeError, match=rf"^{call.__qualname__}: "):
                call(0.5, **keywords) if keywords else call()
