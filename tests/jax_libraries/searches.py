"""Searches without gradients: evosax."""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp
from evosax.algorithms import CMA_ES, PSO, DifferentialEvolution, Open_ES

from .program import Made, normal, program


def _cost(x: Any) -> Any:
    return jnp.sum((x - 1) ** 2, -1) + jnp.sum(jnp.cos(3 * x), -1)


def _generations(made: Any, is_spread: bool, count: int = 4) -> Made:
    """Generations of a search; those of a population begin with points of their own."""
    params = made.default_params
    points = normal(8, 3)

    def function(key: Any, points: Any) -> Any:
        if is_spread:
            state = made.init(key, points, jax.vmap(_cost)(points), params)
        else:
            state = made.init(key, points[0], params)
        costs = []
        for i in range(count):
            first, second = jax.random.split(jax.random.fold_in(key, i))
            population, state = made.ask(first, state, params)
            state, _ = made.tell(second, population, _cost(population), state, params)
            costs.append(_cost(population))
        return costs

    return function, (jax.random.key(0), points)


@program("evosax", is_double=True)
def covariance_adaptation() -> Made:
    return _generations(CMA_ES(8, jnp.zeros(3)), False)


@program("evosax")
def evolution_strategy() -> Made:
    return _generations(Open_ES(8, jnp.zeros(3)), False)


@program("evosax", is_double=True)
def particle_swarm() -> Made:
    return _generations(PSO(8, jnp.zeros(3)), True)


@program("evosax", is_double=True)
def differential_evolution() -> Made:
    return _generations(DifferentialEvolution(8, jnp.zeros(3)), True)
