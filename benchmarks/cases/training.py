"""Train steps: loss, gradient, and Adam."""

from __future__ import annotations

import itertools
from collections.abc import Callable
from typing import Any

from ..case import Case
from ..libraries import Laid, Library
from ..models.numbers import Parameters, integers, normal
from ..models.resnet import resnet, resnet_flops, resnet_parameters
from ..models.transformer import (
    block,
    block_flops,
    block_parameters,
    decoder,
    linear,
    split_heads,
    text_parameters,
)
from .loops import BATCH, TIMES, WIDTH, recurrent

SIZES = (64, 256, 128, 10)
TOKENS, HEADS = (8, 128, 256), 4


def perceptron() -> tuple[Any, ...]:
    """The network of the digits demo, with a batch."""
    made = Parameters()
    layers = [made.linear(a, b) for a, b in itertools.pairwise(SIZES)]
    return layers, normal(64, SIZES[0]), integers(10, 64)


def perceptron_loss(library: Library) -> Callable[..., Any]:
    """Cross-entropy of digits."""

    def loss(layers: Any, x: Any, labels: Any) -> Any:
        for p in layers[:-1]:
            x = library.relu(linear(library, p, x))
        return library.cross_entropy(linear(library, layers[-1], x), labels)

    return loss


def language() -> tuple[Any, ...]:
    """A small decoder, tokens and those that follow them."""
    p = text_parameters(4, 256, 1024, 128, 0.1)
    return p, integers(1024, 4, 128), integers(1024, 4, 128, seed=1)


def language_loss(library: Library) -> Callable[..., Any]:
    """Cross-entropy of the next tokens."""
    return lambda p, tokens, following: library.cross_entropy(
        decoder(library, p, tokens, 4), following
    )


def pictures() -> tuple[Any, ...]:
    """ResNet-18, images and their classes."""
    return resnet_parameters(1000), Laid(normal(4, 3, 64, 64), "image"), integers(1000, 4)


def picture_loss(library: Library) -> Callable[..., Any]:
    """Cross-entropy of classes, normalized by the statistics of the batch."""
    return lambda p, images, labels: library.cross_entropy(
        resnet(library, p, images, training=True), labels
    )


def recurrent_loss(library: Library) -> Callable[..., Any]:
    """How far the states of an LSTM are from those it should have."""
    return lambda p, xs, wanted: library.xp.mean((library.lstm(p, xs) - wanted) ** 2)


def layer() -> tuple[Any, ...]:
    """One layer of a transformer, what it reads and what it should give."""
    p = block_parameters(Parameters(), TOKENS[-1])
    return p, normal(*TOKENS), normal(*TOKENS, seed=1)


def attention() -> tuple[Any, ...]:
    """The same without what stands around attention."""
    p, x, wanted = layer()
    return {name: p[name] for name in ("qkv", "out")}, x, wanted


def layer_loss(library: Library) -> Callable[..., Any]:
    """How far the layer's result is from what it should give."""
    return lambda p, x, wanted: library.xp.mean(
        (block(library, p, x, HEADS, causal=False) - wanted) ** 2
    )


def attention_loss(library: Library) -> Callable[..., Any]:
    """The same of attention, whose queries, keys and values are made of one array."""

    def loss(p: Any, x: Any, wanted: Any) -> Any:
        seen = library.merged(library.attention(*split_heads(library, p, x, HEADS)))
        return library.xp.mean((linear(library, p["out"], seen) - wanted) ** 2)

    return loss


# Adam's first step is the sign of a gradient, which rounding turns where it is almost 0: the losses
# after it are as near as so many small steps into another direction let them be
BRANCHES = 1e5
MLP = 6.0 * 64 * sum(a * b for a, b in itertools.pairwise(SIZES))
LSTM = 24.0 * TIMES * BATCH * WIDTH * 2 * WIDTH
COUNT, SEEN, BROAD = TOKENS[0] * TOKENS[1], TOKENS[1], TOKENS[2]
LAYER = 3 * block_flops(COUNT, BROAD, SEEN)
ATTENTION = 3 * (8.0 * COUNT * BROAD**2 + 4.0 * COUNT * SEEN * BROAD)
GPT = 3 * (4 * 4 * block_flops(128, 256, 64) + 2.0 * 512 * 256 * 1024)
CASES = [
    Case(
        "train-mlp", "training", "MLP of the demo, batch of 64", perceptron, perceptron_loss,
        kind="train", flops=MLP, starts=True, in_readme=True,
    ),
    Case(
        "train-lstm", "training", "LSTM, 100 steps of (8, 128)",
        lambda: (*recurrent(4), normal(TIMES, BATCH, WIDTH, seed=5)), recurrent_loss,
        kind="train", flops=LSTM, loops=True,
        without={"torch-compiled": "inductor fails on the gradient of torch.lstm"},
    ),
    Case(
        "train-attention", "training", "multi-head attention (8, 128, 256)", attention,
        attention_loss, kind="train", flops=ATTENTION,
    ),
    Case(
        "train-layer", "training", "transformer layer (8, 128, 256)", layer, layer_loss,
        kind="train", flops=LAYER,
    ),
    Case(
        "train-gpt", "training", "GPT of 4 layers, 4x128 tokens", language, language_loss,
        kind="train", flops=GPT, starts=True, in_readme=True,
    ),
    Case(
        "train-resnet", "training", "ResNet-18, 4 images of 64x64", pictures, picture_loss,
        kind="train", flops=3 * 4 * resnet_flops(64), starts=True, in_readme=True,
        ulps=BRANCHES,
    ),
]  # fmt: skip
