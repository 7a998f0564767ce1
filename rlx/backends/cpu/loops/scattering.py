"""Numbers combined into a buffer at computed places, in order."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from ....ir.dims import likely
from ....lower.lir.expr import const, guard, load
from ....lower.lir.index import Index, Variable, as_index
from ....lower.lir.program import Scatter, Store
from ..llvm.host import Host
from ..llvm.text import Function, Vector
from .kernels import Layout, buffers_of, nest, open_scope, part_range, vector_lines
from .scalar import combine, register
from .scope import Scope
from .vectors import choose_lanes

MOST_LANES = 64  # the bits of a word
MOST_UNROLLED = 16
BOOL = np.dtype(bool)


def shared_loop(scatter: Scatter) -> Variable | None:
    """The loop whose rounds threads can share: they write to different places."""
    return max(scatter.apart, key=lambda v: likely(v.extent), default=None)


def emit_scatter(f: Function, scatter: Scatter, layout: Layout, host: Host, split: bool) -> None:
    """Emit a scatter, in order.

    A last axis that moves as a block gets vector code. Else places and numbers of some neighbors
    are computed in vector code, and then combined one by one.
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
            wide = inner.inner(lanes=lanes, along=along, mask=mask)
            wide.names[along] = at
            combine_all(wide, scatter)

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
    held = tests[0]
    for test in tests[1:]:
        held = f.emit(f"and i1 {held}, {test}")
    with f.when(held):
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
    """Combine what the lanes hold one after another."""
    f, lanes = scope.f, scope.lanes
    numbers, kind = scope.vector(scatter.expr), register(scatter.expr.dtype.name, lanes)
    places, place_kind = scope.index_vector(scatter.index)
    tables = f.reserve(kind.text, 64), f.reserve(place_kind.text, 64)
    f.do(f"store {kind.text} {numbers}, ptr {tables[0]}, align 64")
    f.do(f"store {place_kind.text} {places}, ptr {tables[1]}, align 64")
    spot = Variable(scatter.buffer.count)

    def write(lane: str) -> None:
        number, place = (
            f.emit(f"load {v.element}, ptr {f.offset(table, v.element, lane)}")
            for v, table in ((kind, tables[0]), (place_kind, tables[1]))
        )
        if place_kind.dtype == "int32":
            place = f.emit(f"sext i32 {place} to i64")
        one = scope.inner(lanes=1, along=None, mask=None, values={})
        one.names[spot] = place
        one.values[scatter.expr] = number, False
        _write(one, scatter, as_index(spot))

    bits = Vector("bool", lanes).text
    held = scope.mask
    if scatter.bounds:
        inside = guard(scatter.bounds, (), const(BOOL, True), const(BOOL, False))
        here = scope.vector(inside)
        held = here if held is None else f.emit(f"and {bits} {here}, {held}")
    if held is None:
        _for_each(f, lanes, write)
        return
    word = f.emit(f"bitcast {bits} {held} to i{lanes}")
    each, some, done = f.label("each"), f.label("some"), f.label("combined")
    f.do(f"br i1 {f.emit(f'icmp eq i{lanes} {word}, -1')}, label %{each}, label %{some}")
    f.start_block(each)
    _for_each(f, lanes, write)
    f.do(f"br label %{done}")
    f.start_block(some)
    bits = word if lanes == MOST_LANES else f.emit(f"zext i{lanes} {word} to i64")
    found = f.intrinsic("ctpop", Vector("int64"), bits)
    f.declarations.add("declare i64 @llvm.cttz.i64(i64, i1)")
    with f.loop("0", found, carried=[("i64", bits)]) as loop:
        left = loop.values[0]
        write(f.emit(f"call i64 @llvm.cttz.i64(i64 {left}, i1 true)"))
        loop.next = [f.emit(f"and i64 {left}, {f.emit(f'add i64 {left}, -1')}")]
    f.do(f"br label %{done}")
    f.start_block(done)


def _for_each(f: Function, lanes: int, write: Callable[[str], None]) -> None:
    """One lane after another; few of them without a loop."""
    if lanes <= MOST_UNROLLED:
        for lane in range(lanes):
            write(str(lane))
        return
    with f.loop("0", str(lanes)) as loop:
        write(loop.index)
