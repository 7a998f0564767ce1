"""Indices outside of an array, in each mode: as in JAX, derivatives included."""

from __future__ import annotations

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from hypothesis import given, settings, strategies as st

import rlx
from tests.scatter_programs import check

X = np.arange(4, dtype=np.float32)
PLACES = np.array([9, 1, -9], np.int32)


@settings(max_examples=6, deadline=None, derandomize=True)
@given(st.integers(0, 10**6))
def test_random_reads_and_writes(seed):
    check(seed)


@pytest.mark.parametrize("method", ["set", "add"])
@pytest.mark.parametrize("places", [PLACES, PLACES.astype(np.uint8)[:2]])
def test_a_promise_that_is_broken_drops_updates(method, places):
    def f(x, i):
        return getattr(x.at[i], method)(7.0, mode="promise_in_bounds")

    wanted = jax.jit(f)(X, places).tolist()
    assert rlx.jit(f)(X, places).tolist() == wanted
    assert rlx.jit(rlx.from_jax(f))(X, places).tolist() == wanted
    for device in ("reference", "xla"):
        assert rlx.jit(f, device=device)(X, places).tolist() == wanted
    stepped = lambda x, i: getattr(x.at[::2, i], method)(7.0, mode="promise_in_bounds")  # noqa: E731
    table = np.zeros((4, 4), np.float32)
    assert rlx.jit(stepped)(table, places).tolist() == jax.jit(stepped)(table, places).tolist()


def test_padded_edges_of_graphs_train_as_in_jax():
    """Senders and receivers of edges that are not there have the number of nodes."""
    random = np.random.default_rng(0)
    nodes = random.normal(size=(5, 3)).astype(np.float32)
    weights = random.normal(size=(3, 3)).astype(np.float32)
    senders = np.array([0, 3, 4, 5, 5], np.int32)
    receivers = np.array([1, 1, 2, 5, 5], np.int32)

    def loss(weights, nodes, senders, receivers):
        messages = jnp.tanh(nodes @ weights)[senders]
        return (jnp.zeros_like(nodes).at[receivers].add(messages) ** 2).sum()

    def step(weights, *rest):
        slopes = jax.grad(loss, (0, 1))(weights, *rest)
        return weights - 0.1 * slopes[0], slopes[1]

    args = weights, nodes, senders, receivers
    for found, wanted in zip(rlx.jit(rlx.from_jax(step))(*args), jax.jit(step)(*args), strict=True):
        np.testing.assert_allclose(np.asarray(found), np.asarray(wanted), 1e-5, 1e-6)
