"""Measuring time: ticks, repeated calls, and emptying the caches between them."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np


@dataclass(frozen=True)
class Tick:
    """A moment of a monotonic clock.

    >>> Tick.now().elapsed_ns() >= 0
    True
    """

    nanoseconds: int

    @staticmethod
    def now() -> Tick:
        """Give the present moment."""
        return Tick(time.perf_counter_ns())

    def elapsed_ns(self) -> int:
        """Nanoseconds since then."""
        return time.perf_counter_ns() - self.nanoseconds


class CacheBuster:
    """Memory larger than the caches.

    Reading and writing it drives everything else out.
    """

    def __init__(self, nbytes: int = 64 << 20) -> None:
        self._memory = np.zeros(nbytes // 8, np.int64)

    def thrash(self) -> None:
        """Touch all of the memory."""
        self._memory += 1


def time_ns(fn: Callable[[], Any], rounds: int = 20) -> float:
    """The median nanoseconds of a call without arguments."""
    times = []
    for _ in range(rounds):
        start = Tick.now()
        fn()
        times.append(start.elapsed_ns())
    return float(np.median(times))
