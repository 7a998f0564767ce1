"""Arrays of JAX as the device's form of an array."""

from __future__ import annotations

from typing import Any

import jax
import numpy as np

from .errors import translated


class XlaMemory:
    """The memory of a device of JAX, or of many that share an array among them."""

    def __init__(self, name: str, device: Any) -> None:
        self.name, self.device = name, device

    def to_host(self, data: Any) -> np.ndarray:
        """The numbers as a read-only NumPy array; of the CPU's memory without a copy."""
        with translated(self.name):
            return np.asarray(data)

    def from_host(self, array: np.ndarray) -> Any:
        """A copy of a NumPy array on the device."""
        with translated(self.name), jax.enable_x64(True):
            return jax.device_put(array, self.device, may_alias=False)

    def __repr__(self) -> str:
        return f"XlaMemory({self.name!r}, {self.device})"
