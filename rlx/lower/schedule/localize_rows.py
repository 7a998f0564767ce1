"""Keep what kernels of a row pass on in a small block instead of a large array."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import replace

from ...ir.dims import Dim
from ...ir.types import Type
from ..lir.access import reads, writes
from ..lir.expr import Load
from ..lir.index import Index, Variable
from ..lir.program import Buffer, Kernel, Rows, Step
from ..lir.rebind import rebind
from .loops import expressions


def localize_rows(steps: Sequence[Step], limit: int) -> list[Step]:
    """Make temporaries local that only one `Rows` uses.

    before: `rows i < 8:` whose kernels pass on `b3[i*32 + j]`, an array of 8 rows; after: they
    pass on `b3[j]`, one row for each thread.

    It is done as long as a row fits in `limit` bytes.
    """
    users = Counter(b for step in steps for b in {*reads(step), *writes(step)})
    return [_localized(s, users, limit) if isinstance(s, Rows) else s for s in steps]


def _localized(rows: Rows, users: Counter[Buffer], limit: int) -> Rows:
    made: dict[Buffer, Buffer] = {}
    total, places = 0, _places(rows.kernels)
    for buffer in writes(rows):
        if buffer.kind != "temporary" or users[buffer] > 1:
            continue
        highest = [_inner(index, rows.loops).high for index in places[buffer]]
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
        return made[buffer], _inner(index, rows.loops)

    moved = rebind(rows, {}, move) if made else rows
    return replace(moved, locals=tuple(made.values()))


def _places(kernels: Sequence[Kernel]) -> dict[Buffer, list[Index]]:
    """Every index at which the kernels store to or load from each buffer."""
    places: dict[Buffer, list[Index]] = {}
    loads = [e for e in expressions(kernels) if isinstance(e, Load)]
    for each in (*(s for k in kernels for s in k.stores), *loads):
        places.setdefault(each.buffer, []).append(each.index)
    return places


def _inner(index: Index, outer: Sequence[Variable]) -> Index:
    """The index within a row."""
    return Index(tuple((a, c) for a, c in index.terms if a not in outer), index.constant)
