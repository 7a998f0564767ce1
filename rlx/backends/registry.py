"""The registry of backends, by device name.

A name is that of a device, or one with a part of it behind a colon: `cuda:1`, `opencl:intel`.
Other packages bring devices of their own with an entry point of the group `rlx.backends`, whose
name is the device's and whose object is a `Backend` class; a program or notebook registers one.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache
from importlib import import_module

from ..ir.errors import ArgumentError, DeviceUnavailable, UnknownDeviceError
from ..ir.memory import Memory
from ..ir.record import field, record
from .backend import Availability, Backend
from .locks import opening

GROUP = "rlx.backends"


@record
class Known:
    """Where the backend of a device is, and how it is made."""

    module: str
    cls: str
    options: Mapping[str, str] = field(default_factory=dict)  # keyword arguments of the class
    has_parts: bool = False  # whether it takes `which`, what stands behind the colon of a name

    def open(self, which: str) -> Backend:
        """Make the backend."""
        made = getattr(import_module(self.module, __package__), self.cls)
        return made(**self.options, which=which) if self.has_parts else made(**self.options)


BACKENDS = {
    "cpu": Known(".cpu.backend", "CpuBackend"),
    "reference": Known(".reference.backend", "ReferenceBackend"),
    "xla": Known(".xla.backend", "XlaBackend", has_parts=True),
    "mlx": Known(".mlx.backend", "MlxBackend", has_parts=True),
    "metal": Known(".mlx.backend", "MlxBackend", {"name": "metal"}),
    "ane": Known(".ane.backend", "AneBackend"),
    "opencl": Known(".opencl.backend", "OpenClBackend", has_parts=True),
    "webgpu": Known(".webgpu.backend", "WebgpuBackend", has_parts=True),
    "vulkan": Known(".webgpu.backend", "WebgpuBackend", {"name": "vulkan"}),
    "opengl": Known(".webgpu.backend", "WebgpuBackend", {"name": "opengl"}),
    "directx": Known(".webgpu.backend", "WebgpuBackend", {"name": "directx"}),
    "cuda": Known(".cuda.backend", "CudaBackend", {"kind": "cuda"}, has_parts=True),
    "rocm": Known(".cuda.backend", "CudaBackend", {"kind": "rocm"}, has_parts=True),
}
ALIASES = {
    "gpu": "webgpu",
    "wgpu": "webgpu",
    "dx12": "directx",
    "gl": "opengl",
    "nvidia": "cuda",
    "amd": "rocm",
    "mtl": "metal",
    "host": "cpu",
    "tpu": "xla:tpu",
}

_registered: dict[str, Backend] = {}  # by programs
_times: dict[str, int] = {}


def names() -> list[str]:
    """The names of all devices, those of other packages last."""
    return [*BACKENDS, *_foreign(), *_registered]


def register(name: str, backend: Backend | type[Backend]) -> None:
    """Make a backend known under a name of its own, until `unregister`."""
    made = backend() if isinstance(backend, type) and issubclass(backend, Backend) else backend
    if not isinstance(made, Backend):
        kind = backend.__name__ if isinstance(backend, type) else type(backend).__name__
        raise ArgumentError(
            f"register_backend: {kind} is no rlx.backends.backend.Backend",
            fix="derive the class from Backend: a name, a target, availability() and compile()",
        )
    if name in names() or name in ALIASES or not str(name).isidentifier():
        taken = name in names() or name in ALIASES
        raise ArgumentError(
            f"register_backend: {name!r} " + ("is taken" if taken else "is no name of a device"),
            fix="pick another name of letters and digits"
            + ("; rlx.unregister_backend frees one that was registered" if taken else ""),
        )
    if made.name != name:
        raise ArgumentError(
            f"register_backend: the backend of {name!r} calls itself {made.name!r}",
            fix=f"set its attribute name = {name!r}, or register it as {made.name!r}",
        )
    _registered[name] = made
    _times[name] = _times.get(name, 0) + 1


def unregister(name: str) -> None:
    """Forget a backend that was registered; what is compiled for it stays as it is."""
    if not isinstance(name, str) or name not in _registered:
        raise ArgumentError(
            f"unregister_backend: {name!r} was not registered",
            fix=f"registered are: {', '.join(_registered) or 'none'}",
        )
    del _registered[name]


def times_registered(name: str) -> int:
    """How often a name was registered, for caches: each time it is another device."""
    return _times.get(name, 0)


@cache
def _foreign() -> dict[str, Known]:
    """The devices that other packages bring; our names stay ours, and no colon is in one."""
    from importlib.metadata import entry_points  # 10 ms, which `import rlx` need not take

    found = entry_points(group=GROUP)
    new = [e for e in found if e.name not in {*BACKENDS, *ALIASES} and ":" not in e.name]
    return {e.name: Known(e.module, e.attr) for e in new}


def canonical(name: str) -> str:
    """The name under which a device is known; raises if it is not."""
    kind, colon, which = str(name).partition(":")
    kind, _, part = ALIASES.get(kind, kind).partition(":")
    if part:  # an alias of a part of a device
        colon, which = ":", part + colon + which
    known = BACKENDS.get(kind) or _foreign().get(kind)
    if known is None and kind not in _registered:
        raise _unknown(name)
    has_parts = known is not None and known.has_parts
    if colon and has_parts and not which:
        raise UnknownDeviceError(
            f"behind the colon of {name!r} there is nothing",
            fix=f"write {kind!r}, or which one behind the colon",
        )
    if colon and not has_parts:
        raise UnknownDeviceError(
            f"the device {kind!r} has no parts, so there is no {name!r}",
            fix=f"write {kind!r}",
        )
    return kind + colon + which


def _unknown(name: str) -> UnknownDeviceError:
    import difflib

    aliases = [a for a, meant in ALIASES.items() if meant.partition(":")[0] in names()]
    near = difflib.get_close_matches(str(name).lower(), [*names(), *aliases], 1)
    guess = f"did you mean {near[0]!r}? " if near else ""
    return UnknownDeviceError(
        f"there is no device {name!r}",
        fix=f"{guess}the devices are {', '.join(names())}",
    )


def get(name: str) -> Backend:
    """Open a device by name; raises if it is unknown or cannot run here."""
    name = shortest(name)
    found = availability(name)
    if not found.is_available:
        raise DeviceUnavailable(
            f"the device {name!r} cannot run: {found.reason}",
            fix=found.install,
        )
    return _backend(name)


def shortest(name: str) -> str:
    """The shortest name of a device, as `xla` for `xla:cpu` where JAX has no GPU.

    All names of one device are one to caches and memories. A name with a part loads the device's
    library.
    """
    name = canonical(name)
    if ":" not in name or not availability(name).is_available:
        return name
    return _backend(name).shortest_name()


def availability(name: str) -> Availability:
    """Whether a device can run here, and if not, why."""
    name = canonical(name)
    try:
        with opening:
            backend = _backend(name)
            found = backend.availability()
        return _checked(backend) if found.is_available else found
    except Exception as error:  # a package of somebody else can fail in any way
        if name.partition(":")[0] in BACKENDS:
            raise
        fix = f"mend or remove the package that brings the device {name!r}"
        return Availability(False, f"{type(error).__name__}: {error}", fix)


@cache
def _checked(backend: Backend) -> Availability:
    """Whether the memory of a device can do what is asked of it."""
    if backend.memory is None or isinstance(backend.memory, Memory):
        return Availability(True)
    return Availability(
        False,
        f"its memory, a {type(backend.memory).__name__}, is no rlx.ir.memory.Memory",
        "give the memory a name, to_host, from_host and wait",
    )


def _backend(name: str) -> Backend:
    return _registered[name] if name in _registered else _open(name)


@cache
def _open(name: str) -> Backend:
    kind, _, which = name.partition(":")
    return (BACKENDS.get(kind) or _foreign()[kind]).open(which)
