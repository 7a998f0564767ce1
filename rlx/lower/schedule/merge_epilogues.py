"""Let contractions compute the kernels that follow them element by element."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Sequence
from dataclasses import replace

from ...ir.dims import likely
from ..lir.access import reads, writes
from ..lir.expr import Accumulated, Expr, Load, walk
from ..lir.index import Index, Variable
from ..lir.program import Buffer, Contraction, Kernel, Step
from .elements import strides, unflatten
from .loops import Table, expressions, indices, reductions, substituted

MOST_STORES = 6
LARGEST = 200  # expressions in one epilogue, a bound for code size and recursion


def merge_epilogues(steps: Sequence[Step]) -> list[Step]:
    """Put kernels into the contraction whose result they read.

    before: a contraction storing `b[i*4 + j]`, then `kernel i < 8, j < 4: c[...] = exp(b[...])`;
    after: the contraction with both stores. A kernel moves only where all it reads is there.

    They must read it at its own places.
    """
    merged: list[Step] = []
    writer: dict[Buffer, int] = {}  # the number of the last step that writes a buffer
    readers = Counter(b for step in steps for b in set(reads(step)))
    for step in steps:
        at = max((writer[b] for b in reads(step) if b in writer), default=None)
        joined = None
        if isinstance(step, Kernel) and at is not None:
            joined = _joined(merged[at], step, readers)
        if joined is None or at is None:
            at = len(merged)
            merged.append(step)
        else:
            merged[at] = joined
        writer.update(dict.fromkeys(writes(step), at))
    return merged


def _joined(step: Step, kernel: Kernel, readers: Counter[Buffer]) -> Contraction | None:
    if not isinstance(step, Contraction) or any(True for _ in reductions([kernel])):
        return None
    joined = _together(step, kernel)
    if joined is None and _is_only_for(step, readers):
        joined = _together(_swapped(step), kernel)
    return joined


def _is_only_for(step: Contraction, readers: Counter[Buffer]) -> bool:
    """Whether the step's one result is a temporary that one other step reads."""
    return len(step.stores) == 1 and all(
        s.buffer.kind == "temporary" and readers[s.buffer] == 1 for s in step.stores
    )


def _swapped(step: Contraction) -> Contraction:
    """The transposed product: rows are columns, the left operand is the right one."""
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
    """A kernel's variables for which it loads a place of an array.

    It is None unless the kernel walks over the whole array.
    """
    index = load.index
    order = sorted(loops, key=lambda v: -likely(index.stride_of(v)))
    shape = [v.extent for v in order]
    dense = sum((v * step for v, step in zip(order, strides(shape), strict=True)), Index())
    if index != dense or load.buffer.count != math.prod(shape):
        return None
    return dict(zip(order, unflatten(place, shape), strict=True))


def _is_affine_within(step: Contraction, kernel: Kernel) -> bool:
    """Whether all indices step evenly along rows and columns; none is made of the sum.

    Stores must go along columns.
    """
    used = list(indices([kernel]))
    if any(isinstance(e, Accumulated) for index in used for e in walk(*index.loads)):
        return False
    is_even = all(
        index.is_stepped_by(step.row) and index.is_stepped_by(step.column) for index in used
    )
    return is_even and all(s.index.stride_of(step.column) in (0, 1) for s in kernel.stores)
