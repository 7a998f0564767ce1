"""Memory for what calls are bound to: one room for many arrays, filled by threads.

A new page of memory costs several times what it costs to write it. Large pages cost a third of that
and are read faster by a third, where memory is the limit, but took up to four times as long to get
on a virtual machine whose host gives memory late. So rooms of a small model are made of small
pages, asked for all at once and joined later, and large rooms of large ones, as NumPy's arrays are.
"""

from __future__ import annotations

import ctypes
import itertools
import mmap
import os
import sys
import threading
import time
import weakref
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from typing import final

import numpy as np

from ..ir.config import threads_asked
from .locks import hold_in_forks

ALIGNMENT = 64  # bytes of a cache line
LARGE = 1 << 22  # bytes that one thread copies before others have begun
PART = 1 << 25  # bytes that a thread copies at a time, past the caches
LARGE_PAGE, LARGE_ROOM = 1 << 21, 1 << 25  # bytes
POPULATE = 23  # MADV_POPULATE_WRITE, of Linux 5.14


def room_for(sizes: Sequence[int]) -> list[np.ndarray]:
    """Uninitialized arrays of so many bytes each, in one piece of memory."""
    steps = [-(-size // ALIGNMENT) * ALIGNMENT for size in sizes]
    room = _pages(sum(steps)) if sum(steps) >= LARGE_PAGE else _aligned(sum(steps))
    starts = itertools.accumulate(steps, initial=0)
    return [room[start : start + size] for start, size in zip(starts, sizes, strict=False)]


def _aligned(size: int) -> np.ndarray:
    room = np.empty(size + ALIGNMENT, np.uint8)
    return room[-room.ctypes.data % ALIGNMENT :]


def _pages(size: int) -> np.ndarray:
    """Memory of its own, of large pages or of small ones that are joined later."""
    if not hasattr(mmap, "MAP_PRIVATE"):
        return np.frombuffer(mmap.mmap(-1, size), np.uint8)
    memory = mmap.mmap(-1, size + LARGE_PAGE, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)
    room = np.frombuffer(memory, np.uint8)
    start, whole = -room.ctypes.data % LARGE_PAGE, size // LARGE_PAGE * LARGE_PAGE
    with suppress(OSError):  # an older system, or none of Linux
        if size >= LARGE_ROOM and hasattr(mmap, "MADV_HUGEPAGE"):
            memory.madvise(mmap.MADV_HUGEPAGE, start, whole)
        elif sys.platform == "linux":
            memory.madvise(POPULATE, start, size)
    if size < LARGE_ROOM:
        _joins.add(room.ctypes.data + start, whole, memory)
    return room[start:]


def shared_out(work: Callable[[int, int, int], object], sizes: Sequence[int]) -> None:
    """Call `work` with the number of an array, of a part, and how many it has.

    The arrays have so many bytes each. Threads share the parts, if there are many bytes; the work
    leaves the interpreter lock for them.
    """
    counts = [-(-size // PART) for size in sizes]
    parts = [(i, part, count) for i, count in enumerate(counts) for part in range(count)]
    threads = min(len(parts), _threads()) if sum(sizes) > LARGE else 1
    if threads < 2:
        for part in parts:
            work(*part)
        return
    with ThreadPoolExecutor(threads) as pool:
        for _ in pool.map(lambda part: work(*part), parts):
            pass


def part_of(array: np.ndarray, part: int, parts: int) -> np.ndarray:
    """A part of the bytes of a dense array, in its order of rows."""
    assert array.flags.c_contiguous, "a part would be one of a copy"
    flat = array.reshape(-1).view(np.uint8)
    return flat[part * flat.size // parts : (part + 1) * flat.size // parts]


def copies(arrays: Sequence[np.ndarray]) -> list[np.ndarray]:
    """Dense copies of arrays, in one piece of memory."""
    rooms = room_for([x.nbytes for x in arrays])
    made = [room.view(x.dtype).reshape(x.shape) for room, x in zip(rooms, arrays, strict=True)]

    def copy(number: int, part: int, parts: int) -> None:
        new, old = made[number], arrays[number]
        if old.flags.c_contiguous:
            np.copyto(part_of(new, part, parts), part_of(old, part, parts))
            return
        lines = slice(part * len(old) // parts, (part + 1) * len(old) // parts)
        np.copyto(new[lines], old[lines])

    shared_out(copy, [x.nbytes for x in arrays])
    return made


def _threads() -> int:
    if asked := threads_asked(os.environ):
        return asked
    has_affinity = hasattr(os, "sched_getaffinity")
    return len(os.sched_getaffinity(0)) if has_affinity else os.cpu_count() or 1


# -- large pages ----------------------------------------------------------------------------------

LATER = 2.0  # seconds after the last room was made
JOIN = 25  # MADV_COLLAPSE, of Linux 6.1


@final
class _Joins:
    """Rooms whose small pages Linux shall join to large ones, on a thread that is in no hurry.

    A process that is short of time has ended by then, or has its first results.
    """

    def __init__(self) -> None:
        self._lock = hold_in_forks(2, threading.Lock())
        self._rooms: list[tuple[int, int, weakref.ref[mmap.mmap]]] = []
        self._until = 0.0
        self._process = 0  # whose thread waits

    def add(self, start: int, size: int, memory: mmap.mmap) -> None:
        """Join the pages of some bytes of memory later, if it is still there."""
        if sys.platform != "linux":
            return
        with self._lock:
            self._rooms.append((start, size, weakref.ref(memory)))
            self._until = time.monotonic() + LATER
            if self._process == os.getpid():
                return
            self._process = os.getpid()
        try:
            threading.Thread(target=self._work, name="rlx joins pages", daemon=True).start()
        except RuntimeError:  # there are too many, or Python ends; the next room tries again
            self._process = 0

    def _work(self) -> None:
        while (left := self._until - time.monotonic()) > 0:
            time.sleep(left)
        with self._lock:
            rooms, self._rooms, self._process = self._rooms, [], 0
        join = ctypes.CDLL(None).madvise
        join.argtypes = ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int
        for start, size, memory in rooms:
            kept = memory()
            if kept is not None:  # and stays so meanwhile
                join(start, size, JOIN)  # what the system cannot join stays as it is
            del kept


_joins = _Joins()
