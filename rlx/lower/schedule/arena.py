"""Which bytes of an arena are free while a program is planned."""

from __future__ import annotations

from bisect import bisect_left, insort
from collections.abc import Sequence


class Arena:
    """Gives out places for blocks: each goes to the smallest gap that holds it.

    Of equal gaps the first is taken; behind the last block there is room without an end. Both
    lists of gaps are sorted, so that a long program takes no more time for each block.
    """

    def __init__(self) -> None:
        self.end = 0  # behind the last block
        self._gaps: list[tuple[int, int]] = []  # start and end of each, all before `end`
        self._sizes: list[tuple[int, int]] = []  # size and start of each

    def take(self, size: int) -> int:
        """The offset of a place for a block, which is taken from now on."""
        number = bisect_left(self._sizes, (size, 0))
        if number == len(self._sizes) or not size:
            # an empty block needs no place of its own
            start = self.end
            self.end += size
            return start
        room, start = self._sizes[number]
        self._drop(start, start + room)
        if room > size:
            self._add(start + size, start + room)
        return start

    def free(self, start: int, size: int) -> None:
        """Give back a block; it becomes one gap with those beside it."""
        if not size:
            return
        end = start + size
        number = bisect_left(self._gaps, (start, 0))
        if number < len(self._gaps) and self._gaps[number][0] == end:
            end = self._gaps[number][1]
            self._drop(*self._gaps[number])
        if number and self._gaps[number - 1][1] == start:
            start = self._gaps[number - 1][0]
            self._drop(*self._gaps[number - 1])
        if end == self.end:
            self.end = start
        else:
            self._add(start, end)

    def _add(self, start: int, end: int) -> None:
        insort(self._gaps, (start, end))
        insort(self._sizes, (end - start, start))

    def _drop(self, start: int, end: int) -> None:
        self._gaps.pop(bisect_left(self._gaps, (start, end)))
        self._sizes.pop(bisect_left(self._sizes, (end - start, start)))


def places_by_size(blocks: Sequence[tuple[int, int, int]]) -> list[int]:
    """The offsets of blocks (first step, last step, size); the largest chooses first.

    Each goes to the first gap between those alive together with it. That leaves fewer holes than
    choosing in the order of the steps, in quadratic time.
    """
    offsets = [0] * len(blocks)
    placed: list[tuple[int, int, int, int]] = []  # start, end, first and last step
    for number in sorted(range(len(blocks)), key=lambda i: -blocks[i][2]):
        first, last, size = blocks[number]
        offset = 0
        for start, end, born, dead in placed:
            if born > last or dead < first:
                continue
            if offset + size <= start:
                break
            offset = max(offset, end)
        offsets[number] = offset
        insort(placed, (offset, offset + size, first, last))
    return offsets
