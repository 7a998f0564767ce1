"""Keep what kernels of a row pass on in a small block instead of a large array."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import replace

from ...ir.dims import Dim
from ...ir.types import Type
from ..lir.access import reads, writes
from ..lir.expr import Expr, Load, load
from ..lir.index import Index, Variable
from ..lir.program import Buffer, Kernel, Rows, Step, Store
from .loops import expressions, substituted


def localize_rows(steps: Sequence[Step], limit: int) -> list[Step]:
    """Make temporaries local that only one `Rows` uses.

    before: `rows i < 8:` whose kernels pass on `b3[i*32 + j]`, an array of 8 rows; after: they
    pass on `b3[j]`, one row for each thread.

    It is done as long as a row fits in `limit` bytes.
    """
    users = Counter(b for step in steps for b in {*reads(step), *writes(step)})
    return [_localized(s, users, limit) if isinstance(s, Rows) else s for s in steps]


def _localized(rows: Rows, users: Counter[Buffer], limit: int) -> Rows:
    kernels, made, total = rows.kernels, [], 0
    for buffer in writes(rows):
        if buffer.kind != "temporary" or users[buffer] > 1:
            continue
        highest = [_inner(index, rows.loops).high for index in _places(kernels, buffer)]
        if any(isinstance(high, Dim) for high in highest):
            continue  # a thread's block has a fixed size
        size = 1 + max(highest)  # type: ignore[type-var]
        local = Buffer(buffer.name, Type(buffer.number_dtype, (size,)), "local")
        total += -(-local.nbytes // 64) * 64
        if total > limit:
            break
        kernels = tuple(_moved(kernel, rows.loops, buffer, local) for kernel in kernels)
        made.append(local)
    return replace(rows, kernels=kernels, locals=tuple(made))


def _places(kernels: Sequence[Kernel], buffer: Buffer) -> list[Index]:
    """Every index at which the kernels store to or load from a buffer."""
    stored = [s.index for k in kernels for s in k.stores if s.buffer is buffer]
    loads = (e for e in expressions(kernels) if isinstance(e, Load))
    return stored + [e.index for e in loads if e.buffer is buffer]


def _inner(index: Index, outer: Sequence[Variable]) -> Index:
    """The index within a row."""
    return Index(tuple((a, c) for a, c in index.terms if a not in outer), index.constant)


def _moved(kernel: Kernel, outer: Sequence[Variable], old: Buffer, new: Buffer) -> Kernel:
    def leaf(e: Expr) -> Expr | None:
        if isinstance(e, Load) and e.buffer is old:
            return load(new, _inner(e.index, outer))
        return None

    kernel = substituted(kernel, kernel.loops, {}, leaf)
    stores = (
        Store(new, _inner(s.index, outer), s.expr) if s.buffer is old else s for s in kernel.stores
    )
    return replace(kernel, stores=tuple(stores))
