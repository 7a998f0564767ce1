"""Reductions of many columns as LLVM code: row after row.

A column's numbers lie a row apart. A loop down a few columns makes far steps, and the processor
fetches no memory ahead of it; row by row, memory is read in its own order. What has been combined
so far lies in a small table, `BLOCK` bytes of it, which stays in the fastest cache.

On a `batch_invariant` host the order of each sum is that of `sums.py`. Then there is a table for
each partial sum, to which a few rows in turn are added at once; so few that they do not crowd into
one set of a cache, as far from each other as they are.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

from ....ir.dims import static
from ....ir.types import Type
from ....lower.lir.expr import Expr, Load, Reduce, load, substitute, unconditional, walk
from ....lower.lir.index import Variable, as_index
from ....lower.lir.program import Buffer, Store
from ..llvm.text import Vector
from .scalar import combine
from .sums import PIECE, PRODUCTS, is_batch_invariant, partial_count
from .vectors import vector_lines

if TYPE_CHECKING:
    from .scope import Scope

BLOCK = 1 << 13  # bytes of results at a time
IN_TURNS = 1 << 15  # bytes of all tables of partial sums
ROUNDS = 6  # rows of a partial sum that are added to it at once
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
    (sizes,), counts = nests, {_partial_sums(scope, expr) for expr in found}
    if not all(isinstance(n, int) for n in sizes) or len(counts) > 1:
        return []
    # of several loops others begin a new piece for each round of the outer ones
    most = TOGETHER * PIECE if len(found[0].loops) == 1 else PIECE
    size, in_turns = math.prod(sizes) * found[0].dtype.itemsize, counts != {0}
    if size < 2 * MANY if in_turns else size < MANY or sizes[-1] > most:
        return []
    return found if all(_is_of_far_rows(scope, along, expr) for expr in found) else []


def _partial_sums(scope: Scope, expr: Reduce) -> int:
    """The number of partial sums; 0 for any order."""
    return partial_count(expr) if is_batch_invariant(scope, expr) else 0


def _is_of_far_rows(scope: Scope, along: Variable, expr: Reduce) -> bool:
    down, count = expr.loops[-1], _partial_sums(scope, expr)
    if expr.dtype.kind not in "fiu" or expr.combine in PRODUCTS:
        return False
    if count and (len(expr.loops) > 1 or down.extent <= count or expr.dtype.itemsize < 4):
        return False
    loads = [(e.index, e.dtype.itemsize) for e in expr.body.loads]
    far = FAR // 2 if count else FAR
    return any(i.stride_of(along) == 1 and i.stride_of(down) * n >= far for i, n in loads)


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
    sums = _partial_sums(scope, found[0])
    count, room = max(1, sums), IN_TURNS if sums else BLOCK
    block = max(1, room // count // bytes_each // lanes) * lanes
    first, which = Variable(along.extent), Variable(count)
    buffers = [Buffer("so_far", Type(expr.dtype, (count * block,)), "local") for expr in found]
    tables = {b: f.reserve(f"[{b.count} x {Vector(b.dtype.name).element}]", 64) for b in buffers}
    places = [load(b, which * block + as_index(along) - first) for b in buffers]
    scope = scope.inner({which: "0"}, pointers=scope.pointers | tables)
    with f.loop(*span, str(block)) as columns:
        scope.names[first] = columns.index
        end = f.emit(f"add i64 {columns.index}, {block}")
        end = f.intrinsic("umin", Vector("int64"), end, span[1])

        def lines(scopes: Sequence[Scope], body: Callable[[Sequence[Scope]], None]) -> None:
            def line(at: str, mask: str | None) -> None:
                body([s.inner({along: at}, lanes=lanes, along=along, mask=mask) for s in scopes])

            vector_lines(f, columns.index, end, lanes, line)

        def begin(at: Sequence[Scope]) -> None:
            for expr, place in zip(found, places, strict=True):
                at[0].store(Store(place.buffer, place.index, expr), at[0].value(expr.init))

        def end_with(at: Sequence[Scope]) -> None:
            at[0].values |= {e: at[0].value(p) for e, p in zip(found, places, strict=True)}
            finish(at[0])

        def end_tree(at: Sequence[Scope]) -> None:
            for expr, place in zip(found, places, strict=True):
                vector = Vector(expr.dtype.name, lanes)
                parts = [at[0].vector(expr.init), _tree(at[0], expr, which, place, range(sums))]
                at[0].values[expr] = combine(f, expr.combine, vector, *parts), True
            finish(at[0])

        def add(rows: Sequence[Scope], begins: bool) -> None:
            lines(rows, lambda at: _add(at, found, places, begins))

        if sums:
            (down,) = found[0].loops
            _in_turns(scope, down, which, add)
            lines([scope], end_tree)
            return
        lines([scope], begin)
        loops = found[0].loops
        _rows(scope, loops, lambda rows: lines(rows, lambda at: _combine(at, found, places)))
        lines([scope], end_with)


def _rows(scope: Scope, loops: Sequence[Variable], body: Callable[[Sequence[Scope]], None]) -> None:
    """Loops around `body`, which gets `TOGETHER` rows of the innermost one at a time."""
    f, down = scope.f, loops[0]
    if loops[1:]:
        with f.loop("0", f.number(down.extent)) as loop:
            _rows(scope.inner({down: loop.index}), loops[1:], body)
        return
    whole = down.extent // TOGETHER * TOGETHER
    for start, stop, many in ((0, whole, TOGETHER), (whole, down.extent, 1)):
        if start == stop:
            continue
        with f.loop(str(start), str(stop), str(many)) as loop:
            places = [f.emit(f"add i64 {loop.index}, {i}") for i in range(many)]
            body([scope.inner({down: place}) for place in places])


def _combine(rows: Sequence[Scope], found: Sequence[Reduce], places: Sequence[Load]) -> None:
    """The next numbers of each row, combined in pairs, then with what is so far."""
    f = rows[0].f
    for expr, place in zip(found, places, strict=True):
        vector, body = Vector(expr.dtype.name, rows[0].lanes), _over(expr, found[0])
        parts = [row.vector(body) for row in rows]
        while len(parts) > 1:
            pairs = zip(parts[::2], parts[1::2], strict=True)
            parts = [combine(f, expr.combine, vector, x, y) for x, y in pairs]
        total = combine(f, expr.combine, vector, rows[0].vector(place), parts[0])
        rows[0].store(Store(place.buffer, place.index, expr), (total, True))


def _over(expr: Reduce, other: Reduce) -> Expr:
    """The body of a reduction over the loops of another."""
    table = {v: as_index(w) for v, w in zip(expr.loops, other.loops, strict=True)}
    return substitute(expr.body, table)


def _in_turns(
    scope: Scope,
    down: Variable,
    which: Variable,
    body: Callable[[Sequence[Scope], bool], None],
) -> None:
    """Loops around `body`, which gets a few rows of one partial sum, and whether they begin it."""
    f, count = scope.f, static(which.extent)
    whole, rest = divmod(static(down.extent), count)

    def some(start: str, many: int, stop: int, begins: bool) -> None:
        with f.loop("0", str(stop)) as loop:
            first = f.emit(f"add i64 {start}, {loop.index}")
            places = [f.emit(f"add i64 {first}, {i * count}") for i in range(many)]
            body([scope.inner({which: loop.index, down: place}) for place in places], begins)

    many = -(-whole // -(-whole // ROUNDS))  # at once, about as often
    left, step = whole % many, many * count
    some("0", many, count, True)
    if whole - left > many:
        with f.loop(str(step), str((whole - left) * count), str(step)) as rounds:
            some(rounds.index, many, count, False)
    if left:
        some(str((whole - left) * count), left, count, False)
    if rest:
        some(str(whole * count), 1, rest, False)


def _add(
    rows: Sequence[Scope], found: Sequence[Reduce], places: Sequence[Load], begins: bool
) -> None:
    """Add the next numbers of each row to a partial sum, or begin it with them."""
    for expr, place in zip(found, places, strict=True):
        vector, body = Vector(expr.dtype.name, rows[0].lanes), _over(expr, found[0])
        terms = [row.vector(body) for row in rows]
        total = terms.pop(0) if begins else rows[0].vector(place)
        for term in terms:
            total = combine(rows[0].f, expr.combine, vector, total, term)
        rows[0].store(Store(place.buffer, place.index, expr), (total, True))


def _tree(scope: Scope, expr: Reduce, which: Variable, place: Load, sums: range) -> str:
    """The sum of partial sums."""
    if len(sums) == 1:
        return scope.inner({which: str(sums.start)}).vector(place)
    parts = [_tree(scope, expr, which, place, half) for half in (sums[::2], sums[1::2])]
    vector = Vector(expr.dtype.name, scope.lanes)
    return combine(scope.f, expr.combine, vector, *parts)
