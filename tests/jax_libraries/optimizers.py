"""Loops that train with optax and jaxopt, and losses."""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp
import jaxopt
import numpy as np
import optax

from .program import Made, normal, program

X, Y = normal(20, 4), normal(20, seed=1)


def _loss(params: Any, x: Any, y: Any) -> Any:
    return ((jnp.tanh(x @ params["w"]) @ params["v"] - y) ** 2).mean()


def _params() -> Any:
    return {"w": normal(4, 8, seed=2), "v": normal(8, seed=3)}


def _trained(optimizer: Any, count: int = 10) -> Made:
    """Steps of an optimizer, in one scan."""

    def function(params: Any, x: Any, y: Any) -> Any:
        def step(carry: Any, _: Any) -> Any:
            params, state = carry
            value, slopes = jax.value_and_grad(_loss)(params, x, y)
            updates, state = optimizer.update(slopes, state, params)
            return (optax.apply_updates(params, updates), state), value

        return jax.lax.scan(step, (params, optimizer.init(params)), length=count)

    return function, (_params(), X, Y)


# -- optax --------------------------------------------------------------------------------------


@program("optax")
def adam_with_schedule_and_clipping() -> Made:
    schedule = optax.warmup_cosine_decay_schedule(0.0, 1e-2, 3, 10)
    return _trained(optax.chain(optax.clip_by_global_norm(0.1), optax.adam(schedule)))


@program("optax")
def lamb() -> Made:
    return _trained(optax.lamb(1e-2))


@program("optax")
def adafactor() -> Made:
    return _trained(optax.adafactor(1e-2, min_dim_size_to_factor=4))


@program("optax", is_double=True)
def muon() -> Made:
    return _trained(optax.contrib.muon(1e-2), 4)


@program("optax", is_double=True)
def lbfgs() -> Made:
    optimizer = optax.lbfgs()

    def function(params: Any, x: Any, y: Any) -> Any:
        def of(params: Any) -> Any:
            return _loss(params, x, y)

        state, read = optimizer.init(params), optax.value_and_grad_from_state(of)
        for _ in range(3):
            value, slopes = read(params, state=state)
            updates, state = optimizer.update(
                slopes, state, params, value=value, grad=slopes, value_fn=of
            )
            params = optax.apply_updates(params, updates)
        return params, value

    return function, (_params(), X, Y)


@program("optax")
def losses() -> Made:
    def function(x: Any, y: Any) -> Any:
        logits, other = x, x[::-1]
        return (
            optax.huber_loss(x[:, 0], y),
            optax.sigmoid_binary_cross_entropy(x[:, 0], jax.nn.sigmoid(y)),
            optax.softmax_cross_entropy(logits, jax.nn.softmax(other)),
            optax.cosine_similarity(logits, other),
            optax.losses.kl_divergence(jax.nn.log_softmax(logits), jax.nn.softmax(other)),
            optax.ctc_loss(
                jnp.broadcast_to(logits, (1, 20, 4)),
                jnp.zeros((1, 20)),
                jnp.array([[1, 2, 1]]),
                jnp.zeros((1, 3)),
            ),
        )

    return function, (X, Y)


# -- jaxopt -------------------------------------------------------------------------------------


@program("jaxopt")
def gradient_descent() -> Made:
    solver = jaxopt.GradientDescent(_loss, maxiter=10, stepsize=0.1, acceleration=False)
    return lambda params, x, y: solver.run(params, x=x, y=y).params, (_params(), X, Y)


@program("jaxopt", is_double=True)
def limited_memory_bfgs() -> Made:
    solver = jaxopt.LBFGS(_loss, maxiter=5)
    return lambda params, x, y: solver.run(params, x=x, y=y).params, (_params(), X, Y)


@program("jaxopt")
def proximal_gradient_of_a_lasso() -> Made:
    solver = jaxopt.ProximalGradient(
        jaxopt.objective.least_squares, jaxopt.prox.prox_lasso, maxiter=20, stepsize=0.1
    )

    def function(w: Any, x: Any, y: Any) -> Any:
        return solver.run(w, hyperparams_prox=0.1, data=(x, y)).params

    return function, (np.zeros(4, np.float32), X, Y)


@program("jaxopt", is_double=True)
def implicit_derivative_of_ridge_regression() -> Made:
    def solved(strength: Any, x: Any, y: Any) -> Any:
        def objective(w: Any, strength: Any) -> Any:
            return ((x @ w - y) ** 2).mean() + strength * (w**2).sum()

        solver = jaxopt.LBFGS(objective, maxiter=50, tol=1e-10, implicit_diff=True)
        return solver.run(jnp.zeros(4, x.dtype), strength).params

    return lambda s, x, y: (solved(s, x, y), jax.jacrev(solved)(s, x, y)), (np.float32(0.3), X, Y)
