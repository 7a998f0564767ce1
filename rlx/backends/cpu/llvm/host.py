"""The host processor: vectors, registers, caches, cores."""

from __future__ import annotations

import ctypes
import math
import os
import sys
from collections.abc import Mapping
from functools import cache
from pathlib import Path

import llvmlite.binding as llvm

from ....ir.config import threads_asked
from ....ir.record import record

ARCH_PRCTL, REQUEST_PERMISSION, TILE_DATA = 158, 0x1023, 18  # numbers of the x86-64 kernel


@record
class Host:
    """A processor as code generation sees it; sizes are in bytes."""

    cpu: str  # LLVM's name of it
    features: str  # as LLVM lists them
    vector_bytes: int
    vector_registers: int
    l1: int  # data caches
    l2: int
    l3: int
    cores: int  # threads to use
    has_tiles: bool = False  # registers of 16 rows of 64 bytes of bfloat16 or 8-bit integers (AMX)
    grouped: tuple[str, ...] = ()  # dtypes of which it adds several products to a sum at a time
    batch_invariant: bool = False  # the order of a sum depends on its own length only (`sums.py`)

    def lanes(self, itemsize: int) -> int:
        """How many numbers of `itemsize` bytes one vector register holds."""
        return max(1, self.vector_bytes // itemsize)


def _cache_sizes() -> dict[int, int]:
    """Data cache sizes by level from Linux's sysfs; empty elsewhere."""
    sizes = {}
    for index in Path("/sys/devices/system/cpu/cpu0/cache").glob("index*"):
        try:
            if (index / "type").read_text().strip() == "Instruction":
                continue
            text = (index / "size").read_text().strip()
            scale = {"K": 1 << 10, "M": 1 << 20}.get(text[-1], 1)
            sizes[int((index / "level").read_text())] = int(text.rstrip("KM")) * scale
        except (OSError, ValueError):
            continue
    return sizes


def _grouped(features: Mapping[str, bool], cpu: str) -> tuple[str, ...]:
    """The dtypes for which it pays to add several products to one sum at a time.

    A product of 1024 takes a sixth of the time with bytes (measured on Intel). With bfloat16 it
    takes 1.5 times as long there as with numbers widened to float32. That it pays on AMD's follows
    from published tables of instructions, and was not measured.
    """
    bytes = ("int8", "uint8") if features.get("avx512vnni") else ()
    is_fast = features.get("avx512bf16") and cpu.startswith("znver")
    return ("bfloat16", *bytes) if is_fast else bytes


def _allows_tiles(features: Mapping[str, bool]) -> bool:
    """Ask Linux whether this process may use tile registers (Intel AMX).

    A process has to ask once, before Linux saves their eight kilobytes with each thread.
    """
    names = ("amx-tile", "amx-bf16", "amx-int8", "avx512f")
    if sys.platform != "linux" or not all(features.get(name) for name in names):
        return False
    system = ctypes.CDLL(None).syscall
    return system(ARCH_PRCTL, REQUEST_PERMISSION, TILE_DATA) == 0


@cache
def host() -> Host:
    """The processor this process runs on."""
    llvm.initialize_native_target()
    llvm.initialize_native_asmprinter()
    features = llvm.get_host_cpu_features()
    width, registers = 16, 16
    if features.get("avx512f"):
        width, registers = 64, 32
    elif features.get("avx2"):
        width = 32
    elif features.get("neon"):
        registers = 30  # of 32: its multiply-adds read no memory, so two hold what was loaded
    sizes = _cache_sizes()
    return Host(
        llvm.get_host_cpu_name(),
        features.flatten(),
        width,
        registers,
        sizes.get(1, 32 << 10),
        sizes.get(2, 1 << 20),
        sizes.get(3, 8 << 20),
        cores(),
        _allows_tiles(features),
        _grouped(features, llvm.get_host_cpu_name()),
    )


NO_LIMIT = math.inf


def cores() -> int:
    """The number of threads: RLX_NUM_THREADS, or the process's share of processors."""
    if asked := threads_asked(os.environ):
        return asked
    if hasattr(os, "sched_getaffinity"):
        count = len(os.sched_getaffinity(0))
    else:
        count = os.cpu_count() or 1
    return max(1, math.ceil(min(count, processor_share())))


def processor_share(root: Path = Path("/")) -> float:
    """The number of processors that Linux's control groups allow, or infinity."""
    try:
        groups = (root / "proc/self/cgroup").read_text().splitlines()
    except OSError:
        return NO_LIMIT
    found = [NO_LIMIT]
    for line in groups:
        _, kinds, path = line.split(":", 2)
        if kinds and "cpu" not in kinds.split(","):
            continue
        top = root / "sys/fs/cgroup" / ("cpu" if kinds else "")
        inside = Path(path.lstrip("/"))
        # in a container the own group may be seen at the top
        found += [_limit(top / part, bool(kinds)) for part in (inside, *inside.parents)]
    return min(found)


def _limit(folder: Path, is_old: bool) -> float:
    """The limit of one group, of the first or the second kind."""
    try:
        if is_old:
            names = ("cpu.cfs_quota_us", "cpu.cfs_period_us")
            quota, period = ((folder / name).read_text().strip() for name in names)
        else:
            quota, period = (folder / "cpu.max").read_text().split()
        limit = int(quota) / int(period)
    except (OSError, ValueError, ZeroDivisionError):  # there is no such group, or it says "max"
        return NO_LIMIT
    return limit if limit > 0 else NO_LIMIT
