"""Memory planning: temporaries that are not alive together share one arena."""

from __future__ import annotations

from bisect import bisect_left, insort
from collections.abc import Sequence
from heapq import heappop, heappush

from ...ir.dims import Dim, Size, largest, likely
from ...ir.record import replace
from ...ir.types import Type, as_dtype
from ..lir.access import Steps, reads, times, writes
from ..lir.expr import Load
from ..lir.program import (
    Buffer,
    Chain,
    Kernel,
    Kind,
    Program,
    RepeatStep,
    RowGroup,
    Step,
    Store,
    nested_programs,
)
from .loops import expressions
from .rows import is_same_block

# -- which bytes of an arena are free while a program is planned -----------------------------------


class Arena:
    """A best-fit allocator: the first smallest gap that holds a block, or the end.

    Both lists of gaps are sorted, so a block of a long program takes no more time.
    """

    def __init__(self) -> None:
        self.end = 0  # behind the last block
        self._gaps: list[tuple[int, int]] = []  # start and end of each, all before `end`
        self._sizes: list[tuple[int, int]] = []  # size and start of each

    def take(self, size: int) -> int:
        """Allocate a block, and give its offset."""
        number = bisect_left(self._sizes, (size, 0))
        if number == len(self._sizes) or not size:
            # an empty block needs no place of its own
            start = self.end
            self.end += size
            return start
        room, start = self._sizes[number]
        self._drop(start, start + room)
        if room > size:
            self._add(start + size, start + room)
        return start

    def free(self, start: int, size: int) -> None:
        """Free a block, and merge it with the gaps beside it."""
        if not size:
            return
        end = start + size
        number = bisect_left(self._gaps, (start, 0))
        if number < len(self._gaps) and self._gaps[number][0] == end:
            end = self._gaps[number][1]
            self._drop(*self._gaps[number])
        if number and self._gaps[number - 1][1] == start:
            start = self._gaps[number - 1][0]
            self._drop(*self._gaps[number - 1])
        if end == self.end:
            self.end = start
        else:
            self._add(start, end)

    def _add(self, start: int, end: int) -> None:
        insort(self._gaps, (start, end))
        insort(self._sizes, (end - start, start))

    def _drop(self, start: int, end: int) -> None:
        self._gaps.pop(bisect_left(self._gaps, (start, end)))
        self._sizes.pop(bisect_left(self._sizes, (end - start, start)))


def places_by_size(blocks: Sequence[tuple[int, int, int]]) -> list[int]:
    """Offsets of blocks (first step, last step, size) by first fit, largest first.

    Each goes to the first gap between those live together with it. That leaves smaller gaps than
    the order of the steps, in quadratic time.
    """
    offsets = [0] * len(blocks)
    placed: list[tuple[int, int, int, int]] = []  # start, end, first and last step
    for number in sorted(range(len(blocks)), key=lambda i: -blocks[i][2]):
        first, last, size = blocks[number]
        offset = 0
        for start, end, born, dead in placed:
            if born > last or dead < first:
                continue
            if offset + size <= start:
                break
            offset = max(offset, end)
        offsets[number] = offset
        insort(placed, (offset, offset + size, first, last))
    return offsets


ALIGNMENT = 64
MOST_COMPARED = 2000  # buffers, each of which is compared with all others


def plan_memory(program: Program) -> Program:
    """Give every temporary an offset in the arena; nested programs have theirs.

    A buffer is live from the first step that writes it to the last that reads or writes it. It goes
    to the smallest free gap that holds it, or takes over the memory of a buffer that its kernel
    reads for the last time; if gaps are left, all are tried in the order of their sizes. Those of
    symbolic sizes lie behind the others. Sets `Buffer.offset` and `Program.arena_bytes`.
    """
    for step in program.steps:
        nested = nested_programs(step)
        if nested:
            needed = _most([p.arena_bytes for p in nested])
            if isinstance(step, RepeatStep) and isinstance(needed, int):
                needed = rounded(needed) * step.parts
            step.scratch.type = Type(as_dtype("uint8"), (needed,))  # type: ignore[union-attr]
    program.steps = [_with_local_bytes(step) for step in program.steps]
    program.arena_bytes = _place(program.steps, "temporary")
    program.steps = [step for step in program.steps if not _is_in_place(step)]
    return program


def _with_local_bytes(step: Step) -> Step:
    """The step with offsets of its row-local buffers."""
    if isinstance(step, Chain):
        return replace(step, steps=tuple(map(_with_local_bytes, step.steps)))
    if isinstance(step, RowGroup) and step.locals:
        return replace(step, local_bytes=_place(step.kernels, "local"))  # type: ignore[arg-type]
    return step


def _is_in_place(step: Step) -> bool:
    """Whether a kernel copies a buffer to its own place, so that it can be dropped."""
    if not isinstance(step, Kernel) or len(step.stores) != 1:
        return False
    (store,) = step.stores
    if not isinstance(store.expr, Load):
        return False
    origin, copy = store.expr.buffer, store.buffer
    if {origin.kind, copy.kind} != {"temporary"} or origin.offset != copy.offset:
        return False
    copy.continues = origin
    return True


def _most(sizes: Sequence[Size]) -> Size:
    if all(isinstance(size, int) for size in sizes):
        return max(sizes)  # type: ignore[type-var]
    return largest("arena", sizes, ALIGNMENT)


def _place(steps: Sequence[Step], kind: Kind) -> Size:
    """Set the offsets of buffers of one kind, and give the bytes of all."""
    heirs = _take_over(steps, kind)
    first, last = _lifetimes(steps, kind, heirs)
    symbolic = [b for b in first if isinstance(b.nbytes, Dim)]
    births: dict[int, list[Buffer]] = {}
    for buffer, start in first.items():
        if not isinstance(buffer.nbytes, Dim):
            births.setdefault(start, []).append(buffer)
    arena = Arena()
    dying: list[tuple[int, int, int]] = []  # the last step of each living buffer, and its block
    total = most = living = 0
    for number, born in births.items():
        while dying and dying[0][0] < number:
            _, offset, size = heappop(dying)
            arena.free(offset, size)
            living -= size
        for buffer in sorted(born, key=lambda b: -b.nbytes):
            size = rounded(buffer.nbytes)
            buffer.offset = offset = arena.take(size)
            heappush(dying, (last[buffer], offset, size))
            total, living = max(total, arena.end), living + size
        most = max(most, living)
    if total > most and len(first) <= MOST_COMPARED:
        total = _place_again([b for born in births.values() for b in born], first, last, total)
    total = _place_symbolic(symbolic, first, last, total)
    for heir, owner in heirs.items():
        heir.offset = owner.offset
    return total


def _place_again(
    buffers: Sequence[Buffer], first: dict[Buffer, int], last: dict[Buffer, int], total: int
) -> int:
    """Place buffers by size instead, if they then need less than `total` bytes."""
    blocks = [(first[b], last[b], rounded(b.nbytes)) for b in buffers]
    offsets = places_by_size(blocks)
    needed = max(offset + size for offset, (*_, size) in zip(offsets, blocks, strict=True))
    if needed >= total:
        return total
    for buffer, offset in zip(buffers, offsets, strict=True):
        buffer.offset = offset
    return needed


def _place_symbolic(
    buffers: Sequence[Buffer], first: dict[Buffer, int], last: dict[Buffer, int], start: int
) -> Size:
    """Place buffers of symbolic sizes in rooms after `start`, and give the end.

    A room is a block for buffers that are not live together. Its size, the largest of theirs, is
    known when the program runs.
    """
    rooms: list[list[Buffer]] = []
    for buffer in buffers:  # in the order of their births
        free = [r for r in rooms if last[r[-1]] < first[buffer]]
        if free:
            gaps = [abs(likely(r[-1].nbytes) - likely(buffer.nbytes)) for r in free]
            free[gaps.index(min(gaps))].append(buffer)
        else:
            rooms.append([buffer])
    end: Size = start
    for number, room in enumerate(rooms):
        for buffer in room:
            buffer.offset = end
        end = end + largest(f"room{number}", [b.nbytes for b in room], ALIGNMENT)
    return end


def rounded(nbytes: int) -> int:
    """The bytes that a buffer takes in the arena, after alignment."""
    return -(-nbytes // ALIGNMENT) * ALIGNMENT


def _lifetimes(
    steps: Sequence[Step], kind: Kind, heirs: dict[Buffer, Buffer]
) -> tuple[dict[Buffer, int], dict[Buffer, int]]:
    first: dict[Buffer, int] = {}
    last: dict[Buffer, int] = {}
    for number, step in zip(times(steps), steps, strict=True):
        for buffer in (*writes(step), *reads(step)):
            if buffer.kind == kind:
                owner = heirs.get(buffer, buffer)
                first.setdefault(owner, number)
                last[owner] = number
    return first, last


def _take_over(steps: Sequence[Step], kind: Kind) -> dict[Buffer, Buffer]:
    """Buffers that may overwrite one that their kernel reads for the last time."""
    parts = [
        (part, step)
        for step in steps
        for part in (step.kernels if isinstance(step, RowGroup) else [step])
    ]
    spans = Steps([part for part, _ in parts]).spans
    heirs: dict[Buffer, Buffer] = {}
    for number, (part, step) in enumerate(parts):
        # with several stores one could overwrite what the next one reads
        if not isinstance(part, Kernel) or len(part.stores) != 1:
            continue
        (store,) = part.stores
        if store.buffer.kind != kind or spans[store.buffer][0] != number:
            continue
        for buffer in reads(part):
            is_dying = buffer.kind == kind and spans[buffer][1] == number
            if is_dying and _can_replace(store, buffer) and _keeps_rows(step, store, buffer):
                heirs[store.buffer] = heirs.get(buffer, buffer)
                break
    return heirs


def _can_replace(store: Store, buffer: Buffer) -> bool:
    """Whether each element of a buffer is read only by the store that overwrites it."""
    loads = [load for load in store.expr.loads if load.buffer is buffer]
    is_same_size = (buffer.nbytes, buffer.number_dtype.itemsize) == (
        store.buffer.nbytes,
        store.buffer.number_dtype.itemsize,
    )
    return is_same_size and all(load.index == store.index for load in loads)


def _keeps_rows(step: Step, store: Store, buffer: Buffer) -> bool:
    """Whether no kernel of a `RowGroup` reads what another row overwrites."""
    if not isinstance(step, RowGroup) or buffer.kind == "local":
        return True
    loads = (e for e in expressions(step.kernels) if isinstance(e, Load) and e.buffer is buffer)
    return all(is_same_block(store.index, load.index, step.loops) for load in loads)
