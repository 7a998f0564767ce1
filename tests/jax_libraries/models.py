"""Models of Equinox, Flax and Haiku, and steps that train them."""

from __future__ import annotations

from typing import Any

import equinox as eqx
import haiku as hk
import jax
import jax.numpy as jnp
import numpy as np
import optax
from flax import linen as nn, nnx

from .program import Made, normal, program

IMAGES, ROWS = normal(4, 8, 8, 3), normal(5, 7)
LABELS = np.array([0, 2, 1, 2], np.int32)
TOKENS = np.random.default_rng(0).integers(0, 50, (2, 6)).astype(np.int32)


def _trained(model: Any, loss: Any, *data: Any) -> Made:
    """Two steps of Adam for the arrays of a model of Equinox."""
    params, static = eqx.partition(model, eqx.is_inexact_array)
    optimizer = optax.adam(1e-2)

    def function(params: Any, state: Any, *data: Any) -> Any:
        def of(params: Any) -> Any:
            return loss(eqx.combine(params, static), *data)

        for _ in range(2):
            value, slopes = jax.value_and_grad(of)(params)
            updates, state = optimizer.update(slopes, state)
            params = optax.apply_updates(params, updates)
        return value, params, state

    return function, (params, optimizer.init(params), *data)


# -- Equinox ------------------------------------------------------------------------------------


@program("equinox")
def perceptron_trained() -> Made:
    model = eqx.nn.MLP(7, 3, 16, 2, key=jax.random.key(0))
    return _trained(model, lambda m, x: (jax.vmap(m)(x) ** 2).mean(), ROWS)


@program("equinox")
def convolutions_trained() -> Made:
    keys = jax.random.split(jax.random.key(0), 2)
    model = eqx.nn.Sequential(
        [
            eqx.nn.Conv2d(3, 4, 3, key=keys[0]),
            eqx.nn.Lambda(jax.nn.relu),
            eqx.nn.MaxPool2d(2, 2),
            eqx.nn.Lambda(jnp.ravel),
            eqx.nn.Linear(36, 3, key=keys[1]),
        ]
    )

    def loss(model: Any, x: Any, y: Any) -> Any:
        logits = jax.vmap(model)(x)
        return optax.softmax_cross_entropy_with_integer_labels(logits, y).mean()

    return _trained(model, loss, IMAGES.transpose(0, 3, 1, 2), LABELS)


@program("equinox")
def recurrent_cell_trained() -> Made:
    cell = eqx.nn.GRUCell(7, 8, key=jax.random.key(0))

    def loss(cell: Any, x: Any) -> Any:
        _, states = jax.lax.scan(lambda h, r: (cell(r, h),) * 2, jnp.zeros(8), x)
        return (states**2).mean()

    return _trained(cell, loss, ROWS)


@program("equinox")
def ensemble_by_filter_vmap() -> Made:
    @eqx.filter_vmap
    def made(key: Any) -> Any:
        return eqx.nn.MLP(7, 3, 8, 1, key=key)

    models, static = eqx.partition(made(jax.random.split(jax.random.key(0), 4)), eqx.is_array)

    def function(models: Any, x: Any) -> Any:
        whole = eqx.combine(models, static)
        axes = (eqx.if_array(0), None)
        return eqx.filter_vmap(lambda m, x: jax.vmap(m)(x), in_axes=axes)(whole, x)

    return function, (models, ROWS)


@program("equinox")
def batch_norm_with_state() -> Made:
    model, state = eqx.nn.make_with_state(eqx.nn.BatchNorm)(7, "batch", mode="batch")
    arrays, static = eqx.partition((model, state), eqx.is_array)

    def function(arrays: Any, x: Any) -> Any:
        model, state = eqx.combine(arrays, static)
        found, state = jax.vmap(model, axis_name="batch", in_axes=(0, None), out_axes=(0, None))(
            x, state
        )
        return found, jax.tree.leaves(state)

    return function, (arrays, ROWS)


# -- Flax ---------------------------------------------------------------------------------------


class Convolutions(nn.Module):
    """Convolutions, normalized over the batch."""

    @nn.compact
    def __call__(self, x: Any) -> Any:
        """Images to logits."""
        x = nn.relu(nn.BatchNorm(use_running_average=False)(nn.Conv(8, (3, 3), use_bias=False)(x)))
        return nn.Dense(3)(nn.avg_pool(x, (2, 2), (2, 2)).reshape(x.shape[0], -1))


class Transformer(nn.Module):
    """One block that reads tokens."""

    @nn.compact
    def __call__(self, tokens: Any) -> Any:
        """Tokens to logits."""
        x = nn.Embed(50, 16)(tokens)
        mask = nn.make_causal_mask(tokens)
        # the gradient of the bias of keys is nothing but roundings, which Adam would magnify
        attention = nn.MultiHeadDotProductAttention(2, use_bias=False)
        x = x + attention(nn.LayerNorm()(x), mask=mask)
        x = x + nn.Dense(16)(nn.gelu(nn.Dense(32)(nn.LayerNorm()(x))))
        return nn.Dense(50)(x)


class Memory(nn.Module):
    """An LSTM along the second axis."""

    @nn.compact
    def __call__(self, x: Any) -> Any:
        """Sequences to their last states."""
        return nn.RNN(nn.OptimizedLSTMCell(8))(x)[:, -1]


@program("flax linen")
def convolutions_with_batch_norm() -> Made:
    model = Convolutions()
    variables = model.init(jax.random.key(0), IMAGES)

    def function(variables: Any, x: Any, y: Any) -> Any:
        def loss(params: Any) -> Any:
            logits, new = model.apply({**variables, "params": params}, x, mutable=["batch_stats"])
            return optax.softmax_cross_entropy_with_integer_labels(logits, y).mean(), new

        return jax.value_and_grad(loss, has_aux=True)(variables["params"])

    return function, (variables, IMAGES, LABELS)


@program("flax linen")
def transformer_trained() -> Made:
    model, optimizer = Transformer(), optax.adamw(1e-2)
    params = model.init(jax.random.key(0), TOKENS)

    def function(params: Any, state: Any, tokens: Any) -> Any:
        def loss(params: Any) -> Any:
            logits = model.apply(params, tokens[:, :-1])
            return optax.softmax_cross_entropy_with_integer_labels(logits, tokens[:, 1:]).mean()

        value, slopes = jax.value_and_grad(loss)(params)
        updates, state = optimizer.update(slopes, state, params)
        return value, optax.apply_updates(params, updates), state

    return function, (params, optimizer.init(params), TOKENS)


@program("flax linen")
def lstm_gradient() -> Made:
    model, x = Memory(), normal(2, 5, 4)
    params = model.init(jax.random.key(0), x)
    return jax.value_and_grad(lambda p, x: (model.apply(p, x) ** 2).sum()), (params, x)


class Perceptron(nnx.Module):
    """Two layers with dropout between."""

    def __init__(self, rngs: nnx.Rngs) -> None:
        self.first = nnx.Linear(7, 16, use_bias=False, rngs=rngs)
        self.norm = nnx.BatchNorm(16, rngs=rngs)
        self.dropout = nnx.Dropout(0.5, rngs=rngs)
        self.second = nnx.Linear(16, 3, rngs=rngs)

    def __call__(self, x: Any) -> Any:
        """Rows to logits."""
        return self.second(self.dropout(nnx.relu(self.norm(self.first(x)))))


@program("flax nnx")
def perceptron_with_dropout_and_state() -> Made:
    graph, state = nnx.split(Perceptron(nnx.Rngs(0)))

    def function(state: Any, x: Any) -> Any:
        model = nnx.merge(graph, state)
        found = model(x)
        return found, nnx.state(model)

    return function, (state, ROWS)


@program("flax nnx")
def perceptron_gradient() -> Made:
    graph, state = nnx.split(Perceptron(nnx.Rngs(0)))

    def function(state: Any, x: Any) -> Any:
        model = nnx.merge(graph, state)
        value, slopes = nnx.value_and_grad(lambda m: (m(x) ** 2).mean())(model)
        return value, slopes, nnx.state(model)

    return function, (state, ROWS)


# -- Haiku --------------------------------------------------------------------------------------


def _of_haiku(make: Any, *data: Any, key: Any = None) -> Made:
    """The value, the gradient and the state of a model of Haiku."""
    model = hk.transform_with_state(make)
    params, state = model.init(jax.random.key(0), *data)

    def function(params: Any, state: Any, *data: Any) -> Any:
        def loss(params: Any) -> Any:
            found, new = model.apply(params, state, key, *data)
            return (found**2).mean(), new

        return jax.value_and_grad(loss, has_aux=True)(params)

    return function, (params, state, *data)


@program("haiku")
def perceptron() -> Made:
    return _of_haiku(lambda x: hk.nets.MLP([16, 3])(x), ROWS)


@program("haiku")
def residual_block() -> Made:
    def block(x: Any) -> Any:
        y = hk.Conv2D(3, 3)(jax.nn.relu(hk.BatchNorm(True, True, 0.9)(x, is_training=True)))
        return (x + y).mean((1, 2))

    return _of_haiku(block, IMAGES)


@program("haiku")
def lstm() -> Made:
    def read(x: Any) -> Any:
        core = hk.LSTM(8)
        return hk.dynamic_unroll(core, x, core.initial_state(2))[0]

    return _of_haiku(read, normal(5, 2, 4))


@program("haiku")
def dropout() -> Made:
    def dropped(x: Any) -> Any:
        return hk.Linear(3)(hk.dropout(hk.next_rng_key(), 0.5, hk.Linear(16)(x)))

    return _of_haiku(dropped, ROWS, key=jax.random.key(1))
