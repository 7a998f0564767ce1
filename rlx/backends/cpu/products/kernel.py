"""The microkernel of a product: it computes and stores a register tile.

The tile of rows by vectors of columns; those for few rows are in `few_rows.py`.
"""

from __future__ import annotations

from collections.abc import Sequence

from ....ir.record import replace
from ....ir.types import as_dtype
from ..llvm.text import Function, Module, Vector
from ..loops.pairs import add_pairs, beside_nothing, pair_of
from ..loops.scalar import convert, narrow, register, rounded
from .problem import (
    BYTES,
    HALVES,
    NARROW,
    Blocking,
    Digit,
    Epilogue,
    Problem,
    Tile,
    memory_type,
    place_of,
)

TILE_PARAMETERS = [("ptr", "%a"), ("ptr", "%b"), ("ptr", "%start"), ("i64", "%start_row")]
TILE_PARAMETERS += [("ptr", "%out"), ("i64", "%out_row"), ("i64", "%depth"), ("ptr", "%ahead")]
FETCHED = 2048  # bytes of B that are fetched ahead of their use
UNROLLED = 16  # multiply-adds in a loop body, below which the loop itself would show


def load(f: Function, dtype: str, lanes: int, pointer: str, index: int | str = 0) -> str:
    """Load numbers of `dtype` into registers, and widen small ones."""
    vector = Vector(dtype, lanes)
    place = f.offset(pointer, vector.element, str(index))
    x = f.emit(f"load {vector.text}, ptr {place}, align {as_dtype(dtype).itemsize}")
    if dtype in HALVES:
        return f.emit(f"fpext {vector.text} {x} to {Vector('float32', lanes).text}")
    if dtype in BYTES:
        word = "sext" if vector.is_signed else "zext"
        return f.emit(f"{word} {vector.text} {x} to {Vector('int32', lanes).text}")
    return x


def store(f: Function, dtype: str, lanes: int, x: str, pointer: str, index: int | str = 0) -> None:
    """Store registers as numbers of `dtype`; float32 is rounded to half floats."""
    vector = Vector(dtype, lanes)
    if dtype in HALVES:
        x = narrow(f, dtype, lanes, rounded(f, dtype, lanes, x))
    if dtype == "bool":
        byte = Vector("uint8", lanes)
        x, vector = f.emit(f"zext {vector.text} {x} to {byte.text}"), byte
    place = f.offset(pointer, vector.element, str(index))
    f.do(f"store {vector.text} {x}, ptr {place}, align {as_dtype(dtype).itemsize}")


def multiply_add(f: Function, vector: Vector, x: str, y: str, total: str) -> str:
    """Give `x * y + total`, fused where the processor does so."""
    if vector.is_float:
        return f.intrinsic("fmuladd", vector, x, y, total)
    product = f.emit(f"mul {vector.text} {x}, {y}")
    return f.emit(f"add {vector.text} {product}, {total}")


def _aligned_loop(module: Module) -> str:
    """Metadata of a loop that begins on a cache line: up to a tenth faster."""
    name = "!64000"
    line = f'{name} = distinct !{{{name}, !{{!"llvm.loop.align", i32 64}}}}'
    if line not in module.globals:
        module.globals.append(line)
    return name


def emit_kernel(module: Module, name: str, blocking: Blocking) -> None:
    """Emit the sums of one tile in registers.

    The function is `name(a, b, start, start_row, out, out_row, depth)`. Where k is cut, `start` is
    what the sums are added to; it is fetched ahead of the loop, which takes longer than memory.
    """
    problem, tile = blocking.problem, blocking.tile
    vector = Vector(problem.accumulator, tile.lanes)
    f = module.function(name, TILE_PARAMETERS, linkage="internal")
    places = [(r, v) for r in range(tile.rows) for v in range(tile.vectors)]
    add = "fadd" if vector.is_float else "add"
    starts = []
    if blocking.pieces > 1:
        starts = _row_pointers(f, vector.element, "%start", "%start_row", tile.rows)
        if problem.m > NARROW and not blocking.goes_on:
            _fetch(f, vector, starts, tile.offsets, True)

    def before() -> list[str]:
        """The partial sums of earlier pieces."""
        return [load(f, vector.dtype, tile.lanes, starts[r], tile.offsets[v]) for r, v in places]

    goes_on = blocking.goes_on and blocking.pieces > 1
    sums = before() if goes_on else [f.constant(vector, 0)] * len(places)
    sums = _sum(f, blocking, vector, sums, _aligned_loop(module))
    if starts and not goes_on:
        pairs = zip(before(), sums, strict=True)
        sums = [f.emit(f"{add} {vector.text} {x}, {y}") for x, y in pairs]
    outs = _row_pointers(f, vector.element, "%out", "%out_row", tile.rows)
    for (r, v), total in zip(places, sums, strict=True):
        store(f, vector.dtype, tile.lanes, total, outs[r], tile.offsets[v])
    f.do("ret void")


def _fetch(
    f: Function, vector: Vector, rows: list[str], offsets: tuple[int, ...], is_written: bool
) -> None:
    """Prefetch memory."""
    for row in rows:
        for offset in offsets:
            f.prefetch(f.offset(row, vector.element, str(offset)), is_written)


def _sum(
    f: Function, blocking: Blocking, vector: Vector, sums: Sequence[str], aligned: str
) -> list[str]:
    """Emit the loop over the depth, unrolled if its body is short."""
    if blocking.reads_windows:
        return _window_sum(f, blocking, vector, sums, aligned)
    if blocking.pieces > 1 or blocking.a_chunk > 1:
        return _long_sum(f, blocking, vector, sums, aligned)
    pointers = ("%a", "%b", "%ahead") if blocking.fetches else ("%a", "%b")
    return _short_sum(f, blocking, vector, pointers, blocking.problem.k, sums, aligned)


def _window_sum(
    f: Function, blocking: Blocking, vector: Vector, sums: Sequence[str], aligned: str
) -> list[str]:
    """The loop over the depth of windows in place: run by run, each of which is a plain loop."""
    windows, piece = blocking.windows, blocking.depth
    digits = windows.within(piece)
    run = digits[-1].worth if digits else piece
    digits = [replace(digit, worth=digit.worth // run) for digit in digits]
    given = ("%b", "%ahead") if blocking.fetches else ("%b",)
    carried = [*(("ptr", x) for x in given), *((vector.text, x) for x in sums)]
    with f.loop("0", str(piece // run), "1", carried) as runs:
        b, *ahead = runs.values[: len(given)]
        sums = runs.values[len(given) :]
        kind = memory_type(blocking.problem.dtype)
        a = f.offset("%a", kind, place_of(f, digits, runs.index)) if digits else "%a"
        sums = _short_sum(f, blocking, vector, (a, b, *ahead), run, sums, aligned)
        after = [f.offset(place, "i8", str(run * blocking.fetched_bytes)) for place in ahead]
        runs.next = [_advance(f, blocking, a, b, run)[1], *after, *sums]
    return runs.values[len(given) :]


def _short_sum(
    f: Function,
    blocking: Blocking,
    vector: Vector,
    pointers: Sequence[str],
    k: int,
    sums: Sequence[str],
    aligned: str,
) -> list[str]:
    """Emit the sum over a static depth."""
    steps = max(1, UNROLLED // len(sums))
    steps += steps % 2 if blocking.in_pairs else 0
    if k * len(sums) <= 4 * UNROLLED:
        steps = max(k, 1)
    whole = k // steps * steps
    if whole > steps:
        carried = [*(("ptr", x) for x in pointers), *((vector.text, x) for x in sums)]
        with f.loop("0", str(whole), str(steps), carried) as loop:
            count = len(pointers)
            a, b, *ahead = loop.values[:count]
            sums = loop.values[count:]
            for step, count_of_k in _rounds(blocking, steps):
                sums = _step(f, blocking, vector, (a, b), step, count_of_k, sums)
            after = [*_advance(f, blocking, a, b, steps)]
            after += [fetch_ahead(f, blocking, place, steps) for place in ahead]
            loop.next = [*after, *sums]
        f.lines[-2] += f", !llvm.loop {aligned}"
        pointers, sums = loop.values[:count], loop.values[count:]
        left = k - whole
    else:
        left = k
    for step, count_of_k in _rounds(blocking, left):
        sums = _step(f, blocking, vector, (pointers[0], pointers[1]), step, count_of_k, sums)
    return list(sums)


def _rounds(blocking: Blocking, count: int) -> list[tuple[int, int]]:
    """The steps from an even place of the depth on, each with how much of it is added."""
    numbers = 2 if blocking.in_pairs else 1
    return [(step, min(numbers, count - step)) for step in range(0, count, numbers)]


def _long_sum(
    f: Function, blocking: Blocking, vector: Vector, sums: Sequence[str], aligned: str
) -> list[str]:
    """The loop over the depth of packed panels, one column of A, or a pair of them, at a time."""
    names = ("%b", "%ahead") if blocking.fetches else ("%b",)
    pointers: Sequence[str] = names
    spans = [("0", "%depth", 1)]
    if blocking.in_pairs:
        whole = f.emit("and i64 %depth, -2")
        spans = [("0", whole, 2), (whole, "%depth", 1)][: 1 + blocking.problem.k % 2]
    for start, stop, steps in spans:
        carried = [*(("ptr", x) for x in pointers), *((vector.text, x) for x in sums)]
        with f.loop(start, stop, str(steps), carried) as loop:
            b, *ahead = loop.values[: len(names)]
            sums = loop.values[len(names) :]
            sums = _long_step(f, blocking, vector, (loop.index, b), steps, sums)
            after = [fetch_ahead(f, blocking, place, steps) for place in ahead]
            loop.next = [_advance(f, blocking, "%a", b, steps)[1], *after, *sums]
        f.lines[-2] += f", !llvm.loop {aligned}"
        pointers, sums = loop.values[: len(names)], loop.values[len(names) :]
    return list(sums)


def _long_step(
    f: Function,
    blocking: Blocking,
    vector: Vector,
    at: tuple[str, str],
    count: int,
    sums: Sequence[str],
) -> list[str]:
    """One column of A, or a pair of them, at a place of the depth, times rows of B."""
    a_type = memory_type(_seen_types(blocking)[0])
    chunk, (place, b) = blocking.a_chunk, at
    if chunk > 1:
        within = f.emit(f"and i64 {place}, {chunk - 1}")
        before = f.emit(f"lshr i64 {place}, {chunk.bit_length() - 1}")
        place = f.emit(f"mul i64 {before}, {blocking.a_column}")
        place = f.emit(f"add i64 {place}, {within}")
    else:
        place = f.emit(f"mul i64 {place}, {blocking.a_column}")
    if blocking.pack_b or blocking.kind == "streamed":
        next_piece = blocking.depth * blocking.b_row
        near = FETCHED // blocking.problem.itemsize if blocking.pack_b else next_piece
        rows = [near + i * blocking.b_row for i in range(count)]
        rows = [f.offset(b, vector.element, str(row)) for row in rows]
        _fetch(f, vector, rows, blocking.b_offsets, False)
    return _step(f, blocking, vector, (f.offset("%a", a_type, place), b), 0, count, sums)


def _advance(f: Function, blocking: Blocking, a: str, b: str, steps: int) -> tuple[str, str]:
    a_type, b_type = _seen_types(blocking)
    return (
        f.offset(a, memory_type(a_type), str(steps * blocking.a_column)),
        f.offset(b, memory_type(b_type), str(steps * blocking.b_row)),
    )


def fetch_ahead(f: Function, blocking: Blocking, ahead: str, steps: int = 1) -> str:
    """Prefetch some rounds' share of the next panel of B, and give the rest."""
    size = steps * blocking.fetched_bytes
    for x in range(0, size, 64):
        f.prefetch(f.offset(ahead, "i8", str(x)), locality=2)
    return f.offset(ahead, "i8", str(size))


def _seen_types(blocking: Blocking) -> tuple[str, str]:
    """The dtypes of A and B that the kernel sees; packing widens half floats."""
    problem = blocking.problem
    return (
        problem.accumulator if blocking.pack_a else problem.dtype,
        problem.accumulator if blocking.pack_b else problem.dtype,
    )


def _step(
    f: Function,
    blocking: Blocking,
    vector: Vector,
    sides: tuple[str, str],
    step: int,
    count: int,
    sums: Sequence[str],
) -> list[str]:
    """One column of A times one row of B, or two of each in pairs."""
    (a_type, b_type), (a, b) = _seen_types(blocking), sides
    rows = [
        [load(f, b_type, vector.lanes, b, q * blocking.b_row + x) for x in blocking.b_offsets]
        for q in range(step, step + count)
    ]
    if count > 1:
        row: Sequence[str] = [pair_of(f, vector, x, y) for x, y in zip(*rows, strict=True)]
    else:
        row = multiplied(f, blocking, vector, rows[0])
    beside, made = 1 if blocking.a_chunk > 1 else blocking.a_column, []
    for r in range(blocking.tile.rows):
        place = step * blocking.a_column + r * blocking.a_row
        numbers = [load(f, a_type, 1, a, place + q * beside) for q in range(count)]
        x = pair_of(f, Vector(vector.dtype), *numbers) if count > 1 else numbers[0]
        x = f.splat(x, vector)
        for v, y in enumerate(row):
            made.append(add_product(f, blocking, vector, x, y, sums[r * len(row) + v]))
    return made


def multiplied(
    f: Function, blocking: Blocking, vector: Vector, row: Sequence[str]
) -> Sequence[str]:
    """Vectors of B as the multiplication takes them."""
    return [beside_nothing(f, vector, y) for y in row] if blocking.in_pairs else row


def add_product(f: Function, blocking: Blocking, vector: Vector, x: str, y: str, total: str) -> str:
    """The sums after one more product, of what `multiplied` gave in `y`."""
    add = add_pairs if blocking.in_pairs else multiply_add
    return add(f, vector, x, y, total)


def _row_pointers(f: Function, element: str, start: str, stride: str, rows: int) -> list[str]:
    pointers = [start]
    for _ in range(rows - 1):
        pointers.append(f.offset(pointers[-1], element, stride))
    return pointers


# -- storing a tile with care -------------------------------------------------------------------


def emit_finish(
    module: Module,
    name: str,
    blocking: Blocking,
    epilogue: Epilogue | None,
    extra: Sequence[tuple[str, str]],
) -> None:
    """Emit the function that takes a tile from memory through the epilogue into C.

    The function is `name(tile, c, i, j, skip_rows, skip_columns, final, ...)`. The first rows and
    columns, which another tile holds too, are skipped. The epilogue is applied if the tile is
    `final`; else `c` is where partial sums are kept.
    """
    parameters = [("ptr", "%tile"), ("ptr", "%c"), ("i64", "%i"), ("i64", "%j")]
    parameters += [("i64", "%skip_rows"), ("i64", "%skip_columns"), ("i1", "%final"), *extra]
    f = module.function(name, parameters, linkage="internal")
    problem = blocking.problem
    lines = blocking.sum_lines if len(blocking.sum_lines) > 1 else ()
    sums = replace(
        problem, c_row=blocking.partial_row, c_lines=lines, out_dtype=problem.accumulator
    )
    has_edge = blocking.tile.has_row_edge or blocking.tile.has_column_edge
    converts = blocking.swapped or epilogue is not None or sums != problem
    if blocking.pieces > 1 and has_edge and converts:  # else partial sums go straight to memory
        with f.when(f.emit("xor i1 %final, true")):
            _copy_rows(f, blocking, sums, None, turned=False)
        with f.when("%final"):
            _copy_rows(f, blocking, problem, epilogue, turned=blocking.swapped)
    else:
        _copy_rows(f, blocking, problem, epilogue, turned=blocking.swapped)
    f.do("ret void")


def _copy_rows(
    f: Function, blocking: Blocking, problem: Problem, epilogue: Epilogue | None, *, turned: bool
) -> None:
    tile = blocking.tile
    with f.loop("%skip_rows", str(tile.rows), is_plain=True) as rows:
        begin = f.emit(f"mul i64 {rows.index}, {tile.columns}")
        source = f.offset("%tile", memory_type(problem.accumulator), begin)
        i = f.emit(f"add i64 %i, {rows.index}")
        spans = [("%skip_columns", str(tile.width), 1)] if turned else _spans(f, tile)
        for start, stop, lanes in spans:
            with f.loop(start, stop, str(lanes), is_plain=True) as columns:
                j = f.emit(f"add i64 %j, {columns.index}")
                place = (j, i) if turned else (i, j)
                finish_vector(f, problem, lanes, (source, columns.index), place, epilogue)


def _spans(f: Function, tile: Tile) -> list[tuple[str, str, int]]:
    """Start, stop and vector of the pieces of a row: whole vectors, then what is left."""
    left = tile.n % tile.lanes
    if not left:
        return [("%skip_columns", str(tile.width), tile.lanes)]
    stop = str(tile.width - left if tile.n <= tile.columns else tile.width)
    if tile.has_column_edge:
        at_edge = f.emit("icmp ne i64 %skip_columns, 0")
        stop = f.emit(f"select i1 {at_edge}, i64 {tile.width - left}, i64 {tile.width}")
    return [("%skip_columns", stop, tile.lanes), (stop, str(tile.width), left & -left)]


def finish_vector(
    f: Function,
    problem: Problem,
    lanes: int,
    source: tuple[str, str],
    place: tuple[str, str],
    epilogue: Epilogue | None,
) -> None:
    """Store sums from `source[0][source[1]]` through the epilogue to C[place]."""
    i, j = place
    x = load(f, problem.accumulator, lanes, *source)
    if epilogue is not None:
        x = epilogue(f, Vector(problem.accumulator, lanes), x, i, j)
    else:
        x = convert(f, problem.accumulator, register(problem.out_dtype, lanes).dtype, lanes, x)
    lines = problem.c_lines or (Digit(1, 1, problem.c_row),)
    target = f.emit(f"add i64 {place_of(f, lines, i)}, {j}")
    store(f, problem.out_dtype, lanes, x, "%c", target)
