"""Whole networks, from inputs to results."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from ..case import Case
from ..libraries import Laid, Library
from ..models.numbers import integers, normal
from ..models.resnet import resnet, resnet_flops, resnet_parameters
from ..models.transformer import (
    block_flops,
    decode,
    decoder,
    encoder,
    new_caches,
    positions_of,
    text_parameters,
    vit,
    vit_parameters,
)

ENCODER = 6 * block_flops(128, 384, 128)
VIT = 12 * block_flops(197, 192, 197) + 2.0 * 196 * 192 * 768
WORDS, LENGTH, WIDTH, LAYERS, HEADS = 50257, 256, 768, 12, 12


def texts() -> tuple[Any, ...]:
    """A small encoder and a text of 128 tokens."""
    return text_parameters(6, 384, 30522, 128, 1.0), integers(30522, 1, 128)


def encoder_gradient(library: Library) -> Callable[..., Any]:
    """Of a mean square by all parameters."""

    def loss(p: Any, tokens: Any) -> Any:
        return library.xp.mean(library.sum(encoder(library, p, tokens, 12) ** 2, -1))

    return library.gradient(loss)


def classify(library: Library) -> Callable[..., Any]:
    """ResNet-18 in use, with the statistics that training left."""
    return lambda p, images: resnet(library, p, images, training=False)


def decoding() -> tuple[Any, ...]:
    """Caches that are full but for the last place, a decoder, a token."""
    caches = new_caches(LAYERS, HEADS, LENGTH, WIDTH // HEADS)
    p = text_parameters(LAYERS, WIDTH, WORDS, LENGTH, 0.1)
    return caches, p, integers(WORDS, 1, 1), positions_of(LENGTH - 1)


def decode_step(library: Library) -> Callable[..., Any]:
    """One token, and the caches with it."""
    return lambda caches, p, token, at: decode(library, caches, p, token, at, HEADS)


def prefill(library: Library) -> Callable[..., Any]:
    """All tokens of a prompt."""
    return lambda p, tokens: decoder(library, p, tokens, HEADS)


NUMBERS = 12.0 * LAYERS * WIDTH**2 + WORDS * WIDTH
CASES = [
    Case(
        "encoder", "models", "encoder like MiniLM, 128 tokens", texts,
        lambda library: lambda p, tokens: encoder(library, p, tokens, 12),
        flops=ENCODER, weights=True, starts=True, in_readme=True,
    ),
    Case(
        "encoder-gradient", "models", "gradient of the encoder", texts, encoder_gradient,
        flops=3 * ENCODER, starts=True, norms=True, in_readme=True,
    ),
    Case(
        "vit", "models", "ViT-tiny, 1 image of 224x224",
        lambda: (vit_parameters(12, 192, 196, 16), Laid(normal(1, 3, 224, 224), "image")),
        lambda library: lambda p, images: vit(library, p, images, 3, 16),
        flops=VIT, weights=True, starts=True,
    ),
    Case(
        "resnet", "models", "ResNet-18, 1 image of 224x224",
        lambda: (resnet_parameters(1000), Laid(normal(1, 3, 224, 224), "image")),
        classify, flops=resnet_flops(224), weights=True, starts=True, in_readme=True,
    ),
    Case(
        "gpt-decode", "models", "GPT-2 small, 1 token with a cache of 256", decoding, decode_step,
        kind="stream", nbytes=4 * NUMBERS, starts=True, in_readme=True,
    ),
    Case(
        "gpt-prefill", "models", "GPT-2 small, prompt of 256",
        lambda: (text_parameters(LAYERS, WIDTH, WORDS, LENGTH, 0.1), integers(WORDS, 1, LENGTH)),
        prefill, flops=LAYERS * block_flops(LENGTH, WIDTH, LENGTH / 2)
        + 2.0 * LENGTH * WIDTH * WORDS, weights=True,
    ),
]  # fmt: skip
