"""Sorting: runs of sorted numbers are merged, twice as long each time.

A thread finds the place of one number: its own rank in its run, and how many of the other run go
before it. Numbers that tie keep their order, whatever the number of threads.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from ...ir.types import Type
from ...lower.lir.index import Variable, as_index
from ...lower.lir.program import Buffer, Sort
from .body import Body, Setting, Written
from .dialect import INT32
from .geometry import Grid
from .parallel import is_greater


def write_sort(step: Sort, setting: Setting, spare: Callable[[Type], Buffer]) -> list[Written]:
    """Write a `Sort` as launches of kernels that merge; `spare` gives more memory."""
    length, rows = step.length, step.rows
    assert isinstance(length, int) and isinstance(rows, int), "sizes are numbers here"
    passes = max(1, (length - 1).bit_length())
    whole = Type(step.numbers.number_dtype, (rows, length))
    places = Type(INT32, (rows, length))
    # the two that a pass reads and writes in turn; the last one writes where the result belongs
    numbers = [step.sorted or spare(whole), spare(whole)]
    ranks = [step.places, spare(places)] if step.places else [None, None]
    before: Buffer = step.numbers
    before_ranks: Buffer | None = None
    written = []
    for number in range(passes):
        target = (passes - 1 - number) % 2
        merge = _Merge(step, setting, before, numbers[target], before_ranks, ranks[target])
        written.append(merge.write(1 << number))
        before, before_ranks = numbers[target], ranks[target]
    return written


class _Merge:
    """Writes one pass: from sorted runs of a width to runs of twice that."""

    def __init__(
        self,
        step: Sort,
        setting: Setting,
        origin: Buffer,
        target: Buffer,
        ranks: Buffer | None,
        target_ranks: Buffer | None,
    ) -> None:
        self.origin, self.target = origin, target
        self.ranks, self.target_ranks = ranks, target_ranks
        self.row, self.place = Variable(step.rows), Variable(step.length)
        self.loops = tuple(v for v in (self.row, self.place) if v.extent != 1)
        written = [target] if target_ranks is None else [target, target_ranks]
        read = [origin] if ranks is None else [origin, ranks]
        # two places are added, and a run may end as far behind the row
        loops = (*self.loops, Variable(2 * int(step.length)))  # type: ignore[arg-type]
        self.body = Body.of(setting, [], [], loops, written, read)
        self.writer, self.dialect = self.body.writer, setting.dialect
        self.dtype: np.dtype = origin.number_dtype
        self.length = int(step.length)  # type: ignore[arg-type]

    def write(self, width: int) -> Written:
        """The kernel for runs of a width."""
        writer, dialect, index = self.writer, self.dialect, self.writer.index_dtype
        grid = Grid.of(self.loops, dialect.limits)
        with grid.inside(writer):
            start = writer.index(as_index(self.row) * self.length)
            place = writer.index(as_index(self.place))
            length = writer.whole(self.length)
            writer.constant("start", start)
            writer.constant("place", place)
            writer.constant("run", f"place / {self._wide('width')} * {self._wide('width')}")
            writer.constant("is_right", f"(place / {self._wide('width')}) % {writer.whole(2)}")
            twice = f"{self._wide('width')} * {writer.whole(2)}"
            writer.constant("other", f"run + {self._wide('width')} - is_right * {twice}")
            writer.constant("first", f"run - is_right * {self._wide('width')}")
            writer.constant("number", self._at("place"), self.dtype)
            writer.line(dialect.variable(index, "low", writer.least("other", length)))
            end = f"other + {self._wide('width')}"
            writer.line(dialect.variable(index, "high", writer.least(end, length)))
            writer.constant("begin", "low")
            with writer.block("while (low < high) {"):
                writer.constant("middle", f"(low + high) / {writer.whole(2)}")
                writer.constant("met", self._at("middle"), self.dtype)
                # a number of the left run goes before those of the right one that tie
                after = is_greater(writer, self.dtype, "number", "met")
                tied = is_greater(writer, self.dtype, "met", "number")
                is_before = f"(is_right == {writer.whole(0)} && {after})"
                is_before += f" || (is_right != {writer.whole(0)} && !{tied})"
                with writer.block(f"if ({is_before}) {{"):
                    writer.line(f"low = middle + {writer.whole(1)};")
                with writer.block("else {"):
                    writer.line("high = middle;")
            writer.constant("found", "start + first + (place - run) + (low - begin)")
            writer.store(self.target, "found", "number")
            if self.target_ranks is not None:
                rank = writer.convert(index, INT32, "place")
                if self.ranks is not None:
                    rank = writer.loaded(writer.parameters[self.ranks], "start + place")
                writer.store(self.target_ranks, "found", rank)
        return self.body.finish_on(grid, {"width": width})

    def _wide(self, text: str) -> str:
        return self.writer.convert(INT32, self.writer.index_dtype, text)

    def _at(self, place: str) -> str:
        return self.writer.loaded(self.writer.parameters[self.origin], f"start + {place}")
