"""Reductions as LLVM code: one for each lane, or one across all lanes.

The order in which numbers are added is the fastest for the loops around, unless a host is
`batch_invariant`. Then every sum goes in one order that depends on its own length only: as many
partial sums as fit `SUM_BYTES`, to which the terms go in turns, combined in halves.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

from ....ir.types import as_dtype, empty_result
from ....lower.lir.expr import Apply, Guard, Reduce, walk
from ....lower.lir.index import Variable
from ....lower.lir.program import Scan
from ..llvm.text import Function, Vector, literal
from .pairs import IN_PAIRS, add_alone
from .scalar import IN_TURN, combine, horizontal, register
from .vectors import (
    best_variable,
    choose_lanes,
    first_lanes,
    lane_mask,
    rest_and_whole,
)

if TYPE_CHECKING:
    from .scope import Scope

# Terms that are added one after another: the error of a sum grows with their number, not its own.
PIECE = 256
LARGEST_WINDOW = 32  # terms that are written one by one
PARTIAL_BYTES = 64  # a vector of the widest processors, so that they lose nothing
SUM_BYTES = 4 * PARTIAL_BYTES  # of sums: an addition takes as long as four vectors of others
PRODUCTS = (IN_TURN, IN_PAIRS)  # sums of matrix products that are loops


def reduce_lanes(scope: Scope, expr: Reduce) -> str:
    """Reduce in each lane: plain loops around vector code."""
    vector = register(expr.dtype.name, scope.lanes)
    if is_batch_invariant(scope, expr):
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
    f, dtype, batch_invariant = scope.f, expr.dtype.name, is_batch_invariant(scope, expr)
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
    carried = [(vector.text, total) for total in sums]
    with f.loop("0", f.number(first.extent), carried=carried) as loop:
        inner = scope.inner({first: loop.index})
        inner.hoist([expr.body], {*loops[1:], along})
        loop.next = _through(inner, expr, loops[1:], along, vector, list(loop.values), line)
    return list(loop.values)


# -- one order for all ----------------------------------------------------------------------------


def is_batch_invariant(scope: Scope, expr: Reduce | Scan) -> bool:
    """Whether a sum is to have an order that does not depend on the loops around."""
    dtype = expr.dtype if isinstance(expr, Reduce) else expr.expr.dtype
    is_rounded = expr.combine in ("add", "mul") and dtype.kind not in "biu"
    return scope.host.batch_invariant and is_rounded


def partial_count(expr: Reduce) -> int:
    """The number of partial sums."""
    count, extent = SUM_BYTES // max(expr.dtype.itemsize, 4), expr.loops[-1].extent
    while isinstance(extent, int) and count > 1 and count // 2 >= extent:
        count //= 2
    return count


def _partial_sums(scope: Scope, expr: Reduce, vector: Vector) -> str:
    """The sums of all lanes, each in the order of `reduce_along`."""
    f, how, count = scope.f, expr.combine, partial_count(expr)
    start, length = f.constant(vector, expr.init.number), expr.loops[-1].extent
    if len(expr.loops) == 1 and isinstance(length, int) and 0 < length <= count:
        return combine(f, how, vector, start, _few_terms(scope, expr, vector, range(length)))
    zero = f.constant(vector, empty_result(how, as_dtype(vector.dtype)))
    together = PARTIAL_BYTES // max(expr.dtype.itemsize, 4)  # as many as there are registers for

    def line(scope: Scope, sums: list[str]) -> list[str]:
        made = []
        for start in range(0, count, together):
            made += _some(scope, expr, vector, sums[start : start + together], (start, count))
        return made

    along, others = expr.loops[-1], expr.loops[:-1]
    sums = _through(scope.inner(), expr, others, along, vector, [zero] * count, line)
    while len(sums) > 1:
        half = len(sums) // 2
        pairs = zip(sums[:half], sums[half:], strict=True)
        sums = [combine(f, how, vector, x, y) for x, y in pairs]
    return combine(f, how, vector, start, sums[0])


def _few_terms(scope: Scope, expr: Reduce, vector: Vector, terms: range) -> str:
    """The sum of terms each of which is a partial sum of its own.

    What partial sums begin with is left out. It would change nothing but the sign of a zero, which
    a sum has from its initial number.
    """
    if len(terms) == 1:
        return scope.inner({expr.loops[-1]: str(terms.start)}).vector(expr.body)
    parts = [_few_terms(scope, expr, vector, half) for half in (terms[::2], terms[1::2])]
    return combine(scope.f, expr.combine, vector, *parts)


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
        parts = []
        for start in (0, half.lanes):
            if half.lanes == 1:
                parts.append(f.emit(f"extractelement {vector.text} {x}, i64 {start}"))
            else:
                parts.append(f.shuffle(vector, x, "poison", range(start, start + half.lanes)))
        x, vector = combine(f, how, half, *parts), half
    return x
