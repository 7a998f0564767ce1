"""Arrays of JAX as the device's form of an array."""

from __future__ import annotations

from typing import Any

import jax
import numpy as np

from ...ir.errors import ArgumentError
from ...ir.sharding import Mesh, NamedSharding
from .errors import translated
from .sharding import jax_mesh, jax_sharding, placed


class XlaMemory:
    """The memory of a device of JAX, or of many that share an array among them."""

    def __init__(self, name: str, device: Any) -> None:
        self.name, self.device = name, device

    def to_host(self, data: Any) -> np.ndarray:
        """The numbers as a read-only NumPy array; of the CPU's memory without a copy."""
        with translated(self.name):
            if not data.is_fully_addressable and not data.is_fully_replicated:
                raise _spread(data)
            # what failed is an error here; in the memory of a CPU NumPy would end the process
            return np.asarray(data.block_until_ready())

    def from_host(self, array: np.ndarray) -> Any:
        """A copy of a NumPy array on the device."""
        with translated(self.name), jax.enable_x64(True):
            # JAX may read an array, or go on using it, after this call; the caller may write to his
            return jax.device_put(np.array(array), self.device, may_alias=False)

    def wait(self, data: Any) -> None:
        """Return when the numbers are computed."""
        with translated(self.name):
            data.block_until_ready()

    def check(self, mesh: Mesh) -> None:
        """Raise if there are too few devices for a mesh."""
        with translated(self.name):
            jax_mesh(mesh)

    def place(self, data: Any, sharding: NamedSharding) -> Any:
        """The array in parts on the devices of a mesh."""
        with translated(self.name):
            return placed(data, jax_sharding(sharding))

    def joined(self, part: np.ndarray, sharding: NamedSharding) -> Any:
        """The array of which each process has a part."""
        with translated(self.name), jax.enable_x64(True):
            return jax.make_array_from_process_local_data(jax_sharding(sharding), part)

    def __repr__(self) -> str:
        return f"XlaMemory({self.name!r}, {self.device})"


def _spread(data: Any) -> ArgumentError:
    return ArgumentError(
        f"an array of the shape {data.shape} lies in parts on several processes, none has it whole",
        fix="put it together: rlx.device_put(x, rlx.NamedSharding(mesh, rlx.P()))",
    )
