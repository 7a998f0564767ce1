"""Products of bfloat16 and 8-bit integers: tile registers (AMX) or groups (VNNI).

A tile register holds 16 rows of 64 bytes. Packed A has them one after the other along the depth,
two panels of 16 rows side by side; packed B likewise, but with the numbers of as many rows as make
up four bytes interleaved, as the multiplication wants them. What a panel has beyond k adds nothing.
The processor takes subnormal bfloat16 numbers, those below 1e-38, for zeros.

Without tile registers, one instruction (of AVX512-BF16 and AVX512-VNNI) multiplies groups of as
many numbers as make up four bytes and adds them to a sum; panels lie as tile registers want them.
Of two integers one has a sign and the other has none, so 128 is added to A, or taken from it, and
128 times the sums of B in the end.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from ....ir.types import as_dtype
from ..llvm.text import Function, Module, Vector
from ..loops.pairs import MINUS_ZERO
from ..loops.vectors import transpose
from .kernel import TILE_PARAMETERS, fetch_ahead, store
from .pack import PARAMETERS, panel_start
from .problem import TILE_BYTES, TILE_ROWS, Blocking, memory_type

SUMS = ((0, 4, 6), (1, 4, 7), (2, 5, 6), (3, 5, 7))  # registers: sums, rows of A, columns of B
MULTIPLY = {"bfloat16": "tdpbf16ps", "int8": "tdpbssd", "uint8": "tdpbuud"}
CONFIGURATION = (1, *(0,) * 15, *(TILE_BYTES, 0) * 8, *(0,) * 16, *(TILE_ROWS,) * 8, *(0,) * 8)


@contextmanager
def tile_registers(module: Module, f: Function) -> Iterator[None]:
    """Code that uses tile registers, all of them of full size."""
    name = "@tile_configuration"
    numbers = ", ".join(f"i8 {n}" for n in CONFIGURATION)
    line = f"{name} = internal constant [{len(CONFIGURATION)} x i8] [{numbers}], align 64"
    if line not in module.globals:
        module.globals.append(line)
    f.declarations |= {"declare void @llvm.x86.ldtilecfg(ptr)"}
    f.declarations |= {"declare void @llvm.x86.tilerelease()"}
    f.do(f"call void @llvm.x86.ldtilecfg(ptr {name})")
    yield
    f.do("call void @llvm.x86.tilerelease()")


def emit_tile_kernel(module: Module, name: str, blocking: Blocking) -> None:
    """Emit the function like `emit_kernel`'s for tile registers."""
    f = module.function(name, TILE_PARAMETERS, linkage="internal")
    multiply = MULTIPLY[blocking.problem.dtype]
    f.declarations |= {
        "declare void @llvm.x86.tilezero(i8 immarg)",
        "declare void @llvm.x86.tileloadd64(i8 immarg, ptr, i64)",
        "declare void @llvm.x86.tilestored64(i8 immarg, ptr, i64)",
        f"declare void @llvm.x86.{multiply}(i8 immarg, i8 immarg, i8 immarg)",
    }
    for sums, _, _ in SUMS:
        f.do(f"call void @llvm.x86.tilezero(i8 {sums})")
    block = 2 * TILE_ROWS * TILE_BYTES  # of both A and B
    carried = [("ptr", "%ahead")] if blocking.fetches else []
    with f.loop("0", str(blocking.tile_blocks * block), str(block), carried) as loop:
        loop.next = [fetch_ahead(f, blocking, place) for place in loop.values]
        for register, side, half in ((4, "%a", 0), (6, "%b", 0), (5, "%a", 1), (7, "%b", 1)):
            place = f.offset(f.offset(side, "i8", loop.index), "i8", str(half * block // 2))
            f.do(f"call void @llvm.x86.tileloadd64(i8 {register}, ptr {place}, i64 {TILE_BYTES})")
        for sums, a, b in SUMS:
            f.do(f"call void @llvm.x86.{multiply}(i8 {sums}, i8 {a}, i8 {b})")
    kind = memory_type(blocking.problem.accumulator)
    stride = f.emit(f"mul i64 %out_row, {blocking.problem.itemsize}")
    for number, (sums, _, _) in enumerate(SUMS):
        row = f.emit(f"mul i64 %out_row, {number // 2 * TILE_ROWS}")
        place = f.offset(f.offset("%out", kind, row), kind, str(blocking.tile.offsets[number % 2]))
        f.do(f"call void @llvm.x86.tilestored64(i8 {sums}, ptr {place}, i64 {stride})")
    f.do("ret void")


def emit_tile_pack(module: Module, name: str, blocking: Blocking, which: str) -> None:
    """Emit the function like `emit_pack_a`'s that packs tiles of the whole depth."""
    f = module.function(name, PARAMETERS, linkage="internal")
    problem, tile = blocking.problem, blocking.tile
    is_a = which == "a"
    operand = problem.a if is_a else problem.b.transposed  # lines, and the depth along each
    step, size = (tile.rows, tile.m) if is_a else (tile.columns, tile.n)
    panel_bytes = (blocking.a_panel if is_a else blocking.b_panel) * problem.itemsize
    pack = _Packer(f, blocking, operand.row, operand.column, is_a)
    with f.loop("%first", "%last") as panels:
        panel = f.emit(f"sub i64 {panels.index}, %first")
        target = f.offset("%target", "i8", f.emit(f"mul i64 {panel}, {panel_bytes}"))
        start = panel_start(f, panels.index, step, size)
        element = memory_type(problem.dtype)
        source = f.offset("%source", element, f.emit(f"mul i64 {start}, {operand.row}"))
        pack.panel(source, target)
    f.do("ret void")


class _Packer:
    """The code that packs one panel: 32 lines of B, or of A, which may have fewer."""

    def __init__(self, f: Function, blocking: Blocking, line: int, depth: int, is_a: bool) -> None:
        self.f, self.blocking, self.line, self.depth, self.is_a = f, blocking, line, depth, is_a
        self.dtype = blocking.problem.dtype
        self.group, self.deep = blocking.group, blocking.tile_depth
        self.lines = blocking.tile.rows if is_a else blocking.tile.columns

    def panel(self, source: str, target: str) -> None:
        """Whole tiles, then one that k ends in."""
        f, k = self.f, self.blocking.problem.k
        whole = k // self.deep
        with f.loop("0", str(whole)) as blocks:
            self.block(source, target, blocks.index, self.deep)
        if k % self.deep:
            self.block(source, target, str(whole), k % self.deep)

    def block(self, source: str, target: str, number: str, count: int) -> None:
        """The two tiles side by side at one depth, with `count` numbers of the matrix."""
        f, kind = self.f, memory_type(self.dtype)
        begin = f.emit(f"mul i64 {number}, {self.deep * self.depth}")
        source = f.offset(source, kind, begin)
        block = 2 * TILE_ROWS * TILE_BYTES
        target = f.offset(target, "i8", f.emit(f"mul i64 {number}, {block}"))
        is_whole = count == self.deep
        for first in range(0, self.lines, TILE_ROWS):
            corner = f.offset(source, kind, str(first * self.line))
            tile = f.offset(target, "i8", str(first * TILE_BYTES))
            lines = min(TILE_ROWS, self.lines - first)
            if is_whole and self.depth == 1 and self.is_a:
                self._copied(corner, tile, lines)
            elif is_whole and self.depth == 1:
                self._turned(corner, tile)
            elif is_whole and self.line == 1 and not self.is_a:
                self._interleaved(corner, tile)
            else:
                self._one_by_one(corner, tile, lines, count)

    def _copied(self, source: str, target: str, lines: int) -> None:
        """Rows of A, with the depth along them."""
        f = self.f
        with f.loop("0", str(lines)) as rows:
            vector = Vector(self.dtype, self.deep)
            x = self._load(vector, source, f.emit(f"mul i64 {rows.index}, {self.line}"))
            place = f.offset(target, "i8", f.emit(f"mul i64 {rows.index}, {TILE_BYTES}"))
            f.do(f"store {vector.text} {x}, ptr {place}, align 64")

    def _interleaved(self, source: str, target: str) -> None:
        """Rows of B with the columns along them: as many as a group are put together."""
        f, group = self.f, self.group
        vector = Vector(self.dtype, TILE_ROWS)
        with f.loop("0", str(TILE_ROWS)) as rows:
            first = f.emit(f"mul i64 {rows.index}, {group * self.depth}")
            parts = [
                self._load(vector, f.offset(source, vector.element, str(i * self.depth)), first)
                for i in range(group)
            ]
            lanes = TILE_ROWS
            while len(parts) > 1:  # neighbors in the end are those a half apart now
                half = len(parts) // 2
                mask = [i // 2 + i % 2 * lanes for i in range(2 * lanes)]
                parts = [
                    f.shuffle(Vector(self.dtype, lanes), x, y, mask)
                    for x, y in zip(parts[:half], parts[half:], strict=True)
                ]
                lanes *= 2
            place = f.offset(target, "i8", f.emit(f"mul i64 {rows.index}, {TILE_BYTES}"))
            f.do(f"store {Vector(self.dtype, lanes).text} {parts[0]}, ptr {place}, align 64")

    def _turned(self, source: str, target: str) -> None:
        """Columns of B with the depth along them: words of four bytes are transposed."""
        f, step = self.f, 4
        words = Vector("float32", step)
        kind = memory_type(self.dtype)
        for start in range(0, TILE_ROWS, step):
            rows = []
            for line in range(TILE_ROWS):
                offset = line * self.line + start * self.group
                place = f.offset(source, kind, str(offset))
                rows.append(f.emit(f"load {words.text}, ptr {place}, align 1"))
            for i, row in enumerate(transpose(f, words, rows)):
                place = f.offset(target, "i8", str((start + i) * TILE_BYTES))
                f.do(f"store {Vector('float32', TILE_ROWS).text} {row}, ptr {place}, align 64")

    def _one_by_one(self, source: str, target: str, lines: int, count: int) -> None:
        """Copy one number at a time, for any strides and the last tile of k, zero-padded."""
        f, kind, group = self.f, memory_type(self.dtype), self.group
        if count < self.deep:
            words = Vector("int32", TILE_ROWS)
            # of bfloat16 minus zero in B: minus zero is what adds nothing to any sum
            is_minus = self.dtype == "bfloat16" and not self.is_a
            nothing = f.constant(words, MINUS_ZEROS if is_minus else 0)
            for row in range(TILE_ROWS):
                place = f.offset(target, "i8", str(row * TILE_BYTES))
                f.do(f"store {words.text} {nothing}, ptr {place}, align 64")
        with f.loop("0", str(lines)) as each, f.loop("0", str(count)) as depths:
            line, p = each.index, depths.index
            begin = f.emit(f"mul i64 {line}, {self.line}")
            begin = f.emit(f"add i64 {begin}, {f.emit(f'mul i64 {p}, {self.depth}')}")
            if self.is_a:
                place = f.emit(f"add i64 {f.emit(f'mul i64 {line}, {self.deep}')}, {p}")
            else:
                word = f.emit(f"udiv i64 {p}, {group}")
                place = f.emit(f"mul i64 {word}, {self.deep}")
                place = f.emit(f"add i64 {place}, {f.emit(f'mul i64 {line}, {group}')}")
                place = f.emit(f"add i64 {place}, {f.emit(f'urem i64 {p}, {group}')}")
            vector = Vector(self.dtype)
            x = self._load(vector, source, begin)
            f.do(f"store {vector.text} {x}, ptr {f.offset(target, kind, place)}, align 1")

    def _load(self, vector: Vector, pointer: str, index: str) -> str:
        place = self.f.offset(pointer, vector.element, index)
        return self.f.emit(
            f"load {vector.text}, ptr {place}, align {as_dtype(self.dtype).itemsize}"
        )


ROWS = 11  # of A at a time: with two vectors of sums each they leave room for the rest
UNROLLED = 4
WORDS = Vector("int32", TILE_ROWS)
MINUS_ZEROS = (MINUS_ZERO << 16 | MINUS_ZERO) - (1 << 32)
HALF_RANGE = 0x80808080 - (1 << 32)  # 128 in each byte


def emit_group_kernel(module: Module, name: str, blocking: Blocking) -> None:
    """Emit the function like `emit_tile_kernel`'s, without tile registers."""
    f = module.function(name, TILE_PARAMETERS, linkage="internal")
    for first in range(0, blocking.tile.rows, ROWS):
        _some_rows(f, blocking, range(first, min(first + ROWS, blocking.tile.rows)))
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
    given = (vector.text, total), (kind.text, x), (kind.text, y)
    return f.call(vector.text, f"@{name}", *given)
