"""Entries in Python, for unknown layouts and guarded memory."""

from __future__ import annotations

import ctypes
import math
import mmap
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from functools import cache
from typing import Any, final

import numpy as np

from rlx.backends.backend import MISS

from ....ir.errors import ConfigError, InternalError
from .memory import ALIGNMENT, no_memory
from .object_layout import ArrayLayout, Spec, slot_offsets
from .polls import STOPPED
from .pool import raise_stopped


def python_entry(
    inputs: Sequence[Spec],
    outputs: Sequence[Spec],
    takes_outputs: bool,
    fills_outputs: bool,
    guards: bool,
    main_address: int,
    constants: Sequence[int],
    arena_bytes: int,
    array: ArrayLayout,
    on_error: Callable[[int], object],
    keep_alive: object,
) -> Callable[..., Any]:
    """Like `make_entry`, in Python; `main` always runs with the GIL.

    With `guards` it runs on guarded copies of arrays.
    """
    memory = between_guards if guards else _memory
    main = ctypes.PYFUNCTYPE(ctypes.c_int, ctypes.c_void_p)(main_address)
    slots = {offset: name for name, offset in slot_offsets(array.cls).items()}
    data_slot = slots[array.data_offset]

    def wrap(data: np.ndarray) -> object:
        made = object.__new__(array.cls)
        getattr(array.cls, data_slot).__set__(made, data)
        for offset in array.fill:
            getattr(array.cls, slots[offset]).__set__(made, None)
        return made

    def entry(*args: object, **keywords: object) -> object:
        takes = takes_outputs or fills_outputs
        if keywords or len(args) != len(inputs) + takes * len(outputs):
            return MISS
        given, taken = args[: len(inputs)], args[len(inputs) :] or (None,) * len(outputs)
        arrays = [getattr(x, data_slot, None) if type(x) is array.cls else x for x in given]
        specs = [*inputs, *(s for s, x in zip(outputs, taken, strict=True) if x is not None)]
        checked = [*arrays, *(x for x in taken if x is not None)]
        if not all(map(_fits, checked, specs)):
            return MISS
        if fills_outputs and not _may_fill(taken, arrays):
            return MISS
        pairs = zip(taken, outputs, strict=True)
        results = [_fresh(spec) if x is None else x for x, spec in pairs]
        with memory(arrays, results, arena_bytes) as places:  # type: ignore[arg-type]
            at = len(arrays) + len(results)
            table = [*places[:at], *constants, *places[at:]]
            status = main((ctypes.c_void_p * (len(table) or 1))(*table))
        if status == STOPPED:
            raise_stopped()
        if status:
            on_error(status)
            raise SystemError(f"on_error did not raise for status {status}")
        if fills_outputs:
            return None
        made = tuple(map(wrap, results))  # type: ignore[arg-type]
        return made[0] if len(made) == 1 else made

    entry.__dict__["keep_alive"] = keep_alive
    return entry


@contextmanager
def _memory(
    inputs: Sequence[np.ndarray], results: Sequence[np.ndarray], arena_bytes: int
) -> Iterator[list[int]]:
    """The addresses of arrays, and of memory for temporaries."""
    arena = [aligned_array((arena_bytes,), np.dtype(np.uint8))] if arena_bytes else []
    yield [x.__array_interface__["data"][0] for x in (*inputs, *results, *arena)]


def _fits(x: object, spec: Spec) -> bool:
    if type(x) is not np.ndarray or x.dtype is not spec.dtype or x.shape != spec.shape:
        return False
    return x.flags.c_contiguous and x.flags.aligned


def _may_fill(outputs: Sequence[Any], inputs: Sequence[Any]) -> bool:
    """Whether all outputs are given, writeable, and apart from each other and the inputs."""
    seen = list(inputs)
    for x in outputs:
        if x is None or not x.flags.writeable or any(np.may_share_memory(x, y) for y in seen):
            return False
        seen.append(x)
    return True


def _fresh(spec: Spec) -> np.ndarray:
    made = aligned_array(spec.shape, spec.dtype)
    made.flags.writeable = False
    return made


def aligned_array(shape: tuple[int, ...], dtype: np.dtype) -> np.ndarray:
    """A fresh array whose data begins at a multiple of 64 bytes."""
    size = math.prod(shape) * dtype.itemsize
    try:
        room = np.empty(size + ALIGNMENT, np.uint8)
    except MemoryError:
        no_memory(size)
    start = -room.__array_interface__["data"][0] % ALIGNMENT
    return room[start : start + size].view(dtype).reshape(shape)


# -- guard pages around arrays, to find accesses out of bounds ------------------------------------
#
# With RLX_GUARDS=1 compiled code works on copies of its arrays. Each ends where a forbidden page
# begins, so that a step further ends the process; `python -X faulthandler` tells where. What lies
# before them, results, and memory for temporaries hold bytes that are NaN in every float dtype.

PAGE = mmap.PAGESIZE
POISON = 0xFF


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
