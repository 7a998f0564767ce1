"""One library in a process of its own, told what to do: `python -m benchmarks.worker NAME`.

Enters through standard input: pickled requests, `(method, arguments)`. Leaves through standard
output: for each a pickled `(outcome, value)`, where the outcome is "done", "lacks" or "failed".
"""

from __future__ import annotations

import gc
import os
import pickle
import sys
import time
import timeit
from typing import Any

from .case import Work, build, placed, results
from .cases import CASES
from .libraries import Lacks, opened

ROUND_SECONDS = 0.03
SLOW_SECONDS = 0.5  # a call that takes longer needs no warm caches
LONGEST_REASON = 300


class Worker:
    """Makes cases ready and times them, when it is told to."""

    def __init__(self, name: str, precise: bool) -> None:
        self.library = opened(name, precise)
        self.work: Work | None = None
        self.timer = timeit.Timer()
        self.is_slow = False

    def prepare(self, name: str) -> list[Any]:
        """Compile a case, and give its results."""
        case = CASES[name]
        if self.library.name in case.without:
            raise Lacks(case.without[self.library.name])
        self.work = build(case, self.library, placed(case, self.library))
        self.timer = timeit.Timer(self.work.statement, globals=self.work.names)
        made = results(case, self.library, self.work)
        self.work.first = None
        return made

    def calibrate(self, seconds: float = ROUND_SECONDS) -> tuple[int, float]:
        """How many calls fill a round, and the seconds that it will take."""
        calls = 1
        while (taken := self.timer.timeit(calls)) < seconds / 4:
            calls *= 4
        self.is_slow = taken / calls > SLOW_SECONDS
        count = max(1, round(calls * seconds / taken))
        return count, count * taken / calls

    def round(self, calls: int) -> float:
        """Seconds a call, in a round of calls after some that warm the caches."""
        if not self.is_slow:
            self.timer.timeit(max(1, calls // 10))
        return self.timer.timeit(calls) / calls

    def drop(self) -> None:
        """Give the memory of the case back."""
        self.work, self.timer = None, timeit.Timer()
        self.library.forget()
        gc.collect()


def reason(error: BaseException) -> str:
    """The error in one line."""
    lines = [line.strip() for line in str(error).splitlines() if line.strip()]
    return f"{type(error).__name__}: {lines[0] if lines else ''}"[:LONGEST_REASON]


def answer(worker: Worker, method: str, arguments: tuple[Any, ...]) -> tuple[str, Any]:
    """Do what was asked; what goes wrong is told, not raised."""
    try:
        return "done", getattr(worker, method)(*arguments)
    except Lacks as error:
        return "lacks", str(error)
    except Exception as error:
        return "failed", reason(error)


def main() -> None:
    """Answer requests until there are no more."""
    requests = sys.stdin.buffer
    replies = os.fdopen(os.dup(1), "wb")
    os.dup2(2, 1)  # what libraries print must not come between the replies
    began = time.perf_counter()
    worker = Worker(sys.argv[1], "precise" in sys.argv)
    pickle.dump(("done", time.perf_counter() - began), replies)
    replies.flush()
    while True:
        try:
            method, arguments = pickle.load(requests)
        except EOFError:
            return
        pickle.dump(answer(worker, method, arguments), replies)
        replies.flush()


if __name__ == "__main__":
    main()
