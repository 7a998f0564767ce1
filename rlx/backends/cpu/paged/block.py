"""Writes what a token does with a block of positions, for some groups of heads.

First the scores of the block, a vector of positions at a time, then their powers, with the greatest
so far, then the sums of values, position after position. What is loaded of a page is used for all
heads of a group. `Results` puts sums of several blocks together.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from contextlib import contextmanager

import numpy as np

from ....ir.record import record
from ..llvm.text import Function
from ..loops.numbers import Numbers
from ..loops.scalar import emit_instruction, horizontal
from .sizes import BLOCK, Sizes
from .sources import KEY, VALUE, Rows, Seen, Source


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


@record
class Of:
    """What is computed: groups of a token, whose states follow each other."""

    slot: str  # the number of the first state
    first: str  # group
    groups: str


class Block(Vectors):
    """A block of positions; `states` are vectors in memory, by token and group."""

    def __init__(self, f: Function, sizes: Sizes, queries: str, states: str) -> None:
        super().__init__(f, sizes)
        self.queries, self.lanes = queries, sizes.lanes
        self.states, count = states, sizes.slots * sizes.heads * BLOCK
        self.memory = f.reserve(f"[{count} x {self.vector.element}]", 64)

    def load_queries(self, state: str, row: str) -> None:
        """Load the queries of a token and a group."""
        f, p = self.f, self.p
        start = f.emit(f"mul i64 {row}, {p.heads * p.width}")
        for i in range(p.heads):
            for c in range(p.chunks):
                place = f.emit(f"add i64 {start}, {i * p.width + c * self.lanes}")
                mask = self.numbers.mask(c, p.width)
                q = self.numbers.load(self.queries, place, p.query, mask)
                self._put(state, i * p.chunks + c, q)

    def scores(self, source: Source, of: Of, seen: Seen) -> None:
        """Compute the scores of a block."""
        self.source, self.of, self.seen = source, of, seen
        with self._vectors() as at:
            rows = source.rows(seen, at)
            is_seen = self._is_seen(self.f.emit(f"add i64 {seen.base}, {at}"))
            with self._each_group() as state:
                self._scores_of(state, at, source.of_group(rows, self.group), is_seen)

    def sums(self, source: Source, of: Of, seen: Seen) -> None:
        """Add the values of a block whose scores are computed to the sums."""
        self.source, self.of, self.seen = source, of, seen
        with self._each_group() as state:
            self._powers(state)
        self._values()

    @contextmanager
    def _each_group(self) -> Iterator[str]:
        """A loop over groups: their states, with `group` and the place of its scores."""
        f, p = self.f, self.p
        with f.loop("0", self.of.groups) as loop:
            self.group = f.emit(f"add i64 {self.of.first}, {loop.index}")
            slot = f.emit(f"add i64 {self.of.slot}, {loop.index}")
            self.own_scores = f.emit(f"mul i64 {slot}, {p.heads * BLOCK}")
            place = f.emit(f"mul i64 {slot}, {p.each}")
            yield f.offset(self.states, self.vector.text, place)

    @contextmanager
    def _vectors(self) -> Iterator[str]:
        """A loop over the vectors of positions of a block, by their first ones in it."""
        f, lanes, seen = self.f, self.lanes, self.seen
        start = f.emit(f"udiv i64 {f.emit(f'sub i64 {seen.low}, {seen.base}')}, {lanes}")
        stop = f.emit(f"sub i64 {seen.high}, {seen.base}")
        with f.loop(f.emit(f"mul i64 {start}, {lanes}"), stop, str(lanes)) as loop:
            yield loop.index

    # -- scores ------------------------------------------------------------------------------------

    def _is_seen(self, first: str) -> str:
        """Which of a vector of positions are seen."""
        f, places = self.f, self.vector.with_dtype("int64")
        steps = ", ".join(f"i64 {i}" for i in range(self.lanes))
        own = f.emit(f"add {places.text} {f.splat(first, places)}, <{steps}>")
        low, high = (f.splat(x, places) for x in (self.seen.low, self.seen.high))
        is_low = f.emit(f"icmp sge {places.text} {own}, {low}")
        is_high = f.emit(f"icmp slt {places.text} {own}, {high}")
        return f.emit(f"and {self.vector.with_dtype('bool').text} {is_low}, {is_high}")

    def _scores_of(self, state: str, at: str, rows: Rows, is_seen: str) -> None:
        f, p, vector = self.f, self.p, self.vector
        scale = self.source.scales(KEY, rows)
        for start in range(0, p.heads, self.most):
            heads = range(start, min(p.heads, start + self.most))
            for i, x in zip(heads, self._products(state, rows, heads), strict=True):
                attrs = p.step.attrs
                x = f.emit(f"fmul {vector.text} {x}, {f.constant(vector, attrs['scale'])}")
                if scale:
                    x = f.emit(f"fmul {vector.text} {x}, {scale}")
                if attrs["soft_cap"] is not None:
                    x = self._capped(x, attrs["soft_cap"])
                x = f.select(vector, is_seen, x, f.constant(vector, -math.inf))
                self._put_scores(i, at, x)

    @property
    def most(self) -> int:
        """How many heads are multiplied by a key at a time."""
        return max(1, self.p.free // (2 * min(4, self.lanes)))

    def _products(self, state: str, rows: Rows, heads: range) -> list[str]:
        """The products of queries with as many keys as a vector has lanes."""
        f, p, vector, few = self.f, self.p, self.vector, min(4, self.lanes)
        parts: list[list[str]] = [[] for _ in heads]
        for start in range(0, self.lanes, few):
            if not heads.start:
                self.source.ask(KEY, rows.later[start : start + few])
            totals = [[""] * few for _ in heads]
            for c in range(p.chunks):
                queries = [self._get(state, i * p.chunks + c) for i in heads]
                for j in range(few):
                    key = self.source.key(rows.own[start + j], c)
                    for n, q in enumerate(queries):
                        old = totals[n][j]
                        if old:
                            totals[n][j] = f.intrinsic("fma", vector, q, key, old)
                        else:
                            totals[n][j] = f.emit(f"fmul {vector.text} {q}, {key}")
            for n, each in enumerate(totals):
                parts[n] += self._folded(each, 1)
        return [self._folded(each, few)[0] for each in parts]

    def _folded(self, xs: list[str], bit: int) -> list[str]:
        """Add lanes of vectors in pairs: lane i is of the vector with these bits of i."""
        f, vector = self.f, self.vector
        while len(xs) > 1:
            made = []
            for x, y in zip(xs[::2], xs[1::2], strict=True):
                is_other = [bool(i & bit) for i in range(self.lanes)]
                same = [i + self.lanes * other for i, other in enumerate(is_other)]
                crossed = [(i ^ bit) + self.lanes * other for i, other in enumerate(is_other)]
                pair = [f.shuffle(vector, x, y, places) for places in (same, crossed)]
                made.append(f.emit(f"fadd {vector.text} {pair[0]}, {pair[1]}"))
            xs, bit = made, bit * 2
        return xs

    def _capped(self, x: str, cap: float) -> str:
        f, p, vector = self.f, self.p, self.vector
        x = f.emit(f"fdiv {vector.text} {x}, {f.constant(vector, cap)}")
        x = emit_instruction(f, "tanh", p.wide, self.lanes, p.wide, [x])
        return f.emit(f"fmul {vector.text} {x}, {f.constant(vector, cap)}")

    # -- powers ------------------------------------------------------------------------------------

    def _powers(self, state: str) -> None:
        """The powers of a block's scores in their place; what came before fades."""
        f, p, vector, seen = self.f, self.p, self.vector, self.seen
        sums, tops, totals = (p.sums + n for n in (0, p.tops, p.totals))
        lowest = float(np.finfo(p.wide).min)
        for i in range(p.heads):
            top = self._get(state, tops + i)
            new = f.splat(horizontal(f, "max", vector, self._highest(i, top)), vector)
            # of a block whose scores are all -inf no power is: -inf less itself would be NaN
            is_finite = f.emit(f"fcmp ogt {vector.text} {new}, {f.constant(vector, lowest)}")
            new = f.select(vector, is_finite, new, f.constant(vector, lowest))
            fade = self._power(f.emit(f"fsub {vector.text} {top}, {new}"))
            self._put(state, tops + i, new)
            faded = [sums + i * p.parts + c for c in range(p.parts)]
            for place in (*faded, totals + i):
                old = self._get(state, place)
                self._put(state, place, f.emit(f"fmul {vector.text} {old}, {fade}"))
        with self._vectors() as at:
            scale = ""
            if p.scale_dtype:
                rows = self.source.of_group(self.source.rows(seen, at), self.group)
                scale = self.source.scales(VALUE, rows)
            for i in range(p.heads):
                x = self._get_scores(i, at)
                x = self._power(f.emit(f"fsub {vector.text} {x}, {self._get(state, tops + i)}"))
                total = f.emit(f"fadd {vector.text} {self._get(state, totals + i)}, {x}")
                self._put(state, totals + i, total)
                if scale:
                    x = f.emit(f"fmul {vector.text} {x}, {scale}")
                self._put_scores(i, at, x)

    def _highest(self, i: int, top: str) -> str:
        """The greatest scores so far, lane by lane."""
        f, lanes, vector, seen = self.f, self.lanes, self.vector, self.seen
        start = f.emit(f"udiv i64 {f.emit(f'sub i64 {seen.low}, {seen.base}')}, {lanes}")
        stop = f.emit(f"sub i64 {seen.high}, {seen.base}")
        start = f.emit(f"mul i64 {start}, {lanes}")
        with f.loop(start, stop, str(lanes), [(vector.text, top)]) as loop:
            x, old = self._get_scores(i, loop.index), loop.values[0]
            is_more = f.emit(f"fcmp ogt {vector.text} {x}, {old}")
            loop.next = [f.select(vector, is_more, x, old)]
        return loop.values[0]

    # -- values ------------------------------------------------------------------------------------

    def _values(self) -> None:
        """Add the values of a block, weighted by the powers, position after position."""
        f, p = self.f, self.p
        parts = min(p.parts, p.free)
        heads = max(1, p.free // parts)
        with self._vectors() as at, self._each_group() as state:
            first = f.emit(f"add i64 {self.seen.base}, {at}")
            for i in range(0, p.heads, heads):
                for c in range(0, p.parts, parts):
                    some = range(i, min(p.heads, i + heads)), range(c, min(p.parts, c + parts))
                    self._add_values(state, first, *some)

    def _add_values(self, state: str, first: str, heads: range, parts: range) -> None:
        """Add those of a vector of positions, a run of them in one page after another."""
        f, p, vector, seen, source = self.f, self.p, self.vector, self.seen, self.source
        sums = [(i, c) for i in heads for c in parts]
        places = [p.sums + i * p.parts + c for i, c in sums]
        carried = [(vector.text, self._get(state, place)) for place in places]
        with f.loop("0", str(self.lanes), str(source.run), carried) as runs:
            start = f.emit(f"add i64 {first}, {runs.index}")
            rows = source.row(seen, start, self.group)
            bounds = (
                f.emit(f"sub i64 {self.numbers.extreme('smax', start, seen.low)}, {start}"),
                self.numbers.extreme(
                    "smin", f.emit(f"sub i64 {seen.high}, {start}"), str(source.run)
                ),
            )
            inner = [(kind, x) for (kind, _), x in zip(carried, runs.values, strict=True)]
            before = f.emit(f"sub i64 {start}, {seen.base}")
            with f.loop(*bounds, carried=inner) as loop:
                if not heads.start and not parts.start:
                    source.ask(VALUE, rows.later, loop.index)
                at = f.emit(f"add i64 {before}, {loop.index}")
                weights = {i: self._weight(i, at) for i in heads}
                values = {c: source.value(rows.own[0], loop.index, c) for c in parts}
                loop.next = [
                    f.intrinsic("fma", vector, weights[i], values[c], old)
                    for (i, c), old in zip(sums, loop.values, strict=True)
                ]
            runs.next = loop.values
        for place, x in zip(places, runs.values, strict=True):
            self._put(state, place, x)

    # -- memory ------------------------------------------------------------------------------------

    def _weight(self, head: int, at: str) -> str:
        f, element = self.f, self.vector.element
        x = f.emit(f"load {element}, ptr {self._score_address(head, at)}")
        return f.splat(x, self.vector)

    def _score_address(self, head: int, at: str) -> str:
        place = self.f.emit(f"add i64 {at}, {head * BLOCK}")
        place = self.f.emit(f"add i64 {place}, {self.own_scores}")
        return self.f.offset(self.memory, self.vector.element, place)

    def _put_scores(self, head: int, at: str, x: str) -> None:
        address = self._score_address(head, at)
        self.f.do(f"store {self.vector.text} {x}, ptr {address}, align {self.p.vector_bytes}")

    def _get_scores(self, head: int, at: str) -> str:
        address = self._score_address(head, at)
        return self.f.emit(f"load {self.vector.text}, ptr {address}, align {self.p.vector_bytes}")
