"""Trees of arrays between the host and devices."""

from __future__ import annotations

from typing import Any

import numpy as np

from ..backends import registry
from ..ir.errors import ArgumentError
from ..ir.sharding import Mesh, NamedSharding, set_mesh_check
from ..trace import pytree
from ..trace.apply import as_tensor
from ..trace.array import Array
from ..trace.tensor import TracedTensor


def device_put(x: Any, device: Any = None) -> Any:
    """A tree of arrays on a device; without one, where they lie.

    What is no array of rlx then goes to the default device. In the place of a device may stand a
    `NamedSharding`: arrays then lie in parts on the devices of its mesh. A function that is
    recorded then runs on the device; there a sharding is an error, for `jit` is told of these.

    >>> device_put({"x": [1.0, 2.0]})["x"][1].item()
    2.0
    """

    def put(leaf: Any) -> Any:
        array = as_tensor(leaf)
        if device is None:
            return array
        if not isinstance(device, NamedSharding):
            return array.to(device)
        if not isinstance(array, Array):
            raise ArgumentError(
                f"device_put cannot part {array.type} among devices: it is traced",
                fix="part it before the call, or give in_shardings or out_shardings to rlx.jit",
            )
        return parted(array, device)

    return pytree.map(put, x)


def parted(array: Array, sharding: NamedSharding) -> Array:
    """An array in parts on the devices of a mesh."""
    backend = registry.get(sharding.mesh.device)
    if not backend.has_shardings:
        raise ArgumentError(
            f"the device {backend.name} does not part arrays among devices",
            fix='make the mesh of another device: Mesh(..., device="xla")',
        )
    sharding.check(array.shape, f"the array {array.type}")
    there = array.to(sharding.mesh.device)
    memory: Any = backend.memory
    return Array(memory.place(there._data, sharding), memory)


def _check_mesh(mesh: Mesh) -> None:
    """Raise if a mesh has more devices than there are."""
    backend = registry.get(mesh.device)
    if backend.has_shardings:
        memory: Any = backend.memory
        memory.check(mesh)


set_mesh_check(_check_mesh)


def device_get(x: Any) -> Any:
    """A tree of arrays as NumPy arrays; tensors of a trace stay as they are.

    >>> device_get((as_tensor(1.5),))
    (array(1.5, dtype=float32),)
    """
    return pytree.map(_to_numpy, x)


def _to_numpy(leaf: Any) -> Any:
    if isinstance(leaf, TracedTensor):
        return leaf
    return leaf.host() if isinstance(leaf, Array) else np.asarray(leaf)


def block_until_ready(x: Any) -> Any:
    """Wait until all arrays of a tree are computed; gives the tree back.

    >>> block_until_ready([as_tensor(1.5)])[0].item()
    1.5
    """
    for leaf in pytree.leaves(x):
        if isinstance(leaf, Array):
            leaf.block_until_ready()
    return x
