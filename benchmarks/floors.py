"""The least time a case could take on this machine, measured in the same run."""

from __future__ import annotations

import os
import time
import timeit
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor

import numpy as np

from .result import Result

SIDE, REST_SECONDS = 1024, 0.2


def numpy_peak() -> float:
    """Flop a second of NumPy's product of float32 matrices."""
    x = np.ones((SIDE, SIDE), np.float32)
    seconds = min(timeit.repeat(lambda: x @ x, number=1, repeat=10))
    time.sleep(REST_SECONDS)  # its threads stay awake for a while
    return 2 * SIDE**3 / seconds


def copy_seconds(nbytes: float, repeats: int = 10) -> float:
    """The time in which NumPy copies so that `nbytes` are read and written, on all cores.

    Copies of the size of the case meet the same caches.
    """
    cores = os.cpu_count() or 1
    size = max(1, int(nbytes / 2 / 4 / cores))
    chunks = [(np.zeros(size, np.float32), np.ones(size, np.float32)) for _ in range(cores)]

    def copy(chunk: tuple[np.ndarray, np.ndarray]) -> None:
        for _ in range(repeats):
            np.copyto(*chunk)

    with ThreadPoolExecutor(cores) as pool:
        timer = timeit.Timer(lambda: list(pool.map(copy, chunks)))
        return min(timer.repeat(5, 1)) / repeats


def peaks(results: Sequence[Result]) -> dict[str, float]:
    """The best flop a second of any library in a product of matrices, by dtype."""
    best = {"float32": numpy_peak()}
    for result in results:
        if result.case.is_peak:
            speeds = [result.case.flops / min(s) for s in result.seconds.values()]
            best[result.case.dtype] = max([best.get(result.case.dtype, 0.0), *speeds])
    return best


def add_floors(results: Sequence[Result]) -> dict[str, float]:
    """Set the floor of each result; give the peaks they come from."""
    best = peaks(results)
    for result in results:
        case = result.case
        peak = best.get(case.dtype, best["float32"])
        arithmetic = case.flops / peak
        memory = copy_seconds(case.nbytes) if case.nbytes else 0.0
        result.floor = max(arithmetic, memory) or None
    return best
