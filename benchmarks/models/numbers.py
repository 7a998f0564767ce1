"""Numbers for inputs and parameters, the same in every process."""

from __future__ import annotations

import numpy as np

from ..libraries import Laid


def normal(*shape: int, seed: int = 0, scale: float = 1.0) -> np.ndarray:
    """Normal numbers in float32."""
    generator = np.random.default_rng(seed)
    return generator.standard_normal(shape, np.float32) * np.float32(scale)


def integers(count: int, *shape: int, seed: int = 0) -> np.ndarray:
    """Integers from 0 up to, not including, `count`."""
    return np.random.default_rng(seed).integers(0, count, shape).astype(np.int32)


class Parameters:
    """Makes the parameters of a model, each with numbers of its own."""

    def __init__(self, seed: int = 0) -> None:
        self.generator = np.random.default_rng(seed)

    def drawn(self, *shape: int, scale: float) -> np.ndarray:
        """Normal numbers in float32."""
        return self.generator.standard_normal(shape, np.float32) * np.float32(scale)

    def linear(self, inputs: int, outputs: int) -> dict[str, object]:
        """Weight and bias of a linear layer."""
        weight = Laid(self.drawn(inputs, outputs, scale=inputs**-0.5), "weight")
        return {"weight": weight, "bias": self.drawn(outputs, scale=0.1)}

    def norm(self, width: int) -> dict[str, object]:
        """Scale and bias of a normalization."""
        return {"scale": 1 + self.drawn(width, scale=0.1), "bias": self.drawn(width, scale=0.1)}

    def kernel(self, inputs: int, outputs: int, size: int) -> Laid:
        """The kernel of a convolution."""
        scale = (2 / (inputs * size * size)) ** 0.5
        return Laid(self.drawn(outputs, inputs, size, size, scale=scale), "kernel")
