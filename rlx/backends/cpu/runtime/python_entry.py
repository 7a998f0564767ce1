"""Entries in Python, for unknown layouts and guarded memory."""

from __future__ import annotations

import ctypes
import math
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import numpy as np

from rlx.backends.backend import MISS

from .guards import between_guards
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
        for offset, thing in array.fill:
            getattr(array.cls, slots[offset]).__set__(made, thing)
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
