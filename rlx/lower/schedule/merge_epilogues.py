"""Let contractions compute the kernels that follow them element by element."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace

from ..lir.access import reads, writes
from ..lir.expr import Expr, Load
from ..lir.index import Index, Variable
from ..lir.program import Contraction, Kernel, Step, Store
from .elements import strides
from .loops import Table, expressions, reductions, substituted

MOST_STORES = 4


def merge_epilogues(steps: Sequence[Step]) -> list[Step]:
    """Put kernels that read a contraction's result at its own places into the contraction.

    before: a contraction storing `b[i*4 + j]`, then `kernel i < 8, j < 4: c[...] = exp(b[...])`;
    after: the contraction with both stores. A kernel moves only where all it reads is there.
    """
    merged: list[Step] = []
    for step in steps:
        joined = _join(merged, step) if isinstance(step, Kernel) else None
        if joined is None:
            merged.append(step)
        else:
            merged[joined[0]] = joined[1]
    return merged


def _join(steps: list[Step], kernel: Kernel) -> tuple[int, Contraction] | None:
    if any(True for _ in reductions([kernel])):
        return None
    needed = set(reads(kernel))
    for at in range(len(steps) - 1, -1, -1):
        step = steps[at]
        if needed & set(writes(step)):
            joined = _together(step, kernel) if isinstance(step, Contraction) else None
            return (at, joined) if joined else None
    return None


def _together(step: Contraction, kernel: Kernel) -> Contraction | None:
    if len(step.stores) + len(kernel.stores) > MOST_STORES:
        return None
    ours = {s.buffer: s for s in step.stores}
    loads = [e for e in expressions([kernel]) if isinstance(e, Load) and e.buffer in ours]
    table = _places(kernel.loops, loads[0], ours[loads[0].buffer])
    if table is None:
        return None

    def leaf(e: Expr) -> Expr | None:
        if isinstance(e, Load) and e.buffer in ours:
            store = ours[e.buffer]
            return store.expr if e.index.substitute(table) == store.index else None
        return None

    moved = substituted(kernel, (), table, leaf)
    left = {e.buffer for e in expressions([moved]) if isinstance(e, Load)}
    if left & set(ours):
        return None  # it reads elements of other places too
    return replace(step, stores=(*step.stores, *moved.stores))


def _places(loops: Sequence[Variable], load: Load, store: Store) -> Table | None:
    """The kernel's variables in those of the contraction, if it walks over the whole result."""
    shape = [v.extent for v in loops]
    is_dense = load.index == _dense(loops, shape) and load.buffer.size == math.prod(shape)
    if not is_dense:
        return None
    steps = strides(shape)
    return {
        v: store.index // step % v.extent if n else store.index // step
        for n, (v, step) in enumerate(zip(loops, steps, strict=True))
    }


def _dense(loops: Sequence[Variable], shape: Sequence[int]) -> Index:
    total = Index()
    for variable, stride in zip(loops, strides(shape), strict=True):
        total = total + variable * stride
    return total
