"""Encoders of text after BERT: MiniLM, BGE and other sentence transformers.

"BERT", Devlin et al., 2019; "Sentence-BERT", Reimers and Gurevych, 2019. Every token sees all
others; norms come after each part; the states of a text become one vector.

Weights are a dict: `embedding` f[vocabulary, size], `positions` f[context, size], `kinds`
f[n, size], `norm` and `norm_bias` f[size], and `layers`, a list of dicts with `q`, `k`, `v`, `o`,
`up`, `down`, `attention_norm` and `ffn_norm`, each with a `_bias`. Matrices are (out, in).
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

from .. import nn, numpy as rnp
from ..ir.record import record
from .llama import embed, linear

Weights = Mapping[str, Any]
HIDDEN = -1e30


@record
class Bert:
    """The sizes of a model and how it computes.

    `pooling` is "mean" or "max" of all states, or "cls", the first, or "last"; `is_normalized` says
    that vectors have the length 1. `compute` is that of `nn.functional.linear`, `is_tanh` chooses
    the form of GELU.
    """

    vocabulary: int
    layers: int
    size: int
    hidden: int
    heads: int
    epsilon: float
    context: int
    pooling: str = "mean"
    is_normalized: bool = True
    is_tanh: bool = False
    compute: str = "exact"


def encode(model: Bert, weights: Weights, ids: Any, counts: Any) -> Any:
    """The vectors of texts: `ids` i32[rows, tokens] give f32[rows, size].

    `counts`, i32[rows], says how many tokens each text has; what follows changes no bit.
    """
    x = pooled(model, states(model, weights, ids, counts), counts)
    if not model.is_normalized:
        return x
    return x / rnp.sqrt(rnp.sum(rnp.square(x), -1, keepdims=True))


def pooled(model: Bert, x: Any, counts: Any) -> Any:
    """One state for each text: f32[rows, tokens, size] gives f32[rows, size]."""
    is_there = rnp.arange(x.shape[1], dtype="int32") < counts[:, None]
    match model.pooling:
        case "cls":
            return x[:, 0]
        case "last":
            return rnp.take_along_axis(x, counts[:, None, None] - 1, axis=1)[:, 0]
        case "max":
            return rnp.max(rnp.where(is_there[..., None], x, -rnp.inf), 1)
    return rnp.einsum("rt,rtd->rd", rnp.where(is_there, 1.0, 0.0), x) / counts[:, None]


def states(model: Bert, weights: Weights, ids: Any, counts: Any) -> Any:
    """The state of each token: i32[rows, tokens] gives f32[rows, tokens, size]."""
    x = embed(weights, ids) + weights["positions"][: ids.shape[1]] + weights["kinds"][0]
    x = norm(model, weights, "norm", x)
    for layer in weights["layers"]:
        x = norm(model, layer, "attention_norm", x + attention(model, layer, x, counts))
        y = nn.gelu(part(model, layer, "up", x), approximate=model.is_tanh)
        x = norm(model, layer, "ffn_norm", x + part(model, layer, "down", y))
    return x


def attention(model: Bert, layer: Weights, x: Any, counts: Any) -> Any:
    """Attention to the tokens that are there: f32[rows, tokens, size] gives the same."""
    rows, tokens, size = x.shape
    split = (rows, tokens, model.heads, size // model.heads)
    q, k, v = (rnp.reshape(part(model, layer, name, x), split) for name in "qkv")
    scores = rnp.einsum("rthd,rshd->rhts", q, k) / math.sqrt(split[-1])
    is_there = rnp.arange(tokens, dtype="int32") < counts[:, None]
    scores = rnp.where(is_there[:, None, None], scores, HIDDEN)
    weights = rnp.exp(scores - rnp.max(scores, -1, keepdims=True))
    # a product adds from the first token to the last, so those that are hidden change no bit
    total = rnp.einsum("rhts,s->rht", weights, rnp.ones((tokens,)))
    means = rnp.einsum("rhts,rshd->rhtd", weights, v) / total[..., None]
    means = rnp.reshape(rnp.transpose(means, (0, 2, 1, 3)), (rows, tokens, size))
    return part(model, layer, "o", means)


def part(model: Bert, layer: Weights, name: str, x: Any) -> Any:
    """A linear part of a layer, with its bias."""
    return linear(model, x, layer[name], layer[f"{name}_bias"])


def norm(model: Bert, layer: Weights, name: str, x: Any) -> Any:
    """Layer normalization."""
    return nn.layer_norm(x, layer[name], layer[f"{name}_bias"], eps=model.epsilon)
