"""Derivatives and batches against JAX in float64, in every nesting."""

from __future__ import annotations

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import rlx
import rlx.numpy as rnp

RANDOM = np.random.default_rng(0)


@pytest.fixture(autouse=True)
def double_precision():
    with jax.enable_x64(True):
        yield


def close(ours, theirs, tolerance=1e-10):
    mine, others = rlx.tree.leaves(ours), jax.tree.leaves(theirs)
    assert len(mine) == len(others)
    for a, b in zip(mine, others, strict=True):
        np.testing.assert_allclose(np.asarray(a), np.asarray(b), rtol=tolerance, atol=tolerance)


X = RANDOM.normal(size=(5, 4))
LABELS = np.array([0, 2, 1, 1, 0], np.int32)
PARAMS = {
    "w1": RANDOM.normal(size=(4, 6)),
    "b1": RANDOM.normal(size=6),
    "w2": RANDOM.normal(size=(6, 3)),
}


def network(np_, nn):
    """The loss of an MLP with gelu, layer norm and softmax cross-entropy."""

    def loss(params, x=X):
        h = nn.gelu(x @ params["w1"] + params["b1"], approximate=False)
        h = h - np_.mean(h, axis=-1, keepdims=True)
        h = h / np_.sqrt(np_.mean(h * h, axis=-1, keepdims=True) + 1e-5)
        logits = h @ params["w2"]
        return -np_.mean(np_.sum(nn.log_softmax(logits) * nn.one_hot(LABELS, 3), axis=-1))

    return loss


OURS, THEIRS = network(rnp, rlx.nn.functional), network(jnp, jax.nn)
DIRECTION = {name: RANDOM.normal(size=p.shape) for name, p in PARAMS.items()}


def along(mod, loss):
    """The loss along a line through the parameters."""
    return lambda t: loss({k: p + t * DIRECTION[k] for k, p in PARAMS.items()})


def test_gradient_of_a_network():
    close(rlx.value_and_grad(OURS)(PARAMS), jax.value_and_grad(THEIRS)(PARAMS))


def test_compiled_gradient_of_a_network():
    close(rlx.jit(rlx.grad(OURS))(PARAMS), jax.grad(THEIRS)(PARAMS))


def test_hvp_of_a_network():
    _, theirs = jax.jvp(jax.grad(THEIRS), (PARAMS,), (DIRECTION,))
    close(rlx.hvp(OURS, (PARAMS,), (DIRECTION,)), theirs)
    close(rlx.jit(lambda p, d: rlx.hvp(OURS, (p,), (d,)))(PARAMS, DIRECTION), theirs)


def test_third_derivative_of_a_network():
    ours = rlx.grad(rlx.grad(rlx.grad(along(rnp, OURS))))
    theirs = jax.grad(jax.grad(jax.grad(along(jnp, THEIRS))))
    close(ours(np.float64(0.1)), theirs(0.1))
    close(rlx.jit(ours)(np.float64(0.1)), theirs(0.1))


def running(np_, scan):
    def loss(w, xs):
        def step(c, x):
            c = np_.tanh(w * c + x)
            return c, c * x

        last, ys = scan(step, xs[0] * 0.0, xs)
        return np_.sum(ys) + last

    return loss


def test_vmap_of_grad_of_scan():
    xs, ws = RANDOM.normal(size=(3, 7)), RANDOM.normal(size=3)
    ours = rlx.vmap(rlx.grad(running(rnp, rlx.scan), argnums=(0, 1)))
    theirs = jax.vmap(jax.grad(running(jnp, jax.lax.scan), argnums=(0, 1)))
    close(ours(ws, xs), theirs(ws, xs))
    close(rlx.jit(ours)(ws, xs), theirs(ws, xs))


def test_grad_of_vmap_of_cond():
    def build(np_, vmap, cond):
        def one(x, w):
            return cond(x > 0, lambda v: np_.sin(v) * w, lambda v: v * v * w, x)

        return lambda x, w: np_.sum(vmap(one, in_axes=(0, None))(x, w))

    x = RANDOM.normal(size=6)
    ours = rlx.grad(build(rnp, rlx.vmap, rlx.cond), argnums=(0, 1))
    theirs = jax.grad(build(jnp, jax.vmap, jax.lax.cond), argnums=(0, 1))
    close(ours(x, np.float64(1.5)), theirs(x, 1.5))
    close(rlx.jit(ours)(x, np.float64(1.5)), theirs(x, 1.5))


def test_jit_of_vmap_of_hessian():
    def f(np_):
        return lambda x: np_.sum(np_.sin(x) * x[::-1] ** 2)

    x = RANDOM.normal(size=(2, 3))
    ours = rlx.jit(rlx.vmap(rlx.hessian(f(rnp))))
    close(ours(x), jax.vmap(jax.hessian(f(jnp)))(x))


def test_forward_through_while_and_reverse_with_max_steps():
    def ours(x, **keywords):
        return rlx.while_loop(lambda v: v < 10.0, lambda v: v * v + 1.0, x, **keywords)

    theirs = lambda x: jax.lax.while_loop(lambda v: v < 10.0, lambda v: v * v + 1.0, x)  # noqa: E731
    x = np.float64(0.7)
    close(rlx.jvp(ours, (x,), (np.float64(1.0),)), jax.jvp(theirs, (0.7,), (1.0,)))
    slope = jax.jvp(theirs, (0.7,), (1.0,))[1]
    close(rlx.grad(lambda v: ours(v, max_steps=9))(x), slope)
    close(rlx.jit(rlx.grad(lambda v: ours(v, max_steps=9)))(x), slope)


def test_jacobians_agree():
    f = lambda np_: lambda x: np_.stack([np_.sum(x**3), np_.prod(x), x[0]])  # noqa: E731
    x = RANDOM.normal(size=3)
    close(rlx.jacfwd(f(rnp))(x), jax.jacfwd(f(jnp))(x))
    close(rlx.jacrev(f(rnp))(x), jax.jacrev(f(jnp))(x))


def test_custom_rules_under_vmap_and_grad():
    @rlx.custom_jvp
    def f(x):
        return rnp.sin(x)

    f.defjvp(lambda primals, tangents: (f(*primals), 3.0 * tangents[0] * primals[0]))
    x = np.array([1.0, 2.0])
    close(rlx.vmap(rlx.grad(f))(x), 3.0 * x)
    close(rlx.grad(rlx.grad(f))(np.float64(1.0)), 3.0)

    @rlx.custom_vjp
    def g(x):
        return rnp.sin(x)

    g.defvjp(lambda x: (g(x), x), lambda x, ct: (5.0 * ct * x,))
    close(rlx.jit(rlx.vmap(rlx.grad(g)))(x), 5.0 * x)


def test_checkpoint_changes_no_number():
    ours = rlx.grad(lambda p: rlx.checkpoint(OURS)(p))
    close(ours(PARAMS), jax.grad(THEIRS)(PARAMS))
    close(rlx.jit(ours)(PARAMS), jax.grad(THEIRS)(PARAMS))


def test_python_branches_see_values_under_grad():
    def f(x):
        return x * x if x > 0 else -x

    close(rlx.grad(f)(np.float64(3.0)), 6.0)
    close(rlx.grad(f)(np.float64(-3.0)), -1.0)


def test_aux_and_argnums():
    f = lambda x, y: (x * y, {"sum": x + y})  # noqa: E731
    slopes, extra = rlx.grad(f, argnums=(1, 0), has_aux=True)(2.0, 5.0)
    close(slopes, (2.0, 5.0))
    close(extra, {"sum": 7.0})


def test_nested_jit_is_differentiated():
    f = rlx.jit(lambda x: rnp.sin(x) * x)
    x = np.float64(0.3)
    close(rlx.jit(rlx.grad(f))(x), np.cos(0.3) * 0.3 + np.sin(0.3))
