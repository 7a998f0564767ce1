"""Samplers of blackjax, models and inference of NumPyro."""

from __future__ import annotations

from typing import Any

import blackjax
import jax
import jax.numpy as jnp
import numpy as np
import numpyro
import numpyro.distributions as dist
from numpyro.infer import SVI, Predictive, Trace_ELBO
from numpyro.infer.autoguide import AutoNormal
from numpyro.infer.hmc import hmc
from numpyro.infer.util import initialize_model, log_density

from .program import Made, normal, program

START = normal(3)
X, Y = normal(20, 3), normal(20, seed=1)


def _density(x: Any) -> Any:
    return -0.5 * jnp.sum(x**2) - 0.1 * jnp.sum(x[1:] ** 2 * x[:-1] ** 2)


def _steps(kernel: Any, count: int = 5) -> Made:
    """Steps of a sampler, in one scan."""

    def function(start: Any, key: Any) -> Any:
        def step(state: Any, key: Any) -> Any:
            state, _ = kernel.step(key, state)
            return state, state.position

        keys = jax.random.split(key, count)
        return jax.lax.scan(step, kernel.init(start), keys)[1]

    return function, (START, jax.random.key(1))


# -- blackjax -----------------------------------------------------------------------------------


@program("blackjax", is_double=True)
def hamiltonian_monte_carlo() -> Made:
    return _steps(blackjax.hmc(_density, 0.1, jnp.ones(3), 5))


@program("blackjax", is_double=True)
def no_u_turns() -> Made:
    return _steps(blackjax.nuts(_density, 0.2, jnp.ones(3)), 3)


@program("blackjax", is_double=True)
def langevin() -> Made:
    return _steps(blackjax.mala(_density, 0.1))


@program("blackjax", is_double=True)
def elliptical_slices() -> Made:
    return _steps(blackjax.elliptical_slice(_density, mean=jnp.zeros(3), cov=jnp.eye(3)))


# -- NumPyro ------------------------------------------------------------------------------------


def _regression(x: Any, y: Any = None) -> None:
    weights = numpyro.sample("weights", dist.Normal(0.0, 1.0).expand([3]).to_event(1))
    noise = numpyro.sample("noise", dist.HalfNormal(1.0))
    numpyro.sample("y", dist.Normal(x @ weights, noise), obs=y)


@program("numpyro")
def log_density_and_its_gradient() -> Made:
    def function(params: Any, x: Any, y: Any) -> Any:
        return jax.value_and_grad(lambda p: log_density(_regression, (x, y), {}, p)[0])(params)

    return function, ({"weights": normal(3), "noise": np.float32(0.7)}, X, Y)


@program("numpyro", is_double=True)
def steps_of_nuts() -> Made:
    info = initialize_model(jax.random.PRNGKey(0), _regression, model_args=(X, Y))
    init, sample = hmc(info.potential_fn, algo="NUTS")
    state = init(info.param_info, num_warmup=0, step_size=0.1, rng_key=jax.random.PRNGKey(1))

    def function(state: Any) -> Any:
        for _ in range(2):
            state = sample(state)
        return state.z

    return function, (state,)


@program("numpyro")
def steps_of_variational_inference() -> Made:
    svi = SVI(_regression, AutoNormal(_regression), numpyro.optim.Adam(1e-2), Trace_ELBO())
    state = svi.init(jax.random.PRNGKey(0), X, Y)

    def function(state: Any, x: Any, y: Any) -> Any:
        losses = []
        for _ in range(3):
            state, loss = svi.update(state, x, y)
            losses.append(loss)
        return svi.get_params(state), losses

    return function, (state, X, Y)


@program("numpyro")
def predictions() -> Made:
    def function(samples: Any, key: Any, x: Any) -> Any:
        return Predictive(_regression, samples)(key, x)["y"]

    samples = {"weights": normal(6, 3), "noise": np.abs(normal(6))}
    return function, (samples, jax.random.PRNGKey(2), X)
