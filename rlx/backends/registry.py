"""The devices rlx knows, by name."""

from __future__ import annotations

import difflib
from functools import cache
from importlib import import_module

from ..ir.builder import user_source
from ..ir.errors import DeviceUnavailable, UnknownDeviceError
from .backend import Backend

BACKENDS = {"cpu": "CpuBackend", "reference": "ReferenceBackend"}


def names() -> list[str]:
    """The names of all devices."""
    return list(BACKENDS)


def get(name: str) -> Backend:
    """Open a device by name; raises if it is unknown or cannot run here."""
    if name not in BACKENDS:
        near = difflib.get_close_matches(str(name), BACKENDS, 1)
        guess = f"did you mean {near[0]!r}? " if near else ""
        raise UnknownDeviceError(
            f"there is no device {name!r}",
            where=str(user_source()),
            fix=f"{guess}the devices are {', '.join(BACKENDS)}",
        )
    backend = _open(name)
    found = backend.availability()
    if not found.is_available:
        raise DeviceUnavailable(
            f"the device {name!r} cannot run: {found.reason}",
            where=str(user_source()),
            fix=found.install,
        )
    return backend


@cache
def _open(name: str) -> Backend:
    module = import_module(f".{name}.backend", __package__)
    return getattr(module, BACKENDS[name])()
