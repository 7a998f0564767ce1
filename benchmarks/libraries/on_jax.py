"""JAX in the words of the benchmarks."""

from __future__ import annotations

from typing import Any, final

import jax
import jax.numpy as jnp
import numpy as np

from ..trees import first_leaf, tree_map
from .adam import adam_step
from .jax_names import JaxNames
from .library import Function


@final
class Jax(JaxNames):
    """Functions compiled by `jax.jit`; a call is over when its first array is there."""

    name, packages = "jax", ("jax", "jaxlib")
    xp, lax, nn, ops = jnp, jax.lax, jax.nn, jax.ops
    jit, value_and_grad = staticmethod(jax.jit), staticmethod(jax.value_and_grad)
    batched = staticmethod(jax.vmap)

    def array(self, x: np.ndarray) -> Any:
        return jnp.array(x)

    def finished(self, call: str, result: Any) -> str:
        return f"{call}{first_leaf(result)}.block_until_ready()"

    def wide(self, is_wide: bool) -> None:
        jax.config.update("jax_enable_x64", is_wide or self.precise)

    def forget(self) -> None:
        jax.clear_caches()

    def trainer(self, loss: Function, parameters: Any, rate: float) -> Function:
        gradient = jax.value_and_grad(loss)

        def step(state: Any, *batch: Any) -> Any:
            value, grads = gradient(state[0], *batch)
            return value, adam_step(jnp, state, grads, rate)

        def zeros() -> Any:
            return tree_map(jnp.zeros_like, parameters)

        return self.stream(step, (parameters, zeros(), zeros(), jnp.zeros((), jnp.int32)))

    def layer_norm(self, x: Any, scale: Any, bias: Any) -> Any:
        return jax.nn.standardize(x, epsilon=1e-5) * scale + bias

    def max_pool(self, x: Any) -> Any:
        pads = ((0, 0), (1, 1), (1, 1), (0, 0))
        return jax.lax.reduce_window(x, -jnp.inf, jax.lax.max, (1, 3, 3, 1), (1, 2, 2, 1), pads)
