"""What everyone must know of a device's memory, so that arrays can lie there."""

from __future__ import annotations

from typing import Any, Protocol, runtime_checkable

import numpy as np


@runtime_checkable
class Memory(Protocol):
    """Memory that NumPy cannot read.

    The data in it have a `shape` and a NumPy `dtype`.
    """

    @property
    def name(self) -> str:
        """The name of the device, as `opencl`."""
        ...

    def to_host(self, data: Any) -> np.ndarray:
        """Copy the device's form of an array into a NumPy array."""
        ...

    def from_host(self, array: np.ndarray) -> Any:
        """Copy a NumPy array into the device's form."""
        ...
