"""Guard pages around arrays, to find accesses out of bounds.

With RLX_GUARDS=1 compiled code works on copies of its arrays. Each ends where a forbidden page
begins, so that a step further ends the process; `python -X faulthandler` tells where. What lies
before them, results, and memory for temporaries hold bytes that are NaN in every float dtype.
"""

from __future__ import annotations

import ctypes
import mmap
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from functools import cache
from typing import Any, final

import numpy as np

from ....ir.errors import ConfigError, InternalError

PAGE = mmap.PAGESIZE
POISON = 0xFF
ALIGNMENT = 64


@final
class Guarded:
    """A block of memory that ends at a guard page."""

    def __init__(self, size: int) -> None:
        inside = -(-max(size, 1) // PAGE) * PAGE
        self._length = inside + 2 * PAGE
        self._base = _system().mmap(None, self._length, READ_WRITE, PRIVATE, -1, 0)
        self._first = self._base + PAGE
        self.start = self._first + inside - size
        self.size = size
        for page in (self._base, self._first + inside):
            status = _system().mprotect(page, PAGE, 0)
            assert status == 0, "a page of one's own can be forbidden"
        ctypes.memset(self._first, POISON, inside)

    @property
    def content(self) -> bytes:
        """The bytes."""
        return ctypes.string_at(self.start, self.size)

    @property
    def is_whole(self) -> bool:
        """Whether the bytes before the first one are untouched."""
        before = ctypes.string_at(self._first, self.start - self._first)
        return before.count(POISON) == len(before)

    def free(self) -> None:
        """Give the pages back."""
        _system().munmap(self._base, self._length)


@contextmanager
def between_guards(
    inputs: Sequence[np.ndarray], results: Sequence[np.ndarray], arena_bytes: int
) -> Iterator[list[int]]:
    """Copy arrays to guarded memory, and give their addresses and that of temporaries.

    Afterwards the results are copied back; a result may have the memory of an input.
    """
    blocks: dict[tuple[int, int], Guarded] = {}
    for x in (*inputs, *results):
        if _place(x) not in blocks:
            blocks[_place(x)] = Guarded(x.nbytes)
    for x in inputs:
        ctypes.memmove(blocks[_place(x)].start, _place(x)[0], x.nbytes)
    arena = [Guarded(-(-arena_bytes // ALIGNMENT) * ALIGNMENT)] if arena_bytes else []
    try:
        yield [*(blocks[_place(x)].start for x in (*inputs, *results)), *(a.start for a in arena)]
        _check(inputs, results, blocks, arena)
        for x in results:
            ctypes.memmove(_place(x)[0], blocks[_place(x)].start, x.nbytes)
    finally:
        for block in (*blocks.values(), *arena):
            block.free()


def _place(x: np.ndarray) -> tuple[int, int]:
    return x.__array_interface__["data"][0], x.nbytes


def _check(
    inputs: Sequence[np.ndarray],
    results: Sequence[np.ndarray],
    blocks: dict[tuple[int, int], Guarded],
    arena: Sequence[Guarded],
) -> None:
    written = {_place(x) for x in results}
    for i, x in enumerate(inputs):
        block = blocks[_place(x)]
        if _place(x) not in written and block.content != x.tobytes():
            raise _bug(f"wrote to argument {i}")
    if not all(block.is_whole for block in (*blocks.values(), *arena)):
        raise _bug("wrote before the first byte of an array")


def _bug(what: str) -> InternalError:
    return InternalError(
        f"rlx bug in the cpu backend: compiled code {what}",
        fix="please report it with RLX_DUMP's output of this program",
    )


READ_WRITE = getattr(mmap, "PROT_READ", 1) | getattr(mmap, "PROT_WRITE", 2)
PRIVATE = getattr(mmap, "MAP_PRIVATE", 2) | getattr(mmap, "MAP_ANONYMOUS", 32)


@cache
def _system() -> Any:
    library = ctypes.CDLL(None)
    if not hasattr(library, "mprotect"):
        raise ConfigError("RLX_GUARDS needs pages that can be forbidden", fix="set it to 0")
    library.mmap.restype = ctypes.c_void_p
    library.mmap.argtypes = [ctypes.c_void_p, ctypes.c_size_t, *[ctypes.c_int] * 3, ctypes.c_long]
    library.mprotect.argtypes = [ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int]
    library.munmap.argtypes = [ctypes.c_void_p, ctypes.c_size_t]
    return library
