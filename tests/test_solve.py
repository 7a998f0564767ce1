"""Equations whose derivatives do not go through the solver, compared with JAX."""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import rlx
from rlx.ir.errors import ArgumentError, ShapeError

random = np.random.default_rng(0)
A = (random.normal(size=(4, 4)) + 4 * np.eye(4)).astype(np.float32)
B = np.arange(4, dtype=np.float32)
WRAPS = [lambda fn: fn, rlx.jit]


def same(found: Any, wanted: Any) -> None:
    """Compare arrays."""
    np.testing.assert_allclose(np.asarray(found), np.asarray(wanted), rtol=2e-5, atol=2e-6)


def linear(lib: Any, custom_linear_solve: Any, while_loop: Any) -> Any:
    """The solution of A x = b by a loop no reverse mode goes through."""

    def solve(matvec, b):
        def step(c):
            return c[0] + 1, c[1] + (b - matvec(c[1])) * 0.2

        return while_loop(lambda c: c[0] < 60, step, (0, b * 0.0))[1]

    return lambda a, b: custom_linear_solve(lambda x: a @ x, b, solve, solve)


OURS = linear(rlx, rlx.custom_linear_solve, rlx.while_loop)
THEIRS = linear(jax, jax.lax.custom_linear_solve, jax.lax.while_loop)


@pytest.mark.parametrize("wrap", WRAPS)
def test_linear_solutions_and_their_derivatives(wrap):
    def loss(solve):
        return lambda a, b: (solve(a, b) ** 2).sum()

    same(wrap(OURS)(A, B), np.linalg.solve(A, B))
    for argnum in (0, 1):
        ours, theirs = rlx.grad(loss(OURS), argnum), jax.grad(loss(THEIRS), argnum)
        same(wrap(ours)(A, B), theirs(A, B))
    of_scale = lambda solve: lambda s: (solve(A * s, B) ** 2).sum()  # noqa: E731
    same(wrap(rlx.hessian(of_scale(OURS)))(1.0), jax.hessian(of_scale(THEIRS))(1.0))
    same(
        wrap(rlx.hessian(lambda b: loss(OURS)(A, b)))(B),
        jax.hessian(lambda b: loss(THEIRS)(A, b))(B),
    )
    scales = np.array([0.8, 1.0, 1.2], np.float32)
    same(
        wrap(rlx.vmap(rlx.grad(of_scale(OURS))))(scales),
        jax.vmap(jax.grad(of_scale(THEIRS)))(jnp.array(scales)),
    )
    same(wrap(rlx.vmap(lambda b: OURS(A, b)))(np.eye(4, dtype="float32")), np.linalg.inv(A).T)


def test_symmetric_systems_of_trees():
    diagonal = {"u": B + 1, "v": np.float32(2.0)}

    def solved(scale):
        product = lambda x: {"u": scale * diagonal["u"] * x["u"], "v": diagonal["v"] * x["v"]}  # noqa: E731

        def solve(matvec, b):
            ones = rlx.tree.map(rlx.numpy.ones_like, b)
            return rlx.tree.map(lambda y, d: y / d, b, matvec(ones))

        found = rlx.custom_linear_solve(product, {"u": B, "v": 3.0}, solve, symmetric=True)
        return found["u"].sum() + found["v"]

    same(solved(2.0), (B / (2 * (B + 1))).sum() + 1.5)
    same(rlx.grad(solved)(2.0), -(B / (4 * (B + 1))).sum())


def cube_root(lib: Any, custom_root: Any, while_loop: Any) -> Any:
    """The cube root by Newton's method."""

    def newton(f, x):
        step = lambda c: (c[0] + 1, c[1] - f(c[1]) / lib.grad(f)(c[1]))  # noqa: E731
        return while_loop(lambda c: c[0] < 20, step, (0, x))[1]

    return lambda a: custom_root(lambda x: x**3 - a, 1.0, newton, lambda g, y: y / g(1.0))


@pytest.mark.parametrize("wrap", WRAPS)
def test_roots_and_their_derivatives(wrap):
    ours = cube_root(rlx, rlx.custom_root, rlx.while_loop)
    theirs = cube_root(jax, jax.lax.custom_root, jax.lax.while_loop)
    same(wrap(ours)(8.0), 2.0)
    same(wrap(rlx.grad(ours))(8.0), jax.grad(theirs)(8.0))
    same(wrap(rlx.grad(rlx.grad(ours)))(8.0), jax.grad(jax.grad(theirs))(8.0))
    same(wrap(rlx.vmap(rlx.grad(ours)))(B + 1), jax.vmap(jax.grad(theirs))(jnp.array(B + 1)))


def test_a_solver_may_tell_more():
    solve = lambda f, x: (x - f(x) / 2.0, {"steps": 1})  # noqa: E731
    line = lambda a: rlx.custom_root(  # noqa: E731
        lambda x: 2.0 * x - a, 0.0, solve, lambda g, y: y / g(1.0), has_aux=True
    )
    found, extra = line(3.0)
    assert float(found) == 1.5 and int(extra["steps"]) == 1
    same(rlx.grad(lambda a: line(a)[0])(3.0), 0.5)


def test_errors():
    divide = lambda product, b: b / product(1.0)  # noqa: E731
    with pytest.raises(ArgumentError, match="the transposed system"):
        rlx.grad(lambda a: rlx.custom_linear_solve(lambda x: a * x, 1.0, divide))(2.0)
    with pytest.raises(ShapeError, match="another kind of thing than it takes"):
        rlx.custom_linear_solve(lambda x: x[:2], B, divide)
    with pytest.raises(ShapeError, match="another kind of thing than it takes"):
        rlx.custom_root(lambda x: (x, x), 1.0, divide, divide)
    with pytest.raises(ArgumentError, match="not a function"):
        rlx.custom_linear_solve(lambda x: x, B, 5)
