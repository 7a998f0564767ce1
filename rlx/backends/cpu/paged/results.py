"""Sums of segments, and results: vectors one after another in memory."""

from __future__ import annotations

import math
from collections.abc import Sequence

from ..llvm.text import Function
from ..loops.numbers import Numbers
from ..loops.scalar import emit_instruction, horizontal
from .sizes import Sizes


class Vectors:
    """Vectors of numbers that lie one after another in memory."""

    def __init__(self, f: Function, sizes: Sizes) -> None:
        self.f, self.p, self.vector = f, sizes, sizes.vector
        self.numbers = Numbers(f, sizes.wide, sizes.lanes)

    def _power(self, x: str) -> str:
        return emit_instruction(self.f, "exp", self.p.wide, self.p.lanes, self.p.wide, [x])

    def _put(self, vectors: str, place: int | str, x: str) -> None:
        address = self.f.offset(vectors, self.vector.text, str(place))
        self.f.do(f"store {self.vector.text} {x}, ptr {address}, align {self.p.vector_bytes}")

    def _get(self, vectors: str, place: int | str) -> str:
        address = self.f.offset(vectors, self.vector.text, str(place))
        return self.f.emit(f"load {self.vector.text}, ptr {address}, align {self.p.vector_bytes}")


class Results(Vectors):
    """Sums of segments, and results."""

    def __init__(self, f: Function, sizes: Sizes, out: str) -> None:
        super().__init__(f, sizes)
        self.out = out

    def load_queries(self, queries: str, state: str, row: str) -> None:
        """Load the queries of a token and a group."""
        f, p = self.f, self.p
        start = f.emit(f"mul i64 {row}, {p.heads * p.width}")
        for i in range(p.heads):
            for c in range(p.chunks):
                place = f.emit(f"add i64 {start}, {i * p.width + c * p.lanes}")
                mask = self.numbers.mask(c, p.width)
                q = self.numbers.load(queries, place, p.query, mask)
                self._put(state, i * p.chunks + c, q)

    def clear(self, sums: str) -> None:
        """Begin sums."""
        f, p, zero = self.f, self.p, self.f.constant(self.vector, 0)
        with f.loop("0", str(p.tops)) as loop:
            self._put(sums, loop.index, zero)
        for i in range(p.heads):
            self._put(sums, p.tops + i, f.constant(self.vector, -math.inf))
            self._put(sums, p.totals + i, zero)

    def merge(self, more: str, sums: str) -> None:
        """Add the sums of a segment to those of all before it."""
        f, p, kind = self.f, self.p, self.vector.text
        with f.loop("0", str(p.heads)) as heads:
            i = heads.index
            top, total = (f.emit(f"add i64 {i}, {n}") for n in (p.tops, p.totals))
            tops = [self._get(x, top) for x in (sums, more)]
            is_more = f.emit(f"fcmp ogt {kind} {tops[1]}, {tops[0]}")
            new = f.select(self.vector, is_more, tops[1], tops[0])
            self._put(sums, top, new)
            fades = [self._power(f.emit(f"fsub {kind} {x}, {new}")) for x in tops]
            self._mix(sums, more, total, fades)
            start = f.emit(f"mul i64 {i}, {p.parts}")
            for c in range(p.parts):
                self._mix(sums, more, f.emit(f"add i64 {start}, {c}"), fades)

    def _mix(self, sums: str, more: str, place: str, fades: Sequence[str]) -> None:
        f, kind = self.f, self.vector.text
        x = f.emit(f"fmul {kind} {self._get(sums, place)}, {fades[0]}")
        self._put(sums, place, f.intrinsic("fma", self.vector, self._get(more, place), fades[1], x))

    def finish(self, sums: str, token: str, group: str) -> None:
        """Divide the sums of values by the sums of powers."""
        f, p, vector = self.f, self.p, self.vector
        row = f.emit(f"add i64 {f.emit(f'mul i64 {token}, {p.groups}')}, {group}")
        start = f.emit(f"mul i64 {row}, {p.heads * p.depth}")
        for i in range(p.heads):
            total = f.splat(horizontal(f, "add", vector, self._get(sums, p.totals + i)), vector)
            top, lowest = self._get(sums, p.tops + i), f.constant(vector, -math.inf)
            is_none = f.emit(f"fcmp oeq {vector.text} {top}, {lowest}")  # nothing is seen
            total = f.select(vector, is_none, f.constant(vector, 1), total)
            for c in range(p.parts):
                x = f.emit(f"fdiv {vector.text} {self._get(sums, i * p.parts + c)}, {total}")
                place = f.emit(f"add i64 {start}, {i * p.depth + c * p.lanes}")
                self.numbers.store(x, self.out, place, p.query, self.numbers.mask(c, p.depth))

    def copy(self, sums: str, target: str) -> None:
        """Copy the sums of a segment."""
        with self.f.loop("0", str(self.p.result)) as loop:
            self._put(target, loop.index, self._get(sums, loop.index))
