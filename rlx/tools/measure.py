"""Measuring time: ticks, repeated calls, and emptying the caches between them."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from ..ir.record import record
from ..runtime.devices import block_until_ready
from ..runtime.options import check_whole
from ..trace.arguments import callable_of, members
from ..trace.host import no_memory


@record
class Tick:
    """A moment of a monotonic clock, in `nanoseconds`.

    >>> Tick.now().elapsed_ns() >= 0
    True
    """

    nanoseconds: int

    @staticmethod
    def now() -> Tick:
        """Return the present moment."""
        return Tick(time.perf_counter_ns())

    def elapsed_ns(self) -> int:
        """Nanoseconds since then."""
        return time.perf_counter_ns() - self.nanoseconds

    def __sub__(self, other: Tick) -> int:
        """Nanoseconds from another moment to this one.

        >>> start = Tick.now()
        >>> Tick.now() - start >= 0
        True
        """
        return self.nanoseconds - other.nanoseconds if isinstance(other, Tick) else NotImplemented


class CacheBuster:
    """Memory of `nbytes` bytes, larger than the caches.

    Reading and writing it evicts everything else from them.
    """

    def __init__(self, nbytes: int = 64 << 20) -> None:
        check_whole("CacheBuster", "nbytes", nbytes, 8)
        try:
            self._memory = np.zeros(nbytes // 8, np.int64)
        except (MemoryError, ValueError) as error:  # ValueError: more than any array may have
            raise no_memory("CacheBuster", error) from None

    def thrash(self) -> None:
        """Touch all of the memory."""
        self._memory += 1


MOST_ROUNDS = 1 << 31  # more would not end


def time_ns(fn: Callable[..., Any], rounds: int = 20, *, args: Sequence[Any] = ()) -> float:
    """The median nanoseconds of calls `fn(*args)`, until results are computed.

    `rounds` is the number of calls.

    >>> time_ns(lambda x: x + x, 5, args=(3,)) > 0
    True
    """
    callable_of("time_ns: fn", fn)
    check_whole("time_ns", "rounds", rounds, 1, MOST_ROUNDS)
    args = members("time_ns: args", args)
    times = []
    for _ in range(rounds):
        start = Tick.now()
        block_until_ready(fn(*args))
        times.append(start.elapsed_ns())
    return float(np.median(times))
