"""How numbers lie in a device's memory.

Its words have 32 bits, or 64 where the device has such numbers. Smaller numbers take a word each,
so that no two threads ever write to one word: booleans are 0 or 1, small integers their value,
small floats their bits. A complex number is its two parts. Where the device has numbers of 16 bits
float16 takes no more than these.
"""

from __future__ import annotations

from collections.abc import Iterator
from heapq import heappop, heappush

import numpy as np

from ...ir.record import record
from ...ir.types import DTYPES, NAMES, is_float
from ...lower.lir.access import reads, writes
from ...lower.lir.program import Buffer, Program, Step, nested_programs
from ...lower.schedule.plan_memory import Arena
from ..c_like.plan import Plan
from .blocks import LEAST

HALF = np.dtype(np.uint16)
SMALL = {
    **dict.fromkeys(("int8", "int16"), "int32"),
    **dict.fromkeys(("bool", "uint8", "uint16", "float16", "bfloat16"), "uint32"),
    **dict.fromkeys(("float8_e4m3fn", "float8_e5m2"), "uint32"),
}
WORDS = {name: np.dtype(SMALL.get(name, name)) for name in DTYPES}
"""The dtype of what lies in memory for a number of each dtype."""


@record
class Layout:
    """How numbers lie on one device; float16 takes two bytes if it `has_halves`."""

    has_halves: bool = False

    def word(self, dtype: np.dtype) -> np.dtype:
        """The dtype of what lies in memory for a number.

        >>> Layout().word(np.dtype(np.int8)), Layout().word(np.dtype(np.float16))
        (dtype('int32'), dtype('uint32'))
        """
        name = NAMES[dtype]
        return HALF if self.has_halves and name == "float16" else WORDS[name]

    def words(self, array: np.ndarray) -> np.ndarray:
        """Numbers as they lie in memory, in a row."""
        array = np.ascontiguousarray(array).reshape(-1)
        return _bits(array).astype(self.word(array.dtype), copy=False)

    def numbers(self, raw: np.ndarray, dtype: np.dtype) -> np.ndarray:
        """Numbers of a dtype from how they lie in memory."""
        words = raw.view(self.word(dtype))
        if not _is_small_float(dtype):
            return words.astype(dtype, copy=False)
        return words.astype(f"u{dtype.itemsize}", copy=False).view(dtype)


def _bits(array: np.ndarray) -> np.ndarray:
    """Small floats as integers of their size; the others as they are."""
    return array.view(f"u{array.itemsize}") if _is_small_float(array.dtype) else array


def _is_small_float(dtype: np.dtype) -> bool:
    return is_float(dtype) and dtype.itemsize < 4


# -- where the temporaries of programs lie in one block of a device's memory ----------------------
#
# The plan of lowering counts bytes of the host; here numbers take whole words, and places must be
# aligned as bindings are.


def nbytes_of(buffer: Buffer, layout: Layout) -> int:
    """The bytes that a buffer takes up on the device."""
    return buffer.count * layout.word(buffer.number_dtype).itemsize


def aligned(nbytes: int) -> int:
    """The bytes that a place takes up, so that the next one is aligned.

    >>> aligned(1), aligned(256)
    (256, 256)
    """
    return -(-nbytes // LEAST) * LEAST


def place_temporaries(plan: Plan, layout: Layout) -> tuple[dict[Buffer, int], int]:
    """The offset of each temporary, those of nested programs too, and all bytes.

    Those never used together may lie in one place. A nested program has a place of its own for
    all of its temporaries, while its step runs.
    """
    return _placed(plan.program, plan, layout)


def _placed(program: Program, plan: Plan, layout: Layout) -> tuple[dict[Buffer, int], int]:
    inner = {n: _placed(n, plan, layout) for step in program.steps for n in nested_programs(step)}
    first: dict[Buffer | Program, int] = {}
    last: dict[Buffer | Program, int] = {}
    owners: dict[Buffer, Buffer] = {}
    for number, step in enumerate(program.steps):
        mine = {buffer: _owner(buffer) for buffer in _temporaries(step, plan)}
        owners.update(mine)
        for used in (*mine.values(), *nested_programs(step)):
            first.setdefault(used, number)
            last[used] = number
    sizes = {
        u: inner[u][1] if isinstance(u, Program) else aligned(nbytes_of(u, layout)) for u in first
    }
    arena, offsets, end = Arena(), {}, 0
    living: list[tuple[int, int, int]] = []  # the last use of each, and its place
    for used in sorted(first, key=lambda u: (first[u], -sizes[u])):
        while living and living[0][0] < first[used]:
            _, offset, size = heappop(living)
            arena.free(offset, size)
        start = arena.take(sizes[used])
        heappush(living, (last[used], start, sizes[used]))
        end = max(end, start + sizes[used])
        if isinstance(used, Buffer):
            offsets[used] = start
            continue
        for buffer, offset in inner[used][0].items():
            offsets[buffer] = start + offset
    offsets.update({buffer: offsets[owner] for buffer, owner in owners.items()})
    return offsets, end


def _owner(buffer: Buffer) -> Buffer:
    """The buffer that it lies at the place of, maybe itself."""
    while buffer.continues is not None:
        buffer = buffer.continues
    return buffer


def _temporaries(step: Step, plan: Plan) -> Iterator[Buffer]:
    launches = plan.launches.get(step)
    if launches:
        used = [b for launch in launches for b in launch.buffers]
    else:
        inside = {b for nested in nested_programs(step) for b in (nested.inputs + nested.outputs)}
        scratch = step.scratch if nested_programs(step) else None  # type: ignore[union-attr]
        used = [b for b in (*reads(step), *writes(step)) if b is not scratch and b not in inside]
    yield from (b for b in used if b.kind == "temporary")
