"""Copies of A and B into panels one register tile wide.

No copy reads outside of the matrix: the last panel is moved back to end at the edge, as its tile
is, and so is the last vector of a row.
"""

from __future__ import annotations

from ..llvm.text import Function, Module, Vector
from ..loops.vectors import transpose
from .kernel import load, store
from .problem import Blocking, clipped_offsets, floor_power, memory_type

PARAMETERS = [("ptr", "%source"), ("ptr", "%target"), ("i64", "%first"), ("i64", "%last")]
PARAMETERS += [("i64", "%piece"), ("i64", "%depth")]


def panel_start(f: Function, panel: str, step: int, size: int) -> str:
    """The first row or column of a panel of `step`; the last panel ends at `size`."""
    start = f.emit(f"mul nuw nsw i64 {panel}, {step}")
    if size % step == 0 or size < step:
        return start
    return f.intrinsic("smin", Vector("int64"), start, str(size - step))


def emit_pack_a(module: Module, name: str, blocking: Blocking) -> None:
    """Emit the function that packs panels of A.

    `name(source, target, first, last, piece, depth)` packs panels `first` to `last`; `piece` is
    where the piece of k begins and `depth` how long it is.
    """
    problem, tile = blocking.problem, blocking.tile
    f = module.function(name, PARAMETERS, linkage="internal")
    element, kind = memory_type(problem.dtype), memory_type(problem.accumulator)
    corner = f.offset("%source", element, f.emit(f"mul i64 %piece, {problem.a.column}"))
    with f.loop("%first", "%last", is_plain=True) as panels:
        panel = f.emit(f"sub i64 {panels.index}, %first")
        target = f.offset("%target", kind, f.emit(f"mul i64 {panel}, {blocking.a_panel}"))
        i = panel_start(f, panels.index, tile.rows, tile.m)
        source = f.offset(corner, element, f.emit(f"mul i64 {i}, {problem.a.row}"))
        if blocking.a_chunk > 1:
            _copy_rows_of_a(f, blocking, source, target)
        else:
            _copy_columns_of_a(f, blocking, source, target)
    f.do("ret void")


def _copy_rows_of_a(f: Function, blocking: Blocking, source: str, target: str) -> None:
    """Copy chunk after chunk, and the numbers of an incomplete chunk one by one."""
    chunk = blocking.a_chunk
    left = blocking.problem.k % chunk
    if blocking.problem.a.column != 1:
        _copy_chunks(f, blocking, source, target, ("0", "%depth"), 1)
        return
    if not left:
        _copy_chunks(f, blocking, source, target, ("0", "%depth"), chunk)
        return
    whole = f.emit(f"and i64 %depth, {-chunk}")
    _copy_chunks(f, blocking, source, target, ("0", whole), chunk)
    _copy_chunks(f, blocking, source, target, (whole, "%depth"), 1)


def _copy_chunks(
    f: Function, blocking: Blocking, source: str, target: str, span: tuple[str, str], step: int
) -> None:
    """Copy `step` (a chunk or one) columns at a time of a panel of A."""
    problem, tile, chunk = blocking.problem, blocking.tile, blocking.a_chunk
    element, kind = memory_type(problem.dtype), memory_type(problem.accumulator)
    lanes = min(step, tile.lanes)
    # A row is read from one end to the other, as the processor's prefetching wants it.
    with f.loop("0", str(tile.rows), is_plain=True) as rows:
        row = f.offset(source, element, f.emit(f"mul i64 {rows.index}, {problem.a.row}"))
        line = f.offset(target, kind, f.emit(f"mul i64 {rows.index}, {chunk}"))
        with f.loop(*span, str(step), is_plain=True) as columns:
            p = columns.index
            begin = f.offset(row, element, f.emit(f"mul i64 {p}, {problem.a.column}"))
            before = f.emit(f"lshr i64 {p}, {chunk.bit_length() - 1}")
            place = f.emit(f"mul i64 {before}, {blocking.a_column}")
            if step == 1:
                place = f.emit(f"add i64 {place}, {f.emit(f'and i64 {p}, {chunk - 1}')}")
            end = f.offset(line, kind, place)
            for start in range(0, step, lanes):
                x = load(f, problem.dtype, lanes, begin, start)
                store(f, problem.accumulator, lanes, x, end, start)


def _copy_columns_of_a(f: Function, blocking: Blocking, source: str, target: str) -> None:
    problem, tile = blocking.problem, blocking.tile
    element, kind = memory_type(problem.dtype), memory_type(problem.accumulator)
    lanes = min(tile.lanes, floor_power(tile.rows))
    with f.loop("0", "%depth", is_plain=True) as columns:
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


def emit_pack_b(module: Module, name: str, blocking: Blocking, at_once: int) -> None:
    """Emit the function like `emit_pack_a`'s that packs panels of B, some `at_once`."""
    problem, tile = blocking.problem, blocking.tile
    f = module.function(name, PARAMETERS, linkage="internal")
    element, kind = memory_type(problem.dtype), memory_type(problem.accumulator)
    corner = f.offset("%source", element, f.emit(f"mul i64 %piece, {problem.b.row}"))
    if problem.b.column == 1:
        with f.loop("%first", "%last", str(at_once), is_plain=True) as groups:
            end = f.emit(f"add i64 {groups.index}, {at_once}")
            end = f.intrinsic("umin", Vector("int64"), end, "%last")
            _copy_rows_of_b(f, blocking, corner, (groups.index, end))
        f.do("ret void")
        return
    with f.loop("%first", "%last", is_plain=True) as panels:
        panel = f.emit(f"sub i64 {panels.index}, %first")
        target = f.offset("%target", kind, f.emit(f"mul i64 {panel}, {blocking.b_panel}"))
        j = panel_start(f, panels.index, tile.columns, tile.n)
        source = f.offset(corner, element, f.emit(f"mul i64 {j}, {problem.b.column}"))
        if problem.b.row == 1 and blocking.shortest >= block_rows(blocking) > 1:
            _transpose_b(f, blocking, source, target)
        else:
            _gather_b(f, blocking, source, target)
    f.do("ret void")


def _copy_rows_of_b(f: Function, blocking: Blocking, corner: str, span: tuple[str, str]) -> None:
    """Copy a row of several panels, then the next: memory gives longer runs faster."""
    problem, tile = blocking.problem, blocking.tile
    element, kind = memory_type(problem.dtype), memory_type(problem.accumulator)
    with f.loop("0", "%depth", is_plain=True) as rows:
        row = f.offset(corner, element, f.emit(f"mul i64 {rows.index}, {problem.b.row}"))
        line = f.offset("%target", kind, f.emit(f"mul i64 {rows.index}, {tile.columns}"))
        with f.loop(*span, is_plain=True) as panels:
            panel = f.emit(f"sub i64 {panels.index}, %first")
            end = f.offset(line, kind, f.emit(f"mul i64 {panel}, {blocking.b_panel}"))
            begin = f.offset(row, element, panel_start(f, panels.index, tile.columns, tile.n))
            for offset, place in zip(tile.offsets, blocking.b_offsets, strict=True):
                x = load(f, problem.dtype, tile.lanes, begin, offset)
                store(f, problem.accumulator, tile.lanes, x, end, place)


def _transpose_b(f: Function, blocking: Blocking, source: str, target: str) -> None:
    """Transpose blocks of `tile.lanes` columns and as many rows as fit into 16 bytes."""
    problem, tile = blocking.problem, blocking.tile
    element, kind = memory_type(problem.dtype), memory_type(problem.accumulator)
    step = block_rows(blocking)
    with f.loop("0", "%depth", str(step), is_plain=True) as blocks:
        # The block at the end of a piece is moved back, as its last rows must not leave B.
        last = f.emit(f"sub i64 %depth, {step}")
        p = f.intrinsic("smin", Vector("int64"), blocks.index, last)
        begin = f.offset(source, element, p)
        end = f.offset(target, kind, f.emit(f"mul i64 {p}, {tile.columns}"))
        with f.loop("0", str(tile.columns), str(tile.lanes), is_plain=True) as vectors:
            # The vectors of a narrow matrix overlap, so the last one is moved back too.
            column = vectors.index
            if tile.width < tile.columns:
                left = str(tile.width - tile.lanes)
                column = f.intrinsic("smin", Vector("int64"), column, left)
            corner = f.offset(begin, element, f.emit(f"mul i64 {column}, {problem.b.column}"))
            place = f.offset(end, kind, vectors.index)
            # Unknown pointers spare LLVM 20 ms of thought about their strength reduction.
            corner, place = f.emit(f"freeze ptr {corner}"), f.emit(f"freeze ptr {place}")
            rows = [
                load(f, problem.dtype, step, corner, x * problem.b.column)
                for x in range(tile.lanes)
            ]
            for x, row in enumerate(transpose(f, Vector(problem.accumulator, step), rows)):
                store(f, problem.accumulator, tile.lanes, row, place, x * tile.columns)


def block_rows(blocking: Blocking) -> int:
    """How many rows of B are transposed at once: those of a vector of 16 bytes."""
    return min(16 // blocking.problem.itemsize, blocking.tile.lanes)


def _gather_b(f: Function, blocking: Blocking, source: str, target: str) -> None:
    """Copy one number at a time, along whichever stride B has."""
    problem, tile = blocking.problem, blocking.tile
    with f.loop("0", "%depth", is_plain=True) as rows:
        for offset, place in zip(tile.offsets, blocking.b_offsets, strict=True):
            with f.loop("0", str(tile.lanes), is_plain=True) as lanes:
                column = f.emit(f"add i64 {lanes.index}, {offset}")
                begin = f.emit(f"mul i64 {column}, {problem.b.column}")
                begin = f.emit(
                    f"add i64 {begin}, {f.emit(f'mul i64 {rows.index}, {problem.b.row}')}"
                )
                end = f.emit(f"add i64 {lanes.index}, {place}")
                end = f.emit(f"add i64 {end}, {f.emit(f'mul i64 {rows.index}, {tile.columns}')}")
                x = load(f, problem.dtype, 1, source, begin)
                store(f, problem.accumulator, 1, x, target, end)
