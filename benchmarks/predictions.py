"""What the cost model predicts, beside what is measured: `python -m benchmarks.predictions`.

Give names of groups or cases to look at these alone.
"""

from __future__ import annotations

import sys
import timeit
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import rlx
from rlx.ir.graph import Graph
from rlx.runtime.explain_device import prediction
from rlx.runtime.rates import Prediction

from .case import Case, build, placed
from .cases import CASES
from .libraries import opened

DEVICE, FACTOR = "cpu", 2.0
SECONDS, ROUNDS = 0.02, 3


@contextmanager
def watched() -> Iterator[list[tuple[Graph, rlx.CompileOptions]]]:
    """What sessions compile in the block."""
    seen: list[tuple[Graph, rlx.CompileOptions]] = []
    compile = rlx.Session.compile

    def watching(self: rlx.Session, program: Any, *specs: Any, options: Any = None) -> Any:
        if isinstance(program, Graph):
            seen.append((program, options or rlx.CompileOptions()))
        return compile(self, program, *specs, options=options)

    rlx.Session.compile = watching
    try:
        yield seen
    finally:
        rlx.Session.compile = compile


def compared(case: Case, library: Any) -> tuple[Prediction, float]:
    """The predicted and the measured seconds of a call."""
    with rlx.config.using(cache=False), watched() as seen:  # what is on disk is not recorded
        work = build(case, library, placed(case, library))
    graph, options = seen[-1]  # of bound arguments, what runs in each call comes last
    timer = timeit.Timer(work.statement, globals=work.names)
    once = max(timer.timeit(1), 1e-7)
    calls = max(1, round(SECONDS / once))
    measured = min(timer.repeat(ROUNDS, calls)) / calls
    return prediction(DEVICE, graph, [], options), measured


def main() -> None:
    """Print a line for each case, and those beyond a factor of 2 once more."""
    asked = sys.argv[1:]
    cases = [c for c in CASES.values() if not asked or c.name in asked or c.group in asked]
    library, beyond = opened("rlx"), []
    print(f"{'case':40} {'predicted':>10} {'measured':>10} {'ratio':>6}  of which compute, memory")
    for case in cases:
        predicted, measured = compared(case, library)
        ratio = predicted.seconds / measured
        parts = f"{predicted.compute * 1e6:.4g} {predicted.memory * 1e6:.4g} us"
        row = f"{case.title:40} {predicted.seconds * 1e6:10.4g} {measured * 1e6:10.4g} {ratio:6.2f}"
        print(f"{row}  {parts}", flush=True)
        if not 1 / FACTOR <= ratio <= FACTOR:
            beyond.append(f"{case.name} {ratio:.2f}")
        library.forget()
    print(f"{len(cases) - len(beyond)} of {len(cases)} within {FACTOR:g}; not: {', '.join(beyond)}")


if __name__ == "__main__":
    main()
