"""What a token does with a block of positions, for some groups of heads.

First the scores of the block, then their powers, with the greatest so far, then the sums of values,
position after position. A score has a sum for each lane of a vector, which goes through the key in
steps of a vector; neighbors of these sums are added, then neighbors of what that gives, and so on.
So it has the same bits in both ways to compute it: for a token alone (`alone.py`), or for many
together (`together.py`).
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Iterator, Sequence
from contextlib import contextmanager

import numpy as np

from ....ir.record import record
from ..llvm.text import Function, Vector
from ..loops.scalar import emit_instruction
from .pages import Seen
from .results import Vectors
from .sizes import BLOCK, Sizes

FEW = 2  # vectors whose powers are computed together, so that fewer wait for others


@record
class Of:
    """What is computed: groups of a token."""

    slot: str  # the number of its first state
    step: str  # from there to its next one
    first: str  # group
    groups: str


@record
class Memory:
    """Numbers of each token and group: pointers."""

    states: str
    scores: str
    fades: str  # by what sums are multiplied where the greatest scores have grown

    @classmethod
    def of(cls, f: Function, sizes: Sizes) -> Memory:
        """Memory of all slots."""
        count, kind = sizes.slots * sizes.heads, sizes.vector
        return cls(
            f.reserve(f"[{sizes.slots * sizes.each} x {kind.text}]", 64),
            f.reserve(f"[{count * BLOCK} x {kind.element}]", 64),
            f.reserve(f"[{count + sizes.lanes} x {kind.element}]", 64),
        )


class Block(Vectors, ABC):
    """A block of positions."""

    def __init__(self, f: Function, sizes: Sizes, memory: Memory) -> None:
        super().__init__(f, sizes)
        self.memory, self.lanes, self.vectors = memory, sizes.lanes, BLOCK // sizes.lanes

    @abstractmethod
    def scores(self, of: Of, seen: Seen) -> None:
        """Compute the scores of a block."""

    @abstractmethod
    def values(self, of: Of, seen: Seen) -> None:
        """Add the values of a block, weighted by the powers, position after position."""

    @abstractmethod
    def _value_scales(self, at: str) -> str:
        """The scales of the values of a vector of positions; empty without any."""

    def _begin(self, of: Of, seen: Seen) -> None:
        self.of, self.seen = of, seen

    @contextmanager
    def _each_group(self) -> Iterator[str]:
        """A loop over groups: their states, with `group` and the place of its scores."""
        f, p = self.f, self.p
        with f.loop("0", self.of.groups) as loop:
            self.group = f.emit(f"add i64 {self.of.first}, {loop.index}")
            slot = f.emit(f"mul i64 {loop.index}, {self.of.step}")
            slot = f.emit(f"add i64 {self.of.slot}, {slot}")
            place = f.emit(f"mul i64 {slot}, {p.heads * BLOCK}")
            self.own_scores = f.offset(self.memory.scores, self.vector.element, place)
            place = f.emit(f"mul i64 {slot}, {p.heads}")
            self.own_fades = f.offset(self.memory.fades, self.vector.element, place)
            place = f.emit(f"mul i64 {slot}, {p.each}")
            yield f.offset(self.memory.states, self.vector.text, place)

    @contextmanager
    def _vectors(self, count: int = 1) -> Iterator[str]:
        """A loop over so many vectors of positions of a block, by their first ones in it."""
        f, lanes, seen = self.f, count * self.lanes, self.seen
        start = f.emit(f"udiv i64 {f.emit(f'sub i64 {seen.low}, {seen.base}')}, {lanes}")
        stop = f.emit(f"sub i64 {seen.high}, {seen.base}")
        with f.loop(f.emit(f"mul i64 {start}, {lanes}"), stop, str(lanes)) as loop:
            yield loop.index

    # -- scores ------------------------------------------------------------------------------------

    def _hide(self) -> None:
        """Begin the scores of a block of which not all positions are seen."""
        f, p, seen = self.f, self.p, self.seen
        count = f.emit(f"sub i64 {seen.high}, {seen.low}")
        with f.when(f.emit(f"icmp slt i64 {count}, {BLOCK}")), self._each_group():
            with f.loop("0", str(p.heads * BLOCK // self.lanes)) as loop:
                self._put(self.own_scores, loop.index, f.constant(self.vector, -math.inf))

    def _is_seen(self, at: str) -> str:
        """Which of a vector of positions are seen."""
        f, seen = self.f, self.seen
        places = self.vector.with_dtype("int64" if self.p.wide == "float64" else "int32")
        steps = ", ".join(f"{places.element} {i}" for i in range(self.lanes))

        def within(x: str) -> str:
            if places.bits < 64:
                x = f.emit(f"trunc i64 {x} to {places.element}")
            return f.splat(x, places)

        own = f.emit(f"add {places.text} {within(at)}, <{steps}>")
        low, high = (within(f.emit(f"sub i64 {x}, {seen.base}")) for x in (seen.low, seen.high))
        is_low = f.emit(f"icmp sge {places.text} {own}, {low}")
        is_high = f.emit(f"icmp slt {places.text} {own}, {high}")
        return f.emit(f"and {self.vector.with_dtype('bool').text} {is_low}, {is_high}")

    def _put_products(self, head: int, at: str, x: str, scale: str, is_seen: str) -> None:
        """Make scores of the products of a head with a vector of keys."""
        f, vector, attrs = self.f, self.vector, self.p.step.attrs
        x = f.emit(f"fmul {vector.text} {x}, {f.constant(vector, attrs['scale'])}")
        if scale:
            x = f.emit(f"fmul {vector.text} {x}, {scale}")
        if attrs["soft_cap"] is not None:
            x = self._capped(x, attrs["soft_cap"])
        x = f.select(vector, is_seen, x, f.constant(vector, -math.inf))
        self._put_scores(head, at, x)

    def _capped(self, x: str, cap: float) -> str:
        f, p, vector = self.f, self.p, self.vector
        x = f.emit(f"fdiv {vector.text} {x}, {f.constant(vector, cap)}")
        x = emit_instruction(f, "tanh", p.wide, self.lanes, p.wide, [x])
        return f.emit(f"fmul {vector.text} {x}, {f.constant(vector, cap)}")

    # -- powers ------------------------------------------------------------------------------------

    def _raise_tops(self) -> None:
        """The greatest scores so far, and by how much they have grown."""
        f, p, vector = self.f, self.p, self.vector
        kind, lowest = vector.text, f.constant(vector, float(np.finfo(p.wide).min))
        with self._each_group() as state, f.loop("0", str(p.heads)) as heads:
            place = f.emit(f"add i64 {heads.index}, {p.sums + p.tops}")
            scores = self._scores_of(heads.index)
            old = self._get(state, place)
            top = self._greatest(old, [self._get(scores, n) for n in range(self.vectors)])
            # of a block whose scores are all -inf no power is: -inf less itself would be NaN
            top = self._more(top, lowest)
            self._put(state, place, top)
            grown = f.emit(f"fsub {kind} {old}, {top}")
            grown = f.emit(f"extractelement {kind} {grown}, i64 0")
            fade = f.offset(self.own_fades, vector.element, heads.index)
            f.do(f"store {vector.element} {grown}, ptr {fade}")

    def _greatest(self, top: str, xs: Sequence[str]) -> str:
        """The greatest number of vectors, in all lanes; NaN in `xs` passes for the least."""
        f, vector, lanes = self.f, self.vector, range(self.lanes)
        for x in xs:
            top = self._more(x, top)
        for bit in (1 << n for n in range(self.lanes.bit_length() - 1)):
            other = f.shuffle(vector, top, "poison", [i ^ bit for i in lanes])
            top = self._more(other, top)
        return top

    def _more(self, x: str, y: str) -> str:
        """The greater number, or y."""
        is_more = self.f.emit(f"fcmp ogt {self.vector.text} {x}, {y}")
        return self.f.select(self.vector, is_more, x, y)

    def fade(self, first: str, count: str) -> None:
        """Make fades of what scores have grown by, of states from the first on."""
        f, vector, itemsize = self.f, self.vector, self.p.vector_bytes // self.lanes
        start, count = (f.emit(f"mul i64 {x}, {self.p.heads}") for x in (first, count))
        start = f.offset(self.memory.fades, vector.element, start)
        with f.loop("0", count, str(self.lanes)) as loop:
            fades = f.offset(start, vector.element, loop.index)
            x = self._power(f.load(vector, fades, itemsize))
            f.store(vector, x, fades, itemsize)  # those behind are of groups that come later

    def powers(self, of: Of, seen: Seen) -> None:
        """The powers of a block's scores in their place; what came before fades."""
        self._begin(of, seen)
        with self._each_group() as state:
            self._powers(state)

    def _powers(self, state: str) -> None:
        f, p, vector = self.f, self.p, self.vector
        kind, count = vector.text, min(FEW, self.vectors)
        wide = Vector(p.wide, count * self.lanes)
        sums = f.offset(state, kind, str(p.sums))
        end = f.emit(f"sub i64 {self.seen.high}, {self.seen.base}")
        scales = [self._value_scales(str(n * self.lanes)) for n in range(self.vectors)]
        with f.loop("0", str(p.heads)) as heads:
            i, scores = heads.index, self._scores_of(heads.index)
            start = f.offset(sums, kind, f.emit(f"mul i64 {i}, {p.parts}"))
            top, total = (f.emit(f"add i64 {i}, {n}") for n in (p.tops, p.totals))
            fade = f.splat(self._number(self.own_fades, i), vector)
            for c in range(p.parts):
                self._put(start, c, f.emit(f"fmul {kind} {self._get(start, c)}, {fade}"))
            self._put(sums, total, f.emit(f"fmul {kind} {self._get(sums, total)}, {fade}"))
            top = f.splat(self._number(f.offset(sums, kind, top), "0"), wide)
            for first in range(0, self.vectors, count):
                with f.when(f.emit(f"icmp sgt i64 {end}, {first * self.lanes}")):
                    start = f.offset(scores, kind, str(first))
                    xs = f.load(wide, start, p.vector_bytes)
                    xs = f.emit(f"fsub {wide.text} {xs}, {top}")
                    xs = emit_instruction(f, "exp", p.wide, wide.lanes, p.wide, [xs])
                    sum = self._get(sums, total)
                    for n, scale in enumerate(scales[first : first + count]):
                        lanes = range(n * self.lanes, (n + 1) * self.lanes)
                        x = f.shuffle(wide, xs, "poison", lanes)
                        sum = f.emit(f"fadd {kind} {sum}, {x}")
                        self._put(start, n, f.emit(f"fmul {kind} {x}, {scale}") if scale else x)
                    self._put(sums, total, sum)

    # -- memory ------------------------------------------------------------------------------------

    def _scores_of(self, head: str) -> str:
        place = self.f.emit(f"mul i64 {head}, {BLOCK}")
        return self.f.offset(self.own_scores, self.vector.element, place)

    def _number(self, pointer: str, place: str) -> str:
        element = self.vector.element
        return self.f.emit(f"load {element}, ptr {self.f.offset(pointer, element, place)}")

    def _weight(self, head: int, at: str) -> str:
        return self.f.splat(self._number(self._score_address(head, at), "0"), self.vector)

    def _score_address(self, head: int, at: str) -> str:
        place = self.f.emit(f"add i64 {at}, {head * BLOCK}")
        return self.f.offset(self.own_scores, self.vector.element, place)

    def _put_scores(self, head: int, at: str, x: str) -> None:
        address = self._score_address(head, at)
        self.f.do(f"store {self.vector.text} {x}, ptr {address}, align {self.p.vector_bytes}")
