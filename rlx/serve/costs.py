"""What steps cost, and how much of prompts stands beside texts that are written."""

from __future__ import annotations

import math
from bisect import bisect_right

from ..ir.record import record

# The tokens of a prompt that a step computes read keys and values together, which takes as long as
# so many tokens more: measured on the cpu, of 2 to 16 tokens behind 1,000 to 4,000.
ALL = 2.0


@record
class Costs:
    """What steps cost, in the time of one of the first tokens of a prompt.

    A step costs `step` by itself, since it reads all weights. A token looks at those before it: one
    that continues a text costs twice as much behind `written` of them, one of a prompt behind
    `read`. Beside texts that are written, prompts may make a step `stretch` times as long as one
    that writes those texts, too, whose prompts are read. What these cost is `dear` times as much as
    all that says. Numbers below 0, and a `stretch` below 1, mean nothing.
    """

    step: float
    written: float
    read: float
    stretch: float
    dear: float = 1.0

    def room(self, writing: int, before: int, reading: int) -> float:
        """What so many prompts may cost beside texts that are written.

        These have so many tokens before their next ones, in all.
        """
        if not writing:
            return math.inf
        return (self.stretch - 1) * self.writes(writing, before) + self.stretch * reading

    def writes(self, count: int, before: int) -> float:
        """The cost of a step that writes so many tokens of texts, behind so many in all."""
        return self.step + count + before / self.written

    def price(self, others: int, count: int, before: int) -> float:
        """The cost of tokens of a prompt beside `others`, behind so many of their own."""
        computed = few_tokens(others + count) - few_tokens(others)
        return self.dear * (computed + (count + ALL) * before / self.read)

    def share(self, room: float, others: int, most: int, before: int) -> int:
        """How many tokens of a prompt there is `room` for, at most so many."""
        if room == math.inf:
            return most
        counts = range(1, most + 1)
        return bisect_right(counts, room, key=lambda count: self.price(others, count, before))


NO_LIMIT = Costs(0.0, math.inf, math.inf, math.inf)


def few_sizes(count: int) -> int:
    """A power of two, at least `count`: a call of new sizes takes milliseconds."""
    return 1 << (count - 1).bit_length()


def few_tokens(count: int) -> int:
    """At least `count`: one of few sizes, the next even one or more."""
    return -(-count // _grain(count)) * _grain(count)


def _grain(count: int) -> int:
    return max(2, few_sizes(count) // 16)
