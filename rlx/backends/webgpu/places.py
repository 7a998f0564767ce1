"""Where the temporaries of programs lie in one block of a device's memory.

The plan of lowering counts bytes of the host; here numbers take whole words, and places must be
aligned as bindings are.
"""

from __future__ import annotations

from collections.abc import Iterator
from heapq import heappop, heappush

from ...lower.lir.access import reads, writes
from ...lower.lir.program import Buffer, Program, Step, nested_programs
from ...lower.schedule.plan_memory import Arena
from ..c_like.plan import Plan
from .blocks import LEAST
from .layout import Layout


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
