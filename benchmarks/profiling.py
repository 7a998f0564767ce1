"""What a profile costs, and whether its kernels sum to the step: `python -m benchmarks.profiling`.

A train step of a GPT (the case `train-gpt`) with Adam is called with and without `rlx.profile` in
turns. The first call of each turn, which finds the code, is left out.
"""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable
from typing import Any

import rlx
from rlx import optim

from .case import placed
from .cases import CASES
from .cases.training import language_loss
from .libraries import opened

TURNS, CALLS = 8, 8


def step_of(library: Any) -> tuple[Callable[..., Any], tuple[Any, ...]]:
    """The train step, and its first arguments."""
    case = CASES["train-gpt"]
    parameters, tokens, following = placed(case, library)
    loss, optimizer = language_loss(library), optim.adam(1e-3)

    @rlx.jit
    def step(parameters: Any, memory: Any, tokens: Any, following: Any) -> Any:
        value, grads = rlx.value_and_grad(loss)(parameters, tokens, following)
        updates, memory = optimizer.update(grads, memory, parameters)
        return optim.apply_updates(parameters, updates), memory, value

    return step, (parameters, optimizer.init(parameters), tokens, following)


def timed(step: Callable[..., Any], args: tuple[Any, ...]) -> list[tuple[float, float]]:
    """Seconds of calls but the first, by the clock and of all processors."""
    found = []
    for _ in range(CALLS):
        began, worked = time.perf_counter(), time.process_time()
        step(*args)
        found.append((time.perf_counter() - began, time.process_time() - worked))
    return found[1:]


def main() -> None:
    """Measure, and print the medians."""
    step, args = step_of(opened("rlx"))
    plain, profiled, kernels = [], [], []
    step(*args)
    with rlx.profile():
        step(*args)
    for _ in range(TURNS):
        plain += timed(step, args)
        with rlx.profile() as p:
            profiled += timed(step, args)
        kernels.append(sum(row.seconds for row in p.kernels) / CALLS)
    print(p)
    for word, place in (("by the clock", 0), ("of processor time", 1)):
        usual = statistics.median(times[place] for times in plain)
        ratio = statistics.median(times[place] for times in profiled) / usual
        print(f"a step takes {usual * 1e3:.2f} ms {word}, with a profile {ratio:.3f}x of that")
    usual = statistics.median(seconds for seconds, _ in plain)
    print(f"kernels sum to {statistics.median(kernels) / usual:.3f}x of the step")


if __name__ == "__main__":
    main()
