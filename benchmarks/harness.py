"""Measuring: candidates take turns in one process, so that a slow minute hits all of them.

Enters: a `Case`, statements that compute the same. Leaves: a `Result`: medians, spreads, and the
ratios of rounds, which do not suffer from drift.
"""

from __future__ import annotations

import os
import statistics
import time
import timeit
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from typing import Any

import numpy as np

ROUND_SECONDS = 0.02
REST_SECONDS = 0.15  # OpenBLAS's threads keep a core busy for 0.1 s after their last product


@dataclass(frozen=True)
class Candidate:
    """A statement to measure, and the names it uses."""

    statement: str
    names: dict[str, Any]

    def value(self) -> Any:
        """What the statement gives."""
        return eval(self.statement, dict(self.names))

    def timer(self) -> timeit.Timer:
        """A timer of the statement, without the cost of a wrapping function."""
        return timeit.Timer(self.statement, globals=dict(self.names))


@dataclass(frozen=True)
class Case:
    """Candidates by the name of their library, and the work they do at the least.

    `flops` and `nbytes` make the floor; `once` says that each call does new work, as a compile.
    """

    name: str
    candidates: dict[str, Candidate]
    flops: float = 0.0
    nbytes: float = 0.0
    tolerance: float = 1e-5
    once: bool = False


@dataclass
class Result:
    """Seconds a call of each candidate, a number for each round."""

    name: str
    seconds: dict[str, list[float]]
    flops: float = 0.0
    nbytes: float = 0.0
    floor: float | None = field(default=None)

    def median(self, peer: str) -> float:
        """The seconds of the middle round."""
        return statistics.median(self.seconds[peer])

    def spread(self, peer: str) -> float:
        """The middle half of the rounds, as a share of the median."""
        low, _, high = statistics.quantiles(self.seconds[peer], n=4)
        return (high - low) / self.median(peer)

    def ratio(self, peer: str, ours: str = "rlx") -> float:
        """Our time divided by a peer's, the median over rounds; below 1 we are faster."""
        rounds = zip(self.seconds[ours], self.seconds[peer], strict=True)
        return statistics.median(a / b for a, b in rounds)


def measure(case: Case, rounds: int, progress: Callable[[], None] = lambda: None) -> Result:
    """Check that the candidates agree, then time them in turns."""
    check_agreement(case)
    timers = {name: candidate.timer() for name, candidate in case.candidates.items()}
    calls = {name: 1 if case.once else calibrate(timer) for name, timer in timers.items()}
    seconds: dict[str, list[float]] = {name: [] for name in timers}
    names = list(timers)
    for i in range(rounds):
        # another one begins each round
        for name in names[i % len(names) :] + names[: i % len(names)]:
            if not case.once:
                time.sleep(REST_SECONDS)
                timers[name].timeit(1)  # the caches and the clock frequency are as in a long run
            seconds[name].append(timers[name].timeit(calls[name]) / calls[name])
        progress()
    return Result(case.name, seconds, case.flops, case.nbytes)


def check_agreement(case: Case) -> None:
    """Raise unless all candidates give the same numbers."""
    first, *others = case.candidates
    expected = leaves(case.candidates[first].value())
    for name in others:
        for ours, theirs in zip(leaves(case.candidates[name].value()), expected, strict=True):
            np.testing.assert_allclose(
                ours, theirs, case.tolerance, case.tolerance, err_msg=f"{case.name}: {name}"
            )


def leaves(value: Any) -> list[np.ndarray]:
    """The arrays of a result; only tuples and lists are looked into."""
    if isinstance(value, tuple | list):
        return [x for item in value for x in leaves(item)]
    return [np.asarray(value)]


def calibrate(timer: timeit.Timer) -> int:
    """How many calls fill a round."""
    calls = 1
    while (seconds := timer.timeit(calls)) < ROUND_SECONDS / 4:
        calls *= 4
    return max(1, round(calls * ROUND_SECONDS / seconds))


def copy_seconds(nbytes: float, repeats: int = 10) -> float:
    """The time in which NumPy copies so that `nbytes` are read and written, on all cores.

    Copies of the size of the case meet the same caches.
    """
    cores = os.cpu_count() or 1
    size = int(nbytes / 2 / 4 / cores)
    chunks = [(np.zeros(size, np.float32), np.ones(size, np.float32)) for _ in range(cores)]

    def copy(chunk: tuple[np.ndarray, np.ndarray]) -> None:
        for _ in range(repeats):
            np.copyto(*chunk)

    with ThreadPoolExecutor(cores) as pool:
        timer = timeit.Timer(lambda: list(pool.map(copy, chunks)))
        return min(timer.repeat(5, 1)) / repeats


def add_floors(results: Sequence[Result]) -> float:
    """Set the time below which no candidate should fall; give the peak, in flop a second.

    The peak is the best product of matrices among all candidates of this run.
    """
    speeds = [r.flops / min(min(s) for s in r.seconds.values()) for r in results if r.flops]
    peak = max(speeds, default=0.0)
    for result in results:
        if result.flops:
            result.floor = result.flops / peak
        elif result.nbytes:
            result.floor = copy_seconds(result.nbytes)
    return peak
