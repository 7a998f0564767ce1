"""What the cost model predicts, beside what is measured: `python -m benchmarks.predictions`.

Give names of groups or cases to look at these alone, `--share 1/3` for a third of them, `--devices`
to ask for all devices at once.
"""

from __future__ import annotations

import argparse
import timeit
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import numpy as np

import rlx
from rlx.ir.graph import Graph
from rlx.runtime.session import default_session
from rlx.tools.calibrate import measured, rates_of
from rlx.tools.costs import Prediction, explain_device, places_in, prediction

from .case import Case, build, placed
from .cases import CASES
from .libraries import opened
from .trees import tree_map

DEVICE, FACTOR, WORSE = "cpu", 2.0, 1.5
SECONDS, BLOCK, FEWEST = 0.1, 5e-3, 3
ON_DEVICES = ("dispatch", "chain-4M", "sum1", "gather", "matmul1024", "attention", "conv", "rnn")


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


def least(timer: timeit.Timer) -> float:
    """The least seconds of a call, of short blocks of calls."""
    calls = max(1, round(BLOCK / max(timer.timeit(1), 1e-7)))
    rounds = max(FEWEST, round(SECONDS / BLOCK) if calls > 1 else 0)
    return min(timer.repeat(rounds, calls)) / calls


def compared(case: Case, library: Any) -> tuple[Prediction, float]:
    """The predicted and the measured seconds of a call.

    The device is measured at the same time: processors are not always equally fast.
    """
    inputs = placed(case, library)
    with rlx.config.using(cache=False), watched() as seen:  # what is on disk is not recorded
        work = build(case, library, inputs)
    graph, options = seen[-1]  # of bound arguments, what runs in each call comes last
    trees = [*inputs, work.first] if case.kind == "call" and not case.weights else []
    places = places_in([rlx.tree.structure(tree) for tree in trees])
    timer = timeit.Timer(work.statement, globals=work.names)
    before, known = least(timer), rates_of(measured(default_session(DEVICE)))
    seconds = min(before, least(timer))
    return prediction(DEVICE, graph, [], options, places, known), seconds


def on_cpu(cases: Sequence[Case]) -> None:
    """Print a line for each case, and those beyond a factor of 2 once more."""
    library, beyond = opened("rlx"), []
    print(f"{'case':40} {'predicted':>10} {'measured':>10} {'ratio':>6}  of which compute, memory")
    for case in cases:
        predicted, seconds = compared(case, library)
        ratio = predicted.seconds / seconds
        parts = f"{predicted.compute * 1e6:.4g} {predicted.memory * 1e6:.4g} us"
        row = f"{case.title:40} {predicted.seconds * 1e6:10.4g} {seconds * 1e6:10.4g} {ratio:6.2f}"
        print(f"{row}  {parts}", flush=True)
        if not 1 / FACTOR <= ratio <= FACTOR:
            beyond.append(f"{case.name} {ratio:.2f}")
        library.forget()
    print(f"{len(cases) - len(beyond)} of {len(cases)} within {FACTOR:g}; not: {', '.join(beyond)}")


def on_devices(cases: Sequence[Case]) -> None:
    """Print what is predicted and measured of each device, for arguments on the host."""
    library = opened("rlx")
    for case in cases:
        program = case.program(library)
        inputs = [tree_map(np.asarray, placed_on_host) for placed_on_host in placed(case, library)]
        table = explain_device(program, *inputs)
        known = {c.device: c.prediction.seconds for c in table.candidates if c.prediction}
        found = {d: seconds_on(d, program, inputs) for d in known if d != "reference"}
        print(case.title)
        for device, seconds in found.items():
            row = f"{known[device] * 1e6:10.4g} {seconds * 1e6:10.4g} us"
            print(f"  {device:10} {row} {known[device] / seconds:6.2f}", flush=True)
        best = min(found, key=lambda device: found[device])
        chosen = next(device for device in known if device in found)
        loss = found[chosen] / found[best]
        print(
            f"  auto takes {chosen}, {loss:.2f} times as long as {best}",
            "" if loss <= WORSE else "!",
        )


def seconds_on(device: str, program: Callable[..., Any], inputs: Sequence[Any]) -> float:
    """The measured seconds of a call on a device, with copies there and back."""
    f = rlx.jit(program, device=device)
    is_here = default_session(device).backend.memory is None

    def call() -> None:
        for leaf in rlx.tree.leaves(f(*inputs)):
            leaf.host()

    call()
    timer = timeit.Timer("f(*x)", globals={"f": f, "x": inputs}) if is_here else timeit.Timer(call)
    return least(timer)


def main() -> None:
    """Compare what is asked for."""
    parser = argparse.ArgumentParser()
    parser.add_argument("names", nargs="*")
    parser.add_argument("--share", default="1/1")
    parser.add_argument("--devices", action="store_true")
    asked = parser.parse_args()
    names = asked.names or (ON_DEVICES if asked.devices else ())
    compiled = [c for c in CASES.values() if c.kind != "eager"]
    cases = [c for c in compiled if not names or c.name in names or c.group in names]
    share, shares = map(int, asked.share.split("/"))
    (on_devices if asked.devices else on_cpu)(cases[share - 1 :: shares])


if __name__ == "__main__":
    main()
