"""What steps cost, and how much of prompts stands beside texts that are written."""

from __future__ import annotations

import math

from ..ir.record import record


@record
class Costs:
    """What steps cost, in the time of one of the first tokens of a prompt.

    A step costs `step` by itself, since it reads all weights. A token looks at those before it: one
    that continues a text costs twice as much behind `written` of them, one of a prompt behind
    `read`. Beside texts that are written, prompts may make a step `stretch` times as long as one
    that writes those texts, too, whose prompts are read. Numbers below 0, and a `stretch` below 1,
    mean nothing.
    """

    step: float
    written: float
    read: float
    stretch: float

    def room(self, writing: int, before: int, reading: int) -> float:
        """What so many prompts may cost beside texts that are written.

        These have so many tokens before their next ones, in all.
        """
        if not writing:
            return math.inf
        now = self.step + writing + before / self.written
        return (self.stretch - 1) * now + self.stretch * reading

    def token(self, before: int) -> float:
        """The cost of a token of a prompt that has so many before it."""
        return 1 + before / self.read


NO_LIMIT = Costs(0.0, math.inf, math.inf, math.inf)


def few_sizes(count: int) -> int:
    """A power of two, at least `count`: a call of new sizes takes milliseconds."""
    return 1 << (count - 1).bit_length()


def few_tokens(count: int) -> int:
    """At least `count`: one of few sizes, the next even one or more."""
    return -(-count // _grain(count)) * _grain(count)


def whole_share(others: int, count: int, most: int) -> int:
    """About `count` tokens of a prompt beside `others`, for a step of few sizes.

    It has the next smaller one, or else as many tokens as are computed anyway, `most` at most.
    """
    least = (others + count) // _grain(others + count) * _grain(others + count)
    return least - others if least > others else min(few_tokens(others + count) - others, most)


def _grain(count: int) -> int:
    return max(2, few_sizes(count) // 16)
