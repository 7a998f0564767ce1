"""Loops whose rounds go in order: prefix scans, and scatters."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import nullcontext

import numpy as np

from ....ir.dims import likely
from ....ir.record import record
from ....ir.types import as_dtype, neutral
from ....lower.lir.expr import const, guard, load
from ....lower.lir.index import Index, Variable, as_index
from ....lower.lir.program import Scan, Scatter, Store
from ..llvm.host import Host
from ..llvm.text import Function, Vector
from .kernels import Layout, buffers_of, nest, open_scope, part_range
from .scalar import combine, convert, register
from .scope import Scope, all_hold
from .vectors import (
    PARTIAL_BYTES,
    best_variable,
    choose_lanes,
    first_lanes,
    is_batch_invariant,
    rest_and_whole,
    vector_lines,
)

BLOCK = 4096  # bytes of a line that are combined before the next line


def emit_scan(f: Function, scan: Scan, layout: Layout, host: Host, split: bool) -> None:
    """Emit a prefix scan: a loop in order, inside of the others."""
    exprs = [scan.expr, *scan.index.loads]
    scope = open_scope(f, layout, host, [*buffers_of(exprs), scan.buffer])
    beside = loop_beside(scan)
    others = [v for v in scan.loops if v is not beside]

    def lines(inner: Scope) -> None:
        if beside is None:
            _along(inner, scan)
        else:
            _beside(inner, scan, beside, split and not others)

    nest(scope, others, lines, split)


def loop_beside(scan: Scan) -> Variable | None:
    """The loop that lanes go along if they do not go along the line."""
    if not scan.loops:
        return None
    candidate = scan.loops[-1]
    is_best = best_variable([scan.expr], [candidate, scan.along]) is candidate
    return candidate if is_best else None


# -- lanes beside each other --------------------------------------------------------------------


def _beside(scope: Scope, scan: Scan, beside: Variable, split: bool) -> None:
    """Combine blocks of many lines, each at a place before the next place."""
    f, extent = scope.f, scope.f.number(beside.extent)
    is_in_groups = is_batch_invariant(scope.host, scan)
    most = 1 if is_in_groups else 4
    lanes = choose_lanes(scope.host, [scan.expr], beside.extent, most)
    vector = register(scan.expr.dtype.name, lanes)
    size = max(
        lanes, min(BLOCK // scan.expr.dtype.itemsize, 1 << (likely(beside.extent) - 1).bit_length())
    )
    table = f.reserve(f"[{size // lanes} x {vector.text}]", 64)
    start, stop = part_range(f, beside.extent, lanes) if split else ("0", extent)
    with f.loop(start, stop, str(size)) as block:
        end = f.intrinsic("smin", Vector("int64"), f.emit(f"add i64 {block.index}, {size}"), stop)

        def slot(at: str) -> str:
            return f.offset(table, vector.element, f.emit(f"sub i64 {at}, {block.index}"))

        lines = _Lines(scope, scan, beside, vector, (block.index, end), slot)
        (lines.in_groups if is_in_groups else lines.one_by_one)()


@record
class _Lines:
    """Lines beside each other, what has been combined of each so far, and a span of them."""

    scope: Scope
    scan: Scan
    beside: Variable
    vector: Vector
    span: tuple[str, str]
    slot: Callable[[str], str]  # where what is so far lies, of the lines from a place on

    def one_by_one(self) -> None:
        """Combine the number at a place of each line, before the next place."""
        f, scan, vector = self.scope.f, self.scan, self.vector
        with f.loop("0", f.number(scan.along.extent)) as loop:
            is_first = f.emit(f"icmp eq i64 {loop.index}, 0")
            place = _place(f, scan, loop.index)

            def step(at: str, mask: str | None) -> None:
                inner = self._at(at, mask, place)
                value = inner.vector(scan.expr)
                both = combine(f, scan.combine, vector, self._load(at), value)
                total = f.emit(f"select i1 {is_first}, {vector.text} {value}, {vector.text} {both}")
                self._store(at, total)
                _put(inner, scan, total)

            vector_lines(f, *self.span, vector.lanes, step)

    def in_groups(self) -> None:
        """Combine groups of places in the order of `_along`, whose lanes they are there."""
        f, scan, extent = self.scope.f, self.scan, self.scan.along.extent
        count = _group(scan)
        start = f.constant(self.vector, neutral(scan.combine, as_dtype(self.vector.dtype)))
        vector_lines(f, *self.span, self.vector.lanes, lambda at, mask: self._store(at, start))
        left, whole = rest_and_whole(f, extent, count)

        def group(first: str, many: str) -> None:
            vector_lines(
                f, *self.span, self.vector.lanes,
                lambda at, mask: self._group(at, mask, first, many, start),
            )  # fmt: skip

        with f.loop("0", whole, str(count)) as loop:
            at = loop.index
            if scan.reverse:
                at = f.emit(f"sub i64 {f.emit(f'sub i64 {f.number(extent)}, {count}')}, {at}")
            group(at, str(count))
        if left != "0":
            with f.when(f.emit(f"icmp ne i64 {left}, 0")):
                group("0" if scan.reverse else whole, left)

    def _group(self, at: str, mask: str | None, first: str, many: str, start: str) -> None:
        """Combine so many places from the first on."""
        f, scan, vector, count = self.scope.f, self.scan, self.vector, _group(self.scan)
        numbers, are_there = [str(i) for i in range(count)], [""] * count
        if many != str(count):
            are_there = [f.emit(f"icmp slt i64 {i}, {many}") for i in numbers]
            last = f.emit(f"sub i64 {many}, 1")
            numbers = [f.intrinsic("smin", Vector("int64"), i, last) for i in numbers]
        lines = [self._at(at, mask, f.emit(f"add i64 {first}, {i}")) for i in numbers]
        values = [line.vector(scan.expr) for line in lines]
        if many != str(count):
            values = [
                f.emit(f"select i1 {there}, {vector.text} {x}, {vector.text} {start}")
                for there, x in zip(are_there, values, strict=True)
            ]
        for i in range(count.bit_length() - 1):
            nothing, step = [start] * (1 << i), 1 << i
            before = [*values[step:], *nothing] if scan.reverse else [*nothing, *values[:-step]]
            pairs = zip(before, values, strict=True)
            values = [combine(f, scan.combine, vector, x, y) for x, y in pairs]
        before = self._load(at)
        totals = [combine(f, scan.combine, vector, before, x) for x in values]
        for line, there, total in zip(lines, are_there, totals, strict=True):
            with f.when(there) if there else nullcontext():
                _put(line, scan, total)
        self._store(at, totals[0 if scan.reverse else -1])

    def _at(self, at: str, mask: str | None, place: str) -> Scope:
        places = {self.scan.along: place, self.beside: at}
        return self.scope.inner(places, lanes=self.vector.lanes, along=self.beside, mask=mask)

    def _load(self, at: str) -> str:
        align = self.scan.expr.dtype.itemsize
        return self.scope.f.emit(f"load {self.vector.text}, ptr {self.slot(at)}, align {align}")

    def _store(self, at: str, x: str) -> None:
        align = self.scan.expr.dtype.itemsize
        self.scope.f.do(f"store {self.vector.text} {x}, ptr {self.slot(at)}, align {align}")


def _group(scan: Scan) -> int:
    """How many numbers of a line are combined with each other before with those before them.

    That is how sums go that shall not depend on the loops around, on all processors.
    """
    return PARTIAL_BYTES // max(scan.expr.dtype.itemsize, 4)


def _place(f: Function, scan: Scan, number: str) -> str:
    """The place along the line of a round."""
    if not scan.reverse:
        return number
    return f.emit(f"sub i64 {f.number(scan.along.extent - 1)}, {number}")


def _put(scope: Scope, scan: Scan, total: str) -> None:
    text = convert(scope.f, scan.expr.dtype.name, scan.buffer.number_dtype.name, scope.lanes, total)
    scope.store(Store(scan.buffer, scan.index, scan.expr), (text, scope.lanes > 1))


# -- lanes along the line -----------------------------------------------------------------------


def _along(scope: Scope, scan: Scan) -> None:
    """Combine the lanes of a vector, then all of them with what was before."""
    f, extent = scope.f, scope.f.number(scan.along.extent)
    lanes = choose_lanes(scope.host, [scan.expr], scan.along.extent, most=1)
    lanes = _group(scan) if is_batch_invariant(scope.host, scan) else lanes
    vector = register(scan.expr.dtype.name, lanes)
    start = f.constant(vector, neutral(scan.combine, as_dtype(vector.dtype)))
    left, whole = rest_and_whole(f, scan.along.extent, lanes)

    def step(at: str, before: str, mask: str | None) -> str:
        inner = scope.inner({scan.along: at}, lanes=lanes, along=scan.along, mask=mask)
        value = inner.vector(scan.expr)
        if mask is not None:
            value = f.select(vector, mask, value, start)
        sums = _combined_lanes(f, scan, vector, value, start)
        _put(inner, scan, combine(f, scan.combine, vector, before, sums))
        last = 0 if scan.reverse else lanes - 1
        total = f.shuffle(vector, sums, start, [last] * lanes) if lanes > 1 else sums
        return combine(f, scan.combine, vector, before, total)

    with f.loop("0", whole, str(lanes), [(vector.text, start)]) as loop:
        at = loop.index
        if scan.reverse:
            at = f.emit(f"sub i64 {f.emit(f'sub i64 {extent}, {lanes}')}, {at}")
        loop.next = [step(at, loop.values[0], None)]
    if left != "0":
        with f.when(f.emit(f"icmp ne i64 {left}, 0")):
            at = "0" if scan.reverse else whole
            step(at, loop.values[0], first_lanes(f, lanes, left))


def _combined_lanes(f: Function, scan: Scan, vector: Vector, x: str, start: str) -> str:
    """Combine each lane with all before it: with the one before, with two, with four."""
    lanes, step = vector.lanes, 1
    while step < lanes:
        if scan.reverse:
            places = [*range(step, lanes), *[lanes] * step]
        else:
            places = [*[lanes] * step, *range(lanes - step)]
        x = combine(f, scan.combine, vector, f.shuffle(vector, x, start, places), x)
        step *= 2
    return x


# -- scatters: numbers combined into a buffer at computed places ----------------------------------


MOST_LANES = 64  # the bits of a word
MOST_UNROLLED = 16
BOOL = np.dtype(bool)


def shared_loop(scatter: Scatter) -> Variable | None:
    """The loop whose rounds threads can share: they write to different places."""
    return max(scatter.apart, key=lambda v: likely(v.extent), default=None)


def emit_scatter(f: Function, scatter: Scatter, layout: Layout, host: Host, split: bool) -> None:
    """Emit a scatter, in order.

    A last axis that moves as a block is vectorized. Else indices and updates of some neighbors are
    computed in vectors, and combined one by one.
    """
    exprs = [scatter.expr, *scatter.index.loads, *(e for b in scatter.bounds for e in b[0].loads)]
    scope = open_scope(f, layout, host, [*buffers_of(exprs), scatter.buffer])
    loops = list(scatter.loops)
    if not loops:
        _combine_into(scope, scatter)
        return
    along, shared = loops[-1], shared_loop(scatter) if split else None
    is_block = _moves_as_block(scatter, along)
    lanes = choose_lanes(host, exprs, along.extent, most=4 if is_block else 1)
    if not is_block and (scatter.expr.dtype == BOOL or not 4 <= lanes <= MOST_LANES):
        loops.sort(key=lambda v: v is not shared)
        nest(scope, loops, lambda inner: _combine_into(inner, scatter), split, exprs)
        return
    combine_all = _combine_into if is_block else _combine_each
    others = sorted(loops[:-1], key=lambda v: v is not shared)

    def lines(inner: Scope) -> None:
        def block(at: str, mask: str | None) -> None:
            combine_all(inner.inner({along: at}, lanes=lanes, along=along, mask=mask), scatter)

        start, stop = "0", inner.f.number(along.extent)
        if shared is along:
            start, stop = part_range(inner.f, along.extent, lanes)
        vector_lines(inner.f, start, stop, lanes, block)

    nest(scope, others, lines, split and shared is not along, exprs, [along])


def _moves_as_block(scatter: Scatter, variable: Variable) -> bool:
    return (
        scatter.index.is_stepped_by(variable)
        and scatter.index.stride_of(variable) == 1
        and not any(variable in index.variables for index, _, _ in scatter.bounds)
    )


def _combine_into(scope: Scope, scatter: Scatter) -> None:
    """Combine at a place that holds or does not hold for all lanes."""
    f = scope.f
    tests = []
    for index, low, high in scatter.bounds:
        place = scope.index(index)
        tests.append(f.emit(f"icmp sge i64 {place}, {f.number(low)}"))
        tests.append(f.emit(f"icmp slt i64 {place}, {f.number(high)}"))
    if not tests:
        _write(scope.inner(), scatter, scatter.index)
        return
    with f.when(all_hold(f, Vector("bool"), tests)):
        _write(scope.inner(), scatter, scatter.index)


def _write(scope: Scope, scatter: Scatter, place: Index) -> None:
    value = scope.value(scatter.expr)
    if scatter.combine != "set":
        old = scope.value(load(scatter.buffer, place))
        varies = old[1] or value[1]
        lanes = scope.lanes if varies else 1
        dtype = scatter.expr.dtype.name
        both = [scope.spread(dtype, r) if varies else r[0] for r in (old, value)]
        value = combine(scope.f, scatter.combine, register(dtype, lanes), *both), varies
    scope.store(Store(scatter.buffer, place, scatter.expr), value)


def _combine_each(scope: Scope, scatter: Scatter) -> None:
    """Combine what the lanes hold one after another.

    The places of few lanes are taken out of their register: some processors let a load wait for
    the whole of a wide store before it (the scatter takes twice as long on Zen 4).
    """
    f, lanes = scope.f, scope.lanes
    numbers, kind = scope.vector(scatter.expr), register(scatter.expr.dtype.name, lanes)
    places, place_kind = scope.index_vector(scatter.index)
    table, place_table = f.reserve(kind.text, 64), f.reserve(place_kind.text, 64)
    f.do(f"store {kind.text} {numbers}, ptr {table}, align 64")
    f.do(f"store {place_kind.text} {places}, ptr {place_table}, align 64")
    spot = Variable(scatter.buffer.count)

    def write(lane: str, place: str) -> None:
        number = f.emit(f"load {kind.element}, ptr {f.offset(table, kind.element, lane)}")
        if place_kind.dtype == "int32":
            place = f.emit(f"sext i32 {place} to i64")
        known = {scatter.expr: (number, False)}
        one = scope.inner({spot: place}, lanes=1, along=None, mask=None, values=known)
        _write(one, scatter, as_index(spot))

    def write_stored(lane: str) -> None:
        at = f.offset(place_table, place_kind.element, lane)
        write(lane, f.emit(f"load {place_kind.element}, ptr {at}"))

    def write_all() -> None:
        if lanes > MOST_UNROLLED:
            with f.loop("0", str(lanes)) as loop:
                write_stored(loop.index)
            return
        for i in range(lanes):
            write(str(i), f.emit(f"extractelement {place_kind.text} {places}, i64 {i}"))

    bits = Vector("bool", lanes).text
    held = scope.mask
    if scatter.bounds:
        inside = guard(scatter.bounds, (), const(BOOL, True), const(BOOL, False))
        here = scope.vector(inside)
        held = here if held is None else f.emit(f"and {bits} {here}, {held}")
    if held is None:
        write_all()
        return
    word = f.emit(f"bitcast {bits} {held} to i{lanes}")
    each, some, done = f.label("each"), f.label("some"), f.label("combined")
    f.do(f"br i1 {f.emit(f'icmp eq i{lanes} {word}, -1')}, label %{each}, label %{some}")
    f.start_block(each)
    write_all()
    f.do(f"br label %{done}")
    f.start_block(some)
    bits = word if lanes == MOST_LANES else f.emit(f"zext i{lanes} {word} to i64")
    found = f.intrinsic("ctpop", Vector("int64"), bits)
    with f.loop("0", found, carried=[("i64", bits)]) as loop:
        left = loop.values[0]
        write_stored(f.call("i64", "@llvm.cttz.i64", ("i64", left), ("i1", "true")))
        loop.next = [f.emit(f"and i64 {left}, {f.emit(f'add i64 {left}, -1')}")]
    f.go_on(done)
