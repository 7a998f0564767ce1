"""Arrays of JAX in parts on many devices, perhaps of many processes."""

from __future__ import annotations

import functools
from collections.abc import Sequence
from typing import Any

import jax
import numpy as np
from jax.sharding import AxisType, SingleDeviceSharding

from ...ir.errors import DeviceMismatchError, DeviceUnavailable
from ...ir.sharding import Mesh, NamedSharding


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
