"""Attention layers and transformer blocks against PyTorch in float64; caches, positions, masks."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import rlx
from rlx import nn, numpy as rnp, random
from rlx.ir.errors import RlxError

KEY = random.key(0)
RANDOM = np.random.default_rng(0)
X, MEMORY = RANDOM.normal(size=(2, 5, 8)), RANDOM.normal(size=(2, 7, 8))
CAUSAL = np.tril(np.ones((5, 5), bool))


def torch() -> Any:
    return pytest.importorskip("torch")


def put(theirs: Any, mine: Any) -> None:
    with torch().no_grad():
        theirs.copy_(torch().tensor(np.array(mine)))


def fill_attention(theirs: Any, mine: Any) -> None:
    parts = (mine.query, mine.key, mine.value)
    put(theirs.in_proj_weight, np.concatenate([np.asarray(p.weight).T for p in parts]))
    put(theirs.in_proj_bias, np.concatenate([np.asarray(p.bias) for p in parts]))
    fill_linear(theirs.out_proj, mine.out)


def fill_linear(theirs: Any, mine: Any) -> None:
    put(theirs.weight, np.asarray(mine.weight).T)
    put(theirs.bias, mine.bias)


def moved(tree: Any) -> Any:
    """Biases and scales that are not all the same."""
    return rlx.tree.map(
        lambda x: x + 0.1 * np.random.default_rng(x.size).normal(size=x.shape), tree
    )


def same(got: Any, wanted: Any) -> None:
    wanted = wanted.detach().numpy() if hasattr(wanted, "detach") else wanted
    np.testing.assert_allclose(got, wanted, 1e-9, 1e-11)


def slopes(layer: Any, *inputs: Any, **options: Any) -> tuple[Any, Any, Any]:
    """The result, the gradient of the layer and those of inputs."""

    def loss(layer: Any, inputs: Any) -> Any:
        y = layer(*inputs, **options)
        return rnp.sum(rnp.square(y)), y

    (_, y), (slope, given) = rlx.jit(rlx.value_and_grad(loss, (0, 1), has_aux=True))(layer, inputs)
    return y, slope, given


def layer_of(**options: Any) -> Any:
    return nn.MultiHeadAttention(8, 4, key=KEY, dtype="float64", **options)


def same_attention_slopes(slope: Any, theirs: Any) -> None:
    parts = (slope.query, slope.key, slope.value)
    weights = np.concatenate([np.asarray(p.weight).T for p in parts])
    same(weights, theirs.in_proj_weight.grad)
    same(np.concatenate([p.bias for p in parts]), theirs.in_proj_bias.grad)
    same_linear_slopes(slope.out, theirs.out_proj)


def same_linear_slopes(slope: Any, theirs: Any) -> None:
    same(np.asarray(slope.weight).T, theirs.weight.grad)
    same(slope.bias, theirs.bias.grad)


def same_norm_slopes(slope: Any, theirs: Any) -> None:
    same(slope.scale, theirs.weight.grad)
    same(slope.bias, theirs.bias.grad)


@pytest.mark.parametrize("is_causal", [False, True])
def test_attention_is_that_of_torch(is_causal: bool):
    mine = moved(layer_of())
    theirs = torch().nn.MultiheadAttention(8, 4, batch_first=True, dtype=torch().float64)
    fill_attention(theirs, mine)
    x = torch().tensor(X, requires_grad=True)
    mask = torch().tensor(~CAUSAL) if is_causal else None
    wanted, _ = theirs(x, x, x, attn_mask=mask, need_weights=False)
    wanted.square().sum().backward()
    y, slope, (x_slope,) = slopes(mine, X, is_causal=is_causal)
    same(y, wanted)
    same(x_slope, x.grad)
    same_attention_slopes(slope, theirs)
    same(mine(X, mask=CAUSAL if is_causal else None), wanted)


@pytest.mark.parametrize("norm_first", [False, True])
def test_encoder_layer_is_that_of_torch(norm_first: bool):
    mine = moved(
        nn.TransformerEncoderLayer(
            8, 4, 16, key=KEY, norm_first=norm_first, dropout=0.0, dtype="float64"
        )
    )
    theirs = torch().nn.TransformerEncoderLayer(
        8, 4, 16, 0.0, batch_first=True, norm_first=norm_first, dtype=torch().float64
    )
    fill_attention(theirs.self_attn, mine.attention)
    for name, part in (("linear1", mine.first), ("linear2", mine.second)):
        fill_linear(getattr(theirs, name), part)
    for name, part in (("norm1", mine.attention_norm), ("norm2", mine.feedforward_norm)):
        put(getattr(theirs, name).weight, part.scale)
        put(getattr(theirs, name).bias, part.bias)
    x = torch().tensor(X, requires_grad=True)
    wanted = theirs(x)
    wanted.square().sum().backward()
    y, slope, (x_slope,) = slopes(mine, X)
    same(y, wanted)
    same(x_slope, x.grad)
    same_attention_slopes(slope.attention, theirs.self_attn)
    same_linear_slopes(slope.first, theirs.linear1)
    same_linear_slopes(slope.second, theirs.linear2)
    same_norm_slopes(slope.attention_norm, theirs.norm1)
    same_norm_slopes(slope.feedforward_norm, theirs.norm2)


@pytest.mark.parametrize("norm_first", [False, True])
def test_decoder_layer_is_that_of_torch(norm_first: bool):
    mine = moved(
        nn.TransformerDecoderLayer(
            8, 4, 16, key=KEY, norm_first=norm_first, dropout=0.0, dtype="float64"
        )
    )
    theirs = torch().nn.TransformerDecoderLayer(
        8, 4, 16, 0.0, batch_first=True, norm_first=norm_first, dtype=torch().float64
    )
    fill_attention(theirs.self_attn, mine.attention)
    fill_attention(theirs.multihead_attn, mine.cross_attention)
    for name, part in (("linear1", mine.first), ("linear2", mine.second)):
        fill_linear(getattr(theirs, name), part)
    norms = (mine.attention_norm, mine.cross_norm, mine.feedforward_norm)
    for i, part in enumerate(norms, 1):
        put(getattr(theirs, f"norm{i}").weight, part.scale)
        put(getattr(theirs, f"norm{i}").bias, part.bias)
    x, memory = (torch().tensor(a, requires_grad=True) for a in (X, MEMORY))
    wanted = theirs(x, memory, tgt_mask=torch().tensor(~CAUSAL))
    wanted.square().sum().backward()
    y, slope, (x_slope, memory_slope) = slopes(mine, X, MEMORY)
    same(y, wanted)
    same(x_slope, x.grad)
    same(memory_slope, memory.grad)
    same_attention_slopes(slope.attention, theirs.self_attn)
    same_attention_slopes(slope.cross_attention, theirs.multihead_attn)
    same_linear_slopes(slope.second, theirs.linear2)
    same_norm_slopes(slope.cross_norm, theirs.norm2)


@pytest.mark.parametrize("position", [None, "rope", "alibi"])
@pytest.mark.parametrize("kv_heads", [None, 2])
def test_a_cache_inside_scan_gives_what_the_whole_sequence_does(position: Any, kv_heads: Any):
    layer = layer_of(position=position, kv_heads=kv_heads)

    @rlx.jit
    def by_steps(layer: Any, x: Any) -> Any:
        def step(cache: Any, now: Any) -> Any:
            y, cache = layer(now[:, None], cache=cache)
            return cache, y[:, 0]

        cache = layer.initial_cache(2, 9)  # longer than what comes
        return rnp.moveaxis(rlx.scan(step, cache, rnp.moveaxis(x, 1, 0))[1], 0, 1)

    same(by_steps(layer, X), layer(X, is_causal=True))
    first, cache = layer(X[:, :3], cache=layer.initial_cache(2, 5))
    second, _ = layer(X[:, 3:], cache=cache)
    same(np.concatenate([first, second], 1), layer(X, is_causal=True))


def test_shared_keys_are_repeated_ones():
    shared = layer_of(kv_heads=2)

    def repeated(linear: Any) -> Any:
        weight = rnp.repeat(linear.weight.reshape(8, 2, 2), 2, axis=1).reshape(8, 8)
        return linear.replace(weight=weight, bias=rnp.zeros(8))

    whole = layer_of().replace(
        query=shared.query, out=shared.out, key=repeated(shared.key), value=repeated(shared.value)
    )
    same(shared(X), whole(X))


def test_positions_count_from_each_other():
    x = RANDOM.normal(size=(1, 1, 2, 6))
    turned = [np.asarray(nn.rotary_embedding(x, [n]))[0, 0] for n in (0, 2, 7, 9)]
    same(turned[0], x[0, 0])
    same((turned[0] * turned[1]).sum(), (turned[2] * turned[3]).sum())
    same(nn.alibi_slopes(3), [1 / 16, 1 / 256, 1 / 4])


def test_positions_without_a_causal_mask_know_no_direction():
    layer = layer_of(position="alibi")
    same(layer(X[:, ::-1]), np.asarray(layer(X))[:, ::-1])


@pytest.mark.parametrize("dtype", ["float16", "bfloat16"])
def test_training_of_halves_is_as_exact_as_use(dtype: str):
    """Products and their softmax are in float32; a query that sees nothing gets numbers."""
    layer = nn.MultiHeadAttention(8, 4, key=KEY, dropout=1e-9, position="alibi", dtype=dtype)
    x, mask = rnp.asarray(X * 4, dtype), CAUSAL.copy()
    mask[2] = False
    trained, used = layer(x, mask=mask, key=KEY), nn.inference(layer)(x, mask=mask)
    assert trained.dtype == dtype and bool(rnp.isfinite(trained).all())
    wide = [np.asarray(rnp.asarray(y, "float32")) for y in (trained, used)]
    np.testing.assert_allclose(
        wide[0], wide[1], 0, 4 * float(rnp.finfo(dtype).eps) * np.abs(wide[1]).max()
    )


def test_dropout_of_weights_needs_a_key_in_training():
    layer = layer_of(dropout=0.5, kv_heads=2, position="alibi")
    with pytest.raises(RlxError, match="was given no key"):
        layer(X)
    ready = nn.inference(layer)
    mean = rnp.mean(
        rlx.vmap(lambda key: layer(X, key=key, is_causal=True))(random.split(KEY, 4000)), 0
    )
    np.testing.assert_allclose(mean, ready(X, is_causal=True), atol=0.15)


def test_wrong_arguments_say_what_to_do():
    for wrong in (
        lambda: nn.MultiHeadAttention(8, 3, key=KEY),
        lambda: nn.MultiHeadAttention(8, 4, key=KEY, kv_heads=3),
        lambda: nn.MultiHeadAttention(12, 4, key=KEY, position="rope"),
        lambda: nn.MultiHeadAttention(8, 4, key=KEY, position="learned"),
        lambda: layer_of()(X[0]),
        lambda: layer_of()(X[..., :7]),
        lambda: layer_of(dropout=0.5)(X, mask=CAUSAL.astype(int), key=KEY),
        lambda: layer_of()(X, mask=CAUSAL[:4]),
        lambda: layer_of()(X, cache=7),
        lambda: layer_of(position="rope")(X, MEMORY),
        lambda: nn.rotary_embedding(X[0, 0]),
    ):
        with pytest.raises(RlxError) as error:
            wrong()
        assert error.value.fix


def test_a_cache_that_is_full_says_so():
    layer = rlx.nn.MultiHeadAttention(8, 2, key=rlx.random.key(0))
    x = rnp.ones((1, 3, 8))
    _, cache = layer(x, cache=layer.initial_cache(1, 5))
    with pytest.raises(rlx.BoundsError, match="the cache has room for 5 times, not 6") as caught:
        layer(x, cache=cache)
    assert caught.value.fix == "make a longer one: layer.initial_cache(batch, longest)"
    with rlx.config.using(checks=True), pytest.raises(rlx.BoundsError, match="not 6"):
        rlx.block_until_ready(rlx.jit(lambda cache: layer(x, cache=cache))(cache))
