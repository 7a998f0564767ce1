"""Attention of neighboring tokens: blocks of positions, segments, results.

A token's state is vectors on the stack, for each group of heads: its queries, the sums of the
segment that is being computed, and those of all before it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager

from ....ir.record import record, replace
from ..llvm.text import Function
from .alone import Alone
from .block import Memory, Of
from .pages import KEY, VALUE, Later, Pages, Seen
from .results import Results
from .shares import Span, Spans
from .sizes import BLOCK, MANY, Sizes
from .together import Together


@record
class Own:
    """Neighboring tokens of one text, and the groups of heads that are computed."""

    first: str
    count: str
    is_few: str  # whether they read pages for themselves
    group: str  # the first one
    groups: str  # how many at a time
    low: str  # the first position that one of them sees
    high: str  # behind the last one
    following: Later  # the first positions of the text after this one


@record
class Asked:
    """What is asked for of the next block: a part of some of its keys or values."""

    which: int
    part: int
    parts: int


class Tokens:
    """Neighboring tokens of one text."""

    def __init__(self, f: Function, sizes: Sizes, pointers: Sequence[str]) -> None:
        *self.pointers, out = pointers
        self.f, self.p = f, sizes
        self.results = Results(f, sizes, out)
        self.numbers = self.results.numbers
        self.spans = Spans(f, sizes, self.numbers, self.pointers[5])
        self.memory, self.pages = Memory.of(f, sizes), Pages(f, sizes, self.pointers)
        self.alone = Alone(f, sizes, self.memory, self.pages)
        self.together = Together(f, sizes, self.memory, self.pages)
        self.lows, self.highs = (f.reserve(f"[{sizes.tile} x i64]", 8) for _ in range(2))

    def alike(self, token: str, span: Span, stop: str) -> str:
        """How many tokens from this one on, before `stop`, can be computed with it."""
        f, sequences = self.f, self.pointers[4]
        sequence = self.numbers.integer(sequences, token)
        left = self.numbers.extreme("smin", f.emit(f"sub i64 {stop}, {token}"), str(self.p.tile))
        with f.loop("1", left, carried=[("i64", "1"), ("i1", "true")]) as loop:
            count, goes_on = loop.values
            other = f.emit(f"add i64 {token}, {loop.index}")
            same = f.emit(f"icmp eq i64 {self.numbers.integer(sequences, other)}, {sequence}")
            as_long = f.emit(f"icmp eq i64 {self.spans.of(other).shift}, {span.shift}")
            goes_on = f.emit(f"and i1 {goes_on}, {f.emit(f'and i1 {same}, {as_long}')}")
            more = f.emit(f"zext i1 {goes_on} to i64")
            loop.next = [f.emit(f"add i64 {count}, {more}"), goes_on]
        return loop.values[0]

    @contextmanager
    def each_group(self, token: str, count: str, stop: str) -> Iterator[Own]:
        """Begin `count` tokens: once for all groups, or for each group."""
        f, p = self.f, self.p
        self.pages.begin(self.numbers.integer(self.pointers[4], token))
        following = self._following(f.emit(f"add i64 {token}, {count}"), stop)
        is_few = f.emit(f"icmp slt i64 {count}, {MANY}")
        needed = f.emit(f"mul i64 {count}, {p.groups}")
        fits = f.emit(f"icmp ule i64 {needed}, {p.slots}")
        step = f.emit(f"select i1 {fits}, i64 {p.groups}, i64 1")
        with f.loop("0", str(p.groups), step) as groups:
            ends = [("i64", str(2**62)), ("i64", "0")]
            with f.loop("0", count, carried=ends) as loop:
                own = f.emit(f"add i64 {token}, {loop.index}")
                span = self.spans.of(own)
                for memory, x in ((self.lows, span.low), (self.highs, span.high)):
                    f.do(f"store i64 {x}, ptr {f.offset(memory, 'i64', loop.index)}")
                with f.loop("0", step) as inner:
                    state = self._state(loop.index, inner.index, count)
                    row = f.emit(f"add i64 {f.emit(f'mul i64 {own}, {p.groups}')}, {groups.index}")
                    row = f.emit(f"add i64 {row}, {inner.index}")
                    self.results.load_queries(self.pointers[0], state, row)
                    self.results.clear(self._sums(state, p.merged))
                loop.next = [
                    self.numbers.extreme("smin", loop.values[0], span.low),
                    self.numbers.extreme("smax", loop.values[1], span.high),
                ]
            low, high = loop.values
            yield Own(token, count, is_few, groups.index, step, low, high, following)

    def _following(self, token: str, stop: str) -> Later:
        """What a token sees first; the end is 0 if it is not before `stop`."""
        f = self.f
        last = f.emit(f"sub i64 {f.number(self.p.tokens)}, 1")
        other = self.numbers.extreme("smin", token, last)
        span = self.spans.of(other)
        table = self.pages.table_of(self.numbers.integer(self.pointers[4], other))
        is_there = f.emit(f"icmp slt i64 {token}, {stop}")
        end = f.emit(f"select i1 {is_there}, i64 {span.high}, i64 0")
        return Later(table, f.emit(f"and i64 {span.low}, {-BLOCK}"), end)

    def _later(self, own: Own, base: str, high: str) -> Later:
        """What is read after a block of a token that sees positions before `high`."""
        f, other = self.f, own.following
        after = f.emit(f"add i64 {base}, {BLOCK}")
        is_over = f.emit(f"icmp sge i64 {after}, {high}")
        is_there = f.emit(f"icmp slt i64 {other.base}, {other.end}")
        goes_over = f.emit(f"and i1 {is_over}, {is_there}")
        pairs = ("ptr", other.table, self.pages.table), ("i64", other.base, after)
        table, first = (f.emit(f"select i1 {goes_over}, {k} {x}, {k} {y}") for k, x, y in pairs)
        end = f.emit(f"select i1 {goes_over}, i64 {other.end}, i64 {high}")
        return Later(table, first, end)

    def _state(self, token: str, group: str, count: str) -> str:
        """The state of a token, of so many, and a group: tokens of a group follow each other."""
        f = self.f
        slot = f.emit(f"add i64 {f.emit(f'mul i64 {group}, {count}')}, {token}")
        place = f.emit(f"mul i64 {slot}, {self.p.each}")
        return f.offset(self.memory.states, self.p.vector.text, place)

    def _sums(self, state: str, place: int) -> str:
        return self.f.offset(state, self.p.vector.text, str(place))

    @contextmanager
    def each_state(self, own: Own) -> Iterator[tuple[str, str, str]]:
        """A loop over tokens and groups: numbers of both, and the state."""
        f = self.f
        with f.loop("0", own.count) as tokens, f.loop("0", own.groups) as groups:
            yield tokens.index, groups.index, self._state(tokens.index, groups.index, own.count)

    def segment(self, own: Own, start: str, stop: str) -> None:
        """Compute the sums of positions from `start` on, before `stop`."""
        f, p, numbers = self.f, self.p, self.numbers
        with self.each_state(own) as (_, _, state):
            self.results.clear(self._sums(state, p.sums))
        start = numbers.extreme("smax", start, f.emit(f"and i64 {own.low}, {-BLOCK}"))
        stop = numbers.extreme("smin", stop, own.high)
        with f.when(own.is_few), f.loop(start, stop, str(BLOCK)) as blocks:
            self._alone(own, blocks.index)
        with f.when(f.emit(f"xor i1 {own.is_few}, true")), f.loop("0", own.groups) as groups:
            with f.loop(start, stop, str(BLOCK)) as blocks:
                self._together(own, groups.index, blocks.index)

    def _alone(self, own: Own, base: str) -> None:
        """What each token does with a block in its pages."""
        f, block = self.f, self.alone
        of = Of("0", own.count, own.group, own.groups)
        self._each_token(own, base, of, block.scores)
        block.fade("0", f.emit(f"mul i64 {own.count}, {own.groups}"))
        self._each_token(own, base, of, block.powers, block.values)

    def _together(self, own: Own, number: str, base: str) -> None:
        """What tokens do with the copy of a block of a group; they ask for the next one."""
        f, block = self.f, self.together
        group = f.emit(f"add i64 {own.group}, {number}")
        first = f.emit(f"mul i64 {number}, {own.count}")
        of = Of(first, own.count, group, "1")
        seen = self._seen(own, base, own.low, own.high)
        block.copy_keys(seen, group)
        self._each_token(own, base, of, block.scores, asked=Asked(KEY, 0, 1))
        block.fade(first, own.count)
        self._each_token(own, base, of, block.powers, asked=Asked(VALUE, 0, 2))
        block.copy_values(seen, group)
        self._each_token(own, base, of, block.values, asked=Asked(VALUE, 1, 2))

    def _each_token(
        self,
        own: Own,
        base: str,
        of: Of,
        *todo: Callable[[Of, Seen], None],
        asked: Asked | None = None,
    ) -> None:
        """What all tokens that see some of a block do with it."""
        f = self.f
        with f.loop("0", own.count) as tokens:
            if asked:
                before, parts = (
                    f.emit(f"mul i64 {own.count}, {n}") for n in (asked.part, asked.parts)
                )
                part = f.emit(f"add i64 {before}, {tokens.index}")
                self.pages.ask_for_part(asked.which, base, own.high, of.first, part, parts)
            seen = self._seen(own, base, *self._ends(tokens.index))
            with f.when(f.emit(f"icmp slt i64 {seen.low}, {seen.high}")):
                slot = f.emit(f"add i64 {of.slot}, {tokens.index}")
                for write in todo:
                    write(replace(of, slot=slot), seen)

    def _seen(self, own: Own, base: str, low: str, high: str) -> Seen:
        """What is seen of a block."""
        numbers, end = self.numbers, self.f.emit(f"add i64 {base}, {BLOCK}")
        first, last = numbers.extreme("smax", low, base), numbers.extreme("smin", high, end)
        return Seen(base, first, last, self._later(own, base, high))

    def _ends(self, token: str) -> tuple[str, str]:
        f = self.f
        low, high = (
            f.emit(f"load i64, ptr {f.offset(x, 'i64', token)}") for x in (self.lows, self.highs)
        )
        return low, high

    def merge(self, own: Own, start: str, stop: str) -> None:
        """Add the sums of these positions, of tokens that see some, to those before."""
        f, p, numbers = self.f, self.p, self.numbers
        with self.each_state(own) as (token, _, state):
            low, high = self._ends(token)
            low, high = numbers.extreme("smax", low, start), numbers.extreme("smin", high, stop)
            with f.when(f.emit(f"icmp slt i64 {low}, {high}")):
                self.results.merge(self._sums(state, p.sums), self._sums(state, p.merged))

    def leave(self, own: Own, target: str) -> None:
        """Leave the sums of a segment of a token, of all groups."""
        with self.each_state(own) as (_, group, state):
            place = self.f.emit(f"mul i64 {group}, {self.p.result}")
            self.results.copy(
                self._sums(state, self.p.sums),
                self.f.offset(target, self.p.vector.text, place),
            )

    def finish(self, own: Own) -> None:
        """Write the results of tokens."""
        f = self.f
        with self.each_state(own) as (token, group, state):
            numbers = (
                f.emit(f"add i64 {own.first}, {token}"),
                f.emit(f"add i64 {own.group}, {group}"),
            )
            self.results.finish(self._sums(state, self.p.merged), *numbers)
