"""What steps cost, mended by the time that they take."""

from __future__ import annotations

import statistics
from collections import deque
from collections.abc import Sequence
from typing import final

from ..ir.record import replace
from .costs import Costs
from .scheduler import Chunk

LATELY = 31  # steps whose median counts: a few that were disturbed change nothing
LEAST = 8  # of them, before they tell anything
CHEAP, DEAR = 0.25, 4.0  # bounds of what steps may tell


@final
class Pace:
    """Compares the steps of an engine with what they should have cost.

    Steps in which texts are written alone tell how long a unit of costs is, and those in which
    prompts are read beside them how `dear` these are. Pure bookkeeping, without a clock.
    """

    def __init__(self) -> None:
        # seconds of one; few, since a step in 32 tells them while prompts come without a pause
        self._units: deque[float] = deque(maxlen=LEAST)
        self._prices: deque[float] = deque(maxlen=LATELY)  # of prompts

    def mended(self, costs: Costs, chunks: Sequence[Chunk], seconds: float) -> Costs:
        """The `costs` after a step of some `chunks`, which took so many `seconds`."""
        texts: list[Chunk] = []
        prompts: list[Chunk] = []
        for chunk in chunks:
            is_text = chunk.is_last and len(chunk.tokens) == 1 + chunk.guesses
            (texts if is_text else prompts).append(chunk)
        if not texts or seconds <= 0:
            return costs
        taken = sum(len(x.tokens) for x in texts)
        writing = costs.writes(taken, sum(x.start for x in texts))
        reading = 0.0
        for chunk in prompts:
            reading += costs.price(taken, len(chunk.tokens), chunk.start) / costs.dear
            taken += len(chunk.tokens)
        if not reading:
            self._units.append(seconds / writing)
            return costs
        if len(self._units) < LEAST:
            return costs
        unit = statistics.median(self._units)
        self._prices.append((seconds / unit - writing) / reading)
        if len(self._prices) < LEAST:
            return costs
        dear = min(max(statistics.median(self._prices), CHEAP), DEAR)
        return replace(costs, dear=dear)
