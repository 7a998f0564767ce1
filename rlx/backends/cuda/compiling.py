"""Compiles CUDA C with NVRTC, and remembers the binaries on disk."""

from __future__ import annotations

from typing import Any

from ...ir.errors import KernelBuildError
from ..disk import disk_cache
from ..sources import hashed
from .cards import library

# products are rounded before they are added, as on other devices
OPTIONS = ("--fmad=false", "--std=c++17")
HIP_OPTIONS = ("-ffp-contract=off", "-std=c++17")
NOTED = 20  # lines of the compiler's complaints that an error shows


def architecture(capability: str, known: tuple[int, ...]) -> tuple[str, bool]:
    """The architecture to compile for, and whether that gives a binary.

    A device newer than the compiler takes an intermediate code, which its driver translates.

    >>> architecture("90", (75, 80, 90)), architecture("103", (75, 80, 90))
    (('sm_90', True), ('compute_90', False))
    """
    number = int(capability)
    if number in known:
        return f"sm_{number}", True
    return f"compute_{max((n for n in known if n <= number), default=min(known))}", False


def compiled(device: str, text: str, capability: str) -> bytes:
    """The binary of a text for a device of a compute capability."""
    nvrtc: Any = library().cuda.nvrtc
    is_hip = library().cuda.runtime.is_hip
    if is_hip:
        wanted, is_binary, options = capability, False, HIP_OPTIONS
    else:
        wanted, is_binary = architecture(capability, tuple(nvrtc.getSupportedArchs()))
        options = (*OPTIONS, f"--gpu-architecture={wanted}")
    disk = disk_cache()
    key = hashed("cuda", text, wanted, options, nvrtc.getVersion(), is_hip)
    known = disk.get(key) if disk else None
    if known is not None:
        return known
    binary = _compile(nvrtc, device, text, options, is_binary)
    if disk:
        disk.put(key, binary)
    return binary


def _compile(
    nvrtc: Any, device: str, text: str, options: tuple[str, ...], is_binary: bool
) -> bytes:
    program = nvrtc.createProgram(text, "rlx.cu", (), ())
    try:
        nvrtc.compileProgram(program, options)
        return nvrtc.getCUBIN(program) if is_binary else nvrtc.getPTX(program)
    except nvrtc.NVRTCError as error:
        raise KernelBuildError(
            f"{device} cannot build the kernels of this function: {error}",
            notes=nvrtc.getProgramLog(program).splitlines()[:NOTED],
            fix="report this with the text, compiled.stages['cuda']; device='cpu' runs it "
            "meanwhile",
        ) from error
    finally:
        nvrtc.destroyProgram(program)
