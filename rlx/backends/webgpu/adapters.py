"""The adapters that wgpu finds: which of them a device of rlx runs on."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache
from typing import Any

from ...ir.record import record
from ..backend import Availability

KINDS = {
    "vulkan": ("Vulkan",),
    "opengl": ("OpenGL", "OpenGLES"),
    "directx": ("D3D12", "D3D11"),
    "metal": ("Metal",),
}
"""The backend types of wgpu by the names that rlx has for interfaces."""

PREFERRED = ("DiscreteGPU", "IntegratedGPU", "Unknown", "CPU")  # hardware, the best first
NVIDIA = 0x10DE  # its number as a vendor
DESKTOP = "XDG_RUNTIME_DIR"
INSTALL = 'pip install "rlx[webgpu]"'
DRIVERS = {
    "vulkan": "install a Vulkan driver (Debian: apt-get install mesa-vulkan-drivers libvulkan1)",
    "opengl": "install an EGL driver (Debian: apt-get install libegl1 libegl-mesa0)",
    "directx": "run on Windows 10 or later",
    "metal": "run on a Mac with a GPU that knows Metal",
}


@record
class Wanted:
    """What a name asks for: an interface, an adapter by number or name, or neither.

    >>> Wanted.of("webgpu:vulkan"), Wanted.of("opengl"), Wanted.of("webgpu:nvidia")
    (Wanted(interface='vulkan', part=''), Wanted(interface='opengl', part=''),
    Wanted(interface='', part='nvidia'))
    """

    interface: str = ""
    part: str = ""

    @classmethod
    def of(cls, name: str) -> Wanted:
        """What the name of a device asks for."""
        kind, _, which = name.partition(":")
        for word in (kind, which):
            if word in KINDS:
                return cls(interface=word)
        return cls(part=which.lower())

    @property
    def kinds(self) -> tuple[str, ...]:
        """The backend types of wgpu that will do."""
        return KINDS[self.interface] if self.interface else tuple(sum(KINDS.values(), ()))

    def fits(self, info: Any) -> bool:
        """Whether an adapter is such a one."""
        names = " ".join(str(info[key]) for key in ("vendor", "device", "description"))
        return info["backend_type"] in self.kinds and self.part in names.lower()

    @property
    def fix(self) -> str:
        """What to install where there is none."""
        return DRIVERS[self.interface or "vulkan"]


@cache
def found() -> list[Any]:
    """All adapters, in wgpu's order."""
    import wgpu

    with _without_desktop():
        return wgpu.gpu.enumerate_adapters_sync()


@contextmanager
def _without_desktop() -> Iterator[None]:
    """Where no desktop runs, name it a place without one: Mesa prints errors if none is named."""
    if DESKTOP in os.environ:
        yield
        return
    os.environ[DESKTOP] = os.devnull
    try:
        yield
    finally:
        os.environ.pop(DESKTOP, None)


def choose(name: str) -> Any | None:
    """The best adapter for a device by its name; None if there is none."""
    wanted = Wanted.of(name)
    if wanted.part.isdecimal():  # or it would be found in the number of some version
        return dict(enumerate(found())).get(int(wanted.part))

    def rank(adapter: Any) -> tuple[int, int]:
        hardware, kind = adapter.info["adapter_type"], adapter.info["backend_type"]
        place = PREFERRED.index(hardware) if hardware in PREFERRED else len(PREFERRED)
        # an OpenGL driver can do less than any other
        return place, wanted.kinds.index(kind) + 10 * (kind in KINDS["opengl"])

    return min((a for a in found() if wanted.fits(a.info)), key=rank, default=None)


def subgroup(adapter: Any) -> int:
    """How many threads of an adapter pass numbers to each other: 1 if unknown.

    wgpu 0.32 does not tell. NVIDIA's subgroups have 32; those of Mesa's processor are a vector of
    float32, whose bits its name has. Compilers of others choose for each kernel.
    """
    if "subgroup" not in adapter.features:
        return 1
    if adapter.info["vendor_id"] == NVIDIA:
        return 32
    vector = re.match(r"llvmpipe .*\b(\d+) bits", adapter.info["device"])
    return int(vector[1]) // 32 if vector else 1


def availability(name: str) -> Availability:
    """Whether there is an adapter for a device; if not, what to install."""
    wanted = Wanted.of(name)
    try:
        adapters = found()
    except ImportError:
        return Availability(False, "the package wgpu is not installed", INSTALL)
    except Exception as error:  # the library is there and does not load or start
        return Availability(False, f"wgpu does not start: {error}", wanted.fix)
    if choose(name) is not None:
        return Availability(True)
    seen = "; ".join(
        f"{i}: {a.info['device']} ({a.info['backend_type']})" for i, a in enumerate(adapters)
    )
    asked = f"adapter for {wanted.kinds[0]}" if wanted.interface else "graphics adapter"
    asked += f" called {wanted.part!r}" if wanted.part else ""
    reason = f"there is no {asked}: wgpu finds {seen or 'none'}"
    is_misnamed = wanted.part and adapters
    return Availability(False, reason, "name one of these" if is_misnamed else wanted.fix)


def description(name: str) -> str:
    """The adapter's name, its interface and the library's version."""
    import wgpu

    adapter = choose(name)
    if adapter is None:
        return ""
    info = adapter.info
    return f"{info['device']}, {info['backend_type']}, wgpu {wgpu.__version__}"
