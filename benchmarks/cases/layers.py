"""Parts of networks: normalization, softmax, attention, layers of neurons."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

from ..case import Case
from ..libraries import Laid, Library
from ..models.numbers import Parameters, normal
from ..models.transformer import feed_forward

SHAPE = (8, 128, 768)
COUNT = 8 * 128 * 768
IMAGES = (32, 64, 56, 56)


def heads(*shape: int) -> tuple[Laid, ...]:
    """Queries, keys and values."""
    return tuple(Laid(normal(*shape, seed=seed), "heads") for seed in range(3))


def attention(name: str, title: str, shape: tuple[int, ...], causal: bool, **more: Any) -> Case:
    """Attention of all heads of a layer."""
    batch, count, time, size = shape
    flops = 4.0 * batch * count * time * time * size

    def program(library: Library) -> Callable[..., Any]:
        return lambda q, k, v: library.attention(q, k, v, causal)

    return Case(
        name,
        "layers",
        title,
        lambda: heads(*shape),
        program,
        flops=flops / 2 if causal else flops,
        outputs=("heads",),
        **more,
    )


def perceptron(name: str, title: str, rows: int, width: int, inner: int, **more: Any) -> Case:
    """Two layers of neurons with a gelu between them."""

    def inputs() -> tuple[Any, ...]:
        made = Parameters(1)
        p = {"up": made.linear(width, inner), "down": made.linear(inner, width)}
        return p, normal(rows, width)

    def program(library: Library) -> Callable[..., Any]:
        return lambda p, x: feed_forward(library, p, x)

    flops = 4.0 * rows * width * inner
    return Case(name, "layers", title, inputs, program, flops=flops, weights=True, **more)


def norms() -> tuple[Any, ...]:
    """Numbers, scale and bias."""
    return normal(*SHAPE), 1 + normal(768, seed=1, scale=0.1), normal(768, seed=2)


def batches() -> tuple[Any, ...]:
    """Images, scale and bias, and weights for the numbers of the result."""
    weights = 1 + normal(*IMAGES, seed=4, scale=0.1)
    parameters = {"scale": 1 + normal(64, seed=1, scale=0.1), "bias": normal(64, seed=2)}
    return {"x": Laid(normal(*IMAGES), "image"), **parameters}, Laid(weights, "image")


def batch_norm(library: Library) -> Callable[..., Any]:
    """The gradient of a loss of normalized images, by the images too."""

    def loss(p: Any, weights: Any) -> Any:
        y = library.batch_norm(p["x"], p, training=True)
        return library.sum(y * y * weights)

    return library.gradient(loss)


CASES = [
    Case(
        "softmax", "layers", "softmax (8, 128, 768)", lambda: (normal(*SHAPE),),
        lambda library: library.softmax, nbytes=8.0 * COUNT, in_readme=True,
    ),
    Case(
        "layer-norm", "layers", "layer norm (8, 128, 768)", norms,
        lambda library: library.layer_norm, nbytes=8.0 * COUNT,
    ),
    Case(
        "batch-norm", "layers", "gradient of batch norm (32, 64, 56, 56)", batches, batch_norm,
        nbytes=24.0 * math.prod(IMAGES), outputs=(None, None, None, "image"),
    ),
    perceptron("mlp", "gelu MLP 768-3072-768, 128 rows", 128, 768, 3072, starts=True),
    perceptron("ffn", "gelu MLP 768-3072-768, 1024 rows", 1024, 768, 3072),
    attention("attention", "attention (1, 12, 128, 64)", (1, 12, 128, 64), False, in_readme=True),
    attention("causal", "causal attention (1, 8, 1024, 64)", (1, 8, 1024, 64), True),
]  # fmt: skip
