"""Attention of long sequences: the numbers of the short way, without its memory."""

from __future__ import annotations

import importlib
from typing import Any

import numpy as np
import pytest

import rlx
import rlx.numpy as rnp
from rlx.ir.graph import OPS
from rlx.nn import dot_product_attention

RANDOM = np.random.default_rng(0)
LENGTHS = np.array([3, 40], "int32")
SETTINGS = (
    {},
    {"is_causal": True, "scale": np.float64(0.3)},
    {"local_window_size": (9, 2)},
    {"local_window_size": (-3, 20)},  # the last queries see no key
    {"local_window_size": (30, -5)},  # nor do the first ones
    {"mask": RANDOM.random((1, 2, 45, 70)) < 0.7, "is_causal": True},
    {"query_seq_lengths": LENGTHS, "key_value_seq_lengths": LENGTHS + 20},
)


@pytest.fixture(autouse=True)
def small_blocks(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(OPS["attention"].attr_defaults, "blocks", (16, 32))


def normal(*shape: int) -> np.ndarray:
    return RANDOM.normal(size=shape)


Q, K, V, BIAS = normal(2, 45, 2, 8), normal(2, 70, 1, 8), normal(2, 70, 1, 8), normal(2, 45, 70)


def both_ways(monkeypatch: pytest.MonkeyPatch, make: Any, tolerance: float = 1e-10) -> None:
    """Compare what a call gives, computed in spans and in blocks."""
    module, made = importlib.import_module("rlx.nn.attention"), []
    for least in (1 << 60, 1):
        monkeypatch.setattr(module, "LONG", least)
        made.append([np.asarray(x) for x in make()])
    for short, long in zip(*made, strict=True):
        assert long.dtype == short.dtype
        np.testing.assert_allclose(long, short, rtol=tolerance, atol=tolerance / 10)


def test_results_and_derivatives_are_those_of_the_short_way(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def total(q: Any, k: Any, v: Any, bias: Any, settings: dict[str, Any]) -> Any:
        made, rest = dot_product_attention(q, k, v, bias[None], return_residual=True, **settings)
        return (made * np.arange(8.0)).sum(), (made, rest)

    def every(*xs: Any) -> list[Any]:
        slopes = rlx.grad(total, (0, 1, 2, 3), has_aux=True)
        found = [slopes(*xs, settings) for settings in SETTINGS]
        return [x for slope, aux in found for x in (*slope, *aux)]

    both_ways(monkeypatch, lambda: rlx.jit(every)(Q, K, V, BIAS))


def test_tangents_examples_and_second_derivatives(monkeypatch: pytest.MonkeyPatch) -> None:
    def one(q: Any, k: Any, v: Any, bias: Any) -> Any:
        made = dot_product_attention(q, k, v, bias[None], is_causal=True)
        return rnp.sum(made * made)

    def every(*xs: Any) -> list[Any]:
        _, tangent = rlx.jvp(one, xs, tuple(rnp.ones_like(x) for x in xs))
        slopes = rlx.vmap(rlx.grad(one, (0, 3)), in_axes=(0, 0, 0, None))
        shared = rlx.grad(lambda b: rlx.vmap(one, in_axes=(0, 0, 0, None))(*xs[:3], b).sum())
        _, bent = rlx.jvp(rlx.grad(one, (0, 1, 2)), xs, tuple(rnp.ones_like(x) for x in xs))
        return [tangent, *slopes(*xs), shared(xs[3]), *bent]

    both_ways(monkeypatch, lambda: rlx.jit(every)(Q, K, V, BIAS))


@pytest.mark.parametrize("name", ["large", "whole numbers"])
def test_bias_that_is_the_same_for_all_queries(monkeypatch: pytest.MonkeyPatch, name: str) -> None:
    """It may be too large for powers, also where queries fill up a block; it may be integers."""
    bias = np.arange(70)[None, None, None] % 3
    bias = bias + 1000.0 if name == "large" else bias.astype("int32")

    def total(*xs: Any) -> Any:
        return (dot_product_attention(*xs, bias) * np.arange(8.0)).sum()

    slopes, ones = rlx.grad(total, (0, 1, 2)), [np.ones_like(x) for x in (Q, K, V)]
    both_ways(monkeypatch, lambda: rlx.jit(lambda *xs: rlx.jvp(slopes, xs, ones)[1])(Q, K, V))
    both_ways(monkeypatch, lambda: rlx.jit(slopes)(Q, K, V))


def test_scale_of_a_wider_dtype(monkeypatch: pytest.MonkeyPatch) -> None:
    xs = [x.astype("float32") for x in (Q, K, V)]

    def make() -> list[Any]:
        return [dot_product_attention(*xs, scale=np.array(0.3))]

    both_ways(monkeypatch, make, 1e-5)


def test_scores_are_never_all_in_memory() -> None:
    """Of 2^24 scores for each of 4 heads, in the gradient too, there are a few blocks."""
    x = np.zeros((1, 4096, 4, 16), "float32")

    def total(q: Any, k: Any, v: Any) -> Any:
        return dot_product_attention(q, k, v, is_causal=True).sum()

    graph = rlx.make_graph(rlx.grad(total, (0, 1, 2)))(x, x, x)
    scores = 4 * 4096 * 4096 * 4
    assert rlx.Session("cpu").compile(graph).cost().arena_bytes < scores / 8
