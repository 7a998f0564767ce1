"""Convolutions of images and their gradients."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from ..case import Case
from ..libraries import Laid, Library
from ..models.numbers import normal

SHAPE = (8, 32, 56, 56)
PIXELS = 8 * 56 * 56
KINDS = {
    "conv": ("convolution 3x3, 32 to 64 channels", (64, 32, 3, 3), "kernel", (8, 64, 56, 56)),
    "depthwise": ("depthwise convolution 3x3", (32, 1, 3, 3), "kernel", SHAPE),
    "transposed": (
        "transposed convolution 3x3, to twice the size", (32, 64, 3, 3), "transposed kernel",
        (8, 64, 112, 112),
    ),
}  # fmt: skip
FLOPS = {
    "conv": 2.0 * PIXELS * 64 * 32 * 9,
    "depthwise": 2.0 * PIXELS * 32 * 9,
    "transposed": 2.0 * PIXELS * 64 * 32 * 9,
}


def applied(kind: str, library: Library, x: Any, kernel: Any) -> Any:
    """The convolution of that kind."""
    if kind == "transposed":
        return library.conv_transpose(x, kernel)
    return library.conv(x, kernel, groups=32 if kind == "depthwise" else 1)


def forward(kind: str) -> Case:
    """An image and a kernel."""
    title, kernel, laid, _ = KINDS[kind]

    def program(library: Library) -> Callable[..., Any]:
        return lambda x, w: applied(kind, library, x, w)

    return Case(
        kind,
        "convolutions",
        f"{title} (8, 32, 56, 56)",
        lambda: (Laid(normal(*SHAPE), "image"), Laid(normal(*kernel, seed=1), laid)),
        program,
        flops=FLOPS[kind],
        outputs=("image",),
        in_readme=kind == "conv",
    )


def gradient(kind: str) -> Case:
    """The gradient by image and kernel, of a weighted sum of the result."""
    title, kernel, laid, made = KINDS[kind]

    def inputs() -> tuple[Any, ...]:
        pair = (Laid(normal(*SHAPE), "image"), Laid(normal(*kernel, seed=1), laid))
        return pair, Laid(normal(*made, seed=2), "image")

    def program(library: Library) -> Callable[..., Any]:
        def weighted(pair: Any, weights: Any) -> Any:
            return library.sum(applied(kind, library, *pair) * weights)

        return library.gradient(weighted, alone=True)

    return Case(
        f"{kind}-gradient",
        "convolutions",
        f"gradient of {title}",
        inputs,
        program,
        flops=2 * FLOPS[kind],
        outputs=("image", laid),
        in_readme=kind == "conv",
    )


CASES = [make(kind) for kind in KINDS for make in (forward, gradient)]
