"""A token alone, which reads keys and values in their pages.

It asks for those of the next block meanwhile. What is loaded of a page is used for all heads of a
group.
"""

from __future__ import annotations

from typing import final

from ..llvm.text import Function
from .block import Block, Memory, Of
from .pages import KEY, VALUE, Pages, Rows, Seen
from .sizes import Sizes


@final
class Alone(Block):
    """A block in its pages."""

    def __init__(self, f: Function, sizes: Sizes, memory: Memory, pages: Pages) -> None:
        super().__init__(f, sizes, memory)
        self.source = pages

    # -- scores ------------------------------------------------------------------------------------

    def scores(self, of: Of, seen: Seen) -> None:
        """Compute the scores of a block."""
        self._begin(of, seen)
        self._hide()
        with self._vectors() as at:
            rows = self.source.rows(seen, at)
            is_seen = self._is_seen(at)
            with self._each_group() as state:
                own = self.source.of_group(rows, self.group)
                self._scores_of_vector(state, at, own, is_seen)
        self._raise_tops()

    def _scores_of_vector(self, state: str, at: str, rows: Rows, is_seen: str) -> None:
        p, scale = self.p, self.source.scales(KEY, rows)
        for start in range(0, p.heads, self.most):
            heads = range(start, min(p.heads, start + self.most))
            for i, x in zip(heads, self._products(state, rows, heads), strict=True):
                self._put_products(i, at, x, scale, is_seen)

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

    # -- values ------------------------------------------------------------------------------------

    def _value_scales(self, at: str) -> str:
        if not self.p.scale_dtype:
            return ""
        rows = self.source.of_group(self.source.rows(self.seen, at), self.group)
        return self.source.scales(VALUE, rows)

    def values(self, of: Of, seen: Seen) -> None:
        """Add the values of a block, weighted by the powers, position after position."""
        self._begin(of, seen)
        p = self.p
        parts = min(p.parts, p.free)
        heads = max(1, p.free // parts)
        with self._vectors() as at, self._each_group() as state:
            first = self.f.emit(f"add i64 {seen.base}, {at}")
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
