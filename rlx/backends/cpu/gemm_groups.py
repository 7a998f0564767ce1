"""Products of bfloat16 and 8-bit integers in vector registers.

One instruction (of AVX512-BF16 and AVX512-VNNI) multiplies groups of as many numbers as make up
four bytes and adds them to a sum. Panels lie as tile registers want them (`gemm_tiles.py`). Of two
integers one has a sign and the other has none, so 128 is added to A, or taken from it, and 128
times the sums of B in the end.
"""

from __future__ import annotations

from .gemm_kernel import TILE_PARAMETERS, fetch_ahead, store
from .gemm_plan import TILE_BYTES, TILE_ROWS, Blocking
from .llvm.text import Function, Module, Vector

ROWS = 11  # of A at a time: with two vectors of sums each they leave room for the rest
UNROLLED = 4
WORDS = Vector("int32", TILE_ROWS)
HALF_RANGE = 0x80808080 - (1 << 32)  # 128 in each byte


def emit_group_kernel(module: Module, name: str, blocking: Blocking) -> None:
    """Emit the function like `emit_tile_kernel`'s, without tile registers."""
    f = module.function(name, TILE_PARAMETERS, linkage="internal")
    for first in range(0, 2 * TILE_ROWS, ROWS):
        _some_rows(f, blocking, range(first, min(first + ROWS, 2 * TILE_ROWS)))
    f.do("ret void")


def _some_rows(f: Function, blocking: Blocking, rows: range) -> None:
    """The sums of some rows of the tile; those of B itself come last, if they are needed."""
    vector = Vector(blocking.problem.accumulator, TILE_ROWS)
    needs_more = not vector.is_float
    zero = f.constant(vector, 0)
    sums = [zero] * (2 * (len(rows) + needs_more))
    block = 2 * TILE_ROWS * TILE_BYTES  # of both A and B
    given = [("ptr", "%ahead")] if blocking.fetches and rows.start == 0 else []
    carried = [*given, *((vector.text, x) for x in sums)]
    with f.loop("0", str(blocking.tile_blocks * block), str(block), carried) as blocks:
        a, b = (f.offset(side, "i8", blocks.index) for side in ("%a", "%b"))
        after = [fetch_ahead(f, blocking, place) for place in blocks.values[: len(given)]]
        carried = [(vector.text, x) for x in blocks.values[len(given) :]]
        with f.loop("0", str(TILE_ROWS), str(UNROLLED), carried) as words:
            sums = words.values
            for step in range(UNROLLED):
                word = f.emit(f"add i64 {words.index}, {step}")
                sums = _add_word(f, blocking.problem.dtype, vector, (a, b), word, rows, sums)
            words.next = sums
        blocks.next = [*after, *words.values]
    sums = blocks.values[len(given) :]
    for i, row in enumerate(rows):
        out = f.offset("%out", vector.element, f.emit(f"mul i64 %out_row, {row}"))
        for v, offset in enumerate(blocking.tile.offsets):
            total = sums[2 * i + v]
            if needs_more:
                total = f.emit(f"sub {vector.text} {total}, {sums[2 * len(rows) + v]}")
            store(f, vector.dtype, vector.lanes, total, out, offset)


def _add_word(
    f: Function,
    dtype: str,
    vector: Vector,
    sides: tuple[str, str],
    word: str,
    rows: range,
    sums: list[str],
) -> list[str]:
    """Add the products of one group of each row with one of each column."""
    a, b = sides
    b = f.offset(b, "i8", f.emit(f"mul i64 {word}, {TILE_BYTES}"))
    halves = [f.offset(b, "i8", str(half * TILE_ROWS * TILE_BYTES)) for half in range(2)]
    columns = [f.emit(f"load {WORDS.text}, ptr {half}, align 64") for half in halves]
    made = []
    for row in rows:
        place = f.offset(f.offset(a, "i8", str(row * TILE_BYTES)), "i32", word)
        x = f.splat(f.emit(f"load i32, ptr {place}, align 4"), WORDS)
        if not vector.is_float:
            x = f.emit(f"xor {WORDS.text} {x}, {f.constant(WORDS, HALF_RANGE)}")
        made += [_dot(f, dtype, vector, x, y, sums[len(made) + v]) for v, y in enumerate(columns)]
    if not vector.is_float:
        x = f.constant(WORDS, HALF_RANGE)
        made += [_dot(f, dtype, vector, x, y, sums[len(made) + v]) for v, y in enumerate(columns)]
    return made


def _dot(f: Function, dtype: str, vector: Vector, x: str, y: str, total: str) -> str:
    """Add the products of the numbers of `x`, of A, and `y`, of B, group by group."""
    kind, name = WORDS, "llvm.x86.avx512.vpdpbusd.512"  # unsigned times signed
    if vector.is_float:
        kind, name = Vector("bfloat16", 2 * TILE_ROWS), "llvm.x86.avx512bf16.dpbf16ps.512"
        x, y = (f.emit(f"bitcast {WORDS.text} {z} to {kind.text}") for z in (x, y))
    if dtype == "uint8":
        x, y = y, x
    f.declarations.add(f"declare {vector.text} @{name}({vector.text}, {kind.text}, {kind.text})")
    return f.emit(
        f"call {vector.text} @{name}({vector.text} {total}, {kind.text} {x}, {kind.text} {y})"
    )
