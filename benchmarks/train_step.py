"""The demo's train step, written with rlx and with JAX: same network, same AdamW."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

import rlx
from rlx import nn, optim

SIZES = (64, 256, 128, 10)
BATCH = 64
DECAY = 0.1


class Step(NamedTuple):
    """A step `(params, state, images, labels) -> (params, state, loss)` and its arguments."""

    step: Callable[..., Any]
    arguments: tuple


def batch() -> tuple[np.ndarray, np.ndarray]:
    """Images and labels like those of the digits."""
    generator = np.random.default_rng(0)
    images = generator.uniform(size=(BATCH, SIZES[0])).astype(np.float32)
    return images, generator.integers(0, SIZES[-1], BATCH).astype(np.int32)


def new_model() -> nn.MLP:
    """The network that both start from."""
    return nn.MLP(SIZES, key=rlx.random.key(0), activation=nn.relu)


def rlx_step(model: nn.MLP, rate: float = 1e-3) -> Step:
    """The step as the demo writes it."""
    optimizer = optim.adamw(rate, weight_decay=DECAY)

    def loss_of(model: nn.MLP, images: Any, labels: Any) -> Any:
        return nn.losses.cross_entropy(model(images), labels)

    @rlx.jit
    def step(model: nn.MLP, state: Any, images: Any, labels: Any) -> Any:
        loss, grads = rlx.value_and_grad(loss_of)(model, images, labels)
        updates, state = optimizer.update(grads, state, model)
        return optim.apply_updates(model, updates), state, loss

    return Step(step, (model, optimizer.init(model), *map(rlx.array, batch())))


def jax_step(model: nn.MLP, rate: float = 1e-3) -> Step:
    """The same step for JAX, with AdamW by hand."""
    params = [(jnp.asarray(x.weight), jnp.asarray(x.bias)) for x in model.layers]

    def loss_of(params: Any, images: Any, labels: Any) -> Any:
        x = images
        for weight, bias in params[:-1]:
            x = jax.nn.relu(x @ weight + bias)
        logits = x @ params[-1][0] + params[-1][1]
        picked = jnp.take_along_axis(logits, labels[:, None], 1)[:, 0]
        return jnp.mean(jax.nn.logsumexp(logits, axis=1) - picked)

    @jax.jit
    def step(params: Any, state: Any, images: Any, labels: Any) -> Any:
        loss, grads = jax.value_and_grad(loss_of)(params, images, labels)
        count, mean, square = state
        count = count + 1
        mean = jax.tree.map(lambda g, m: 0.9 * m + 0.1 * g, grads, mean)
        square = jax.tree.map(lambda g, s: 0.999 * s + 0.001 * g * g, grads, square)

        def moved(p: Any, m: Any, s: Any) -> Any:
            m, s = m / (1 - 0.9**count), s / (1 - 0.999**count)
            return p - rate * (m / (jnp.sqrt(s) + 1e-8) + DECAY * p)

        return jax.tree.map(moved, params, mean, square), (count, mean, square), loss

    zeros = jax.tree.map(jnp.zeros_like, params)
    state = (jnp.zeros((), jnp.int32), zeros, zeros)
    return Step(step, (params, state, *map(jnp.asarray, batch())))
