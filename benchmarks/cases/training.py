"""Train steps: loss, gradient, and Adam."""

from __future__ import annotations

import itertools
from collections.abc import Callable
from typing import Any

from ..case import Case
from ..libraries import Laid, Library
from ..models.numbers import Parameters, integers, normal
from ..models.resnet import resnet, resnet_flops, resnet_parameters
from ..models.transformer import block_flops, decoder, linear, text_parameters

SIZES = (64, 256, 128, 10)


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


# Adam's first step is the sign of a gradient, which rounding turns where it is almost 0: the losses
# after it are as near as so many small steps into another direction let them be
BRANCHES = 1e5
MLP = 6.0 * 64 * sum(a * b for a, b in itertools.pairwise(SIZES))
GPT = 3 * (4 * 4 * block_flops(128, 256, 64) + 2.0 * 512 * 256 * 1024)
CASES = [
    Case(
        "train-mlp", "training", "MLP of the demo, batch of 64", perceptron, perceptron_loss,
        kind="train", flops=MLP, starts=True, in_readme=True,
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
