"""Row fusion: kernels that pass rows to each other run row by row, in cache."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Sequence

from ...ir.dims import Dim, is_at_least, likely
from ...ir.record import replace
from ...ir.types import Type
from ..lir.access import Steps, places, reads, rebind, writes
from ..lir.expr import Load
from ..lir.index import Index, Variable, is_within
from ..lir.program import Buffer, Kernel, RowGroup, Step
from .loops import expressions, reductions, renamed

FEWEST_ROWS = 8  # fewer do not keep the threads busy
LARGEST_ROW = 1 << 18  # bytes: a longer row falls out of the cache anyway
FARTHEST = 64  # steps to look back


def group_rows(steps: Sequence[Step]) -> list[Step]:
    """Fuse kernels that read each other's rows under common outer loops.

    before: `kernel i < 8: m[i] = max over j...` and `kernel i < 8, j < 32: e[...] = ... m[i]`;
    after: `rows i < 8:` with both kernels, the first without a loop, the second over j.
    """
    grouped: list[Step] = []
    for step in steps:
        joined = _join(grouped, step) if isinstance(step, Kernel) else None
        if joined is None:
            grouped.append(step)
        else:
            at, rows = joined
            grouped[at] = rows
    return grouped


def _join(steps: list[Step], kernel: Kernel) -> tuple[int, RowGroup] | None:
    needed = set(reads(kernel))
    for at in range(len(steps) - 1, max(-1, len(steps) - 1 - FARTHEST), -1):
        step = steps[at]
        written = needed & set(writes(step))
        if not written:
            continue
        if isinstance(step, Kernel | RowGroup):
            rows = _together(step, kernel)
            return (at, rows) if rows else None
        return None
    return None


def _together(first: Kernel | RowGroup, second: Kernel) -> RowGroup | None:
    """Fuse two steps under the most common outer loops that are legal, or None."""
    limit = len(first.loops)
    while limit and not _share_loops(first, second, limit):
        limit -= 1
    if not limit or math.prod(likely(v.extent) for v in first.loops[:limit]) < FEWEST_ROWS:
        return None
    if isinstance(first, RowGroup) and limit < len(first.loops):
        return None  # the group's own loops are as short as they should be
    outer = first.loops[:limit]
    group = first.kernels if isinstance(first, RowGroup) else (_inner(first, outer),)
    moved = _inner(renamed(second, outer, second.loops[:limit]), outer)
    if not any(k.loops or _reduces(k) for k in (*group, moved)):
        return None
    if any(_computes_blocks(k) and not k.loops for k in (*group, moved)):
        return None  # its lanes go along the outer loops
    if _row_bytes((*group, moved)) > LARGEST_ROW:
        return None
    if not all(_is_same_row(kernel, moved, outer) for kernel in group):
        return None
    return RowGroup(tuple(outer), (*group, moved))


def _share_loops(first: Kernel | RowGroup, second: Kernel, count: int) -> bool:
    """Whether two steps can be fused under so many outer loops of equal extents.

    A reduction of columns is not done for one column at a time: its lanes go along the columns.
    """
    ours, theirs = first.loops[:count], second.loops[:count]
    if [v.extent for v in ours] != [v.extent for v in theirs]:
        return False
    group = first.kernels if isinstance(first, RowGroup) else (_inner(first, ours),)
    if any(not k.loops and _is_tall(k, ours[-1]) for k in group):
        return False
    return len(second.loops) > count or not _is_tall(second, theirs[-1])


def _is_tall(kernel: Kernel, along: Variable) -> bool:
    """Whether a reduction is of columns: its loop has the larger stride."""
    for found in reductions([kernel]):
        for load in found.body.loads:
            strides = [load.index.stride_of(v) for v in found.loops]
            if load.index.stride_of(along) == 1 and any(strides) and 1 not in strides:
                return True
    return False


def _reduces(kernel: Kernel) -> bool:
    return any(True for _ in reductions([kernel]))


def _computes_blocks(kernel: Kernel) -> bool:
    return len({s.buffer for s in kernel.stores}) < len(kernel.stores)


def _inner(kernel: Kernel, outer: Sequence[Variable]) -> Kernel:
    return Kernel(kernel.loops[len(outer) :], kernel.stores, kernel.source)


def _row_bytes(kernels: Sequence[Kernel]) -> int:
    """The bytes that kernels pass to each other in one row."""
    return sum(
        math.prod(likely(v.extent) for v in kernel.loops) * store.buffer.number_dtype.itemsize
        for kernel in kernels
        for store in kernel.stores
    )


def _is_same_row(writer: Kernel, reader: Kernel, outer: Sequence[Variable]) -> bool:
    """Whether a reader needs only what the writer wrote at the same outer values."""
    written: dict[Buffer, list[Index]] = {}
    for store in writer.stores:
        written.setdefault(store.buffer, []).append(store.index)
    for load in expressions([reader]):
        if not isinstance(load, Load) or load.buffer not in written:
            continue
        if not all(is_same_block(index, load.index, outer) for index in written[load.buffer]):
            return False
    return True


def is_same_block(ours: Index, theirs: Index, outer: Sequence[Variable]) -> bool:
    """Whether two indices lie in a common block exactly for equal outer values."""
    if not ours.is_affine or not theirs.is_affine:
        return False
    strides = [ours.stride_of(v) for v in outer]
    if strides != [theirs.stride_of(v) for v in outer]:
        return False
    if not all(is_at_least(s, 1) for s in strides):
        return False
    for wide, narrow, v in zip(strides, strides[1:], outer[1:], strict=False):
        if not is_at_least(wide, narrow * v.extent):
            return False
    return all(is_within(i.without(outer), strides[-1]) for i in (ours, theirs))


# -- keep what kernels of a row pass on in a small block instead of a large array ------------------


def localize_rows(steps: Sequence[Step], limit: int) -> list[Step]:
    """Array contraction: a row group's temporaries become local, up to `limit` bytes.

    before: `rows i < 8:` whose kernels pass on `b3[i*32 + j]`, an array of 8 rows; after: they
    pass on `b3[j]`, one row for each thread.
    """
    users = Steps(steps).users
    return [_localized(s, users, limit) if isinstance(s, RowGroup) else s for s in steps]


def _localized(rows: RowGroup, users: Counter[Buffer], limit: int) -> RowGroup:
    made: dict[Buffer, Buffer] = {}
    total, used = 0, places([rows])
    for buffer in writes(rows):
        if buffer.kind != "temporary" or users[buffer] > 1:
            continue
        highest = [index.without(rows.loops).high for index in used[buffer]]
        if any(isinstance(high, Dim) for high in highest):
            continue  # a thread's block has a fixed size
        size = 1 + max(highest)  # type: ignore[type-var]
        local = Buffer(buffer.name, Type(buffer.number_dtype, (size,)), "local")
        total += -(-local.nbytes // 64) * 64
        if total > limit:
            break
        made[buffer] = local

    def move(buffer: Buffer, index: Index) -> tuple[Buffer, Index]:
        if buffer not in made:
            return buffer, index
        return made[buffer], index.without(rows.loops)

    moved = rebind(rows, {}, move) if made else rows
    return replace(moved, locals=tuple(made.values()))
