"""What steps cost, mended by the time that they take."""

from __future__ import annotations

import statistics
from collections import deque
from collections.abc import Sequence
from typing import final

from ..ir.record import replace
from .costs import Costs, few_sizes
from .scheduler import Chunk

LATELY = 31  # steps whose median counts: a few that were disturbed change nothing
ALONE = 15  # of those without prompts: while these come without a pause, one in 32
LEAST = 8  # of each, before they tell anything
CHEAP, DEAR = 0.25, 4.0  # bounds of what steps may tell


@final
class Pace:
    """Compares the steps of an engine with what they should have cost.

    Steps in which texts are written alone tell how long a unit of costs is, and those in which
    prompts are read beside them how `dear` these are. Steps of about as many texts are compared:
    fewer may take longer than their costs say. Pure bookkeeping, without a clock.
    """

    def __init__(self) -> None:
        # by the number of texts: seconds of a unit, and prices of prompts
        self._known: dict[int, tuple[deque[float], deque[float]]] = {}

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
        new = deque[float](maxlen=ALONE), deque[float](maxlen=LATELY)
        units, prices = self._known.setdefault(few_sizes(len(texts)), new)
        if not reading:
            units.append(seconds / writing)
        elif len(units) >= LEAST:
            prices.append((seconds / statistics.median(units) - writing) / reading)
        dear = statistics.median(prices) if len(prices) >= LEAST else 1.0
        dear = min(max(dear, CHEAP), DEAR)
        return costs if dear == costs.dear else replace(costs, dear=dear)
