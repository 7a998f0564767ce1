"""The adapters that wgpu finds: which of them a device of rlx runs on."""

from __future__ import annotations

from functools import cache
from typing import Any

from ..backend import Availability

KINDS = {
    "vulkan": ("Vulkan",),
    "opengl": ("OpenGL", "OpenGLES"),
    "directx": ("D3D12", "D3D11"),
    "metal": ("Metal",),
}
"""The backend types of wgpu that each device of rlx asks for; `webgpu` takes any."""

PREFERRED = ("DiscreteGPU", "IntegratedGPU", "Unknown", "CPU")  # hardware, the best first
INSTALL = "pip install wgpu"
DRIVERS = {
    "webgpu": "install a graphics driver (Debian: apt-get install mesa-vulkan-drivers libvulkan1)",
    "vulkan": "install a Vulkan driver (Debian: apt-get install mesa-vulkan-drivers libvulkan1)",
    "opengl": "install an EGL driver (Debian: apt-get install libegl1 libegl-mesa0)",
    "directx": "run on Windows 10 or later",
    "metal": "run on macOS, on a Mac with a GPU that knows Metal",
}


@cache
def found() -> list[Any]:
    """All adapters, in wgpu's order."""
    import wgpu

    return wgpu.gpu.enumerate_adapters_sync()


def choose(name: str) -> Any | None:
    """The best adapter for a device of rlx; None if there is none."""
    kinds = KINDS.get(name, sum(KINDS.values(), ()))
    fitting = [a for a in found() if a.info["backend_type"] in kinds]

    def rank(adapter: Any) -> tuple[int, int]:
        info = adapter.info
        hardware = info["adapter_type"]
        place = PREFERRED.index(hardware) if hardware in PREFERRED else len(PREFERRED)
        # an OpenGL driver can do less than any other
        return place, kinds.index(info["backend_type"]) if name in KINDS else (
            info["backend_type"] in KINDS["opengl"]
        )

    return min(fitting, key=rank, default=None)


def availability(name: str) -> Availability:
    """Whether there is an adapter for a device of rlx; if not, what to install."""
    try:
        adapters = found()
    except ImportError:
        return Availability(False, "the package wgpu is not installed", INSTALL)
    except Exception as error:  # the library is there and does not load or start
        return Availability(False, f"wgpu does not start: {error}", DRIVERS[name])
    if choose(name) is None:
        kinds = sorted({a.info["backend_type"] for a in adapters})
        seen = f"wgpu finds adapters for {', '.join(kinds)} only" if kinds else "wgpu finds none"
        wanted = "graphics adapter" if name not in KINDS else f"adapter for {KINDS[name][0]}"
        return Availability(False, f"there is no {wanted}: {seen}", DRIVERS[name])
    return Availability(True)


def description(name: str) -> str:
    """The adapter's name, its interface and the library's version."""
    import wgpu

    adapter = choose(name)
    if adapter is None:
        return ""
    info = adapter.info
    return f"{info['device']}, {info['backend_type']}, wgpu {wgpu.__version__}"
