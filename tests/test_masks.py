"""Masks of attention: what they show, alone and joined, and attention under them."""

from __future__ import annotations

import importlib
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import rlx
import rlx.numpy as rnp
from rlx.ir.errors import RlxError
from rlx.ir.graph import OPS
from rlx.nn import dot_product_attention, masks

B, T, S, H, G, D = 2, 21, 26, 4, 2, 8
RANDOM = np.random.default_rng(0)
Q, K, V = (RANDOM.normal(size=(B, n, h, D)) for n, h in ((T, H), (S, G), (S, G)))
BIAS = RANDOM.normal(size=(H, T, S))
LISTED = RANDOM.random((B, 1, T, S)) < 0.6
LENGTHS = np.array([9, 26], "int32")
IDS, OTHER = RANDOM.integers(0, 3, (B, T)), RANDOM.integers(0, 3, (B, S))
OWN, KEY = np.arange(T)[:, None], np.arange(S)[None]
OFFSETS = np.array([4, 0], "int32")

# each mask with what it shows, as NumPy says it
ALONE: dict[str, tuple[masks.Mask, Any]] = {
    "everything": (masks.everything(), np.ones((T, S), bool)),
    "causal": (masks.causal(), OWN >= KEY),
    "later": (masks.causal().shifted(3), OWN + 3 >= KEY),
    "offsets": (masks.causal().shifted(OFFSETS), OWN + OFFSETS[:, None, None, None] >= KEY),
    "window": (masks.window(3, 2), (KEY >= OWN - 3) & (KEY <= OWN + 2)),
    "sliding": (masks.causal() & masks.window(4), (KEY >= OWN - 4) & (KEY <= OWN)),
    "beside": (masks.window(8, -2), (KEY >= OWN - 8) & (KEY <= OWN - 2)),
    "lengths": (masks.lengths(LENGTHS), KEY < LENGTHS[:, None, None, None]),
    "segments": (masks.segments(IDS, OTHER), IDS[:, None, :, None] == OTHER[:, None, None]),
    "array": (masks.array(LISTED), LISTED),
    "predicate": (masks.predicate(lambda q, k: (q + k) % 3 > 0), (OWN + KEY) % 3 > 0),
    "moved": (masks.predicate(lambda q, k: q * k < 99).shifted(2), (OWN + 2) * KEY < 99),
}


def reference(seen: Any, bias: Any = 0.0, cap: float | None = None, xs: Any = (Q, K, V)) -> Any:
    """Attention in NumPy, in float64."""
    q, k, v = (np.asarray(x, "float64") for x in xs)
    k, v = (np.repeat(x, q.shape[2] // x.shape[2], axis=2) for x in (k, v))
    scores = np.einsum("bthd,bshd->bhts", q, k) / np.sqrt(q.shape[3])
    scores = scores if cap is None else cap * np.tanh(scores / cap)
    scores = np.where(seen, scores + bias, -1e30)
    powers = np.exp(scores - scores.max(-1, keepdims=True))
    return np.einsum("bhts,bshd->bthd", powers / powers.sum(-1, keepdims=True), v)


def both_ways(monkeypatch: pytest.MonkeyPatch, make: Any) -> list[Any]:
    """What a call gives, all products at once and in blocks."""
    module = importlib.import_module("rlx.nn.attention")
    monkeypatch.setitem(OPS["attention"].attr_defaults, "blocks", (8, 16))
    made = []
    for least in (1 << 60, 1):
        monkeypatch.setattr(module, "LONG", least)
        made.append(make())
    return made


@pytest.mark.parametrize("name", ALONE)
def test_mask_shows_what_it_says(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    mask, seen = ALONE[name]
    shown = np.asarray(mask.seen(T, S))
    both = [np.broadcast_to(x, (B, H, T, S)) for x in (shown, seen)]
    np.testing.assert_array_equal(both[0], both[1])
    np.testing.assert_array_equal(np.asarray((~mask).seen(T, S)), ~shown)
    for made in both_ways(monkeypatch, lambda: dot_product_attention(Q, K, V, mask=mask)):
        np.testing.assert_allclose(made, reference(seen), rtol=1e-10, atol=1e-12)


def joined(random: np.random.Generator, depth: int) -> tuple[masks.Mask, Any]:
    """A random mask of masks."""
    if depth == 0 or random.random() < 0.2:
        return ALONE[random.choice(list(ALONE))]
    one, seen = joined(random, depth - 1)
    if random.random() < 0.25:
        return ~one, ~seen
    two, other = joined(random, depth - 1)
    return (one & two, seen & other) if random.random() < 0.5 else (one | two, seen | other)


@pytest.mark.parametrize("seed", range(8))
def test_joined_masks(seed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    mask, seen = joined(np.random.default_rng(seed), 3)
    shown = np.broadcast_to(np.asarray(mask.seen(T, S)), (B, H, T, S))
    np.testing.assert_array_equal(shown, np.broadcast_to(seen, (B, H, T, S)))
    changed = mask & masks.bias(BIAS) & masks.soft_cap(0.8) & masks.alibi(H)
    slopes = np.array([2.0 ** (-8 * (i + 1) / H) for i in range(H)])
    bias = BIAS - slopes[:, None, None] * abs(OWN - KEY)
    f = rlx.jit(lambda q, k, v, mask: dot_product_attention(q, k, v, mask=mask))
    for made in both_ways(monkeypatch, lambda: f(Q, K, V, changed)):
        np.testing.assert_allclose(made, reference(seen, bias, 0.8), rtol=1e-9, atol=1e-11)


def test_gradients_are_those_of_jax(monkeypatch: pytest.MonkeyPatch) -> None:
    """By what is capped, biased and hidden, and by arrays inside of the mask."""
    slopes = np.array([0.5, 0.25, 0.1, 0.0])
    seen = (KEY <= OWN) & (KEY >= OWN - 6) & (KEY < LENGTHS[:, None, None, None])

    def ours(q: Any, k: Any, v: Any, bias: Any, slopes: Any) -> Any:
        mask = masks.causal() & masks.window(6) & masks.lengths(LENGTHS) & masks.soft_cap(0.7)
        mask = mask & masks.bias(bias) & masks.alibi(slopes) & masks.alibi(H)
        return (dot_product_attention(q, k, v, mask=mask) * np.arange(D)).sum()

    def theirs(q: Any, k: Any, v: Any, bias: Any, slopes: Any) -> Any:
        k, v = (jnp.repeat(x, H // G, axis=2) for x in (k, v))
        scores = 0.7 * jnp.tanh(jnp.einsum("bthd,bshd->bhts", q, k) / np.sqrt(D) / 0.7)
        known = np.asarray(rlx.nn.alibi_slopes(H))
        scores = scores + bias - (slopes + known)[:, None, None] * abs(OWN - KEY)
        weights = jax.nn.softmax(jnp.where(seen, scores, -1e30))
        return (jnp.einsum("bhts,bshd->bthd", weights, v) * np.arange(D)).sum()

    xs = (Q, K, V, BIAS, slopes)
    with jax.enable_x64(True):
        wanted = jax.grad(theirs, (0, 1, 2, 3, 4))(*xs)
    for made in both_ways(monkeypatch, lambda: rlx.grad(ours, (0, 1, 2, 3, 4))(*xs)):
        for one, two in zip(made, wanted, strict=True):
            np.testing.assert_allclose(one, two, rtol=1e-8, atol=1e-10)


def test_derivatives_in_blocks_are_those_of_all_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """Tangents, and derivatives of derivatives, with a cap and slopes."""
    mask = masks.causal() & masks.soft_cap(0.9) & masks.alibi(H)

    def total(*xs: Any) -> Any:
        return (dot_product_attention(*xs, mask=mask) ** 2).sum()

    def every(*xs: Any) -> Any:
        ones = tuple(np.cos(np.arange(x.size)).reshape(x.shape) for x in (Q, K, V))
        return rlx.jvp(rlx.grad(total, (0, 1, 2)), xs, ones)

    whole, parts = both_ways(monkeypatch, lambda: rlx.tree.leaves(rlx.jit(every)(Q, K, V)))
    for one, two in zip(parts, whole, strict=True):
        np.testing.assert_allclose(one, two, rtol=1e-8, atol=1e-9)


def test_batches_of_masks() -> None:
    """vmap over operands and over the arrays of a mask is a loop."""

    def one(q: Any, k: Any, v: Any, length: Any, ids: Any) -> Any:
        mask = masks.lengths(length) & masks.segments(ids, rnp.zeros(S, "int32")) | masks.causal()
        return dot_product_attention(q, k, v, mask=mask)

    xs = (Q, K, V, LENGTHS, IDS)
    made = rlx.jit(rlx.vmap(one))(*xs)
    for i in range(B):
        np.testing.assert_allclose(made[i], one(*(x[i] for x in xs)), rtol=1e-9, atol=1e-12)


def test_long_sequences_make_no_table() -> None:
    """Of a sliding window with a cap and slopes there is no table of 2^24 pairs anywhere."""
    x = np.zeros((1, 4096, 2, 16), "float32")
    mask = masks.causal() & masks.window(100) & masks.soft_cap(9.0) & masks.alibi(2)

    def total(q: Any, k: Any, v: Any) -> Any:
        return dot_product_attention(q, k, v, mask=mask).sum()

    graph = rlx.make_graph(rlx.grad(total, (0, 1, 2)))(x, x, x)
    cost = rlx.Session("cpu").compile(graph).cost()
    assert cost.arena_bytes < 4096 * 4096


def test_layer_takes_masks() -> None:
    """With the bools that they stand for the layer gives the same; in a cache they move along."""
    layer = rlx.nn.MultiHeadAttention(16, 4, key=rlx.random.key(0), kv_heads=2, position="rope")
    x = RANDOM.normal(size=(2, 9, 16)).astype("float32")
    mask = masks.causal() & masks.window(3) & masks.lengths(np.array([9, 5]))
    whole = np.asarray(layer(x, mask=mask))
    np.testing.assert_allclose(layer(x, mask=mask.seen(9, 9)), whole, rtol=1e-5, atol=1e-6)
    cache, parts = layer.initial_cache(2, 9), []
    for i in range(0, 9, 3):
        y, cache = layer(x[:, i : i + 3], mask=mask, cache=cache)
        parts.append(np.asarray(y))
    np.testing.assert_allclose(np.concatenate(parts, 1), whole, rtol=1e-5, atol=1e-6)


WRONG = {
    "fits no batch": lambda: attended(mask=masks.lengths(np.array([1, 2, 3]))),
    "of a length": lambda: attended(mask=masks.segments(np.zeros((B, 3), int))),
    "heads": lambda: attended(mask=masks.alibi(3)),
    "bias": lambda: attended(mask=masks.bias(np.zeros((H, 3, S)))),
    "bools to add": lambda: masks.bias(LISTED),
    "numbers to show": lambda: masks.array(BIAS),
    "floats as lengths": lambda: masks.lengths(np.array([1.0])),
    "floats as segments": lambda: masks.segments(np.zeros((2, 3))),
    "one segment": lambda: masks.segments(3),
    "no cap": lambda: masks.soft_cap(0.0),
    "two caps": lambda: masks.soft_cap(1.0) & masks.soft_cap(2.0),
    "no key": lambda: masks.window(-1, 0),
    "or of a bias": lambda: masks.causal() | masks.bias(BIAS),
    "not of a cap": lambda: ~masks.soft_cap(2.0),
    "an array": lambda: masks.causal() & LISTED,
    "an array before": lambda: LISTED.tolist() | masks.causal(),
    "and": lambda: masks.causal() and masks.causal(),
    "numbers of a predicate": lambda: attended(mask=masks.predicate(lambda q, k: q + k)),
    "no function": lambda: masks.predicate(3),  # type: ignore[arg-type]
    "axes": lambda: masks.array(np.ones((1,) * 5, bool)),
    "offset": lambda: masks.causal().shifted(1.5),
    "slopes": lambda: masks.alibi(np.ones((2, 2))),
    "key and value": lambda: attended(v=V[:, :-1]),
    "batch": lambda: attended(q=Q[:1]),
    "size": lambda: attended(q=Q[..., :4]),
    "share": lambda: attended(q=Q[:, :, :3]),
    "dtype": lambda: attended(q=Q.astype("float32")),
    "whole numbers": lambda: dot_product_attention(*(x.astype("int32") for x in (Q, K, V))),
    "axes of query": lambda: attended(q=Q[0, 0]),
    "floats as lengths of keys": lambda: attended(key_value_seq_lengths=np.ones(B)),
    "a name": lambda: attended(mask="causal"),
    "no flag": lambda: attended(is_causal="yes"),
}


def attended(q: Any = Q, k: Any = K, v: Any = V, **settings: Any) -> Any:
    return dot_product_attention(q, k, v, **settings)


@pytest.mark.parametrize("name", WRONG)
def test_what_is_refused(name: str) -> None:
    with pytest.raises(RlxError) as caught:
        WRONG[name]()
    assert caught.value.fix
