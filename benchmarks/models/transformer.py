"""Transformers: an encoder like MiniLM, a decoder like GPT-2, a small ViT."""

from __future__ import annotations

from typing import Any

import numpy as np

from ..libraries import Laid, Library
from .numbers import Parameters


def linear(library: Library, p: Any, x: Any) -> Any:
    """A linear layer."""
    return library.linear(x, p["weight"], p["bias"])


def norm(library: Library, p: Any, x: Any) -> Any:
    """A layer norm."""
    return library.layer_norm(x, p["scale"], p["bias"])


def block_parameters(made: Parameters, width: int) -> dict[str, Any]:
    """The parameters of one layer, four times as wide inside."""
    return {
        "qkv": made.linear(width, 3 * width),
        "out": made.linear(width, width),
        "up": made.linear(width, 4 * width),
        "down": made.linear(4 * width, width),
        "norm1": made.norm(width),
        "norm2": made.norm(width),
    }


def block_flops(tokens: int, width: int, seen: float) -> float:
    """The work of one layer whose tokens see `seen` tokens each."""
    return 24.0 * tokens * width**2 + 4.0 * tokens * seen * width


def split_heads(library: Library, p: Any, x: Any, heads: int) -> tuple[Any, Any, Any]:
    """Queries, keys and values."""
    made, width = linear(library, p["qkv"], x), x.shape[-1]
    parts = made[..., :width], made[..., width : 2 * width], made[..., 2 * width :]
    q, k, v = (library.heads(part, heads) for part in parts)
    return q, k, v


def feed_forward(library: Library, p: Any, x: Any) -> Any:
    """The layers behind attention."""
    return linear(library, p["down"], library.gelu(linear(library, p["up"], x)))


def block(library: Library, p: Any, x: Any, heads: int, causal: bool) -> Any:
    """A layer that normalizes first."""
    q, k, v = split_heads(library, p, norm(library, p["norm1"], x), heads)
    x = x + linear(library, p["out"], library.merged(library.attention(q, k, v, causal)))
    return x + feed_forward(library, p, norm(library, p["norm2"], x))


# -- an encoder -----------------------------------------------------------------------------------


def text_parameters(
    layers: int, width: int, words: int, length: int, scale: float
) -> dict[str, Any]:
    """The numbers of a model of text, those of words and places of this scale."""
    made = Parameters()
    return {
        "words": made.drawn(words, width, scale=scale),
        "places": made.drawn(length, width, scale=scale),
        "norm": made.norm(width),
        "layers": [block_parameters(made, width) for _ in range(layers)],
    }


def encoder(library: Library, p: Any, tokens: Any, heads: int) -> Any:
    """The mean of the last layer, which normalizes last as BERT does."""
    x = norm(library, p["norm"], p["words"][tokens] + p["places"])
    for layer in p["layers"]:
        q, k, v = split_heads(library, layer, x, heads)
        seen = library.merged(library.attention(q, k, v))
        x = norm(library, layer["norm1"], x + linear(library, layer["out"], seen))
        x = norm(library, layer["norm2"], x + feed_forward(library, layer, x))
    return library.xp.mean(x, 1)


# -- a decoder ------------------------------------------------------------------------------------


def decoder(library: Library, p: Any, tokens: Any, heads: int) -> Any:
    """How likely each word is next, at every place.

    Words are told by the table that reads them.
    """
    x = p["words"][tokens] + p["places"][: tokens.shape[1]]
    for layer in p["layers"]:
        x = block(library, layer, x, heads, causal=True)
    return norm(library, p["norm"], x) @ p["words"].T


def decode(library: Library, caches: Any, p: Any, tokens: Any, position: Any, heads: int) -> Any:
    """The next word after one token at `position`, and the caches with it."""
    x = p["words"][tokens] + p["places"][position]
    length = p["places"].shape[0]
    seen = (library.xp.arange(length) <= position).reshape((1, length))
    kept = []
    for layer, (keys, values) in zip(p["layers"], caches, strict=True):
        q, k, v = split_heads(library, layer, norm(library, layer["norm1"], x), heads)
        keys = library.written(keys, k, position)
        values = library.written(values, v, position)
        kept.append((keys, values))
        merged = library.merged(library.attention(q, keys, values, mask=seen))
        x = x + linear(library, layer["out"], merged)
        x = x + feed_forward(library, layer, norm(library, layer["norm2"], x))
    return norm(library, p["norm"], x) @ p["words"].T, kept


def new_caches(layers: int, heads: int, length: int, size: int) -> list[Any]:
    """Keys and values of tokens seen before."""
    made = Parameters(1)

    def one() -> Laid:
        return Laid(made.drawn(1, heads, length, size, scale=1.0), "heads")

    return [(one(), one()) for _ in range(layers)]


# -- a ViT ----------------------------------------------------------------------------------------


def vit_parameters(layers: int, width: int, patches: int, size: int) -> dict[str, Any]:
    """The numbers of a ViT that reads squares of `size`."""
    made = Parameters()
    return {
        "patch": made.kernel(3, width, size),
        "first": made.drawn(1, 1, width, scale=1.0),
        "places": made.drawn(patches + 1, width, scale=1.0),
        "norm": made.norm(width),
        "head": made.linear(width, 1000),
        "layers": [block_parameters(made, width) for _ in range(layers)],
    }


def vit(library: Library, p: Any, images: Any, heads: int, size: int) -> Any:
    """The classes of images."""
    x = library.tokens(library.conv(images, p["patch"], stride=size, pad=0))
    first = library.xp.broadcast_to(p["first"], (x.shape[0], 1, x.shape[2]))
    x = library.xp.concatenate([first, x], 1) + p["places"]
    for layer in p["layers"]:
        x = block(library, layer, x, heads, causal=False)
    return linear(library, p["head"], norm(library, p["norm"], x)[:, 0])


def positions_of(position: int) -> np.ndarray:
    """A position as an array, so that it is not a constant of the program."""
    return np.array(position, np.int32)
