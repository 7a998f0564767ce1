"""Memory for what calls are bound to: one room for many arrays, filled by threads.

A new page of memory costs several times what it costs to write it. Large pages, which Linux gives
to large arrays of NumPy, took four times as long as small ones where that was measured, on a
virtual machine, as the system has to put them together first.
"""

from __future__ import annotations

import itertools
import mmap
import os
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor

import numpy as np

from ..ir.config import threads_asked

ALIGNMENT = 64  # bytes of a cache line
LARGE = 1 << 22  # bytes that one thread copies before others have begun


def room_for(sizes: Sequence[int]) -> list[np.ndarray]:
    """Uninitialized arrays of so many bytes each, in one piece of memory."""
    steps = [-(-size // ALIGNMENT) * ALIGNMENT for size in sizes]
    size = sum(steps) + ALIGNMENT
    is_large = size > LARGE
    room = np.frombuffer(mmap.mmap(-1, size), np.uint8) if is_large else np.empty(size, np.uint8)
    first = -room.ctypes.data % ALIGNMENT
    starts = itertools.accumulate(steps, initial=first)
    return [room[start : start + size] for start, size in zip(starts, sizes, strict=False)]


def shared_out(work: Callable[[int], object], sizes: Sequence[int]) -> None:
    """Call `work` with the number of each piece, the largest first, by its bytes.

    Threads share the pieces of large arrays; the work leaves the interpreter lock for them.
    """
    order = sorted(range(len(sizes)), key=lambda i: -sizes[i])
    count = min(len(order), _threads()) if sum(sizes) > LARGE else 1
    if count < 2:
        for number in order:
            work(number)
        return
    with ThreadPoolExecutor(count) as threads:
        for _ in threads.map(work, order):
            pass


def copies(arrays: Sequence[np.ndarray]) -> list[np.ndarray]:
    """Copies of dense arrays, in one piece of memory."""
    rooms = room_for([x.nbytes for x in arrays])
    made = [room.view(x.dtype).reshape(x.shape) for room, x in zip(rooms, arrays, strict=True)]
    shared_out(lambda i: np.copyto(made[i], arrays[i]), [x.nbytes for x in arrays])
    return made


def _threads() -> int:
    if asked := threads_asked(os.environ):
        return asked
    has_affinity = hasattr(os, "sched_getaffinity")
    return len(os.sched_getaffinity(0)) if has_affinity else os.cpu_count() or 1
