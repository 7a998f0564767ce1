"""Devices: names, availability, the default one, moving arrays."""

from __future__ import annotations

import platform
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import Context
from functools import cache
from typing import Any

import numpy as np

from ..backends import registry
from ..backends.backend import Backend
from ..ir.config import config
from ..ir.errors import ArgumentError, ConfigError
from ..ir.memory import Memory
from ..ir.sharding import Mesh, NamedSharding, set_mesh_check
from ..trace import pytree
from ..trace.apply import as_tensor
from ..trace.array import Array, set_memories
from ..trace.host import set_memory
from ..trace.tensor import TracedTensor


class Device(str):
    """A device by its `name`, such as "cpu" or "mlx".

    All names of one device make the same object, with the shortest name.

    >>> cpu = Device("cpu")
    >>> cpu.is_available(), cpu == "cpu", Device("host") == cpu
    (True, True, True)
    """

    __slots__ = ()

    def __new__(cls, name: str) -> Device:
        return super().__new__(cls, registry.shortest(name))

    def is_available(self) -> bool:
        """Whether it runs on this machine; the first answer loads the device's library."""
        return registry.availability(self).is_available

    def supports(self, op: Any) -> Any:
        """Whether it runs `op`, given by its name; printed, it tells how.

        It looks at the samples of the op in float32 and compiles nothing. `rlx.supports` looks at a
        function of yours.

        >>> print(Device("cpu").supports("sin"))
        sin: cpu can run it
          native: sin...
        """
        from .supports import of_op  # which loads what makes samples of ops

        return of_op(self, op)

    @property
    def reason(self) -> str:
        """Why it does not run here; empty if it does."""
        return registry.availability(self).reason

    @property
    def install(self) -> str:
        """What to install so that it runs here; empty if it does."""
        return registry.availability(self).install

    @property
    def description(self) -> str:
        """What runs it: the names and versions of hardware and library."""
        return registry.get(self).description()

    def __repr__(self) -> str:
        return f"Device({str(self)!r})"


def devices() -> list[Device]:
    """All devices that rlx knows, available or not.

    >>> [str(d) for d in devices() if d in ("cpu", "reference")]
    ['cpu', 'reference']
    """
    return [Device(name) for name in registry.names()]


def default_device() -> Device:
    """The default device: that of `rlx.device` or RLX_DEVICE, else the cpu.

    Raises a `ConfigError` if RLX_DEVICE names no device.

    >>> default_device()
    Device('cpu')
    """
    try:
        return Device(config.device or "cpu")
    except registry.UnknownDeviceError:
        raise ConfigError(
            f"RLX_DEVICE is {config.device!r}",
            fix=f"set it to one of {', '.join(registry.names())}",
        ) from None


@contextmanager
def device(name: str) -> Iterator[Device]:
    """Set the default device for a block, in all threads, to that called `name`.

    The block gets the `Device`. Arrays are made there, and what lies on the host is computed there:
    by single operations, by functions compiled without a device, and by transforms such as
    `rlx.grad`. `rlx.config.device = "mlx"` does the same from now on. Returns a context manager.

    >>> import rlx
    >>> with device("reference") as chosen:
    ...     print(chosen, rlx.default_device())
    reference reference
    """
    chosen = Device(name)
    registry.get(chosen)  # one that cannot run is an error here
    with config.using(device=str(chosen)):
        yield chosen


def register_backend(name: str, backend: Backend | type[Backend]) -> Device:
    """Make a backend known as the device `name`; gives the device.

    `backend` is a `rlx.backends.backend.Backend`, or a class of them that is called without
    arguments; its attribute `name` is the same. A name that is taken, or a thing that is no
    backend, is an `ArgumentError`. Packages bring theirs with an entry point of the group
    `rlx.backends` instead.

    >>> import rlx
    >>> from rlx.backends.reference.backend import ReferenceBackend
    >>> class Mine(ReferenceBackend):
    ...     name = "mine"
    >>> mine = register_backend("mine", Mine)
    >>> rlx.jit(lambda x: x + 1, device="mine")(rlx.array([1.0])).tolist()
    [2.0]
    >>> unregister_backend("mine")
    >>> mine in rlx.devices()
    False
    """
    registry.register(name, backend)
    return Device(name)


def unregister_backend(name: str) -> None:
    """Forget a backend that `register_backend` brought; its `name` is free again.

    Functions that were compiled for it keep their code.
    """
    registry.unregister(name)


def _memory(name: str) -> Memory | None:
    return registry.get(name).memory


def _default_memory() -> Memory | None:
    return _memory(default_device()) if config.device else None


@cache
def _host_memory() -> Context | None:
    return registry.get("cpu").memory_context()


set_memories(_memory, _default_memory)
set_memory(_host_memory)


def doctor() -> None:
    """Print which devices are available, and what to install for the others.

    >>> doctor()
    rlx ...
    ok   cpu ...
    """
    print(examined())


def examined() -> str:
    """What `doctor` prints."""
    rows = [_examined(each) for each in devices()]
    wide = max(len(name) for name, *_ in rows)
    lines = [f"{_versions()}; {len([r for r in rows if r[1]])} of {len(rows)} devices run here", ""]
    for name, is_here, told, install in rows:
        lines.append(f"{'ok  ' if is_here else '  - '} {name:{wide}}  {told}")
        if install:
            lines.append(f"     {'':{wide}}  {install}")
    return "\n".join(lines)


def _examined(each: Device) -> tuple[str, bool, str, str]:
    found = registry.availability(each)
    told = each.description if found.is_available else found.reason
    return str(each), found.is_available, told, found.install


def _machine() -> dict[str, str]:
    """What computes here, for `rlx.config.show`."""
    return {**registry.get("cpu").details(), **_libraries()}


def _libraries() -> dict[str, str]:
    """The BLAS and LAPACK that NumPy and SciPy were built with, which compute decompositions."""
    from importlib import import_module
    from importlib.util import find_spec

    found = {}
    for module in ("numpy", "scipy"):
        if find_spec(module) is None:
            found[module] = "not installed"
            continue
        library = import_module(module)
        built = library.show_config(mode="dicts").get("Build Dependencies", {})
        kinds = {kind: built.get(kind, {}) for kind in ("blas", "lapack")}
        told = [f"{k.upper()} {x.get('name')} {x.get('version')}" for k, x in kinds.items() if x]
        found[module] = f"{library.__version__}: {', '.join(told) or 'no BLAS is told of'}"
    return found


config.tell(_machine)


def _versions() -> str:
    from importlib.metadata import version

    parts = [f"rlx {sys.modules['rlx'].__version__}", f"Python {platform.python_version()}"]
    parts += [f"{name} {version(name)}" for name in ("numpy", "llvmlite", "ml_dtypes")]
    return ", ".join([*parts, platform.platform(terse=True)])


# -- trees of arrays between the host and devices -------------------------------------------------


def device_put(x: Any, device: Any = None) -> Any:
    """Put a tree of arrays on a device; without one, they stay.

    Returns a tree of the structure of `x`. What is no array of rlx then goes to the default device.
    `device` is a name, or a `NamedSharding`: arrays then lie in parts on the devices of its mesh. A
    function that is recorded then runs on the device; there a sharding is an `ArgumentError`, for
    `jit` is told of these.

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
    """Split an array across the devices of a mesh."""
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
    """Convert a tree of arrays to NumPy arrays; traced tensors stay as they are.

    Returns a tree of the structure of `x`.

    >>> device_get((as_tensor(1.5),))
    (array(1.5, dtype=float32),)
    """
    return pytree.map(_to_numpy, x)


def _to_numpy(leaf: Any) -> Any:
    if isinstance(leaf, TracedTensor):
        return leaf
    return leaf.host() if isinstance(leaf, Array) else np.asarray(leaf)


def block_until_ready(x: Any) -> Any:
    """Wait until all arrays of the tree `x` are computed, and return the tree.

    >>> block_until_ready([as_tensor(1.5)])[0].item()
    1.5
    """
    for leaf in pytree.leaves(x):
        if isinstance(leaf, Array):
            leaf.block_until_ready()
    return x
