"""The less common arguments of functions, compared with JAX."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import rlx
import rlx.numpy as rnp
from rlx import nn
from rlx.ir.errors import ArgumentError, AxisError, DonatedError, StaticArgumentError

random = np.random.default_rng(0)
X = random.normal(size=(3, 4)).astype(np.float32)
HOLES = np.where(random.random((3, 4)) < 0.3, np.nan, X).astype(np.float32)
HOLES[1] = np.nan
MASK = random.random((3, 4)) < 0.6
MASK[2] = False
V = np.array([3.0, 1.0, 2.0, 1.0, 3.0], np.float32)
NAN = np.array([np.nan, 1.0, np.nan, 1.0], np.float32)


def same(found: Any, wanted: Any) -> None:
    """Compare two trees of arrays."""
    for x, y in zip(rlx.tree.leaves(found), jax.tree.leaves(wanted), strict=True):
        assert x.shape == y.shape
        np.testing.assert_allclose(np.asarray(x), np.asarray(y), rtol=2e-5, atol=1e-6)


CALLS: list[Callable[[Any, Any], Any]] = [
    lambda np, x: np.nansum(HOLES, 1, initial=2.0, where=MASK),
    lambda np, x: np.nansum(HOLES, 1, None, None, True),
    lambda np, x: np.nanprod(HOLES, 0, keepdims=True, initial=2.0, where=MASK),
    lambda np, x: np.nanmax(HOLES, 1),
    lambda np, x: np.nanmax(HOLES, 1, keepdims=True, initial=0.0, where=MASK),
    lambda np, x: np.nanmin(HOLES, 0, initial=5.0),
    lambda np, x: np.nanmax(jnp.arange(4)),
    lambda np, x: np.nanmean(HOLES, 0, where=MASK),
    lambda np, x: np.nanvar(HOLES, 0, ddof=1, where=MASK),
    lambda np, x: np.nanstd(HOLES, 0, keepdims=True),
    lambda np, x: np.var(x, 1, mean=np.mean(x, 1, keepdims=True)),
    lambda np, x: np.std(x, 0, mean=np.zeros((1, 4)), ddof=1),
    lambda np, x: np.diff(x, 2, 0, prepend=1.0, append=x[:1]),
    lambda np, x: np.diff(x, append=0.0),
    lambda np, x: np.ediff1d(x, to_end=9.0, to_begin=np.array([1.0, 2.0])),
    lambda np, x: np.cov(x, fweights=jnp.array([1, 2, 1, 3])),
    lambda np, x: np.cov(x, aweights=jnp.array([0.1, 0.2, 0.4, 0.3]), ddof=1),
    lambda np, x: np.cov(x, aweights=jnp.array([0.1, 0.2, 0.4, 0.3]), bias=True),
    lambda np, x: np.cov(
        x, fweights=jnp.array([1, 2, 1, 3]), aweights=jnp.array([0.1, 0.2, 0.4, 0.3])
    ),
    lambda np, x: np.where(MASK),
    lambda np, x: np.where(MASK, size=3, fill_value=7),
    lambda np, x: np.union1d(V, np.array([5.0, 1.0]), size=6, fill_value=0.0),
    lambda np, x: np.intersect1d(V, np.array([5.0, 1.0, 3.0]), return_indices=True),
    lambda np, x: np.unique(NAN, return_counts=True),
    lambda np, x: np.unique(NAN, equal_nan=False),
    lambda np, x: np.unique(NAN, return_inverse=True, size=3),
    lambda np, x: np.unique(NAN, size=3, equal_nan=False),
]


@pytest.mark.parametrize("call", CALLS)
def test_numpy(call):
    same(call(rnp, X), call(jnp, jnp.array(X)))


NN_CALLS: list[Callable[[Any, Any], Any]] = [
    lambda nn, x: nn.softmax(x, where=MASK),
    lambda nn, x: nn.softmax(x, 0, where=MASK),
    lambda nn, x: nn.log_softmax(x[:2], where=MASK[:2]),
    lambda nn, x: nn.logsumexp(x, 1, where=MASK),
    lambda nn, x: nn.logsumexp(x, 1, b=2.0 + x),
    lambda nn, x: nn.logsumexp(x, (0, 1), b=x, return_sign=True),
    lambda nn, x: nn.logsumexp(x, 0, return_sign=True, keepdims=True),
    lambda nn, x: nn.logsumexp(x[0], b=jnp.array([1.0, 0.0, 2.0, 0.5]), keepdims=True),
    lambda nn, x: nn.standardize(x, where=MASK | True),
    lambda nn, x: nn.standardize(x, 0, 0.5, 2.0),
]


@pytest.mark.parametrize("call", NN_CALLS)
def test_nn(call):
    same(call(nn, X), call(jax.nn, jnp.array(X)))


@pytest.mark.parametrize("name", ["softmax", "logsumexp"])
def test_what_is_masked_has_no_gradient(name):
    ours = rlx.grad(lambda x: (getattr(nn, name)(x, 1, where=MASK)[:2] ** 2).sum())(X)
    theirs = jax.grad(lambda x: (getattr(jax.nn, name)(x, 1, where=MASK)[:2] ** 2).sum())(X)
    same(ours, theirs)
    assert not np.isnan(rlx.grad(lambda x: nn.softmax(x, where=MASK).sum())(X)).any()


@pytest.mark.parametrize(
    "name", ["glorot_uniform", "lecun_normal", "he_uniform", "variance_scaling"]
)
@pytest.mark.parametrize("axes", [(0, 1, ()), ((1, 2), 0, ()), (-1, -2, 0), (1, 0, (2,))])
def test_initializers_take_axes(name, axes):
    given = (2.0, "fan_avg", "normal") if name == "variance_scaling" else ()
    ours = getattr(nn.initializers, name)(*given, *axes)
    theirs = getattr(jax.nn.initializers, name)(*given, *axes)
    shape = (6, 8, 4)
    same(ours(rlx.random.key(0), shape), theirs(jax.random.key(0), shape))
    with pytest.raises(AxisError):
        getattr(nn.initializers, name)(*given, 0, 0)(rlx.random.key(0), shape)


def test_jit_takes_places_of_arguments():
    @rlx.jit(static_argnums=1, donate_argnums=(0,))
    def scaled(x, n, *, power=1):
        assert isinstance(n, int)
        return x * n**power

    x = rlx.array(X)
    same(scaled(x, 2), X * 2)
    with pytest.raises(DonatedError):
        scaled(x, 2)
    same(rlx.jit(lambda x, n: x * len(n), static_argnums=(-1,))(X, "ab"), X * 2)
    with pytest.raises(StaticArgumentError, match="no argument 2 to be in static_argnums"):
        rlx.jit(lambda x, n: x, static_argnums=2)


@pytest.mark.parametrize("mode", ["reflect", "symmetric"])
@pytest.mark.parametrize("shape", [(1,), (1, 3), (2, 1)])
def test_one_element_is_mirrored_as_numpy_does(mode, shape):
    x = np.arange(1.0, 1 + np.prod(shape), dtype=np.float32).reshape(shape)
    for kind in ("odd", "even"):
        wanted = np.pad(x, 3, mode, reflect_type=kind)
        np.testing.assert_array_equal(rnp.pad(x, 3, mode, reflect_type=kind), wanted)


def test_a_keyword_that_is_none_is_told_of_the_function_that_was_called():
    for name in ("std", "nanstd", "var", "nanvar"):
        with pytest.raises(TypeError, match=rf"^{name}\(\) got an unexpected keyword"):
            getattr(rnp, name)(np.ones(3), k=1)


@pytest.mark.parametrize("shape", [(7, 3), (3, 7), (4, 4), (5, 1)])
@pytest.mark.parametrize("wrap", [False, True])
def test_fill_diagonal_wraps_in_a_tall_matrix(shape, wrap):
    wanted = np.zeros(shape, np.float32)
    found = rnp.fill_diagonal(wanted, 2.0, wrap)
    np.fill_diagonal(wanted, 2.0, wrap)
    np.testing.assert_array_equal(found, wanted)


@pytest.mark.parametrize("mode", ["edge", "reflect", "symmetric", "wrap", "linear_ramp", "mean"])
@pytest.mark.parametrize("transform", [lambda f: f, rlx.jit], ids=["eager", "jit"])
def test_an_axis_without_elements_cannot_grow(mode: str, transform: Callable) -> None:
    empty = rnp.zeros((2, 0))
    with pytest.raises(ArgumentError, match="axis 1 of") as caught:
        transform(lambda x: rnp.pad(x, 1, mode))(empty)
    assert caught.value.where.startswith("test_numpy_options.py:")
    assert rnp.pad(empty, ((1, 0), (0, 0)), mode).shape == (3, 0)
