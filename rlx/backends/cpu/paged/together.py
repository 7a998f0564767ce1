"""Neighboring tokens of one text together, which copy a block of a group first.

The copy has numbers of the dtype of registers. Keys are turned: the lanes of a vector are positions
there. So a score takes no shuffles, only as many additions more as a vector has lanes.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import final

from ..llvm.text import Function, Vector
from ..loops.vectors import transpose
from .block import Block, Memory, Of
from .pages import KEY, VALUE, Pages, Seen
from .sizes import BLOCK, Sizes

FEW = 4  # lanes whose sums are in registers together
SHORT = 16  # bytes


@final
class Together(Block):
    """A copy of a block of one group: its keys, then its values in their place."""

    def __init__(self, f: Function, sizes: Sizes, memory: Memory, pages: Pages) -> None:
        super().__init__(f, sizes, memory)
        self.pages, self.few = pages, min(FEW, sizes.lanes)
        count = BLOCK * max(sizes.chunks, sizes.parts)
        self.copied = f.reserve(f"[{count} x {sizes.vector.text}]", 64)
        self.rows = f.reserve(f"[{sizes.lanes * sizes.chunks} x {sizes.vector.text}]", 64)
        count, most = self._tile
        count *= most * sizes.lanes // self.few
        self.parts = f.reserve(f"[{count} x {sizes.vector.text}]", 64)
        kind = f"[{BLOCK if sizes.scale_dtype else 0} x {sizes.vector.element}]"
        self.scales = {which: f.reserve(kind, 64) for which in (KEY, VALUE)}

    # -- scores ------------------------------------------------------------------------------------

    def copy_keys(self, seen: Seen, group: str) -> None:
        """Copy the keys that are seen of a block, turned."""
        f, p, pages = self.f, self.p, self.pages
        self.seen = seen
        with self._vectors() as at:
            rows = pages.of_group(pages.rows(seen, at), group)
            for i, row in enumerate(rows.own):
                for c in range(p.chunks):
                    self._put(self.rows, i * p.chunks + c, pages.key(row, c))
            self._turn(f.offset(self.copied, self.vector.element, at))
            for which in (KEY, VALUE) if p.scale_dtype else ():
                self._put_numbers(self.scales[which], at, pages.scales(which, rows))

    def _turn(self, target: str) -> None:
        """Turn a vector of keys, 16 bytes of each at a time."""
        f, p, vector = self.f, self.p, self.vector
        width, short = p.chunks * self.lanes, p.lanes * SHORT // p.vector_bytes
        piece = Vector(p.wide, short)
        with f.loop("0", str(width), str(short)) as loop:
            start = f.offset(self.rows, vector.element, loop.index)
            places = [f.offset(start, vector.element, str(i * width)) for i in range(self.lanes)]
            pieces = [f.load(piece, place, SHORT) for place in places]
            place = f.emit(f"mul i64 {loop.index}, {BLOCK}")
            column = f.offset(target, vector.element, place)
            for i, x in enumerate(transpose(f, piece, pieces)):
                self._put_numbers(column, i * BLOCK, x)

    def scores(self, of: Of, seen: Seen) -> None:
        """Compute the scores of a block."""
        self._begin(of, seen)
        self._hide()
        p = self.p
        count, most = self._tile
        with self._each_group() as state, self._vectors(count) as first:
            places = [self.f.emit(f"add i64 {first}, {n * self.lanes}") for n in range(count)]
            are_seen = [self._is_seen(at) for at in places]
            scales = [self._scales(KEY, at) for at in places]
            for start in range(0, p.heads, most):
                heads = range(start, min(p.heads, start + most))
                products = iter(self._products(state, first, heads, count))
                for i in heads:
                    for at, scale, is_seen in zip(places, scales, are_seen, strict=True):
                        self._put_products(i, at, next(products), scale, is_seen)
        self._raise_tops()

    @property
    def _tile(self) -> tuple[int, int]:
        """How many vectors of positions, and how many heads at most, are multiplied at a time.

        Where sums of neighboring lanes are added there are three of them at a time.
        """
        most = max(1, (self.p.free + 2) // 3)
        heads = min(self.p.heads, max(1, most // 2))
        heads = -(-self.p.heads // -(-self.p.heads // heads))
        vectors = min(most // heads, BLOCK // self.lanes)
        return 1 << vectors.bit_length() - 1, heads

    def _products(self, state: str, first: str, heads: range, count: int) -> list[str]:
        """The products of queries with some vectors of keys: those of a head follow each other."""
        f, vector, few, size = self.f, self.vector, self.few, len(heads) * count
        with f.loop("0", str(self.lanes), str(few)) as loop:
            queries = f.offset(state, vector.element, loop.index)
            place = f.emit(f"add i64 {f.emit(f'mul i64 {loop.index}, {BLOCK}')}, {first}")
            keys = f.offset(self.copied, vector.element, place)
            made = self._sums_of_lanes(queries, keys, (heads, count), range(few))
            number = f.emit(f"udiv i64 {loop.index}, {few}")
            parts = f.offset(self.parts, vector.text, f.emit(f"mul i64 {number}, {size}"))
            for i, x in enumerate(made):
                self._put(parts, i, x)
        starts = range(0, self.lanes // few * size, size)
        return [
            self._sum([self._get(self.parts, start + i) for start in starts]) for i in range(size)
        ]

    def _sums_of_lanes(
        self, queries: str, keys: str, tile: tuple[range, int], lanes: range
    ) -> list[str]:
        """The sums of products of neighboring lanes: of each half of these, then of both."""
        f, kind, half = self.f, self.vector.text, len(lanes) // 2
        if not half:
            return self._lane(queries, keys, tile, lanes.start)
        pair = [self._sums_of_lanes(queries, keys, tile, x) for x in (lanes[:half], lanes[half:])]
        return [f.emit(f"fadd {kind} {x}, {y}") for x, y in zip(*pair, strict=True)]

    def _lane(self, queries: str, keys: str, tile: tuple[range, int], lane: int) -> list[str]:
        """The sums of products of a lane, for each head and vector of keys."""
        f, p, vector, (heads, count) = self.f, self.p, self.vector, tile
        sums: list[str] = []
        for c in range(p.chunks):
            start = (c * self.lanes + lane) * BLOCK
            those = [self._numbers(keys, start + n * self.lanes) for n in range(count)]
            factors = [(q, k) for q in self._queries(queries, heads, c, lane) for k in those]
            if c:
                sums = [
                    f.intrinsic("fma", vector, *x, y) for x, y in zip(factors, sums, strict=True)
                ]
            else:
                sums = [f.emit(f"fmul {vector.text} {q}, {k}") for q, k in factors]
        return sums

    def _queries(self, queries: str, heads: range, chunk: int, lane: int) -> Iterator[str]:
        """A number of the query of each head, in all lanes."""
        f, element = self.f, self.vector.element
        for i in heads:
            place = (i * self.p.chunks + chunk) * self.lanes + lane
            address = f.offset(queries, element, str(place))
            yield f.splat(f.emit(f"load {element}, ptr {address}"), self.vector)

    def _sum(self, xs: list[str]) -> str:
        """Add neighbors, then neighbors of what that gives, and so on."""
        kind = self.vector.text
        while len(xs) > 1:
            pairs = zip(xs[::2], xs[1::2], strict=True)
            xs = [self.f.emit(f"fadd {kind} {x}, {y}") for x, y in pairs]
        return xs[0]

    # -- values ------------------------------------------------------------------------------------

    def copy_values(self, seen: Seen, group: str) -> None:
        """Copy the values that are seen of a block; its keys are not needed any more."""
        f, p, pages = self.f, self.p, self.pages
        self.seen = seen
        with self._vectors() as at:
            rows = pages.of_group(pages.rows(seen, at), group)
            start = f.offset(self.copied, self.vector.text, f.emit(f"mul i64 {at}, {p.parts}"))
            for i, row in enumerate(rows.own):
                for c in range(p.parts):
                    self._put(start, i * p.parts + c, pages.value(row, "0", c))

    def _value_scales(self, at: str) -> str:
        return self._scales(VALUE, at)

    def values(self, of: Of, seen: Seen) -> None:
        """Add the values of a block, weighted by the powers, position after position."""
        self._begin(of, seen)
        p = self.p
        parts = min(p.parts, p.free)
        heads = max(1, p.free // parts)
        with self._each_group() as state:
            for i in range(0, p.heads, heads):
                for c in range(0, p.parts, parts):
                    some = range(i, min(p.heads, i + heads)), range(c, min(p.parts, c + parts))
                    self._add_values(state, *some)

    def _add_values(self, state: str, heads: range, parts: range) -> None:
        f, p, vector, seen = self.f, self.p, self.vector, self.seen
        sums = [(i, c) for i in heads for c in parts]
        places = [p.sums + i * p.parts + c for i, c in sums]
        carried = [(vector.text, self._get(state, place)) for place in places]
        bounds = [f.emit(f"sub i64 {x}, {seen.base}") for x in (seen.low, seen.high)]
        with f.loop(*bounds, carried=carried) as loop:
            row = f.offset(self.copied, vector.text, f.emit(f"mul i64 {loop.index}, {p.parts}"))
            weights = {i: self._weight(i, loop.index) for i in heads}
            values = {c: self._get(row, c) for c in parts}
            loop.next = [
                f.intrinsic("fma", vector, weights[i], values[c], old)
                for (i, c), old in zip(sums, loop.values, strict=True)
            ]
        for place, x in zip(places, loop.values, strict=True):
            self._put(state, place, x)

    # -- memory ------------------------------------------------------------------------------------

    def _scales(self, which: int, at: str) -> str:
        return self._numbers(self.scales[which], at) if self.p.scale_dtype else ""

    def _numbers(self, pointer: str, place: int | str) -> str:
        """The vector that begins at a number."""
        address = self.f.offset(pointer, self.vector.element, str(place))
        return self._get(address, 0)

    def _put_numbers(self, pointer: str, place: int | str, x: str) -> None:
        self._put(self.f.offset(pointer, self.vector.element, str(place)), 0, x)
