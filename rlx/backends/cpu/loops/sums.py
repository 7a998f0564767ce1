"""Reductions as LLVM code: one for each lane, or one across all lanes.

The order in which numbers are added is the fastest for the loops around, unless a host is
`batch_invariant`. Then every sum goes in one order that depends on its own length only: as many
partial sums as fit `SUM_BYTES`, to which the terms go in turns, combined in halves.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Iterator, Sequence
from typing import TYPE_CHECKING

from ....ir.dims import static
from ....ir.types import Type, as_dtype, empty_result, neutral
from ....lower.lir.expr import (
    IN_TURN,
    Apply,
    Guard,
    Load,
    Reduce,
    load,
    substitute,
    unconditional,
    walk,
)
from ....lower.lir.index import Variable, as_index
from ....lower.lir.program import Buffer, Store
from ..llvm.text import Function, Vector, literal
from .pairs import IN_PAIRS, add_alone
from .scalar import combine, horizontal, register
from .vectors import (
    PARTIAL_BYTES,
    best_variable,
    choose_lanes,
    first_lanes,
    is_batch_invariant,
    lane_mask,
    partial_count,
    rest_and_whole,
    vector_lines,
)

if TYPE_CHECKING:
    from .scope import Scope

# Terms that are added one after another: the error of a sum grows with their number, not its own.
PIECE = 256
LARGEST_WINDOW = 32  # terms that are written one by one
PRODUCTS = (IN_TURN, IN_PAIRS)  # sums of products in the order of matrix products


def reduce_lanes(scope: Scope, expr: Reduce) -> str:
    """Reduce in each lane: plain loops around vector code."""
    vector = register(expr.dtype.name, scope.lanes)
    if is_batch_invariant(scope.host, expr):
        return _partial_sums(scope, expr, vector)
    initial = scope.f.constant(vector, expr.init.number)
    return _nest(expr, list(expr.loops), scope.inner(), vector, initial)


def _nest(expr: Reduce, loops: list[Variable], scope: Scope, vector: Vector, total: str) -> str:
    f = scope.f
    if not loops:
        return _with_term(scope, expr, vector, total)
    if expr.combine != IN_PAIRS and _is_window(expr, loops):
        for places in itertools.product(*(range(v.extent) for v in loops)):  # type: ignore
            inner = scope.inner({v: str(i) for v, i in zip(loops, places, strict=True)})
            total = _with_term(inner, expr, vector, total)
        return total
    if expr.combine == IN_PAIRS:
        return _pairs(expr, loops[0], scope, vector, total)
    extent = f.number(loops[0].extent)
    is_long = isinstance(loops[0].extent, int) and loops[0].extent > PIECE
    if not (is_long and vector.is_float and expr.combine == "add"):
        return _rounds(expr, loops, scope, vector, total, ("0", extent))
    with f.loop("0", extent, str(PIECE), carried=[(vector.text, total)]) as pieces:
        end = f.emit(f"add i64 {pieces.index}, {PIECE}")
        end = f.intrinsic("umin", Vector("int64"), end, extent)
        zero = f.constant(vector, 0)
        piece = _rounds(expr, loops, scope, vector, zero, (pieces.index, end))
        pieces.next = [combine(f, "add", vector, pieces.values[0], piece)]
    return pieces.values[0]


def _is_window(expr: Reduce, loops: list[Variable]) -> bool:
    """Whether there are few terms, which lie within bounds: known places make known masks."""
    count = math.prod(v.extent for v in loops)
    return (
        isinstance(count, int)
        and count <= LARGEST_WINDOW
        and any(isinstance(e, Guard) for e in walk(expr.body))
    )


def _with_term(scope: Scope, expr: Reduce, vector: Vector, total: str) -> str:
    """Add a term to the total; products are fused multiply-adds."""
    f, body = scope.f, expr.body
    how = "add" if expr.combine in PRODUCTS else expr.combine
    is_sum = vector.is_float and how == "add"
    if not (is_sum and isinstance(body, Apply) and body.instruction == "mul"):
        return combine(f, how, vector, total, scope.vector(body))
    x, y = (scope.vector(e) for e in body.args)
    if expr.combine == IN_PAIRS:
        return add_alone(f, vector, x, y, total)
    return f.intrinsic("fmuladd", vector, x, y, total)


def _pairs(expr: Reduce, along: Variable, scope: Scope, vector: Vector, total: str) -> str:
    """Add terms in pairs, of each the second first, and one that is left."""
    f = scope.f
    extent = f.number(along.extent)
    whole = f.emit(f"and i64 {extent}, -2")
    with f.loop("0", whole, "2", carried=[(vector.text, total)]) as loop:
        (total,) = loop.values
        for place in (f.emit(f"add i64 {loop.index}, 1"), loop.index):
            total = _with_term(scope.inner({along: place}), expr, vector, total)
        loop.next = [total]
    with f.loop(whole, extent, carried=[(vector.text, loop.values[0])]) as last:
        inner = scope.inner({along: last.index})
        last.next = [_with_term(inner, expr, vector, last.values[0])]
    return last.values[0]


def _rounds(
    expr: Reduce,
    loops: list[Variable],
    scope: Scope,
    vector: Vector,
    total: str,
    span: tuple[str, str],
) -> str:
    """The rounds of the outermost loop from one place to another."""
    f = scope.f
    with f.loop(*span, carried=[(vector.text, total)]) as loop:
        inner = scope.inner({loops[0]: loop.index})
        inner.hoist([expr.body], set(loops[1:]))
        loop.next = [_nest(expr, loops[1:], inner, vector, loop.values[0])]
    return loop.values[0]


def reduce_along(scope: Scope, expr: Reduce) -> str:
    """Reduce across lanes, which go along a reduced variable."""
    if expr.combine in PRODUCTS:
        single = scope.inner(lanes=1, along=None, mask=None)
        single.values = {e: r for e, r in single.values.items() if not r[1]}
        return reduce_lanes(single, expr)
    f, dtype, batch_invariant = scope.f, expr.dtype.name, is_batch_invariant(scope.host, expr)
    along = expr.loops[-1] if batch_invariant else best_variable([expr.body], expr.loops)
    others = [v for v in expr.loops if v is not along]
    lanes = choose_lanes(scope.host, [expr.body], along.extent)
    lanes = partial_count(expr) if batch_invariant else lanes
    vector = register(dtype, lanes)
    start = f.constant(vector, empty_result(expr.combine, as_dtype(vector.dtype)))
    outer = scope.inner(lanes=lanes, along=along, mask=None)
    outer.values = {e: r for e, r in outer.values.items() if not r[1]}

    def line(scope: Scope, sums: list[str]) -> list[str]:
        (total,) = sums
        rest, whole = rest_and_whole(f, along.extent, lanes)
        if isinstance(along.extent, int):
            mask = lane_mask(lanes, int(rest)) if rest != "0" else ""
        else:
            mask = first_lanes(f, lanes, rest) if lanes > 1 else ""
        if whole != "0":
            with f.loop("0", whole, str(lanes), [(vector.text, total)]) as loop:
                inner = scope.inner({along: loop.index})
                loop.next = [
                    combine(f, expr.combine, vector, loop.values[0], inner.vector(expr.body))
                ]
            total = loop.values[0]
        if mask:
            last = scope.inner({along: whole}, mask=mask).vector(expr.body)
            last = f.select(vector, mask, last, start)
            total = combine(f, expr.combine, vector, total, last)
        return [total]

    (sums,) = _through(outer, expr, others, along, vector, [start], line)
    single = register(dtype, 1)
    total = (_halved if batch_invariant else horizontal)(f, expr.combine, vector, sums)
    return combine(f, expr.combine, single, literal(single.dtype, expr.init.number), total)


def _through(
    scope: Scope,
    expr: Reduce,
    loops: Sequence[Variable],
    along: Variable,
    vector: Vector,
    sums: list[str],
    line: Callable[[Scope, list[str]], list[str]],
) -> list[str]:
    """Loops around a `line` of terms, which gives the sums after those that it got."""
    if not loops:
        return line(scope, sums)
    f, first = scope.f, loops[0]
    if _is_window(expr, list(expr.loops)):
        for place in map(str, range(static(first.extent))):
            sums = _through(scope.inner({first: place}), expr, loops[1:], along, vector, sums, line)
        return sums
    carried = [(vector.text, total) for total in sums]
    with f.loop("0", f.number(first.extent), carried=carried) as loop:
        inner = scope.inner({first: loop.index})
        inner.hoist([expr.body], {*loops[1:], along})
        loop.next = _through(inner, expr, loops[1:], along, vector, list(loop.values), line)
    return list(loop.values)


# -- one order for all ----------------------------------------------------------------------------


def _partial_sums(scope: Scope, expr: Reduce, vector: Vector) -> str:
    """The sums of all lanes, each in the order of `reduce_along`."""
    f, how, count = scope.f, expr.combine, partial_count(expr)
    along, others = expr.loops[-1], expr.loops[:-1]
    initial, length = f.constant(vector, expr.init.number), along.extent

    def term(i: int) -> str:
        return scope.inner({along: str(i)}).vector(expr.body)

    if not others and isinstance(length, int) and 0 < length <= count:
        # what partial sums begin with would change but the sign of a zero, which `initial` decides
        return combine(f, how, vector, initial, _tree(f, how, vector, range(length), term))
    # to begin with, of which no first term takes an addition
    nothing = f.constant(vector, neutral(how, as_dtype(vector.dtype)))
    together = PARTIAL_BYTES // max(expr.dtype.itemsize, 4)  # as many as there are registers for

    def line(scope: Scope, sums: list[str]) -> list[str]:
        made = []
        for start in range(0, count, together):
            made += _some(scope, expr, vector, sums[start : start + together], (start, count))
        return made

    sums = _through(scope.inner(), expr, others, along, vector, [nothing] * count, line)
    return combine(f, how, vector, initial, _tree(f, how, vector, range(count), sums.__getitem__))


def _tree(f: Function, how: str, vector: Vector, terms: range, term: Callable[[int], str]) -> str:
    """Combine terms as partial sums are: each with that half of their number further on."""
    if len(terms) == 1:
        return term(terms.start)
    parts = [_tree(f, how, vector, half, term) for half in (terms[::2], terms[1::2])]
    return combine(f, how, vector, *parts)


def _some(
    scope: Scope, expr: Reduce, vector: Vector, sums: list[str], which: tuple[int, int]
) -> list[str]:
    """Add the terms of neighbors among the partial sums: the first one's number, and of how many.

    Each pass over the terms reads those of its own.
    """
    f, along, (start, count) = scope.f, expr.loops[-1], which
    if not isinstance(along.extent, int):
        return _open_rows(scope, expr, vector, sums, which)

    def added(first: str, sums: list[str], many: int) -> list[str]:
        made = list(sums)
        for i in range(many):
            inner = scope.inner({along: f.emit(f"add i64 {first}, {start + i}")})
            made[i] = combine(f, expr.combine, vector, sums[i], inner.vector(expr.body))
        return made

    rest = along.extent % count
    whole = along.extent - rest
    if whole:
        carried = [(vector.text, total) for total in sums]
        with f.loop("0", str(whole), str(count), carried) as loop:
            loop.next = added(loop.index, list(loop.values), len(sums))
        sums = list(loop.values)
    return added(str(whole), sums, min(max(rest - start, 0), len(sums)))


def _open_rows(
    scope: Scope, expr: Reduce, vector: Vector, sums: list[str], which: tuple[int, int]
) -> list[str]:
    """Add a number of terms known at run time, one at a time, to the sums in turns."""
    f, along, how, (start, count) = scope.f, expr.loops[-1], expr.combine, which
    extent = f.number(along.extent)
    carried = [(vector.text, total) for total in sums]
    rounds = f.emit(f"udiv i64 {f.emit(f'add i64 {extent}, {count - 1}')}, {count}")
    with f.loop("0", rounds, carried=carried) as loop:
        first = f.emit(f"mul i64 {loop.index}, {count}")
        made = []
        for i, total in enumerate(loop.values, start):
            place = f.emit(f"add i64 {first}, {i}")
            following = f.emit(f"add i64 {place}, 1")
            stop = f.intrinsic("smin", Vector("int64"), extent, following)
            with f.loop(place, stop, carried=[(vector.text, total)]) as term:
                body = scope.inner({along: term.index}).vector(expr.body)
                term.next = [combine(f, how, vector, term.values[0], body)]
            made.append(term.values[0])
        loop.next = made
    return list(loop.values)


def _halved(f: Function, how: str, vector: Vector, x: str) -> str:
    """Combine the lanes of a vector in halves."""
    while vector.lanes > 1:
        half = Vector(vector.dtype, vector.lanes // 2)
        halves = range(half.lanes), range(half.lanes, vector.lanes)
        parts = [f.shuffle(vector, x, "poison", places) for places in halves]
        x, vector = combine(f, how, half, *parts), half
    return x


# -- many columns, row after row -------------------------------------------------------------------
#
# A column's numbers lie a row apart. A loop down a few columns makes far steps, and the processor
# fetches no memory ahead of it; row by row, memory is read in its own order. What has been combined
# so far lies in a small table, `BLOCK` bytes of it, which stays in the fastest cache. In the order
# for all there is a table for each partial sum, to which a few rows in turn are added at once; so
# few that they do not crowd into one set of a cache, as far from each other as they are.

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
    (sizes,), counts = nests, {_count_in_turns(scope, expr) for expr in found}
    if not all(isinstance(n, int) for n in sizes) or len(counts) > 1:
        return []
    # of several loops others begin a new piece for each round of the outer ones
    most = TOGETHER * PIECE if len(found[0].loops) == 1 else PIECE
    size, in_turns = math.prod(sizes) * found[0].dtype.itemsize, counts != {0}
    if size < 2 * MANY if in_turns else size < MANY or sizes[-1] > most:
        return []
    return found if all(_is_of_far_rows(scope, along, expr) for expr in found) else []


def _count_in_turns(scope: Scope, expr: Reduce) -> int:
    """The number of partial sums; 0 for any order."""
    return partial_count(expr) if is_batch_invariant(scope.host, expr) else 0


def _is_of_far_rows(scope: Scope, along: Variable, expr: Reduce) -> bool:
    down, count = expr.loops[-1], _count_in_turns(scope, expr)
    if expr.dtype.kind not in "fiu" or expr.combine in PRODUCTS:
        return False
    if count and (len(expr.loops) > 1 or down.extent <= count or expr.dtype.itemsize < 4):
        return False
    loads = [(e.index, e.dtype.itemsize) for e in expr.body.loads]
    least = FAR // 2 if count else FAR
    return any(i.stride_of(along) == 1 and i.stride_of(down) * n >= least for i, n in loads)


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
    sums = _count_in_turns(scope, found[0])
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
            for expr, place in zip(found, places, strict=True):
                at[0].values[expr] = (
                    _total(at[0], expr, which, place) if sums else at[0].value(place)
                )
            finish(at[0])

        def add(rows: Sequence[Scope], begins: bool) -> None:
            lines(rows, lambda at: _add(at, found, places, begins))

        loops = found[0].loops
        if sums:
            _in_turns(scope, loops[0], which, add)
        else:
            lines([scope], begin)
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


def _terms(
    rows: Sequence[Scope], found: Sequence[Reduce], places: Sequence[Load]
) -> Iterator[tuple[Reduce, Load, Vector, list[str]]]:
    """Each of the reductions, where its result is, and the next numbers of each row."""
    for expr, place in zip(found, places, strict=True):
        table = {v: as_index(w) for v, w in zip(expr.loops, found[0].loops, strict=True)}
        body = substitute(expr.body, table)
        vector = Vector(expr.dtype.name, rows[0].lanes)
        yield expr, place, vector, [row.vector(body) for row in rows]


def _combine(rows: Sequence[Scope], found: Sequence[Reduce], places: Sequence[Load]) -> None:
    """Combine the next numbers of each row in pairs, then with what is so far."""
    f = rows[0].f
    for expr, place, vector, parts in _terms(rows, found, places):
        while len(parts) > 1:
            pairs = zip(parts[::2], parts[1::2], strict=True)
            parts = [combine(f, expr.combine, vector, x, y) for x, y in pairs]
        total = combine(f, expr.combine, vector, rows[0].vector(place), parts[0])
        rows[0].store(Store(place.buffer, place.index, expr), (total, True))


def _in_turns(
    scope: Scope, down: Variable, which: Variable, body: Callable[[Sequence[Scope], bool], None]
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
    for expr, place, vector, terms in _terms(rows, found, places):
        total = terms.pop(0) if begins else rows[0].vector(place)
        for term in terms:
            total = combine(rows[0].f, expr.combine, vector, total, term)
        rows[0].store(Store(place.buffer, place.index, expr), (total, True))


def _total(scope: Scope, expr: Reduce, which: Variable, place: Load) -> tuple[str, bool]:
    """The sum of partial sums that lie in tables."""
    f, how, vector = scope.f, expr.combine, Vector(expr.dtype.name, scope.lanes)
    sums = range(static(which.extent))
    total = _tree(f, how, vector, sums, lambda i: scope.inner({which: str(i)}).vector(place))
    return combine(f, how, vector, scope.vector(expr.init), total), True
