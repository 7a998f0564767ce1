"""Give every temporary a place in the arena; those not alive together share memory."""

from __future__ import annotations

from ...ir.types import Type, as_dtype
from ..lir.access import reads, writes
from ..lir.program import Buffer, Program, Step, nested_programs

ALIGNMENT = 64


def plan_memory(program: Program) -> Program:
    """Give every temporary a place in the arena, in the nested programs first.

    A buffer lives from the first step that writes it to the last that reads or writes it. It goes
    to the smallest free gap that holds it. Sets `Buffer.offset` and `Program.arena_bytes`.
    """
    for step in program.steps:
        nested = nested_programs(step)
        if nested:
            needed = max(plan_memory(p).arena_bytes for p in nested)
            step.scratch.type = Type(as_dtype("uint8"), (needed,))  # type: ignore[union-attr]
    first, last = _lifetimes(program.steps)
    live: list[Buffer] = []
    for number, _ in enumerate(program.steps):
        live = [b for b in live if last[b] >= number]
        born = [b for b, start in first.items() if start == number]
        for buffer in sorted(born, key=lambda b: -b.nbytes):
            buffer.offset = _best_gap(live, rounded(buffer.nbytes))
            live.append(buffer)
            program.arena_bytes = max(program.arena_bytes, buffer.offset + rounded(buffer.nbytes))
    return program


def rounded(nbytes: int) -> int:
    """The bytes a buffer takes up in the arena."""
    return -(-nbytes // ALIGNMENT) * ALIGNMENT


def _lifetimes(steps: list[Step]) -> tuple[dict[Buffer, int], dict[Buffer, int]]:
    first: dict[Buffer, int] = {}
    last: dict[Buffer, int] = {}
    for number, step in enumerate(steps):
        for buffer in (*writes(step), *reads(step)):
            if buffer.kind == "temporary":
                first.setdefault(buffer, number)
                last[buffer] = number
    return first, last


def _best_gap(live: list[Buffer], size: int) -> int:
    """The offset of the smallest gap between live buffers that holds `size` bytes."""
    best: tuple[int, int] | None = None
    end = 0
    for buffer in sorted(live, key=lambda b: b.offset or 0):
        start = buffer.offset or 0
        gap = start - end
        if gap >= size and (best is None or gap < best[0]):
            best = (gap, end)
        end = max(end, start + rounded(buffer.nbytes))
    return best[1] if best else end
