"""Reductions of many columns, row after row, as LLVM code.

A column's numbers lie a row apart. A loop down a few columns makes far steps, and the processor
fetches no memory ahead of it; row by row, memory is read in its own order. What has been combined
so far lies in a small table, `BLOCK` bytes of it, which stays in the fastest cache.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence

from ....ir.types import Type
from ....lower.lir.expr import Load, Reduce, load, substitute, unconditional, walk
from ....lower.lir.index import Variable, as_index
from ....lower.lir.program import Buffer, Store
from ..llvm.text import Vector
from .scalar import IN_TURN, combine
from .scope import Scope
from .sums import PIECE, is_batch_invariant
from .vectors import vector_lines

BLOCK = 1 << 13  # bytes of results at a time
TOGETHER = 4  # rows that are combined before they meet the results
FAR = 1 << 11  # bytes from row to row
MANY = 1 << 18  # bytes: fewer stay in a cache, where any order is as good


def reduced_by_rows(
    scope: Scope, loops: Sequence[Variable], along: Variable, stores: Sequence[Store]
) -> list[Reduce]:
    """The reductions of a kernel, if all are of columns with far rows."""
    exprs = [store.expr for store in stores]
    found = [e for e in unconditional(exprs) if isinstance(e, Reduce)]
    if len(found) != sum(isinstance(e, Reduce) for e in walk(*exprs)):
        return []
    nests = {tuple(v.extent for v in (*loops, *expr.loops)) for expr in found}
    if len(nests) != 1:
        return []
    (sizes,) = nests
    # of several loops others begin a new piece for each round of the outer ones
    most = TOGETHER * PIECE if len(found[0].loops) == 1 else PIECE
    if not all(isinstance(n, int) for n in sizes) or sizes[-1] > most:
        return []
    if math.prod(sizes) * found[0].dtype.itemsize < MANY:
        return []
    return found if all(_is_of_far_rows(scope, along, expr) for expr in found) else []


def _is_of_far_rows(scope: Scope, along: Variable, expr: Reduce) -> bool:
    is_in_order = is_batch_invariant(scope, expr) or expr.combine == IN_TURN
    if expr.dtype.kind not in "fiu" or is_in_order:
        return False
    down, loads = expr.loops[-1], [(e.index, e.dtype.itemsize) for e in expr.body.loads]
    return any(i.stride_of(along) == 1 and i.stride_of(down) * n >= FAR for i, n in loads)


def emit_by_rows(
    scope: Scope,
    along: Variable,
    lanes: int,
    found: Sequence[Reduce],
    span: tuple[str, str],
    finish: Callable[[Scope], None],
) -> None:
    """Reductions of the columns in a span; `finish` does the rest for some."""
    f, bytes_each = scope.f, sum(expr.dtype.itemsize for expr in found)
    block, first = max(1, BLOCK // bytes_each // lanes) * lanes, Variable(along.extent)
    buffers = [Buffer("so_far", Type(expr.dtype, (block,)), "local") for expr in found]
    tables = {b: f.reserve(f"[{block} x {Vector(b.dtype.name).element}]", 64) for b in buffers}
    places = [load(b, as_index(along) - first) for b in buffers]
    scope = scope.inner(pointers=scope.pointers | tables)
    with f.loop(*span, str(block)) as columns:
        scope.names[first] = columns.index
        end = f.emit(f"add i64 {columns.index}, {block}")
        end = f.intrinsic("umin", Vector("int64"), end, span[1])

        def lines(scopes: Sequence[Scope], body: Callable[[Sequence[Scope]], None]) -> None:
            def line(at: str, mask: str | None) -> None:
                inner = [s.inner(lanes=lanes, along=along, mask=mask) for s in scopes]
                for each in inner:
                    each.names[along] = at
                body(inner)

            vector_lines(f, columns.index, end, lanes, line)

        def begin(at: Sequence[Scope]) -> None:
            for expr, place in zip(found, places, strict=True):
                at[0].store(Store(place.buffer, place.index, expr), at[0].value(expr.init))

        def end_with(at: Sequence[Scope]) -> None:
            at[0].values |= {e: at[0].value(p) for e, p in zip(found, places, strict=True)}
            finish(at[0])

        lines([scope], begin)
        loops = found[0].loops
        _rows(scope, loops, lambda rows: lines(rows, lambda at: _combine(at, found, places)))
        lines([scope], end_with)


def _rows(scope: Scope, loops: Sequence[Variable], body: Callable[[Sequence[Scope]], None]) -> None:
    """Loops around `body`, which gets `TOGETHER` rows of the innermost one at a time."""
    f, down = scope.f, loops[0]
    if loops[1:]:
        with f.loop("0", f.number(down.extent)) as loop:
            inner = scope.inner()
            inner.names[down] = loop.index
            _rows(inner, loops[1:], body)
        return
    whole = down.extent // TOGETHER * TOGETHER
    for start, stop, many in ((0, whole, TOGETHER), (whole, down.extent, 1)):
        if start == stop:
            continue
        with f.loop(str(start), str(stop), str(many)) as loop:
            rows = [scope.inner() for _ in range(many)]
            for i, row in enumerate(rows):
                row.names[down] = f.emit(f"add i64 {loop.index}, {i}")
            body(rows)


def _combine(rows: Sequence[Scope], found: Sequence[Reduce], places: Sequence[Load]) -> None:
    """The next numbers of each row, combined in pairs, then with what is so far."""
    f = rows[0].f
    for expr, place in zip(found, places, strict=True):
        vector = Vector(expr.dtype.name, rows[0].lanes)
        table = {v: as_index(w) for v, w in zip(expr.loops, found[0].loops, strict=True)}
        body = substitute(expr.body, table)
        parts = [row.vector(body) for row in rows]
        while len(parts) > 1:
            pairs = zip(parts[::2], parts[1::2], strict=True)
            parts = [combine(f, expr.combine, vector, x, y) for x, y in pairs]
        total = combine(f, expr.combine, vector, rows[0].vector(place), parts[0])
        rows[0].store(Store(place.buffer, place.index, expr), (total, True))
