"""Derivatives at corners: masked infinities, roots at zero, ties; both modes, twice."""

from __future__ import annotations

import functools

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import rlx
import rlx.numpy as rnp
from rlx.ir.graph import OPS
from rlx.trace.apply import apply

X = np.array([0.0, -1.0, 2.0, -2.0])
CHOICES = {  # a function of an array whose unused numbers have infinite or undefined slopes
    "log": lambda n, x: n.where(x > 0, n.log(x), 0.0),
    "log of log": lambda n, x: n.where(x > 1, n.log(n.log(x)), 0.0),
    "reciprocal": lambda n, x: n.where(x != 0, 1 / x, 0.0),
    "sqrt": lambda n, x: n.where(x > 0, n.sqrt(x), 0.0),
    "used twice": lambda n, x: n.where(x > 0, n.log(x) * n.sqrt(x) + n.log(x), 0.0),
    "other side": lambda n, x: n.where(x <= 0, 0.0, x * n.log(x)),
    "nested": lambda n, x: n.where(x > 0, n.where(x < 5, n.log(x), 1.0), x * x),
    "two choices": lambda n, x: n.where(x > 0, n.log(x), 0.0) + n.where(x != 0, 1 / x, 0.0),
    "broadcast": lambda n, x: n.where((x > 0)[None], n.broadcast_to(n.log(x), (2, 4)), 0.0),
    "moved": lambda n, x: n.where((x > 0)[::-1], n.log(x)[::-1], 0.0),
    "reshaped": lambda n, x: n.where((x > 0).reshape(2, 2).T, n.log(x).reshape(2, 2).T, 0.0),
    "taken": lambda n, x: n.where((x > 0)[n.array([2, 0])], n.log(x)[n.array([2, 0])], 0.0),
    "joined": lambda n, x: n.where(n.tile(x > 0, 2), n.concatenate([n.log(x), 1 / x]), 0.0),
    "scaled": lambda n, x: n.where(x > 0, 3.0 * n.log(x) / 2.0, 0.0),
    "power": lambda n, x: n.where(x > 0, x**-1.5, 0.0),
    "angle": lambda n, x: n.where(abs(x) < 1.5, n.arctanh(x / 2), 0.0),
}
on_choices = pytest.mark.parametrize("name", CHOICES)


def close(got, wanted):
    error = 2.0**-44  # some hundred roundings of float64
    np.testing.assert_allclose(got, wanted, rtol=error, atol=error)


def weighed(n, name, x):
    """The function summed with weights, so that the members differ."""
    y = CHOICES[name](n, x)
    return n.sum(y * n.arange(1, y.size + 1).reshape(y.shape))


@functools.cache
def true_derivatives():
    """By JAX in forward mode, where choices hide infinities: gradients, the Hessians' diagonals."""

    def found(x):
        each = {}
        for name in CHOICES:
            first = jax.jacfwd(lambda x, name=name: weighed(jnp, name, x))
            each[name] = first(x), jnp.diagonal(jax.jacfwd(first)(x))
        return each

    return of_jax(found, X)


def of_jax(fn, x):
    """What a function gives, compiled by JAX in little time."""
    with jax.enable_x64(True):
        compiled = jax.jit(fn).lower(x).compile({"xla_backend_optimization_level": 0})
        return compiled(x)


@on_choices
def test_what_is_not_chosen_has_no_part_in_derivatives(name):
    first, second = true_derivatives()[name]
    assert np.isfinite([first, second]).all()
    fn = lambda x: weighed(rnp, name, x)  # noqa: E731
    close(rlx.grad(fn)(X), first)
    close(np.diagonal(rlx.hessian(fn)(X)), second)
    close(np.diagonal(rlx.jacrev(rlx.jacrev(fn))(X)), second)


def test_what_is_not_chosen_has_no_part_in_compiled_derivatives():
    slopes = rlx.jit(
        lambda x: {n: rlx.grad(lambda x, n=n: weighed(rnp, n, x))(x) for n in CHOICES}
    )(X)
    for name, (first, _) in true_derivatives().items():
        close(slopes[name], first)


WRAPPED = {
    "jit": lambda fn: rlx.jit(fn),
    "checkpoint": lambda fn: rlx.checkpoint(fn),
    "vmap": lambda fn: rlx.vmap(fn),
    "scan": lambda fn: lambda x: rlx.scan(lambda c, x: (c, fn(x)), 0.0, x)[1],
    "cond": lambda fn: lambda x: rlx.cond(True, fn, lambda x: x, x),
}


@pytest.mark.parametrize("name", WRAPPED)
def test_choices_inside_of_transforms(name):
    wrap = WRAPPED[name]
    wanted = [0.0, 0.0, 0.5, 0.0]
    whole = wrap(lambda x: rnp.where(x > 0, rnp.log(x), 0.0))
    close(rlx.grad(lambda x: rnp.sum(whole(x)))(X), wanted)
    if name in ("jit", "vmap"):  # what is masked outside of a nested graph reaches into it
        close(rlx.grad(lambda x: rnp.sum(rnp.where(x > 0, wrap(rnp.log)(x), 0.0)))(X), wanted)


@pytest.mark.parametrize("name", ["reduce_sum", "sum_in_turn"])
def test_sums_move_what_is_not_chosen(name):
    def fn(x):
        sums = apply(OPS[name], rnp.log(x).reshape(4, 1), axes=(1,))
        return rnp.sum(rnp.where(x > 0, sums, 0.0))

    close(rlx.grad(fn)(X), [0.0, 0.0, 0.5, 0.0])


def test_a_batched_cond_is_a_choice():
    fn = lambda x: rlx.cond(x > 0, rnp.log, lambda x: 0.0 * x, x)  # noqa: E731
    close(rlx.vmap(rlx.grad(fn))(X), [0.0, 0.0, 0.5, 0.0])
    close(rlx.grad(lambda x: rnp.sum(rlx.vmap(fn)(x)))(X), [0.0, 0.0, 0.5, 0.0])


def test_infinite_slopes_that_are_chosen_stay():
    assert rlx.grad(lambda x: rnp.where(x >= 0, rnp.log(x), 0.0))(0.0) == np.inf
    assert np.isnan(rlx.grad(lambda x: 0.0 * rnp.log(x))(0.0))


def test_gradients_of_choices_cost_no_more_where_nothing_is_infinite():
    """A relu between products: one choice forward, one backward."""

    def loss(w, x):
        hidden = rnp.where(x @ w > 0, x @ w, 0.0)
        return rnp.sum(3.0 * hidden @ w)

    graph = rlx.make_graph(rlx.grad(loss))(np.ones((3, 3)), np.ones((2, 3)))
    assert sum(node.op.name == "select" for node in graph.walk()) <= 2


# -- slopes that are infinite where the value is finite -------------------------------------------

FLAT = {  # the function and a corner of it; its derivatives there are 0
    "sqrt": (rnp.sqrt, 0.0),
    "cbrt": (rnp.cbrt, 0.0),
    "power": (lambda x: x**0.5, 0.0),
    "power of an array": (lambda x: rnp.power(x, rnp.asarray(0.25)), 0.0),
    "power zero": (lambda x: rnp.power(x, rnp.asarray(0.0)), 0.0),
    "sqrt of square": (lambda x: rnp.sqrt(x * x), 0.0),
    "abs": (rnp.abs, 0.0),
    "complex abs": (lambda x: rnp.abs(x + 0j), 0.0),
    "norm": (lambda x: rnp.linalg.norm(rnp.stack([x, 2 * x])), 0.0),
    "norm 1": (lambda x: rnp.linalg.norm(rnp.stack([x, 2 * x]), ord=1), 0.0),
    "norm 3": (lambda x: rnp.linalg.norm(rnp.stack([x, 2 * x]), ord=3), 0.0),
    "norm inf": (lambda x: rnp.linalg.norm(rnp.stack([x, 2 * x]), ord=np.inf), 0.0),
    "hypot": (lambda x: rnp.hypot(x, x), 0.0),
    "std": (lambda x: rnp.std(rnp.stack([x, x])), 3.0),
    "arcsin": (rnp.arcsin, 1.0),
    "arccos": (rnp.arccos, -1.0),
    "arccosh": (rnp.arccosh, 1.0),
    "arctan2": (lambda x: rnp.arctan2(x, x), 0.0),
    "angle": (lambda x: rnp.angle(x + 0j), 0.0),
}


@pytest.mark.parametrize("name", FLAT)
def test_slopes_are_finite_where_values_are(name):
    fn, corner = FLAT[name]
    assert np.isfinite(fn(np.float64(corner)))
    assert rlx.grad(fn)(np.float64(corner)) == 0
    assert rlx.jit(rlx.grad(fn))(np.float64(corner)) == 0
    assert rlx.jvp(fn, (np.float64(corner),), (np.float64(1.0),))[1] == 0
    assert np.isfinite(rlx.grad(rlx.grad(fn))(np.float64(corner)))


def test_slopes_near_corners_are_those_of_the_function():
    close(rlx.grad(rnp.sqrt)(np.float64(1e-300)), 0.5e150)
    close(rlx.grad(lambda x: x**0.5)(np.float64(1e-8)), 0.5e4)
    close(rlx.grad(lambda x: x**1.0)(np.float64(0.0)), 1.0)
    close(rlx.grad(lambda x: rnp.power(x, rnp.asarray(1.0)))(np.float64(0.0)), 1.0)
    close(rlx.grad(rnp.cbrt)(np.float64(-8.0)), 1 / 12)
    # at the exponent 0 the base has no slope, and its slope has one: that of y / x is 1 / x
    tilted = rlx.grad(rlx.grad(rnp.power, 0), 1)
    close(tilted(np.float64(4.0), np.float64(0.0)), 0.25)
    close(rlx.grad(rlx.grad(lambda x: (x + 2) ** rnp.tanh(x)))(np.float64(0.0)), 1 + np.log(2) ** 2)


TIES = {  # as in JAX
    "maximum": lambda n, x: n.maximum(x, 0.0),
    "maximum with itself": lambda n, x: n.maximum(x, x),
    "minimum": lambda n, x: n.minimum(0.0, x),
    "max": lambda n, x: n.max(n.stack([x, x, 0 * x])),
    "min": lambda n, x: n.min(n.stack([x, n.zeros_like(x)])),
    "clip": lambda n, x: n.clip(x, 0.0, 1.0),
    "sort": lambda n, x: n.sort(n.stack([0 * x, x]))[0],
    "median": lambda n, x: n.median(n.stack([x, x, 0 * x])),
    "prod": lambda n, x: n.prod(n.stack([x, x, x + 1])),
    "cumprod": lambda n, x: n.cumprod(n.stack([x, x, x + 1])).sum(),
    "logaddexp": lambda n, x: n.logaddexp(x, 0.0),
    "var": lambda n, x: n.var(n.stack([x, x])),
}


def test_ties_share_as_in_jax():
    def slopes(lib, n, name, x):
        fn = lambda x: TIES[name](n, x)  # noqa: E731
        first = lib.grad(fn)
        return first(x), lib.grad(first)(x), lib.jvp(fn, (x,), (1.0 + x,))[1]

    zero = np.float64(0.0)
    wanted = of_jax(lambda x: {n: slopes(jax, jnp, n, x) for n in TIES}, zero)
    for name in TIES:
        close(slopes(rlx, rnp, name, zero), wanted[name])
