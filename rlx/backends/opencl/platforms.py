"""Which OpenCL devices there are, and which one a name means."""

from __future__ import annotations

from typing import Any

from ..backend import Availability

PIP = 'pip install "pyopencl>=2026.1"'
DRIVERS = (
    "install a driver: that of your GPU, or for the processor `apt install pocl-opencl-icd` "
    "(Debian, Ubuntu) or `pip install intel-opencl-rt`"
)
BROKEN = "PoCL 3.0"  # what pip has: it is listed, and builds nothing on processors newer than it


def library() -> Any:
    """PyOpenCL, imported when it is asked for."""
    import pyopencl

    return pyopencl


def find(wanted: str) -> tuple[Any, Availability]:
    """The device that is wanted, or None, and whether it is there; nothing is raised.

    It is wanted by its number, or by a part of its name, or of its platform's name or version (that
    alone says PoCL); an empty text takes the first one. Processors come after all others.
    """
    try:
        cl = library()
    except Exception as error:  # broken installations raise anything
        return None, Availability(False, f"pyopencl cannot be imported, {error}", PIP)
    try:
        devices = [d for p in cl.get_platforms() for d in p.get_devices()]
    except cl.Error:
        return None, Availability(False, "there is no OpenCL driver", DRIVERS)
    devices.sort(key=lambda d: (BROKEN in d.platform.version, _is_processor(cl, d)))
    if not devices:
        return None, Availability(False, "the OpenCL drivers have no device", DRIVERS)
    found = _chosen(devices, wanted)
    if found is None:
        names = "; ".join(f"{i}: {title(d)}" for i, d in enumerate(devices))
        reason = f"no OpenCL device is called {wanted!r}"
        return None, Availability(False, reason, f"name one of those there are: {names}")
    if BROKEN in found.platform.version:
        reason = "the PoCL 3.0 that pip installs cannot build kernels for newer processors"
        return None, Availability(False, reason, DRIVERS)
    return found, Availability(True)


def title(device: Any) -> str:
    """The names of a device and its platform."""
    return f"{device.name.strip()} ({device.platform.name.strip()})"


def _chosen(devices: list[Any], wanted: str) -> Any:
    if wanted.isdecimal():
        return devices[int(wanted)] if int(wanted) < len(devices) else None

    def is_wanted(device: Any) -> bool:
        return wanted.lower() in f"{title(device)} {device.platform.version}".lower()

    return next(filter(is_wanted, devices), None)


def _is_processor(cl: Any, device: Any) -> bool:
    return bool(device.type & cl.device_type.CPU)
