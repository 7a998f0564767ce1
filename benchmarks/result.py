"""What was measured of a case, and the arithmetic of its row."""

from __future__ import annotations

import math
import statistics
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any

from .case import Case

OURS = "rlx"
RIVALS = ("jax", "torch")  # which differentiate and compile single operations, too
SLOW = 0.95  # below this part of the best peer's speed, a case counts as slower


@dataclass
class Result:
    """Seconds a call, a number for each round, of each library that could do the case."""

    case: Case
    seconds: dict[str, list[float]] = field(default_factory=dict)
    failed: dict[str, str] = field(default_factory=dict)
    lacking: dict[str, str] = field(default_factory=dict)
    wrong: dict[str, str] = field(default_factory=dict)
    starts: dict[str, dict[str, Any]] = field(default_factory=dict)
    floor: float | None = None

    def median(self, name: str) -> float:
        """The seconds of the middle round."""
        return statistics.median(self.seconds[name])

    def spread(self, name: str) -> float:
        """The middle half of the rounds, as a share of the median."""
        low, _, high = quartiles(self.seconds[name])
        return (high - low) / self.median(name)

    @property
    def peers(self) -> list[str]:
        """The other libraries that did the case, and did it right."""
        return [name for name in self.seconds if name != OURS and name not in self.wrong]

    @property
    def best_peer(self) -> str | None:
        """The fastest of them."""
        return self.best_of(self.peers)

    def best_of(self, names: Iterable[str]) -> str | None:
        """The fastest of those of these peers that did the case right."""
        return min((n for n in names if n in self.peers), key=self.median, default=None)

    def ratios(self, peer: str) -> list[float]:
        """For each round a peer's time divided by ours; above 1 we are faster."""
        rounds = zip(self.seconds[peer], self.seconds[OURS], strict=False)  # slow ones have fewer
        return [theirs / ours for theirs, ours in rounds]

    def speedup(self, peer: str | None = None) -> float | None:
        """The middle of those ratios, against the best peer if none is named."""
        peer = peer or self.best_peer
        if peer is None or OURS not in self.seconds:
            return None
        return statistics.median(self.ratios(peer))

    @property
    def rival_speedup(self) -> float | None:
        """The same against the better of JAX and PyTorch."""
        rival = self.best_of(RIVALS)
        return None if rival is None else self.speedup(rival)

    @property
    def speedup_spread(self) -> tuple[float, float] | None:
        """Where the middle half of the ratios against the best peer lies."""
        peer = self.best_peer
        if peer is None or OURS not in self.seconds:
            return None
        low, _, high = quartiles(self.ratios(peer))
        return low, high

    @property
    def over_floor(self) -> float | None:
        """Our time divided by the least that is possible."""
        if not self.floor or OURS not in self.seconds:
            return None
        return self.median(OURS) / self.floor


def quartiles(numbers: list[float]) -> tuple[float, float, float]:
    """The quarter, the middle and the three quarters of numbers."""
    if len(numbers) < 2:
        return numbers[0], numbers[0], numbers[0]
    low, middle, high = statistics.quantiles(numbers, n=4, method="inclusive")
    return low, middle, high


def geometric_mean(numbers: Iterable[float]) -> float:
    """The mean of ratios: twice as fast and half as fast make 1."""
    given = list(numbers)
    return math.exp(sum(map(math.log, given)) / len(given)) if given else math.nan


def speedups(results: Iterable[Result], peer: str | None = None) -> list[float]:
    """Those of all results that have one."""
    able = [r for r in results if peer is None or peer in r.peers]
    return [ratio for r in able if (ratio := r.speedup(peer)) is not None]


def slower(results: Iterable[Result]) -> list[Result]:
    """The cases in which the best peer is clearly faster."""
    return [r for r in results if (ratio := r.speedup()) is not None and ratio < SLOW]
