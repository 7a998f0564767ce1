"""ResNet-18."""

from __future__ import annotations

from typing import Any

import numpy as np

from ..libraries import Library
from .numbers import Parameters

WIDTHS = (64, 128, 256, 512)


def normalization(made: Parameters, width: int) -> dict[str, Any]:
    """The numbers of a batch norm."""
    variance = 1 + np.abs(made.drawn(width, scale=0.1))
    return {**made.norm(width), "mean": made.drawn(width, scale=0.1), "var": variance}


def resnet_parameters(classes: int) -> dict[str, Any]:
    """The numbers of the network."""
    made, blocks, inputs = Parameters(), [], 64
    for width in WIDTHS:
        for i in range(2):
            block = {
                "conv1": made.kernel(inputs, width, 3),
                "norm1": normalization(made, width),
                "conv2": made.kernel(width, width, 3),
                "norm2": normalization(made, width),
            }
            if i == 0 and inputs != width:
                block["short"] = made.kernel(inputs, width, 1)
                block["norm3"] = normalization(made, width)
            blocks.append(block)
            inputs = width
    return {
        "stem": made.kernel(3, 64, 7),
        "norm": normalization(made, 64),
        "blocks": blocks,
        "head": made.linear(512, classes),
    }


def resnet(library: Library, p: Any, images: Any, training: bool) -> Any:
    """The classes of images."""
    x = library.conv(images, p["stem"], stride=2, pad=3)
    x = library.max_pool(library.relu(library.batch_norm(x, p["norm"], training)))
    for block in p["blocks"]:
        stride = 2 if "short" in block else 1
        y = library.conv(x, block["conv1"], stride=stride)
        y = library.relu(library.batch_norm(y, block["norm1"], training))
        y = library.batch_norm(library.conv(y, block["conv2"]), block["norm2"], training)
        if "short" in block:
            x = library.conv(x, block["short"], stride=2, pad=0)
            x = library.batch_norm(x, block["norm3"], training)
        x = library.relu(x + y)
    return library.linear(library.spatial_mean(x), p["head"]["weight"], p["head"]["bias"])


def resnet_flops(size: int) -> float:
    """The multiplications and additions of one image's forward pass."""
    total, side, inputs = 2.0 * (size // 2) ** 2 * 64 * 3 * 49, size // 4, 64
    for width in WIDTHS:
        side = side if width == inputs else side // 2
        first = side**2 * width * inputs * 9
        total += 2.0 * (first + 3 * side**2 * width * width * 9)
        total += 0.0 if width == inputs else 2.0 * side**2 * width * inputs
        inputs = width
    return total + 2.0 * 512 * 1000
