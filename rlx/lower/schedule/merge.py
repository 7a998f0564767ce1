"""Horizontal fusion: kernels with equal loops become one with several stores."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Sequence

from ...ir.dims import likely
from ...ir.record import replace
from ..lir.access import Steps, reads, writes
from ..lir.expr import Accumulated, Expr, Load, Reduce, substitute, walk
from ..lir.index import Index, Variable, as_index
from ..lir.program import Buffer, Contraction, Kernel, Step
from .elements import strides, unflatten
from .loops import Table, expressions, indices, reductions, substituted

MOST_STORES = 6  # more results than this and registers run out
LARGEST = 200  # expressions in one kernel or epilogue, a bound for code size and recursion
FARTHEST = 64  # steps to look back


def merge_kernels(steps: Sequence[Step]) -> list[Step]:
    """Loop fusion: merge kernels that share loads or read each other's stores.

    before: `kernel i < 4: b[i] = exp(a[i])` and `kernel i < 4: c[i] = a[i] + b[i]`; after: one
    kernel with both stores, where the second uses `exp(a[i])` without a load.
    """
    merged: list[Step] = []
    touched: list[set[Buffer]] = []  # what each of them reads and writes
    for step in steps:
        at = _partner(merged, touched, step) if isinstance(step, Kernel) else None
        if at is None:
            merged.append(step)
            touched.append({*reads(step), *writes(step)})
        else:
            merged[at] = _joined(merged[at], step)  # type: ignore[arg-type]
            touched[at] |= {*reads(step), *writes(step)}
    return merged


def drop_dead_stores(steps: Sequence[Step]) -> list[Step]:
    """Dead-store elimination: drop unread stores, and kernels that have no others."""
    read = Steps(steps).readers
    kept: list[Step] = []
    for step in steps:
        if isinstance(step, Kernel | Contraction):
            stores = tuple(
                s for s in step.stores if s.buffer.kind != "temporary" or s.buffer in read
            )
            if not stores:
                continue
            step = replace(step, stores=stores) if stores != step.stores else step
        kept.append(step)
    return kept


def _partner(steps: list[Step], touched: list[set[Buffer]], kernel: Kernel) -> int | None:
    """The index of the earlier kernel that this one can be merged with."""
    needed = set(reads(kernel))
    for at in range(len(steps) - 1, max(-1, len(steps) - 1 - FARTHEST), -1):
        if not needed & touched[at]:
            continue
        step = steps[at]
        if isinstance(step, Kernel) and _can_join(step, kernel, needed):
            return at
        if needed & set(writes(step)):
            return None  # it cannot move before what it reads
    return None


def _can_join(first: Kernel, second: Kernel, needed: set[Buffer]) -> bool:
    extents = [v.extent for v in first.loops]
    if extents != [v.extent for v in second.loops] or not extents:
        return False
    if len(first.stores) + len(second.stores) > MOST_STORES:
        return False
    if {s.buffer for s in first.stores} & {s.buffer for s in second.stores}:
        return False
    if len(expressions([first, second])) > LARGEST:
        return False
    places = {(s.buffer, s.index) for s in first.stores}
    stored = {buffer for buffer, _ in places}
    if needed.isdisjoint(stored):
        return _share_loads(first, second)
    table = _table(first, second)
    found = [(e.buffer, _moved(e, table)) for e in _loads(second) if e.buffer in stored]
    if not places.issuperset(found):
        return False
    return not any(_is_inside_reduction(second, buffer) for buffer in stored)


def _table(first: Kernel, second: Kernel) -> Table:
    """Map the loop variables of the second kernel to those of the first."""
    return dict(zip(second.loops, map(as_index, first.loops), strict=True))


def _moved(load: Load, table: Table) -> Index:
    """The index of a load after substitution of its variables."""
    return load.index.substitute(table, lambda e: substitute(e, table))


def _loads(kernel: Kernel) -> list[Load]:
    return [e for e in expressions([kernel]) if isinstance(e, Load)]


def _is_inside_reduction(kernel: Kernel, buffer: Buffer) -> bool:
    """Whether a buffer is loaded in a reduction, which would repeat its expression."""
    return any(load.buffer is buffer for r in reductions([kernel]) for load in r.loads)


def _share_loads(first: Kernel, second: Kernel) -> bool:
    """Whether both read the same large array in the same way."""
    if any(True for _ in reductions([first])) != any(True for _ in reductions([second])):
        return False
    return not _large_loads(first).isdisjoint(_large_loads(second))


def _large_loads(kernel: Kernel) -> set[tuple]:
    """Loads that depend on all loops of a kernel; those of reductions by their extents."""
    found: set[tuple] = set()
    inner = {v: n for r in reductions([kernel]) for n, v in enumerate(r.loops)}
    for load in _loads(kernel):
        used = load.index.variables
        if used >= set(kernel.loops) and load.index.is_affine:
            strides = [
                (-1 - inner[v] if v in inner else kernel.loops.index(v), v.extent, c)
                for v, c in load.index.terms
                if v in inner or v in kernel.loops
            ]
            strides.sort(key=lambda step: (step[0], likely(step[1]), likely(step[2])))
            found.add((load.buffer, tuple(strides), load.index.constant))
    return found


def _joined(first: Kernel, second: Kernel) -> Kernel:
    """Fuse two kernels; their reductions over equal extents share variables."""
    known = {(store.buffer, store.index): store.expr for store in first.stores}
    stored = {store.buffer for store in first.stores}
    table = _table(first, second)

    def leaf(e: Expr) -> Expr | None:
        if isinstance(e, Load) and e.buffer in stored:
            return known[e.buffer, _moved(e, table)]
        return None

    moved = substituted(second, first.loops, table, leaf)
    table = {}
    ours = {tuple(v.extent for v in r.loops): r.loops for r in reductions([first])}
    mine = {r.loops for r in reductions([first])}
    for r in reductions([moved]):
        match = ours.get(tuple(v.extent for v in r.loops))
        if match and r.loops not in mine and not _has_reduction(r.body):
            table.update(zip(r.loops, map(as_index, match), strict=True))
    moved = substituted(moved, moved.loops, table) if table else moved
    return replace(first, stores=(*first.stores, *moved.stores))


def _has_reduction(expr: Expr) -> bool:
    return any(isinstance(e, Reduce) for e in walk(expr))


# -- let contractions compute the kernels that follow them element by element ----------------------


def merge_epilogues(steps: Sequence[Step]) -> list[Step]:
    """Epilogue fusion: kernels join the contraction whose result they read.

    before: a contraction storing `b[i*4 + j]`, then `kernel i < 8, j < 4: c[...] = exp(b[...])`;
    after: the contraction with both stores. A kernel must read the result at its own places, and
    joins only where all else that it reads has been computed.
    """
    merged: list[Step] = []
    writer: dict[Buffer, int] = {}  # the number of the last step that writes a buffer
    readers = Steps(steps).readers
    for step in steps:
        at = max((writer[b] for b in reads(step) if b in writer), default=None)
        joined = None
        if isinstance(step, Kernel) and at is not None:
            joined = _with_epilogue(merged[at], step, readers)
        if joined is None or at is None:
            at = len(merged)
            merged.append(step)
        else:
            merged[at] = joined
        writer.update(dict.fromkeys(writes(step), at))
    return merged


def _with_epilogue(step: Step, kernel: Kernel, readers: Counter[Buffer]) -> Contraction | None:
    if not isinstance(step, Contraction) or any(True for _ in reductions([kernel])):
        return None
    joined = _together(step, kernel)
    if joined is None and _is_only_for(step, readers):
        joined = _together(_swapped(step), kernel)
    return joined


def _is_only_for(step: Contraction, readers: Counter[Buffer]) -> bool:
    """Whether the step's only result is a temporary that one other step reads."""
    return len(step.stores) == 1 and all(
        s.buffer.kind == "temporary" and readers[s.buffer] == 1 for s in step.stores
    )


def _swapped(step: Contraction) -> Contraction:
    """The transposed product: rows and columns swapped, and so are operands."""
    return replace(step, row=step.column, column=step.row, lhs=step.rhs, rhs=step.lhs)


def _together(step: Contraction, kernel: Kernel) -> Contraction | None:
    if not step.has_static_columns or len(step.stores) + len(kernel.stores) > MOST_STORES:
        return None
    if sum(1 for s in (*step.stores, *kernel.stores) for _ in walk(s.expr)) > LARGEST:
        return None
    ours = {s.buffer: s for s in step.stores}
    loads = [e for e in expressions([kernel]) if isinstance(e, Load) and e.buffer in ours]
    count = math.prod(v.extent for v in (*step.batch, step.row, step.column))
    table = walk_over(kernel.loops, loads[0], ours[loads[0].buffer].index)
    if table is None or loads[0].buffer.count != count:
        return None

    def leaf(e: Expr) -> Expr | None:
        if isinstance(e, Load) and e.buffer in ours:
            store = ours[e.buffer]
            return store.expr if e.index.substitute(table) == store.index else None
        return None

    moved = substituted(kernel, (), table, leaf)
    left = {e.buffer for e in expressions([moved]) if isinstance(e, Load)}
    if left & set(ours) or not _is_affine_within(step, moved):
        return None
    return replace(step, stores=(*step.stores, *moved.stores))


def walk_over(loops: Sequence[Variable], load: Load, place: Index) -> Table | None:
    """The loop variables by which a kernel walks over a whole array, or None."""
    index = load.index
    order = sorted(loops, key=lambda v: -likely(index.stride_of(v)))
    shape = [v.extent for v in order]
    dense = sum((v * step for v, step in zip(order, strides(shape), strict=True)), Index())
    if index != dense or load.buffer.count != math.prod(shape):
        return None
    return dict(zip(order, unflatten(place, shape), strict=True))


def _is_affine_within(step: Contraction, kernel: Kernel) -> bool:
    """Whether indices are affine in rows and columns, without the sum; stores go along columns."""
    used = list(indices([kernel]))
    if any(isinstance(e, Accumulated) for index in used for e in walk(*index.loads)):
        return False
    is_even = all(
        index.is_stepped_by(step.row) and index.is_stepped_by(step.column) for index in used
    )
    return is_even and all(s.index.stride_of(step.column) in (0, 1) for s in kernel.stores)
