"""Models of Flax and Equinox, and a train step of optax, run by rlx as JAX runs them."""

from __future__ import annotations

import warnings

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import rlx
import rlx.numpy as rnp
from rlx.interop.containers import Keys
from tests.parity.converted import DEVICE

with warnings.catch_warnings():
    warnings.simplefilter("ignore")  # of the libraries, when they are imported
    eqx = pytest.importorskip("equinox", reason="pip install 'rlx[test-interop]'")
    nn = pytest.importorskip("flax.linen", reason="pip install 'rlx[test-interop]'")
    nnx = pytest.importorskip("flax.nnx", reason="pip install 'rlx[test-interop]'")
    optax = pytest.importorskip("optax", reason="pip install 'rlx[test-interop]'")

pytestmark = pytest.mark.filterwarnings("ignore::DeprecationWarning", "ignore::UserWarning")
random = np.random.default_rng(0)
IMAGES = random.normal(size=(2, 8, 8, 3)).astype(np.float32)
ROWS = random.normal(size=(5, 7)).astype(np.float32)
TOKENS = random.integers(0, 50, (2, 6)).astype(np.int32)


def compiled(fun):
    """The function on the device that INTEROP_DEVICE names."""
    return rlx.jit(fun, device=DEVICE)


ROUNDINGS = 256  # how many of the greatest number a leaf may be off: dozens of layers and steps


def agree(found, wanted):
    """Whether all leaves are equal within rounding, at the size of the greatest number."""
    ours = [np.asarray(x.data if isinstance(x, Keys) else x) for x in jax.tree.leaves(found)]
    theirs = [np.asarray(x) for x in jax.tree.leaves(wanted)]
    assert [(x.shape, x.dtype) for x in ours] == [(x.shape, x.dtype) for x in theirs]
    size = max(np.abs(y).max(initial=0) for y in theirs if y.dtype == np.float32)
    allowed = ROUNDINGS * np.finfo(np.float32).eps * size
    for x, y in zip(ours, theirs, strict=True):
        np.testing.assert_allclose(x, y, rtol=0, atol=allowed if y.dtype == np.float32 else 0)


class Perceptron(nn.Module):
    @nn.compact
    def __call__(self, x):
        x = nn.LayerNorm()(nn.gelu(nn.Dense(16)(x)))
        return nn.Dense(3)(nn.Dropout(0.5, deterministic=True)(x))


class Convolutions(nn.Module):
    @nn.compact
    def __call__(self, x, train: bool = True):
        x = nn.relu(nn.BatchNorm(use_running_average=not train)(nn.Conv(8, (3, 3))(x)))
        x = nn.max_pool(x, (2, 2), strides=(2, 2))
        x = nn.Conv(8, (3, 3), strides=2, feature_group_count=2)(x)
        x = nn.avg_pool(nn.silu(x), (2, 2))
        return nn.Dense(3)(x.reshape(x.shape[0], -1))


class Transformer(nn.Module):
    @nn.compact
    def __call__(self, tokens):
        places = self.param("places", nn.initializers.normal(0.02), (tokens.shape[1], 16))
        x = nn.Embed(50, 16)(tokens) + places
        mask = nn.make_causal_mask(tokens)
        x = x + nn.MultiHeadDotProductAttention(num_heads=4)(nn.LayerNorm()(x), mask=mask)
        return nn.Dense(50)(x + nn.Dense(16)(nn.gelu(nn.Dense(32)(nn.LayerNorm()(x)))))


MODELS = {"perceptron": (Perceptron(), ROWS), "convolutions": (Convolutions(), IMAGES),
          "transformer": (Transformer(), TOKENS)}  # fmt: skip


@pytest.mark.parametrize("name", MODELS)
def test_model_of_flax(name):
    model, x = MODELS[name]
    params = jax.jit(model.init)(jax.random.key(0), x)
    agree(compiled(rlx.from_jax(model.init))(rlx.random.key(0), x), params)

    def loss(params, x):
        y, state = model.apply(params, x, mutable=["batch_stats"])
        return jnp.mean(y**2), (y, state)

    wanted = jax.jit(jax.value_and_grad(loss, has_aux=True))(params, x)
    converted = rlx.from_jax(loss)
    agree(compiled(rlx.value_and_grad(converted, has_aux=True))(params, x), wanted)


def test_train_steps_of_optax():
    model = Perceptron()
    labels = random.integers(0, 3, len(ROWS)).astype(np.int32)
    rate = optax.warmup_cosine_decay_schedule(0.0, 1e-2, 3, 10)
    optimizer = optax.chain(optax.clip_by_global_norm(1.0), optax.adamw(rate))

    def loss(params):
        logits = model.apply(params, ROWS)
        return optax.softmax_cross_entropy_with_integer_labels(logits, labels).mean()

    def step(params, state):
        value, slopes = jax.value_and_grad(loss)(params)
        updates, state = optimizer.update(slopes, state, params)
        return optax.apply_updates(params, updates), state, value

    params = jax.jit(model.init)(jax.random.key(0), ROWS)
    ours = theirs = (params, optimizer.init(params), 0.0)
    by_rlx, by_jax = compiled(rlx.from_jax(step)), jax.jit(step)
    for _ in range(3):
        ours, theirs = by_rlx(*ours[:2]), by_jax(*theirs[:2])
    agree(ours, theirs)


class Pictures(eqx.Module):
    layers: list

    def __init__(self, key):
        first, second = jax.random.split(key)
        convolution = eqx.nn.Conv2d(3, 4, 3, key=first)
        head = eqx.nn.Linear(100, 5, key=second)
        self.layers = [convolution, eqx.nn.MaxPool2d(2), jax.nn.relu, jnp.ravel, head]

    def __call__(self, x):
        for layer in self.layers:
            x = layer(x)
        return x


class Block(eqx.Module):
    attention: eqx.Module
    mlp: eqx.Module
    norm: eqx.Module

    def __init__(self, key):
        first, second = jax.random.split(key)
        self.attention = eqx.nn.MultiheadAttention(2, 8, key=first)
        self.mlp = eqx.nn.MLP(8, 8, 16, 1, key=second)
        self.norm = eqx.nn.LayerNorm(8)

    def __call__(self, x):
        y = jax.vmap(self.norm)(x)
        x = x + self.attention(y, y, y)
        return x + jax.vmap(self.mlp)(x)


EQUINOX = {
    "mlp": (lambda key: eqx.nn.MLP(4, 3, 8, 2, key=key), (4,)),
    "cnn": (Pictures, (3, 8, 8)),
    "transformer": (Block, (5, 8)),
}


@pytest.mark.parametrize("name", EQUINOX)
def test_model_of_equinox(name):
    """The model is an argument of the function, and its gradient is such a model."""
    make, shape = EQUINOX[name]
    x = random.normal(size=shape).astype(np.float32)
    params, rest = eqx.partition(make(jax.random.key(1)), eqx.is_array)

    def loss(params, x):
        return jnp.sum(eqx.combine(params, rest)(x) ** 2)

    found = compiled(rlx.value_and_grad(rlx.from_jax(loss)))(params, x)
    agree(found, jax.jit(jax.value_and_grad(loss))(params, x))
    assert isinstance(found[1], type(params))


class Dropped(nnx.Module):
    def __init__(self, rngs):
        self.first = nnx.Linear(7, 8, rngs=rngs)
        self.norm = nnx.BatchNorm(8, rngs=rngs)
        self.dropout = nnx.Dropout(0.2, rngs=rngs)

    def __call__(self, x):
        return self.dropout(nnx.relu(self.norm(self.first(x))))


def test_module_of_nnx_with_state():
    """State goes in and comes out, with its statistics, keys and counters."""
    graph, state = nnx.split(Dropped(nnx.Rngs(0)))
    leaves, tree = jax.tree.flatten(state)

    def run(state, x):
        model = nnx.merge(graph, state)
        return model(x), nnx.state(model)

    def fresh():
        return jax.tree.unflatten(tree, leaves)

    found = compiled(rlx.from_jax(run))(fresh(), ROWS)
    wanted = run(fresh(), ROWS)
    plain = jax.tree.map(lambda x: jax.random.key_data(x) if _is_key(x) else x, wanted)
    agree(found, plain)
    again = compiled(rlx.from_jax(run))(found[1], ROWS)
    assert not rnp.array_equal(found[0], again[0])


def _is_key(x):
    return jax.dtypes.issubdtype(x.dtype, jax.dtypes.prng_key)
