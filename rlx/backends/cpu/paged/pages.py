"""Pages: where the rows of keys and values lie, through the table of a sequence."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

from ....ir.record import record
from ..llvm.text import Function
from ..loops.numbers import Numbers
from ..loops.scope import memory_vector
from .sizes import BLOCK, Sizes

LINE, NEAR = 64, 2  # bytes of a line of cache; prefetches go to the second one
TOGETHER = 4  # positions that are asked for together, if they are in one page
KEY, VALUE = 1, 2  # pointers of a call; those of their scales come 5 later
SCALES = 5


@record
class Later:
    """The positions that are read after a block: of the same text, or of the next one."""

    table: str
    base: str  # the first one
    end: str  # behind the last one


@record
class Seen:
    """The positions of a block that a token sees."""

    base: str  # where the block begins
    low: str
    high: str
    later: Later


@record
class Rows:
    """The rows of a vector of positions, and those of the block after it."""

    own: Sequence[str]
    later: Sequence[str] = ()


class Pages:
    """Pages, through the table of a sequence."""

    def __init__(self, f: Function, sizes: Sizes, pointers: Sequence[str]) -> None:
        self.f, self.p, self.pointers, self.run = f, sizes, pointers, sizes.run
        self.numbers = Numbers(f, sizes.wide, sizes.lanes)

    def begin(self, sequence: str) -> None:
        """Begin to read a sequence."""
        self.last_page = self.f.emit(f"sub i64 {self.f.number(self.p.pages)}, 1")
        self.table = self.table_of(sequence)

    def table_of(self, sequence: str) -> str:
        """The table of a sequence."""
        f, p = self.f, self.p
        last = f.emit(f"sub i64 {f.number(p.sequences)}, 1")
        own = self.numbers.clamped(sequence, last)
        place = f.emit(f"mul i64 {own}, {f.number(p.table)}")
        return f.offset(self.pointers[3], "i32", place)

    def place(self, position: str, table: str = "") -> str:
        """The row of a position's first key in the pool: its page, its place there."""
        f, p = self.f, self.p
        number = f.emit(f"udiv i64 {position}, {p.size}")
        place = f.emit(f"urem i64 {position}, {p.size}")
        page = self.numbers.clamped(
            self.numbers.integer(table or self.table, number), self.last_page
        )
        row = f.emit(f"add i64 {f.emit(f'mul i64 {page}, {p.size}')}, {place}")
        return f.emit(f"mul i64 {row}, {p.groups}")

    def rows(self, seen: Seen, at: str) -> Rows:
        """Rows; of positions behind the last run those of that run."""
        f = self.f
        first, later = (f.emit(f"add i64 {x}, {at}") for x in (seen.base, seen.later.base))
        rows = self._rows(later, seen.later.end, seen.later.table)
        return Rows(self._rows(first, seen.high, self.table), rows)

    def _rows(self, first: str, high: str, table: str) -> list[str]:
        f, p, rows = self.f, self.p, []
        for start in range(0, p.lanes, p.run):
            position = f.emit(f"add i64 {first}, {start}")
            row = self.place(self._within(position, high), table)
            rows += [f.emit(f"add i64 {row}, {i * p.groups}") for i in range(p.run)]
        return rows

    def _within(self, position: str, high: str) -> str:
        """The first position of a run, or of that of the last position before `high`."""
        f = self.f
        last = f.emit(f"sub i64 {high}, 1")
        last = f.emit(f"sub i64 {last}, {f.emit(f'urem i64 {last}, {self.p.run}')}")
        return self.numbers.extreme("smin", position, last)

    def of_group(self, rows: Rows, group: str) -> Rows:
        """Those of a group."""
        own, later = (
            [self.f.emit(f"add i64 {row}, {group}") for row in each]
            for each in (rows.own, rows.later)
        )
        return Rows(own, later)

    def row(self, seen: Seen, start: str, group: str) -> Rows:
        """The row of the first position of a run."""
        own = self.place(self._within(start, seen.high))
        at, later = self.f.emit(f"sub i64 {start}, {seen.base}"), seen.later
        row = self._within(self.f.emit(f"add i64 {later.base}, {at}"), later.end)
        return self.of_group(Rows([own], [self.place(row, later.table)]), group)

    def key(self, row: str, chunk: int) -> str:
        """Some numbers of a key, wide."""
        return self.part(KEY, row, chunk, self.p.width)

    def value(self, row: str, index: str, chunk: int) -> str:
        """Some numbers of the value so many positions after that of a row, wide."""
        return self.part(VALUE, self._after(row, index), chunk, self.p.depth)

    def part(self, which: int, row: str, chunk: int, width: int) -> str:
        """Some numbers of a row, wide."""
        f, p = self.f, self.p
        place = f.emit(f"add i64 {f.emit(f'mul i64 {row}, {width}')}, {chunk * p.lanes}")
        mask = self.numbers.mask(chunk, width)
        return self.numbers.load(self.pointers[which], place, p.page, mask)

    def _after(self, row: str, index: str) -> str:
        return self.f.emit(f"add i64 {row}, {self.f.emit(f'mul i64 {index}, {self.p.groups}')}")

    def scales(self, which: int, rows: Rows) -> str:
        """The scales of keys or values in these rows; empty without any."""
        vector, made = self.p.vector, "poison"
        if not self.p.scale_dtype:
            return ""
        for i, row in enumerate(rows.own):
            lane = f"{vector.element} {self.scale(which, row)}, i32 {i}"
            made = self.f.emit(f"insertelement {vector.text} {made}, {lane}")
        return made

    def scale(self, which: int, row: str) -> str:
        """The scale of a key or a value."""
        dtype = self.p.scale_dtype or ""
        return self.numbers.load(self.pointers[which + SCALES], row, dtype, None, 1)

    def ask(self, which: int, rows: Sequence[str], index: str = "0") -> None:
        """Prefetch the lines of keys or values, so many positions after these rows."""
        f, p = self.f, self.p
        itemsize = np.dtype(memory_vector(p.page, 1).dtype).itemsize
        nbytes = itemsize * (p.width if which == KEY else p.depth)
        for row in rows:
            row = row if index == "0" else self._after(row, index)
            start = f.offset(self.pointers[which], "i8", f.emit(f"mul i64 {row}, {nbytes}"))
            for first in range(0, nbytes, LINE):
                f.prefetch(f.offset(start, "i8", str(first)), locality=NEAR)

    def ask_for_part(
        self, which: int, base: str, end: str, group: str, part: str, parts: str
    ) -> None:
        """Prefetch a part of the positions of the block after that which begins at `base`."""
        f, numbers, few = self.f, self.numbers, math.gcd(self.p.size, TOGETHER)
        first = f.emit(f"add i64 {base}, {BLOCK}")
        count = numbers.extreme("smin", f.emit(f"sub i64 {end}, {first}"), str(BLOCK))
        runs = f.emit(f"sdiv i64 {f.emit(f'add i64 {count}, {few - 1}')}, {few}")
        ends = part, f.emit(f"add i64 {part}, 1")
        start, stop = (f.emit(f"sdiv i64 {f.emit(f'mul i64 {x}, {runs}')}, {parts}") for x in ends)
        with f.loop(numbers.extreme("smax", start, "0"), stop) as loop:
            position = f.emit(f"add i64 {first}, {f.emit(f'mul i64 {loop.index}, {few}')}")
            row = f.emit(f"add i64 {self.place(position)}, {group}")
            self.ask(which, [f.emit(f"add i64 {row}, {i * self.p.groups}") for i in range(few)])
