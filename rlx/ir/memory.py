"""The interface of a device's memory, for arrays on it."""

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

    def wait(self, data: Any) -> None:
        """Return when the elements are computed; what failed until then is an error here."""
        ...


@runtime_checkable
class Shared(Protocol):
    """A device's form of an array whose memory other libraries can take where it lies."""

    def __dlpack__(self, **options: Any) -> Any:
        """A capsule of DLPack."""
        ...

    def __dlpack_device__(self) -> tuple[int, int]:
        """Where the memory is, in the numbers of DLPack."""
        ...


@runtime_checkable
class Sharing(Memory, Protocol):
    """Device memory that can share arrays of other libraries."""

    def from_dlpack(self, x: Any, copy: bool = True) -> Any:
        """The device's form of such an array, over the same memory unless it is copied."""
        ...
