"""Named batches and what their members tell each other, compared with JAX."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import rlx
from rlx.ir.errors import ArgumentError, ShapeError
from rlx.lax import parallel

X = np.random.default_rng(0).normal(size=(4, 4, 3)).astype(np.float32)


def same(found: Any, wanted: Any) -> None:
    """Compare two trees of arrays."""
    for x, y in zip(rlx.tree.leaves(found), jax.tree.leaves(wanted), strict=True):
        assert x.shape == y.shape and x.dtype == y.dtype
        np.testing.assert_allclose(np.asarray(x), np.asarray(y), rtol=1e-5, atol=1e-6)


CALLS: list[Callable[[Any, Any], Any]] = [
    lambda lax, x: x - lax.pmean(x, "i"),
    lambda lax, x: x / lax.psum(x * x, "i"),
    lambda lax, x: lax.psum(1, "i") + x,
    lambda lax, x: lax.psum({"a": x, "b": x[0]}, "i")["a"],
    lambda lax, x: lax.axis_index("i") * x,
    lambda lax, x: lax.axis_size("i") * x,
    lambda lax, x: lax.all_gather(x, "i"),
    lambda lax, x: lax.all_gather(x, "i", axis=1) * x[:, None],
    lambda lax, x: lax.all_gather(x, "i", axis=1, tiled=True),
    lambda lax, x: lax.psum_scatter(x, "i"),
    lambda lax, x: lax.psum_scatter(x, "i", tiled=True),
    lambda lax, x: lax.all_to_all(x, "i", 0, 1),
    lambda lax, x: lax.all_to_all(x, "i", 0, 1, tiled=True),
    lambda lax, x: lax.ppermute(x, "i", [(0, 1), (1, 2), (3, 0), (2, 3)]),
    lambda lax, x: lax.pshuffle(x, "i", [2, 0, 3, 1]),
]


@pytest.mark.parametrize("call", CALLS)
def test_members_see_each_other(call):
    ours = rlx.vmap(lambda x: call(parallel, x), axis_name="i")
    theirs = jax.vmap(lambda x: call(jax.lax, x), axis_name="i")
    wanted = theirs(X)
    same(ours(X), wanted)
    same(rlx.jit(ours)(X), wanted)
    square = lambda f, np: lambda x: (f(x) ** 2).sum()  # noqa: E731
    same(rlx.grad(square(ours, rlx.numpy))(X), jax.grad(square(theirs, jnp))(X))


def test_extremes_and_who_gets_nothing():
    same(rlx.vmap(lambda x: parallel.pmax(x, "i") - x, axis_name="i")(X), X.max(0) - X)
    same(rlx.vmap(lambda x: parallel.pmin(x, "i") - x, axis_name="i")(X), X.min(0) - X)
    found = rlx.vmap(lambda x: parallel.ppermute(x, "i", [(0, 1), (3, 0)]), axis_name="i")(X)
    same(found, np.stack([X[3], X[0], 0 * X[0], 0 * X[0]]))


def test_two_names():
    def fn(lax):
        return lambda x: (lax.psum(x, ("i", "j")), lax.axis_index(("i", "j")), lax.pmax(x, "j"))

    ours = rlx.vmap(rlx.vmap(fn(parallel), axis_name="j"), axis_name="i")
    same(ours(X), jax.vmap(jax.vmap(fn(jax.lax), axis_name="j"), axis_name="i")(X))


def test_inside_of_control_flow_and_calls():
    def fn(lib, lax):
        def step(c, x):
            return c + lax.psum(x, "i"), lax.axis_index("i") * c

        def inside(x):
            c, ys = lib.lax.scan(step, 0.0, x[0])
            return lib.jit(lambda x: lax.pmean(x, "i"))(x) * c, ys

        return inside

    ours = rlx.vmap(fn(rlx, parallel), axis_name="i")
    theirs = jax.vmap(fn(jax, jax.lax), axis_name="i")
    same(ours(X), theirs(X))
    same(rlx.jit(ours)(X), theirs(X))


def test_loops_without_batched_operands():
    def fn(lax, fori):
        return lambda x: x[0] + fori(0, 3, lambda i, c: c + lax.axis_index("i"), 0)

    same(
        rlx.vmap(fn(parallel, rlx.fori_loop), axis_name="i")(X[:, 0]),
        jax.vmap(fn(jax.lax, jax.lax.fori_loop), axis_name="i")(X[:, 0]),
    )


def test_gradients_inside():
    def fn(lib, lax):
        return lambda x: lib.grad(lambda x: (lax.psum(x * x, "i") * x).sum())(x)

    same(
        rlx.vmap(fn(rlx, parallel), axis_name="i")(X),
        jax.vmap(fn(jax, jax.lax), axis_name="i")(X),
    )


def test_jitted_functions_hold_for_one_batch_only():
    fn = rlx.jit(lambda v: v * parallel.axis_size("i"))
    for size in (2, 5):
        found = rlx.vmap(lambda x: x * fn(1.0), axis_name="i")(np.ones(size, np.float32))
        assert found.tolist() == [size] * size
    with pytest.raises(ArgumentError, match="no batch named"):
        fn(1.0)
    inner = rlx.jit(lambda a: a * parallel.axis_index("i"))
    found = rlx.vmap(lambda v: v + inner(2.0), axis_name="i")(np.ones(2, np.float32))
    assert found.tolist() == [1, 3]


def test_custom_rules_see_the_batch_they_were_called_in():
    @rlx.custom_vjp
    def total(v):
        return parallel.psum(v * v, "i")

    def backward(v, ct):
        return (2 * v * parallel.psum(ct, "i"),)

    total.defvjp(lambda v: (parallel.psum(v * v, "i"), v), backward)
    plain = lambda v: parallel.psum(v * v, "i")  # noqa: E731
    both = [rlx.vmap(fn, axis_name="i") for fn in (total, plain)]
    custom, wanted = (rlx.grad(lambda x, fn=fn: (fn(x) ** 2).sum()) for fn in both)
    same(custom(X), wanted(X))
    nested = [rlx.vmap(fn, axis_name="i") for fn in (custom, wanted)]
    same(nested[0](X), nested[1](X))


def test_branches_without_batched_operands():
    choose = lambda v: rlx.cond(v.sum() > 4, lambda: parallel.psum(1, "i"), lambda: 9)  # noqa: E731
    x = np.array([[1, 1, 1], [2, 2, 2]], np.float32)
    assert rlx.vmap(choose, axis_name="i")(x).tolist() == [9, 2]
    again = lambda v: v[0] + rlx.checkpoint(lambda: parallel.axis_index("i") * 2)()  # noqa: E731
    assert rlx.vmap(again, axis_name="i")(x).tolist() == [1, 4]
    sized = rlx.vmap(lambda v: rlx.numpy.zeros(parallel.psum(1, "i")), axis_name="i")(x)
    assert sized.shape == (2, 2)


def test_errors():
    with pytest.raises(ArgumentError, match="no batch named 'i'"):
        parallel.psum(X, "i")
    with pytest.raises(ArgumentError, match="names here are 'j'"):
        pytest.fail(str(rlx.vmap(lambda x: parallel.psum(x, "i"), axis_name="j")(X)))
    with pytest.raises(ArgumentError, match="one-to-one"):
        rlx.vmap(lambda x: parallel.ppermute(x, "i", [(0, 1), (2, 1)]), axis_name="i")(X)
    with pytest.raises(ShapeError, match="does not make 4 parts"):
        rlx.vmap(lambda x: parallel.psum_scatter(x[:3], "i"), axis_name="i")(X)
