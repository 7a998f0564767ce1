"""Arrays of JAX, whole on a device or in parts on many, perhaps of many processes."""

from __future__ import annotations

import functools
from collections.abc import Sequence
from typing import Any

import jax
import numpy as np
from jax.sharding import AxisType, SingleDeviceSharding

from ...ir.errors import (
    ArgumentError,
    DeviceFailure,
    DeviceMismatchError,
    DeviceUnavailable,
)
from ...ir.sharding import Mesh, NamedSharding
from .errors import translated


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


# -- arrays in parts ------------------------------------------------------------------------------


@functools.cache
def jax_mesh(mesh: Mesh) -> jax.sharding.Mesh:
    """The mesh of JAX's devices; raises if there are too few."""
    platform = mesh.device.partition(":")[2].partition(":")[0]
    devices = jax.devices(platform or None)
    if len(devices) < mesh.size:
        raise DeviceUnavailable(
            f"a mesh of {mesh.size} devices: {mesh.device!r} has {len(devices)}",
            fix="use a smaller mesh, or more processes (rlx.distributed.initialize); to try it on "
            "the CPU set XLA_FLAGS=--xla_force_host_platform_device_count="
            f"{mesh.size} before Python starts",
        )
    grid = np.array(devices[: mesh.size]).reshape(mesh.shape)
    return jax.sharding.Mesh(grid, mesh.axis_names, axis_types=(AxisType.Auto,) * grid.ndim)


@functools.lru_cache(1024)
def jax_sharding(sharding: NamedSharding) -> jax.sharding.NamedSharding:
    """How an array lies, in JAX's words."""
    spec = jax.sharding.PartitionSpec(*sharding.spec)
    return jax.sharding.NamedSharding(jax_mesh(sharding.mesh), spec)


def whole_on(mesh: jax.sharding.Mesh) -> jax.sharding.NamedSharding:
    """The sharding of an array that is whole on each device."""
    return jax.sharding.NamedSharding(mesh, jax.sharding.PartitionSpec())


def is_on_one(data: jax.Array) -> bool:
    """Whether an array lies on one device."""
    return isinstance(data.sharding, SingleDeviceSharding) or len(data.sharding.device_set) == 1


def mesh_of(arrays: Sequence[jax.Array]) -> jax.sharding.Mesh:
    """The mesh of those arrays that lie on many devices; raises if they differ."""
    shardings: list[Any] = [x.sharding for x in arrays if not is_on_one(x)]
    sizes = sorted({sharding.mesh.size for sharding in shardings})
    if len(sizes) > 1:
        raise DeviceMismatchError(
            f"the arguments lie on {' and on '.join(map(str, sizes))} devices of xla",
            fix="put them on one mesh: rlx.device_put(x, rlx.NamedSharding(mesh, rlx.P()))",
        )
    return shardings[0].mesh


def placed(data: Any, sharding: Any) -> jax.Array:
    """An array with a sharding; every process has all of what lies on one device."""
    if data.sharding == sharding:
        return data
    with jax.enable_x64(True):
        if sharding.is_fully_addressable or not is_on_one(data):
            # a part that shared memory with `data` would go with it when one of them is donated
            data = data.copy() if data.sharding.device_set & sharding.device_set else data
            return jax.device_put(data, sharding)
        host = np.asarray(data.block_until_ready())
        return jax.make_array_from_callback(host.shape, sharding, lambda place: host[place])


# -- processes that compute together --------------------------------------------------------------


def join_processes(address: str | None, count: int | None, number: int | None) -> None:
    """Join the other processes."""
    try:
        jax.distributed.initialize(address, count, number)
    except RuntimeError as error:
        raise DeviceFailure(
            f"the processes cannot be joined: {error}".partition("\n")[0],
            fix="call initialize once, before anything is done on the device xla, and see that "
            "all processes reach the address",
        ) from error
    except ValueError as error:
        raise ArgumentError(
            f"the processes cannot be joined: {error}".partition("\n")[0],
            fix='give all: initialize("host:port", num_processes, process_id)',
        ) from error


def leave_processes() -> None:
    """Leave the other processes."""
    jax.distributed.shutdown()


def process_index() -> int:
    """The number of this process."""
    return jax.process_index()


def process_count() -> int:
    """How many processes there are."""
    return jax.process_count()
