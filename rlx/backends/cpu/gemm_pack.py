"""Copies of A and B into panels one register tile wide.

No copy reads outside of the matrix: the last panel is moved back to end at the edge, as its tile
is, and so is the last vector of a row.
"""

from __future__ import annotations

from .code import Function, Module, Vector
from .gemm_kernel import load, store
from .gemm_plan import Blocking, clipped_offsets, floor_power, memory_type

PARAMETERS = [("ptr", "%source"), ("ptr", "%target"), ("i64", "%first"), ("i64", "%last")]
PARAMETERS += [("i64", "%piece"), ("i64", "%depth")]


def panel_start(f: Function, panel: str, step: int, size: int) -> str:
    """The first row or column of a panel of `step`; the last panel ends at `size`."""
    start = f.emit(f"mul nuw nsw i64 {panel}, {step}")
    if size % step == 0 or size < step:
        return start
    return f.intrinsic("smin", Vector("int64"), start, str(size - step))


def emit_pack_a(module: Module, name: str, blocking: Blocking) -> None:
    """Emit `name(source, target, first, last, piece, depth)`: pack panels `first` to `last` of A.

    `piece` is where the piece of k begins, `depth` is how long it is.
    """
    problem, tile = blocking.problem, blocking.tile
    f = module.function(name, PARAMETERS, linkage="internal")
    element, kind = memory_type(problem.dtype), memory_type(problem.accumulator)
    corner = f.offset("%source", element, f.emit(f"mul i64 %piece, {problem.a.column}"))
    with f.loop("%first", "%last") as panels:
        panel = f.emit(f"sub i64 {panels.index}, %first")
        target = f.offset("%target", kind, f.emit(f"mul i64 {panel}, {blocking.a_panel}"))
        i = panel_start(f, panels.index, tile.rows, tile.m)
        source = f.offset(corner, element, f.emit(f"mul i64 {i}, {problem.a.row}"))
        if blocking.a_by_rows:
            _copy_rows_of_a(f, blocking, source, target)
        else:
            _copy_columns_of_a(f, blocking, source, target)
    f.do("ret void")


def _copy_rows_of_a(f: Function, blocking: Blocking, source: str, target: str) -> None:
    problem, tile = blocking.problem, blocking.tile
    element, kind = memory_type(problem.dtype), memory_type(problem.accumulator)
    lanes = tile.lanes if problem.a.column == 1 and blocking.shortest >= tile.lanes else 1
    with f.loop("0", str(tile.rows)) as rows:
        begin = f.offset(source, element, f.emit(f"mul i64 {rows.index}, {problem.a.row}"))
        end = f.offset(target, kind, f.emit(f"mul i64 {rows.index}, {blocking.a_row}"))
        with f.loop("0", "%depth", str(lanes)) as columns:
            p = _clip(f, columns.index, lanes)
            place = p if problem.a.column == 1 else f.emit(f"mul i64 {p}, {problem.a.column}")
            x = load(f, problem.dtype, lanes, begin, place)
            store(f, problem.accumulator, lanes, x, end, p)


def _copy_columns_of_a(f: Function, blocking: Blocking, source: str, target: str) -> None:
    problem, tile = blocking.problem, blocking.tile
    element, kind = memory_type(problem.dtype), memory_type(problem.accumulator)
    lanes = min(tile.lanes, floor_power(tile.rows))
    with f.loop("0", "%depth") as columns:
        p = columns.index
        begin = f.offset(source, element, f.emit(f"mul i64 {p}, {problem.a.column}"))
        end = f.offset(target, kind, f.emit(f"mul i64 {p}, {tile.rows}"))
        for offset in clipped_offsets(tile.rows, lanes):
            store(
                f,
                problem.accumulator,
                lanes,
                load(f, problem.dtype, lanes, begin, offset),
                end,
                offset,
            )


def _clip(f: Function, start: str, lanes: int) -> str:
    """Move the last vector of a piece back to end with it."""
    if lanes == 1:
        return start
    return f.intrinsic("smin", Vector("int64"), start, f.emit(f"sub i64 %depth, {lanes}"))


def emit_pack_b(module: Module, name: str, blocking: Blocking) -> None:
    """Emit `name(source, target, first, last, piece, depth)`: pack panels `first` to `last` of B."""
    problem, tile = blocking.problem, blocking.tile
    f = module.function(name, PARAMETERS, linkage="internal")
    element, kind = memory_type(problem.dtype), memory_type(problem.accumulator)
    corner = f.offset("%source", element, f.emit(f"mul i64 %piece, {problem.b.row}"))
    with f.loop("%first", "%last") as panels:
        panel = f.emit(f"sub i64 {panels.index}, %first")
        target = f.offset("%target", kind, f.emit(f"mul i64 {panel}, {blocking.b_panel}"))
        j = panel_start(f, panels.index, tile.columns, tile.n)
        source = f.offset(corner, element, f.emit(f"mul i64 {j}, {problem.b.column}"))
        if problem.b.column == 1:
            _copy_rows_of_b(f, blocking, source, target)
        elif problem.b.row == 1 and blocking.shortest >= tile.lanes > 1:
            _transpose_b(f, blocking, source, target)
        else:
            _gather_b(f, blocking, source, target)
    f.do("ret void")


def _copy_rows_of_b(f: Function, blocking: Blocking, source: str, target: str) -> None:
    problem, tile = blocking.problem, blocking.tile
    element, kind = memory_type(problem.dtype), memory_type(problem.accumulator)
    with f.loop("0", "%depth") as rows:
        begin = f.offset(source, element, f.emit(f"mul i64 {rows.index}, {problem.b.row}"))
        end = f.offset(target, kind, f.emit(f"mul i64 {rows.index}, {tile.columns}"))
        for offset, place in zip(tile.offsets, blocking.b_offsets, strict=True):
            x = load(f, problem.dtype, tile.lanes, begin, offset)
            store(f, problem.accumulator, tile.lanes, x, end, place)


def _transpose_b(f: Function, blocking: Blocking, source: str, target: str) -> None:
    """Transpose square blocks in registers; the block of a piece's end is moved back."""
    problem, tile = blocking.problem, blocking.tile
    element, kind = memory_type(problem.dtype), memory_type(problem.accumulator)
    lanes = tile.lanes
    with f.loop("0", "%depth", str(lanes)) as blocks:
        p = _clip(f, blocks.index, lanes)
        begin = f.offset(source, element, p)
        end = f.offset(target, kind, f.emit(f"mul i64 {p}, {tile.columns}"))
        with f.loop("0", str(tile.columns), str(lanes)) as vectors:
            # The vectors of a narrow matrix overlap, so the last one is moved back too.
            column = vectors.index
            if tile.width < tile.columns:
                column = f.intrinsic("smin", Vector("int64"), column, str(tile.width - lanes))
            corner = f.offset(begin, element, f.emit(f"mul i64 {column}, {problem.b.column}"))
            place = f.offset(end, kind, vectors.index)
            rows = [
                load(f, problem.dtype, lanes, corner, x * problem.b.column) for x in range(lanes)
            ]
            for x, row in enumerate(transpose(f, Vector(problem.accumulator, lanes), rows)):
                store(f, problem.accumulator, lanes, row, place, x * tile.columns)


def transpose(f: Function, vector: Vector, rows: list[str]) -> list[str]:
    """Transpose a square of registers by exchanging ever larger blocks."""
    lanes, rows = vector.lanes, list(rows)
    distance = 1
    while distance < lanes:
        low = [x if not x & distance else lanes + x - distance for x in range(lanes)]
        high = [x + distance if not x & distance else lanes + x for x in range(lanes)]
        for x in range(lanes):
            if not x & distance:
                pair = f"{vector.text} {rows[x]}, {vector.text} {rows[x + distance]}"
                rows[x], rows[x + distance] = (_shuffle(f, pair, mask) for mask in (low, high))
        distance *= 2
    return rows


def _shuffle(f: Function, pair: str, mask: list[int]) -> str:
    numbers = ", ".join(f"i32 {x}" for x in mask)
    return f.emit(f"shufflevector {pair}, <{len(mask)} x i32> <{numbers}>")


def _gather_b(f: Function, blocking: Blocking, source: str, target: str) -> None:
    """Copy one number at a time, along whichever stride B has."""
    problem, tile = blocking.problem, blocking.tile
    with f.loop("0", "%depth") as rows:
        for offset, place in zip(tile.offsets, blocking.b_offsets, strict=True):
            with f.loop("0", str(tile.lanes)) as lanes:
                column = f.emit(f"add i64 {lanes.index}, {offset}")
                begin = f.emit(f"mul i64 {column}, {problem.b.column}")
                begin = f.emit(
                    f"add i64 {begin}, {f.emit(f'mul i64 {rows.index}, {problem.b.row}')}"
                )
                end = f.emit(f"add i64 {lanes.index}, {place}")
                end = f.emit(f"add i64 {end}, {f.emit(f'mul i64 {rows.index}, {tile.columns}')}")
                x = load(f, problem.dtype, 1, source, begin)
                store(f, problem.accumulator, 1, x, target, end)
