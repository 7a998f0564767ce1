"""Let contractions store where a copy would put their results."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import replace

from ..lir.access import reads, writes
from ..lir.digits import Digits
from ..lir.expr import Load
from ..lir.index import Index
from ..lir.program import Buffer, Contraction, Kernel, Step, Store
from .merge_epilogues import walk_over


def forward_copies(steps: Sequence[Step]) -> list[Step]:
    """Let contractions store where a copy would put their results.

    before: contractions storing `b[i*8 + j]` and `b[i*8 + j + 4]`, each for `i < 6, j < 4`, then
    `kernel i < 2, j < 24: c[i*99 + j] = b[i*24 + j]`; after: the contractions store
    `c[(i // 3)*99 + (i % 3)*8 + j]` and so on. The copied array is a temporary, read only there.
    """
    left: list[Step | None] = list(steps)
    readers = Counter(b for step in steps for b in set(reads(step)))
    writers: dict[Buffer, list[int]] = {}
    for number, step in enumerate(steps):
        for buffer in writes(step):
            writers.setdefault(buffer, []).append(number)
    for number, step in enumerate(steps):
        origin = _origin(step)
        if origin is None or readers[origin] != 1:
            continue
        assert isinstance(step, Kernel)
        (target,) = step.stores
        moved = [_moved(left[i], origin, step) for i in writers[origin]]
        first = min(writers[origin])
        is_read = any(target.buffer in reads(s) for s in left[first:number] if s is not None)
        if is_read or not all(moved):
            continue
        for i, new in zip(writers[origin], moved, strict=True):
            left[i] = new
        writers.setdefault(target.buffer, []).extend(writers[origin])
        left[number] = None
    return [step for step in left if step is not None]


def _origin(step: Step) -> Buffer | None:
    """The temporary that a kernel does no more than copy."""
    if not isinstance(step, Kernel) or len(step.stores) != 1:
        return None
    (store,) = step.stores
    if not isinstance(store.expr, Load) or store.expr.buffer.kind != "temporary":
        return None
    return store.expr.buffer


def _moved(step: Step | None, origin: Buffer, copy: Kernel) -> Contraction | None:
    """A contraction that stores what it has put into `origin` where the copy puts it."""
    if not isinstance(step, Contraction) or not step.is_static:
        return None
    (target,) = copy.stores
    assert isinstance(target.expr, Load), "it is a copy"
    stores = []
    for store in step.stores:
        if store.buffer is not origin:
            stores.append(store)
            continue
        table = walk_over(copy.loops, target.expr, store.index)
        index = target.index.substitute(table) if table is not None else None
        if index is None or not is_even(step, index):
            return None
        stores.append(Store(target.buffer, index, store.expr))
    return replace(step, stores=tuple(stores))


def is_even(step: Contraction, index: Index) -> bool:
    """Whether an index steps along the columns, and evenly with each digit of the row."""
    extents = [v.extent for v in (step.row, step.column)]
    if index.stride_of(step.column) != 1 or not index.is_stepped_by(step.column) or 1 in extents:
        return False
    digits = Digits.of(step.row, [index])
    cut = index.substitute({step.row: digits.index})
    return all(cut.is_stepped_by(part) for part in digits.parts)
