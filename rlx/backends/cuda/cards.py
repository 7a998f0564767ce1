"""Which devices of NVIDIA and AMD there are, and which one a name means."""

from __future__ import annotations

from typing import Any

from ..backend import Availability

PIP = {
    "cuda": 'pip install "cupy-cuda13x[ctk]" (or "cupy-cuda12x[ctk]" for a driver of CUDA 12)',
    "rocm": "pip install cupy-rocm-7-0 (beside ROCm 7)",
}
MAKER = {"cuda": "NVIDIA", "rocm": "AMD"}
DRIVERS = {
    "cuda": "install NVIDIA's driver, https://www.nvidia.com/drivers",
    "rocm": "install ROCm, https://rocm.docs.amd.com",
}


def library() -> Any:
    """CuPy, imported when it is asked for."""
    import cupy

    return cupy


def find(kind: str, which: str) -> Availability:
    """Whether the device of a number is there; nothing is raised."""
    try:
        cupy = library()
    except ImportError:
        return Availability(False, "the package cupy is not installed", PIP[kind])
    except Exception as error:  # broken installations raise anything
        return Availability(False, f"cupy cannot be imported: {error}", PIP[kind])
    runtime = cupy.cuda.runtime
    if runtime.is_hip != (kind == "rocm"):
        other = "ROCm" if runtime.is_hip else "CUDA"
        return Availability(False, f"the cupy that is installed is for {other}", PIP[kind])
    try:
        count = runtime.getDeviceCount()
    except Exception as error:
        return _without_driver(runtime, kind, error)
    if count == 0:
        return Availability(False, f"there is no device of {MAKER[kind]}", DRIVERS[kind])
    number = which or "0"
    if not number.isdecimal() or int(number) >= count:
        reason = f"no {kind} device has the number {which!r}"
        return Availability(False, reason, f"write one of {', '.join(_names(kind, count))}")
    return _compiler(cupy, kind)


def _without_driver(runtime: Any, kind: str, error: Exception) -> Availability:
    version = 0 if runtime.is_hip else runtime.driverGetVersion()  # 0 if there is none
    if version:
        known = f"{version // 1000}.{version % 1000 // 10}"
        reason = f"the driver, of CUDA {known}, is too old for the cupy that is installed"
        return Availability(False, f"{reason}: {error}", f"install a newer driver, or {PIP[kind]}")
    reason = f"there is no driver of {MAKER[kind]} that cupy can use: {error}"
    return Availability(False, reason, DRIVERS[kind])


def _compiler(cupy: Any, kind: str) -> Availability:
    try:
        cupy.cuda.nvrtc.getVersion()
    except Exception as error:
        return Availability(False, f"the compiler of kernels is missing: {error}", PIP[kind])
    return Availability(True)


def _names(kind: str, count: int) -> list[str]:
    return [f"{kind}:{n}" for n in range(count)]
