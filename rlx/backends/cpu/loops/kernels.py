"""Loop nests of LIR as LLVM code, in functions with the parameter `ptr %table`.

The table holds the program's pointers. A function that several threads share, `void kernel(ptr
table, i64 part, i64 parts)`, has its code emitted with `split`: a call does its part of the
outermost loop.

Large arrays are prefetched: the next row while one is computed (`next_rows`). Kernels that go
through a row several times load from memory in the first of them only, and the processor's own
prefetcher does not resume at the next row.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import nullcontext

from ....ir.dims import Size, likely
from ....ir.record import record, replace
from ....lower.lir.expr import INSTRUCTIONS, Apply, Expr, Load, Reduce, unconditional, walk
from ....lower.lir.index import Variable
from ....lower.lir.nests import is_dense
from ....lower.lir.program import Buffer, Kernel, RowGroup, Store
from ..llvm.host import Host
from ..llvm.text import Function, Vector
from .scope import NO_NAMES, Ahead, Rendered, Scope, memory_vector
from .sums import emit_by_rows, reduced_by_rows
from .tiles import Tiles, emit_tile, plan_tiles
from .vectors import (
    backwards,
    best_variable,
    choose_lanes,
    grouped,
    interleaved,
    lane_mask,
    step_of,
    vector_lines,
)

KERNEL_PARAMETERS = (
    ("ptr noalias nocapture readonly", "%table"),
    ("i64", "%part"),
    ("i64", "%parts"),
)


@record
class Layout:
    """The layout of a program's buffers: slots of a table, or offsets in the arena."""

    places: dict[Buffer, int]  # slots of the table
    arena_place: int  # the arena's slot
    names: dict[Buffer, str]  # of pointers that need no load: constants, all of a kernel
    # of the matrix kernels' scratch in the outermost arena; nested programs have a slot for it
    scratch_offset: Size | None = None

    def pointer(self, f: Function, buffer: Buffer) -> str:
        """Emit the pointer to a buffer."""
        return self.names.get(buffer) or self._address(f, buffer)

    def place(self, buffer: Buffer | None) -> tuple[int, Size]:
        """The slot and byte offset of a buffer without a name, or for None of the scratch."""
        if buffer is None and self.scratch_offset is None:
            return self.arena_place + 1, 0
        if buffer in self.places:
            return self.places[buffer], 0
        offset = self.scratch_offset if buffer is None else buffer.offset
        assert offset is not None, f"{buffer} has no place in the arena"
        return self.arena_place, offset

    def scratch(self, f: Function) -> str:
        """Emit the pointer to the scratch of the matrix kernels."""
        return self._address(f, None)

    def _address(self, f: Function, buffer: Buffer | None) -> str:
        number, offset = self.place(buffer)
        slot = f.offset("%table", "ptr", str(number))
        return f.offset(f.emit(f"load ptr, ptr {slot}, align 8"), "i8", f.number(offset))


def open_scope(
    f: Function,
    layout: Layout,
    host: Host,
    buffers: Iterable[Buffer],
    given: Mapping[Variable, str] = NO_NAMES,
) -> Scope:
    """The outermost scope of a kernel: loaded pointers, and `given` loop variables."""
    pointers = {b: layout.pointer(f, b) for b in dict.fromkeys(buffers)}
    return Scope(f, host, pointers, names=dict(given))


def buffers_of(exprs: Iterable[Expr]) -> list[Buffer]:
    """The buffers that expressions load from, in the same order in every process."""
    found = {load.buffer for expr in exprs for load in expr.loads}
    return sorted(found, key=lambda buffer: buffer.name)


def all_exprs(stores: Sequence[Store]) -> list[Expr]:
    """The expressions of stores, those inside of indices included."""
    return [*(s.expr for s in stores), *(e for s in stores for e in s.index.loads)]


def emit_kernel(
    f: Function,
    kernel: Kernel,
    layout: Layout,
    host: Host,
    split: bool,
    given: Mapping[Variable, str] = NO_NAMES,
) -> None:
    """Emit a kernel; `given` are variables of loops around it."""
    exprs = all_exprs(kernel.stores)
    buffers = [*buffers_of(exprs), *(s.buffer for s in kernel.stores)]
    scope = open_scope(f, layout, host, buffers, given)
    emit_loops(scope, kernel.loops, kernel.stores, split)


def emit_rows(
    f: Function,
    rows: RowGroup,
    layout: Layout,
    host: Host,
    split: bool,
    given: Mapping[Variable, str] = NO_NAMES,
) -> None:
    """Emit fused kernels under their outer loops; `given` are variables around these."""
    stores = [s for kernel in rows.kernels for s in kernel.stores]
    exprs = all_exprs(stores)
    if rows.locals:
        block = f.reserve(f"[{rows.local_bytes} x i8]", 64)
        places = {b: f.offset(block, "i8", str(b.offset)) for b in rows.locals}
        layout = replace(layout, names=layout.names | places)
    scope = open_scope(f, layout, host, [*buffers_of(exprs), *(s.buffer for s in stores)], given)
    ahead = next_rows(rows, host)

    def each(inner: Scope) -> None:
        for kernel in rows.kernels:
            around = inner.inner(ahead=ahead.get(kernel, ()))
            emit_loops(around, kernel.loops, kernel.stores, split=False)

    nest(scope, rows.loops, each, split)


def nest(
    scope: Scope,
    loops: Sequence[Variable],
    body: Callable[[Scope], None],
    split: bool,
    exprs: Sequence[Expr] = (),
    later: Iterable[Variable] = (),
) -> None:
    """Emit plain loops around `body`, outermost first; the parts share the first one."""
    if not loops:
        body(scope)
        return
    extent = scope.f.number(loops[0].extent)
    start, stop = part_range(scope.f, loops[0].extent, 1) if split else ("0", extent)
    with scope.f.loop(start, stop) as loop:
        inner = scope.inner({loops[0]: loop.index})
        inner.hoist(exprs, {*loops[1:], *later})
        nest(inner, loops[1:], body, False, exprs, later)


def part_range(f: Function, extent: Size, step: int) -> tuple[str, str]:
    """The range of this part in blocks of `step`; the last one ends at the extent."""
    end = f.number(extent)
    if isinstance(extent, int) or step == 1:
        blocks = str(-(-extent // step)) if isinstance(extent, int) else end
    else:
        blocks = f.emit(f"udiv i64 {f.emit(f'add i64 {end}, {step - 1}')}, {step}")
    first, last = f.share(blocks)
    if step > 1:
        first, last = (f.emit(f"mul i64 {block}, {step}") for block in (first, last))
        if extent % step != 0:
            last = f.intrinsic("smin", Vector("int64"), last, end)
    return first, last


def emit_loops(
    scope: Scope, loops: Sequence[Variable], stores: Sequence[Store], split: bool
) -> None:
    """Emit loops around stores, vectorized along one of them."""
    exprs = all_exprs(stores)
    along = lane_variable(loops, stores)
    if along is None:
        nest(scope, loops, lambda inner: _evaluate(inner, stores), split, exprs)
        return
    scope.hoist(exprs, set(loops))
    tiles = plan_tiles(scope.host, loops, along, stores)
    if tiles is not None:
        _tiled_loops(scope, loops, tiles, stores, split)
        return
    others = [v for v in loops if v is not along]
    lanes = choose_lanes(scope.host, exprs, along.extent)
    by_rows = reduced_by_rows(scope, loops, along, stores)

    def lines(inner: Scope) -> None:
        shared = split and not others
        if by_rows:
            whole = ("0", inner.f.number(along.extent))
            span = part_range(inner.f, along.extent, lanes) if shared else whole
            emit_by_rows(inner, along, lanes, by_rows, span, lambda s: _evaluate(s, stores))
            return
        _vector_loop(inner, along, lanes, stores, shared)

    nest(scope, others, lines, split, exprs, [along])


def _tiled_loops(
    scope: Scope, loops: Sequence[Variable], tiles: Tiles, stores: Sequence[Store], split: bool
) -> None:
    """Emit loops around tiles that are read along one loop and written along another."""
    exprs = all_exprs(stores)
    outer = [v for v in loops if v not in (tiles.across, tiles.along)]

    def blocks(inner: Scope) -> None:
        f = inner.f
        extent, length = f.number(tiles.across.extent), f.number(tiles.along.extent)
        spans = [("0", extent), ("0", length)]
        if split and not outer:
            if likely(tiles.across.extent) >= 8 * tiles.rows:
                spans[0] = part_range(f, tiles.across.extent, tiles.rows)
            else:
                spans[1] = part_range(f, tiles.along.extent, tiles.lanes)
        with f.loop(*spans[0], str(tiles.rows)) as loop:
            left = f.emit(f"sub i64 {extent}, {loop.index}")
            count = f.intrinsic("smin", Vector("int64"), left, str(tiles.rows))
            block = inner.inner()

            def tile(at: str, mask: str | None) -> None:
                place = loop.index, at
                emit_tile(block, tiles, place, count, mask, lambda s: _evaluate(s, stores))

            vector_lines(f, *spans[1], tiles.lanes, tile)

    nest(scope, outer, blocks, split, exprs, [tiles.across, tiles.along])


def lane_variable(loops: Sequence[Variable], stores: Sequence[Store]) -> Variable | None:
    """The loop to vectorize, or None for the loops of a reduction."""
    if not loops:
        return None
    exprs = all_exprs(stores)
    candidate = best_variable(exprs, [loops[-1]])
    for reduction in (e for e in walk(*exprs) if isinstance(e, Reduce)):
        best = best_variable([reduction.body], [*reduction.loops, candidate])
        if best is not candidate:
            return None
    return candidate


def _evaluate(scope: Scope, stores: Sequence[Store]) -> None:
    rendered = {store: scope.value(store.expr) for store in stores}
    if scope.along is None or scope.lanes == 1 or scope.mask is not None:
        for store, value in rendered.items():
            scope.store(store, value)
        return
    for group in grouped(stores, scope.along):
        step = step_of(group[0].index, scope.along)
        if len(group) == 1 and step != -1:
            scope.store(group[0], rendered[group[0]])
        else:
            _store_group(scope, group, [rendered[store] for store in group], step)


def _store_group(
    scope: Scope, group: Sequence[Store], rendered: Sequence[Rendered], step: int
) -> None:
    """Store vectors whose lanes interleave in memory."""
    f, start, number = scope.f, group[0], group[0].buffer.number_dtype
    vector = memory_vector(number.name, scope.lanes)
    parts = [
        scope.to_memory(scope.spread(number.name, r), number.name, scope.lanes) for r in rendered
    ]
    first = start.index
    if step < 0:
        parts = [backwards(f, vector, part) for part in parts]
        first = first - len(group) * (scope.lanes - 1)
    for i, part in enumerate(interleaved(f, vector, parts)):
        place = scope.index(first + i * scope.lanes)
        address = f.offset(scope.pointers[start.buffer], vector.element, place)
        f.do(f"store {vector.text} {part}, ptr {address}, align {number.itemsize}")


def _vector_loop(
    scope: Scope, along: Variable, lanes: int, stores: Sequence[Store], split: bool
) -> None:
    f = scope.f
    scope.hoist(all_exprs(stores), {along})
    if not isinstance(along.extent, int):
        start, stop = part_range(f, along.extent, lanes) if split else ("0", f.number(along.extent))
        vector_lines(
            f, start, stop, lanes, lambda at, mask: _lanes(scope, along, lanes, at, mask, stores)
        )
        return
    left = along.extent % lanes
    if not split:
        start, whole = "0", str(along.extent - left)
    else:
        start, stop = part_range(f, along.extent, lanes)
        whole = stop
        if left:
            size = f.emit(f"sub i64 {stop}, {start}")
            whole = f.emit(f"sub i64 {stop}, {f.emit(f'urem i64 {size}, {lanes}')}")
    if whole != "0":
        with f.loop(start, whole, str(lanes)) as loop:
            _lanes(scope, along, lanes, loop.index, None, stores)
    if not left:
        return
    few = 1 << (left - 1).bit_length()
    mask = None if few == left else lane_mask(few, left)
    # only the part with the end has a rest, and always this one
    with f.when(f.emit(f"icmp slt i64 {whole}, {stop}")) if split else nullcontext():
        _lanes(scope, along, few, whole, mask, stores)


def _lanes(
    scope: Scope, along: Variable, lanes: int, place: str, mask: str | None, stores: Sequence[Store]
) -> None:
    inner = scope.inner({along: place}, lanes=lanes, along=along, mask=mask)
    fetch(inner)
    _evaluate(inner, stores)


def estimate(loops: Sequence[Variable], exprs: Iterable[Expr]) -> float:
    """Rough nanoseconds of a kernel on one thread."""
    trips = math.prod(likely(loop.extent) for loop in loops)
    seen: set[Expr] = set()
    return trips * sum(_cost(expr, loops[-1:], seen) for expr in exprs)


def _cost(expr: Expr, along: Sequence[Variable], seen: set[Expr]) -> float:
    """Nanoseconds of one element; `along` are the loops that may be run in vectors."""
    if expr in seen:
        return 0.0
    seen.add(expr)
    trips = 1
    if isinstance(expr, Reduce):
        along = (*along, *expr.loops)
        trips = math.prod(likely(loop.extent) for loop in expr.loops)
    inner = trips * sum(_cost(e, along, seen) for e in expr.operands)
    if isinstance(expr, Apply):
        return inner + 0.02 * INSTRUCTIONS[expr.instruction][0]
    if isinstance(expr, Load) and not is_dense(expr, along):
        return inner + 0.8
    return inner + 0.05


LINE = 64


def next_rows(rows: RowGroup, host: Host) -> dict[Kernel, Ahead]:
    """Plan prefetches of next rows: of an array by the last kernel that loops over it."""
    if not rows.loops:  # in a chain, whose round has one row
        return {}
    row = rows.loops[-1]
    last: dict[Buffer, tuple[Kernel, Load]] = {}
    for kernel in rows.kernels:
        for e in unconditional([s.expr for s in kernel.stores]):
            if isinstance(e, Load) and len(kernel.loops) == 1:
                steps = e.index.is_affine and e.index.stride_of(kernel.loops[0]) == 1
                if steps and e.index.stride_of(row) != 0 and _is_far(e.buffer, host):
                    last[e.buffer] = kernel, e
    found: dict[Kernel, Ahead] = {}
    for kernel, load in last.values():
        found[kernel] = (*found.get(kernel, ()), (load, load.index.stride_of(row)))
    return found


def _is_far(buffer: Buffer, host: Host) -> bool:
    """Whether an array is larger than the second cache."""
    return isinstance(buffer.nbytes, int) and buffer.nbytes > host.l2 // 2


def fetch(scope: Scope) -> None:
    """Prefetch the numbers of the next row at the place of these lanes."""
    f = scope.f
    for load, distance in scope.ahead:
        kind = memory_vector(load.dtype.name, 1).text
        place = scope.index(load.index + distance)
        start = f.offset(scope.pointers[load.buffer], kind, place)
        for x in range(0, scope.lanes * load.dtype.itemsize, LINE):
            f.prefetch(f.offset(start, "i8", str(x)))
