"""Layers around layers: WeightNorm, SpectralNorm, LoRA, Shared."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import rlx
import rlx.numpy as rnp
from rlx import nn, optim
from rlx.ir.errors import ArgumentError, RlxError

KEYS = rlx.random.split(rlx.random.key(0), 4)
X = np.random.default_rng(0).normal(size=(8, 3)).astype(np.float32)
IMAGES = np.random.default_rng(1).normal(size=(2, 5, 5, 3)).astype(np.float32)


def linear() -> nn.Linear:
    return nn.Linear(3, 4, key=KEYS[0])


def conv() -> nn.Conv:
    return nn.Conv(3, 4, (2, 2), key=KEYS[0])


def close(got: Any, wanted: Any, tolerance: float = 1e-5) -> None:
    np.testing.assert_allclose(np.asarray(got), np.asarray(wanted), tolerance, tolerance)


def slopes(layer: Any, x: Any) -> Any:
    """Gradients of a loss, and the layer with its new state."""

    def loss(layer, x):
        y, new = nn.with_state(layer)(x)
        return rnp.sum(rnp.sin(y)), new

    return rlx.jit(rlx.grad(loss, has_aux=True))(layer, x)


def train(model: Any, x: Any, steps: int = 5) -> Any:
    optimizer = optim.adamw(0.05, weight_decay=0.1)

    @rlx.jit
    def step(model, state):
        slope, model = slopes(model, x)
        updates, state = optimizer.update(slope, state, model)
        return optim.apply_updates(model, updates), state

    state = optimizer.init(model)
    for _ in range(steps):
        model, state = step(model, state)
    assert step.cache_size() == 1
    return model


# -- WeightNorm and SpectralNorm -------------------------------------------------------------------


@pytest.mark.parametrize(("layer", "x"), [(linear(), X), (conv(), IMAGES)])
@pytest.mark.parametrize("axis", [-1, None])
def test_weight_norm_begins_with_the_weight_and_keeps_its_lengths(layer: Any, x: Any, axis: Any):
    norm = nn.WeightNorm(layer, axis=axis)
    close(norm(x), layer(x))
    trained = train(norm, x)
    weight = np.asarray(trained.merge().weight)
    lengths = np.sqrt((weight**2).sum(None if axis is None else (*range(weight.ndim - 1),)))
    close(lengths, np.asarray(trained.scale).reshape(lengths.shape))
    assert not np.allclose(weight, layer.weight, 1e-3)


def test_weight_norm_is_that_of_torch():
    torch = pytest.importorskip("torch")
    norm = nn.WeightNorm(linear())
    norm = norm.replace(scale=norm.scale * 1.5)
    theirs = torch.nn.Linear(3, 4).double()
    theirs.weight.data = torch.tensor(np.array(norm.layer.weight.T, np.float64))
    theirs.bias.data = torch.tensor(np.array(norm.layer.bias, np.float64))
    theirs = torch.nn.utils.parametrizations.weight_norm(theirs)
    g, v = theirs.parametrizations.weight.original0, theirs.parametrizations.weight.original1
    g.data = torch.tensor(np.array(norm.scale.T, np.float64))
    y = theirs(torch.tensor(X.astype(np.float64)))
    torch.sin(y).sum().backward()
    slope, _ = slopes(norm, X)
    close(norm(X), y.detach().numpy())
    close(slope.layer.weight.T, v.grad.numpy())
    close(slope.scale.T, g.grad.numpy())


def test_spectral_norm_is_that_of_torch():
    torch = pytest.importorskip("torch")
    norm = nn.SpectralNorm(conv(), key=KEYS[1], steps=2)
    theirs = torch.nn.Conv2d(3, 4, 2, padding="same").double()
    theirs.weight.data = torch.tensor(
        np.array(norm.layer.weight, np.float64).transpose(3, 0, 1, 2).copy()
    )
    theirs.bias.data = torch.zeros(4, dtype=torch.float64)
    wrapped = torch.nn.utils.parametrizations.spectral_norm(theirs, n_power_iterations=2)
    wrapped.parametrizations.weight[0]._u.data = torch.tensor(np.array(norm.left, np.float64))
    wrapped.parametrizations.weight[0]._v.data = torch.tensor(np.array(norm.right, np.float64))
    weight = wrapped.weight
    torch.sin(weight).sum().backward()

    def loss(norm):
        merged, new = nn.with_state(norm.replace(layer=Weighed(norm.layer.weight)))()
        return rnp.sum(rnp.sin(merged)), new

    slope, new = rlx.grad(loss, has_aux=True)(norm)
    found = nn.inference(new).merge().weight
    close(np.asarray(found).transpose(3, 0, 1, 2), weight.detach().numpy())
    grad = theirs.parametrizations.weight.original.grad.numpy()
    close(np.asarray(slope.layer.weight).transpose(3, 0, 1, 2), grad)
    close(new.left, wrapped.parametrizations.weight[0]._u.numpy())
    close(new.right, wrapped.parametrizations.weight[0]._v.numpy())


class Weighed(nn.Module):
    """A layer that gives its weight."""

    weight: rlx.Array

    def __call__(self) -> Any:
        return self.weight


def test_spectral_norm_finds_the_largest_singular_value():
    norm = train(nn.SpectralNorm(linear(), key=KEYS[1], steps=3), X, 20)
    ready = nn.inference(norm)
    assert np.linalg.norm(np.asarray(ready.merge().weight), 2) == pytest.approx(1.0, abs=0.02)
    close(ready(X), ready.merge()(X))
    with pytest.raises(ArgumentError, match="SpectralNorm is in training mode, and its new state"):
        norm(X)


# -- LoRA ------------------------------------------------------------------------------------------


def test_lora_begins_with_the_layer_and_trains_two_matrices():
    layer = linear()
    lora = nn.LoRA(layer, 2, alpha=4.0, key=KEYS[1])
    assert lora.factor == 2.0
    close(lora(X), layer(X))
    trained = train(lora, X)
    assert np.array_equal(trained.layer.weight, layer.weight)
    assert np.array_equal(trained.layer.bias, layer.bias)
    assert np.abs(trained.up).max() > 0.01
    close(trained(X), X @ (layer.weight + trained.down @ trained.up * 2.0) + layer.bias)
    close(trained.merge()(X), trained(X))
    state = optim.adam(0.1).init(lora)
    assert sorted({x.shape for x in rlx.tree.leaves(state)}) == [(), (2, 4), (3, 2)]


def test_lora_of_half_precision_keeps_the_dtype():
    layer = nn.Linear(3, 4, key=KEYS[0], dtype="bfloat16")
    lora = nn.LoRA(layer, 2, key=KEYS[1])
    assert lora(rnp.asarray(X, "bfloat16")).dtype == layer.weight.dtype
    assert nn.LoRA(layer, 2, key=KEYS[1], dtype="float32").merge().weight.dtype == "bfloat16"


# -- Shared ----------------------------------------------------------------------------------------


class Words(nn.Module):
    """An embedding, a norm with state, and a head."""

    embedding: nn.Embedding
    norm: nn.BatchNorm
    head: nn.Linear

    def __call__(self, index: Any) -> Any:
        return self.head(self.norm(self.embedding(index)))


def words() -> Words:
    return Words(nn.Embedding(9, 4, key=KEYS[0]), nn.BatchNorm(4), nn.Linear(4, 9, key=KEYS[1]))


def test_shared_weights_stay_tied_and_gradients_add_up():
    model = nn.Shared(words(), lambda m: m.head.weight, lambda m: m.embedding.weight.T)
    index = np.arange(8) % 5
    assert len(rlx.tree.leaves(model)) == len(rlx.tree.leaves(words())) - 1
    slope, _ = slopes(model, index)
    apart, _ = slopes(model.merge(), index)
    expected = apart.embedding.weight + apart.head.weight.T
    close(slope.model.embedding.weight, expected)
    trained = train(model, index)
    merged = trained.merge()
    assert np.array_equal(merged.head.weight, merged.embedding.weight.T)
    assert not np.allclose(merged.embedding.weight, model.model.embedding.weight, 1e-3)
    assert np.abs(trained.model.norm.mean).max() > 0
    ready = nn.inference(trained)
    close(nn.merge(ready)(index), ready(index))


def test_merge_finds_all_wrappers():
    layers = [nn.WeightNorm(linear()), nn.LoRA(nn.Linear(4, 3, key=KEYS[2]), 1, key=KEYS[1])]
    layers.append(nn.inference(nn.SpectralNorm(linear(), key=KEYS[1])))
    model = nn.Sequential(layers)
    merged = nn.merge(model)
    assert [type(layer) for layer in merged.layers] == [nn.Linear] * 3
    close(merged(X), model(X))


# -- errors ----------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("call", "text"),
    [
        (lambda: nn.WeightNorm(3), "WeightNorm: the layer is 3, not a module"),
        (lambda: nn.WeightNorm(linear(), "w"), "Linear has no array 'w'(.|\n)*weight, bias"),
        (lambda: nn.WeightNorm(linear(), axis=2), "axis 2"),
        (lambda: nn.SpectralNorm(linear(), key=KEYS[0], steps=0), "steps is 0"),
        (lambda: nn.LoRA(conv(), 2, key=KEYS[0]), "LoRA: the layer .* not an nn.Linear"),
        (lambda: nn.LoRA(linear(), 0, key=KEYS[0]), "the rank is 0"),
        (lambda: nn.Shared(words(), lambda m: m.heads, len), "has no attribute 'heads'"),
        (lambda: nn.Shared(words(), lambda m: 3, len), "gave 3, which is no part of the tree"),
    ],
)
def test_errors(call: Any, text: str):
    with pytest.raises((RlxError, AttributeError), match=text):
        call()
