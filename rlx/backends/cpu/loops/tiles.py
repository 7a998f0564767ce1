"""Tiled transposition in kernels: loads along another loop than the lanes.

Of such a load a block is read along the memory it comes from, transposed in registers, and left in
a small table on the stack, from which the kernel's code takes its vectors.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from ....ir.dims import Size, likely
from ....ir.record import record
from ....ir.types import as_dtype
from ....lower.lir.expr import Load, Reduce, unconditional, walk
from ....lower.lir.index import Variable
from ....lower.lir.program import Store
from ..llvm.host import Host
from ..llvm.text import Function, Vector
from .scope import Scope, memory_vector
from .vectors import choose_lanes, transpose

LINE = 64  # bytes that the cache moves at once
WIDTH = 4 * LINE  # bytes read of each row at once, so that memory changes its page less often
SMALLEST = 1 << 12  # elements: fewer are not worth the code


@record
class Tiles:
    """Tiles of two loops whose loads are transposed in registers."""

    along: Variable  # the loop of the lanes
    across: Variable  # the other loop
    loads: tuple[Load, ...]  # of stride 1 in `across`
    stores: tuple[Store, ...]  # of stride 1 in `along`
    lanes: int  # the size of a tile in `along`
    rows: int  # its size in `across`


def plan_tiles(
    host: Host, loops: Sequence[Variable], along: Variable, stores: Sequence[Store]
) -> Tiles | None:
    """Plan the tiles that transpose loads of stores, or give None if none is needed."""
    exprs = [s.expr for s in stores]
    if any(isinstance(e, Reduce) for e in walk(*exprs)):
        return None
    if not all(s.index.is_stepped_by(along) and s.index.stride_of(along) == 1 for s in stores):
        return None
    every = (e for e in unconditional(exprs) if isinstance(e, Load))
    loads = [load for load in every if _moves_far(load, along)]
    choices = [v for v in loops if v is not along]
    found = {v: [load for load in loads if _is_dense(load, v)] for v in choices}
    across = max(choices, key=lambda v: len(found[v]), default=None)
    if across is None or not found[across]:
        return None
    width = max(load.dtype.itemsize for load in found[across])
    lanes = choose_lanes(host, exprs, along.extent, most=1)
    rows = WIDTH // width
    sizes = likely(along.extent), likely(across.extent)
    if lanes < 16 // width or sizes[0] < lanes or 2 * sizes[1] < rows:
        return None
    if sizes[0] * sizes[1] < SMALLEST:
        return None
    return Tiles(along, across, tuple(found[across]), tuple(stores), lanes, rows)


def _moves_far(load: Load, along: Variable) -> bool:
    index = load.index
    is_near = index.stride_of(along) in (0, 1, -1)
    return index.is_stepped_by(along) and not is_near


def _is_dense(load: Load, variable: Variable) -> bool:
    return load.index.is_stepped_by(variable) and load.index.stride_of(variable) == 1


def emit_tile(
    scope: Scope,
    tiles: Tiles,
    place: tuple[str, str],
    count: str,
    mask: str | None,
    body: Callable[[Scope], None],
) -> None:
    """Emit a block at `place` (across, along): `count` rows, the lanes in `mask`."""
    f = scope.f
    first, at = place
    corner = scope.inner({tiles.across: first, tiles.along: at})
    tables = [_fill_table(corner, tiles, load, count, mask) for load in tiles.loads]
    with f.loop("0", count) as loop:
        names = {tiles.across: f.emit(f"add nsw i64 {first}, {loop.index}"), tiles.along: at}
        inner = scope.inner(names, lanes=tiles.lanes, along=tiles.along, mask=mask)
        for load, table in zip(tiles.loads, tables, strict=True):
            vector = memory_vector(load.dtype.name, tiles.lanes)
            row = f.offset(table, vector.text, loop.index)
            raw = f.emit(f"load {vector.text}, ptr {row}, align 16")
            inner.values[load] = inner.from_memory(raw, load.dtype.name, tiles.lanes), True
        for store in tiles.stores:
            behind = inner.index(store.index + tiles.lanes)
            element = memory_vector(store.buffer.number_dtype.name, 1).text
            f.prefetch(f.offset(inner.pointers[store.buffer], element, behind), is_written=True)
        body(inner)


def _fill_table(scope: Scope, tiles: Tiles, load: Load, count: str, mask: str | None) -> str:
    """The table with the numbers of a block, transposed."""
    f, vector = scope.f, memory_vector(load.dtype.name, tiles.lanes)
    table = f.reserve(f"[{tiles.rows} x {vector.text}]", 64)
    corner = f.offset(scope.pointers[load.buffer], vector.element, scope.index(load.index))
    stride = load.index.stride_of(tiles.along)
    if mask is not None:
        lanes = f.emit(f"sub i64 {f.number(tiles.along.extent)}, {scope.names[tiles.along]}")
        _copy_numbers(f, vector, (corner, table), f.number(stride), (count, lanes))
        return table
    whole, part, done = f.label("whole"), f.label("part"), f.label("filled")
    f.do(f"br i1 {f.emit(f'icmp eq i64 {count}, {tiles.rows}')}, label %{whole}, label %{part}")
    f.start_block(whole)
    _fetch_next(f, tiles, vector, corner, stride)
    _transpose(f, tiles, vector, (corner, table), stride)
    f.do(f"br label %{done}")
    f.start_block(part)
    _copy_numbers(f, vector, (corner, table), f.number(stride), (count, str(tiles.lanes)))
    f.go_on(done)
    return table


def _transpose(
    f: Function, tiles: Tiles, vector: Vector, pointers: tuple[str, str], stride: Size
) -> None:
    """Transpose a whole block, 16 bytes of each row at a time."""
    source, table = pointers
    itemsize = as_dtype(vector.dtype).itemsize
    short = Vector(vector.dtype, min(16 // itemsize, tiles.lanes))
    with f.loop("0", str(tiles.rows), str(short.lanes)) as loop:
        corner = f.offset(source, vector.element, loop.index)
        rows = []
        for x in range(tiles.lanes):
            start = f.offset(corner, vector.element, f.number(stride * x))
            rows.append(f.emit(f"load {short.text}, ptr {start}, align 1"))
        target = f.offset(table, vector.text, loop.index)
        for x, column in enumerate(transpose(f, short, rows)):
            place = f.offset(target, vector.text, str(x))
            f.do(f"store {vector.text} {column}, ptr {place}, align 16")


def _fetch_next(f: Function, tiles: Tiles, vector: Vector, corner: str, stride: Size) -> None:
    """Prefetch the rows of the next block, whose stride hardware does not predict."""
    with f.loop("0", str(tiles.lanes)) as loop:
        row = f.emit(f"add i64 {loop.index}, {tiles.lanes}")
        behind = f.offset(corner, vector.element, f.emit(f"mul i64 {row}, {f.number(stride)}"))
        for x in range(0, WIDTH, LINE):
            f.prefetch(f.offset(behind, "i8", str(x)))


def _copy_numbers(
    f: Function,
    vector: Vector,
    pointers: tuple[str, str],
    stride: str,
    counts: tuple[str, str],
) -> None:
    """Transpose one number at a time."""
    source, table = pointers
    element = vector.element
    with f.loop("0", counts[1]) as lanes:
        line = f.offset(source, element, f.emit(f"mul i64 {lanes.index}, {stride}"))
        start = f.offset(table, element, lanes.index)
        with f.loop("0", counts[0]) as rows:
            number = f.emit(f"load {element}, ptr {f.offset(line, element, rows.index)}")
            target = f.offset(start, vector.text, rows.index)
            f.do(f"store {element} {number}, ptr {target}")
