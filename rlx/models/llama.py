"""Decoders of the Llama family: Llama 2 and 3, Mistral, Qwen 2 and 3, SmolLM.

"Llama 2", Touvron et al., 2023; "The Llama 3 Herd of Models", 2024; "Mistral 7B", Jiang et al.,
2023; "Qwen3 Technical Report", 2025. They are one model: root-mean-square norms before each part,
rotary positions, keys and values shared by groups of heads, a gated feed-forward net. Qwen 2 adds
biases to queries, keys and values, Qwen 3 norms of each head's queries and keys.

Weights are a dict: `embedding` and `head` f[vocabulary, size], `norm` f[size], and `layers`, a list
of dicts with `attention_norm`, `q`, `k`, `v`, `o`, `ffn_norm`, `gate`, `up`, `down`. Matrices have
the shape (out, in), and are arrays or in blocks of few bits.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from .. import nn, numpy as rnp
from ..ir.record import record, replace
from ..nn.blocks import BlockArray
from .lora import Adapted

Weights = Mapping[str, Any]
# of a layer's queries, keys and values; gives the means of values, shaped as the queries
Attend = Callable[[Any, Any, Any], Any]


@record
class Llama:
    """The sizes of a model and how it computes.

    `frequencies` are radians per token of each pair of features; `is_interleaved` says that pairs
    are neighbors, as in GGUF files, else halves apart. A query sees `window` keys, or all before
    it. `compute` is that of `nn.functional.linear`; of "int8" see `refined` and `finer`.
    """

    vocabulary: int
    layers: int
    size: int
    hidden: int
    heads: int
    kv_heads: int
    head_size: int
    epsilon: float
    context: int
    frequencies: tuple[float, ...] = ()
    magnitude: float = 1.0
    is_interleaved: bool = False
    window: int | None = None
    compute: str = "exact"


def forward(
    model: Llama, weights: Weights, ids: Any, positions: Any, attends: Sequence[Attend]
) -> Any:
    """Logits of the next tokens: i32[...] gives f32[..., vocabulary].

    `positions` are those of `ids`. `attends` keep the keys and values of each layer, and know what
    a token sees.
    """
    x = embed(weights, ids)
    for i, (layer, attend) in enumerate(zip(weights["layers"], attends, strict=True)):
        x = block(refined(model, i), layer, x, positions, attend)
    return head(model, weights, x)


LAST = 15  # one layer of so many, at the end


def refined(model: Llama, layer: int) -> Llama:
    """How layer number `layer` computes; the head comes after the layers.

    The first layer and the last ones have the greatest outliers. What is rounded off in the first
    passes into all others; nothing after the last ones and the head makes up for it.
    """
    is_last = layer >= model.layers - -(-model.layers // LAST)
    return finer(model) if layer == 0 or is_last else model


def finer(model: Llama) -> Llama:
    """With 16 bits in place of 8, for products that lose most by 8 for their size.

    Those are queries, keys and values, and `down`, whose inputs have outliers: measured by errors
    of the difference of SmolLM2's two likeliest logits, each product alone in 8 bits. With them and
    `refined` its likeliest token is the exact one at 99.4 % of 20,004 places.
    """
    return replace(model, compute="int16") if model.compute == "int8" else model


def embed(weights: Weights, ids: Any) -> Any:
    """The embeddings of tokens: i32[...] gives f32[..., size]."""
    rows = weights["embedding"][ids]
    return rows.dequantize() if isinstance(rows, BlockArray) else rnp.astype(rows, "float32")


def block(model: Llama, layer: Weights, x: Any, positions: Any, attend: Attend) -> Any:
    """A layer: f32[..., size] gives the same."""
    turn = rotation(model, positions)
    h = nn.rms_norm(x, layer["attention_norm"], eps=model.epsilon)
    q, k, v = queries_keys_values(model, layer, h)
    means = rnp.reshape(attend(turn(q), turn(k), v), (*x.shape[:-1], model.heads * model.head_size))
    x = x + linear(model, means, layer["o"])
    h = nn.rms_norm(x, layer["ffn_norm"], eps=model.epsilon)
    return x + feed_forward(model, layer, h)


def head(model: Llama, weights: Weights, x: Any) -> Any:
    """Logits of the next token: f32[..., size] gives f32[..., vocabulary]."""
    x = nn.rms_norm(x, weights["norm"], eps=model.epsilon)
    return linear(refined(model, model.layers), x, weights.get("head", weights["embedding"]))


def queries_keys_values(model: Llama, layer: Weights, x: Any) -> tuple[Any, Any, Any]:
    """Queries f32[..., heads, head_size]; keys, values f32[..., kv_heads, head_size]."""

    def heads(name: str, count: int) -> Any:
        y = linear(finer(model), x, layer[name], layer.get(f"{name}_bias"))
        y = rnp.reshape(y, (*x.shape[:-1], count, model.head_size))
        norm = layer.get(f"{name}_norm")
        return y if norm is None else nn.rms_norm(y, norm, eps=model.epsilon)

    return heads("q", model.heads), heads("k", model.kv_heads), heads("v", model.kv_heads)


def feed_forward(model: Llama, layer: Weights, x: Any) -> Any:
    """The gated net SwiGLU: down(silu(gate(x)) * up(x))."""
    gate = linear(model, x, layer["gate"])
    up = linear(model, x, layer["up"])
    return linear(finer(model), nn.silu(gate) * up, layer["down"])


def linear(model: Any, x: Any, w: Any, b: Any = None) -> Any:
    """x W^T + b: f32[..., in] gives f32[..., out]; exact if W is not in blocks."""
    if isinstance(w, Adapted):
        return linear(model, x, w.weights, b) + w.change(x)
    is_packed = isinstance(w, BlockArray)
    return nn.linear(x, w, b, compute=model.compute if is_packed else "exact")


# -- rotary positions ------------------------------------------------------------------------------


def rotation(model: Llama, positions: Any) -> Callable[[Any], Any]:
    """What turns pairs of features, f32[..., heads, head_size], by their position."""
    angles = positions[..., None, None] * rnp.array(model.frequencies, "float32")
    cos, sin = rnp.cos(angles) * model.magnitude, rnp.sin(angles) * model.magnitude

    def turn(x: Any) -> Any:
        if model.is_interleaved:
            a, b = x[..., 0::2], x[..., 1::2]
            return rnp.reshape(rnp.stack([a * cos - b * sin, b * cos + a * sin], -1), x.shape)
        half = x.shape[-1] // 2
        a, b = x[..., :half], x[..., half:]
        return rnp.concatenate([a * cos - b * sin, b * cos + a * sin], -1)

    return turn


def linear_scaling(plain: np.ndarray, factor: float) -> np.ndarray:
    """Position interpolation (Chen et al., 2023): angles are divided by the factor."""
    return plain / factor


def llama3_scaling(
    plain: np.ndarray, factor: float, low: float, high: float, context: int
) -> np.ndarray:
    """Llama 3.1: slow pairs are divided, fast ones stay, with a ramp between them.

    `low` and `high` count turns within the `context` of training.
    """
    turns = context * plain / (2 * math.pi)
    share = np.clip((turns - low) / (high - low), 0, 1)
    return plain * (share + (1 - share) / factor)


def yarn_scaling(
    plain: np.ndarray,
    base: float,
    factor: float,
    fast: float,
    slow: float,
    context: int,
    is_whole: bool = True,
) -> np.ndarray:
    """YaRN (Peng et al., 2023): as above, with a ramp over the numbers of the pairs.

    Pairs of more than `fast` turns within the `context` of training stay, those of less than `slow`
    are divided by the factor. `is_whole` says that the ramp is from pair to pair.
    """
    size = 2 * len(plain)

    def number(turns: float) -> float:
        return size * math.log(context / (turns * 2 * math.pi)) / (2 * math.log(base))

    first, last = number(fast), number(slow)
    if is_whole:
        first, last = math.floor(first), math.ceil(last)
    first, last = max(first, 0), min(last, size - 1)
    share = np.clip((np.arange(len(plain)) - first) / max(last - first, 1e-3), 0, 1)
    return plain * (1 - share + share / factor)
