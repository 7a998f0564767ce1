"""The first call of a case in a fresh process: `python -m benchmarks.start rlx encoder`.

What recording and compiling cost is the first call less a later one. A second process finds what
the first left in its library's cache on disk, where the library has one.
"""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
import tempfile
import time
import timeit
from pathlib import Path
from typing import Any

from .case import build, placed
from .cases import CASES
from .libraries import opened

CALLS, LIMIT_SECONDS = 5, 900.0
# every library that keeps compiled code on disk keeps it in the folder of the measurement
CACHES = {
    "RLX_CACHE": "rlx",
    "TORCHINDUCTOR_CACHE_DIR": "torch",
    "JAX_COMPILATION_CACHE_DIR": "jax",
    "XDG_CACHE_HOME": "home",
    "TMPDIR": "temporary",  # of MLX
}
JAX_KEEPS_ALL = {
    "JAX_PERSISTENT_CACHE_MIN_COMPILE_TIME_SECS": "0",
    "JAX_PERSISTENT_CACHE_MIN_ENTRY_SIZE_BYTES": "-1",
}


def megabytes(field: str) -> float | None:
    """Memory of this process, from the system's table where it has one."""
    status = Path("/proc/self/status")
    text = status.read_text() if status.exists() else ""
    found = re.search(rf"{field}:\s+(\d+) kB", text)
    return int(found[1]) / 1e3 if found else None


def forget_peak() -> None:
    """Let the highest memory be that of now."""
    try:
        Path("/proc/self/clear_refs").write_text("5")
    except OSError:
        return  # the peak then holds what compiling took as well


def measure(name: str, case_name: str) -> dict[str, Any]:
    """Seconds of the first call and of later ones, and the memory that steps take."""
    began = time.perf_counter()
    library = opened(name)
    loaded = time.perf_counter()
    case, empty = CASES[case_name], megabytes("VmRSS")
    inputs = placed(case, library)
    first = time.perf_counter()
    work = build(case, library, inputs, is_first=True)
    first = time.perf_counter() - first
    del inputs
    forget_peak()
    warm = min(timeit.repeat(work.statement, globals=work.names, number=1, repeat=CALLS))
    peak = megabytes("VmHWM")
    grown = None if peak is None or empty is None else peak - empty
    return {
        "import_seconds": loaded - began,
        "compile_seconds": max(0.0, first - warm),
        "warm_seconds": warm,
        "peak_megabytes": grown,
    }


def in_fresh_processes(name: str, case_name: str) -> dict[str, Any]:
    """Measure twice: with an empty cache, and with what the first process left there."""
    command = [sys.executable, "-m", "benchmarks.start", name, case_name]
    with tempfile.TemporaryDirectory() as folder:
        kept = {key: str(Path(folder, place)) for key, place in CACHES.items()}
        Path(kept["TMPDIR"]).mkdir()
        environment = {**os.environ, **kept, **JAX_KEEPS_ALL}
        runs = []
        for _ in range(2):
            try:
                done = subprocess.run(
                    command, capture_output=True, text=True, env=environment, timeout=LIMIT_SECONDS
                )
            except subprocess.TimeoutExpired:
                return {"failed": f"took over {LIMIT_SECONDS:.0f} s"}
            if done.returncode:
                lines = done.stderr.strip().splitlines()
                return {"failed": lines[-1] if lines else f"died with code {done.returncode}"}
            runs.append(json.loads(done.stdout.splitlines()[-1]))
    return {**runs[0], "second_start_seconds": runs[1]["compile_seconds"]}


if __name__ == "__main__":
    print(json.dumps(measure(*sys.argv[1:3])))
