"""What tokens see, and how threads share them.

A token sees positions in segments, which are counted from 0 and as long as its own position says.
Each segment is computed for itself, so a token's bits do not depend on who computes which. Parts
have as many blocks of positions each, up to half a segment: where one ends within a token, the
first part has its first segments, and the next one goes on.
"""

from __future__ import annotations

from ....ir.record import record
from ..llvm.text import Function
from ..loops.numbers import Numbers
from .sizes import BLOCK, SEGMENT, SEGMENTS, Sizes


@record
class Span:
    """The positions from `low` on before `high` that a token sees, and their segments."""

    low: str
    high: str
    shift: str  # the logarithm of a segment's length
    first: str  # segment
    last: str  # the one behind its last


@record
class Bound:
    """A place between two segments: how many are before it of a token."""

    token: str
    segments: str


@record
class Spans:
    """Writes what tokens see."""

    f: Function
    sizes: Sizes
    numbers: Numbers
    positions: str  # the pointer

    def of(self, token: str) -> Span:
        """What a token sees."""
        f, low, high = self.f, *self._ends(token)
        far = f.emit(f"lshr i64 {self._most(f.emit(f'sub i64 {high}, 1'), '0')}, {_log(REACH)}")
        zeros = f.call("i64", "@llvm.ctlz.i64", ("i64", far), ("i1", "false"))
        shift = f.emit(f"sub i64 {64 + _log(SEGMENT)}, {zeros}")
        length = f.emit(f"shl i64 1, {shift}")
        last = f.emit(f"add i64 {high}, {f.emit(f'sub i64 {length}, 1')}")
        first, last = (f.emit(f"lshr i64 {x}, {shift}") for x in (low, last))
        return Span(low, high, shift, first, self._most(first, last))

    def shared(self, tokens: str) -> tuple[Bound, Bound]:
        """The bounds of the part `%part` of `%parts`."""
        f = self.f
        with f.loop("0", tokens, carried=[("i64", "0")]) as loop:
            loop.next = [f.emit(f"add i64 {loop.values[0]}, {self._cost(loop.index)}")]
        total = loop.values[0]
        parts = "%part", f.emit("add i64 %part, 1")
        wanted = [f.emit(f"udiv i64 {f.emit(f'mul i64 {x}, {total}')}, %parts") for x in parts]
        with f.loop("0", tokens, carried=[("i64", "0")] * 5) as loop:
            cost = self._cost(loop.index)
            so_far = f.emit(f"add i64 {loop.values[0]}, {cost}")
            loop.next = [so_far]
            for i, each in enumerate(wanted):
                token, before = loop.values[1 + 2 * i : 3 + 2 * i]
                is_before = f.emit(f"icmp sle i64 {so_far}, {each}")
                more = f.emit(f"add i64 {token}, 1")
                loop.next.append(f.emit(f"select i1 {is_before}, i64 {more}, i64 {token}"))
                loop.next.append(f.emit(f"select i1 {is_before}, i64 {so_far}, i64 {before}"))
        last = f.emit(f"sub i64 {tokens}, 1")
        bounds = [
            self._bound(
                loop.values[1 + 2 * i], last, f.emit(f"sub i64 {x}, {loop.values[2 + 2 * i]}")
            )
            for i, x in enumerate(wanted)
        ]
        return bounds[0], bounds[1]

    def _bound(self, token: str, last: str, blocks: str) -> Bound:
        """The bound nearest to so many blocks within a token, or after the last token."""
        f = self.f
        is_there = f.emit(f"icmp sle i64 {token}, {last}")
        span = self.of(self.numbers.extreme("smin", token, last))
        half = f.emit(f"shl i64 1, {f.emit(f'sub i64 {span.shift}, 1')}")
        near = f.emit(f"add i64 {f.emit(f'mul i64 {blocks}, {BLOCK}')}, {half}")
        segments = f.emit(f"lshr i64 {near}, {span.shift}")
        count = f.emit(f"sub i64 {span.last}, {span.first}")
        # a token that sees nothing has no segments, but its part begins with it
        is_inside = f.emit(f"icmp slt i64 {segments}, {self._most(count, '1')}")
        more = f.emit(f"select i1 {is_there}, i64 1, i64 0")
        after = f.emit(f"add i64 {token}, {more}")
        is_inside = f.emit(f"and i1 {is_there}, {is_inside}")
        return Bound(
            f.emit(f"select i1 {is_inside}, i64 {token}, i64 {after}"),
            f.emit(f"select i1 {is_inside}, i64 {segments}, i64 0"),
        )

    def _cost(self, token: str) -> str:
        """The blocks of a token, and one more."""
        f, low, high = self.f, *self._ends(token)
        last = f.emit(f"lshr i64 {f.emit(f'add i64 {high}, {2 * BLOCK - 1}')}, {_log(BLOCK)}")
        blocks = f.emit(f"sub i64 {last}, {f.emit(f'lshr i64 {low}, {_log(BLOCK)}')}")
        return self._most(blocks, "1")

    def _ends(self, token: str) -> tuple[str, str]:
        """The first position that a token sees, and the one behind the last."""
        f, p = self.f, self.sizes
        position = self.numbers.integer(self.positions, token)
        places = f.emit(f"mul i64 {f.number(p.table)}, {p.size}")
        high = self.numbers.extreme("smin", f.emit(f"add i64 {position}, 1"), places)
        for size in (p.pages, p.sequences):  # without any there is nothing to see
            is_none = f.emit(f"icmp eq i64 {f.number(size)}, 0")
            high = f.emit(f"select i1 {is_none}, i64 0, i64 {high}")
        high = self._most(high, "0")
        if p.window is None:
            return "0", high
        return self._most(f.emit(f"sub i64 {position}, {p.window}"), "0"), high

    def _most(self, x: str, y: str) -> str:
        return self.numbers.extreme("smax", x, y)


REACH = SEGMENT * SEGMENTS  # positions that are in the shortest segments


def _log(n: int) -> int:
    return n.bit_length() - 1
