"""What compiling costs as programs grow, and whether memory stays flat: two tables.

python -m benchmarks.scaling                    unrolled loops and their gradients
python -m benchmarks.scaling --lengths 10000    one jitted function, many lengths
"""

from __future__ import annotations

import argparse
import json
import resource
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np

import rlx
import rlx.numpy as rnp

STEPS = (64, 128, 256, 512)
KINDS = ("value", "gradient")
REPORTS = 10  # lines of the table of lengths


def loop(steps: int) -> Callable[[Any, Any], Any]:
    """A loss of an unrolled recurrent network."""

    def loss(w: Any, x: Any) -> Any:
        for _ in range(steps):
            x = rnp.tanh(x @ w) + x
        return x.sum()

    return loss


def measure(kind: str, steps: int) -> dict[str, float]:
    """Processor seconds and megabytes to record and compile one program, in this process."""
    rlx.config.unroll_limit = 0
    w, x = np.eye(8, dtype=np.float32) * 0.1, np.ones((4, 8), np.float32)
    fn = loop(steps) if kind == "value" else rlx.grad(loop(steps))
    rlx.jit(rlx.grad(loop(2))).lower(w, x).compile()  # what is made once
    before, began = peak(), time.process_time()
    lowered = rlx.jit(fn).lower(w, x)
    recorded = time.process_time()
    executable = lowered.compile().executable
    return {
        "record, s": recorded - began,
        "compile, s": time.process_time() - recorded,
        "memory, MB": peak() - before,
        "code, kB": executable.code_bytes / 1e3,
    }


def peak() -> float:
    """The most megabytes that this process has had."""
    kibibytes = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return kibibytes / 1e6 if sys.platform == "darwin" else kibibytes * 1024 / 1e6


def resident() -> float:
    """The megabytes that this process has now; its peak where that is not known."""
    try:
        pages = int(Path("/proc/self/statm").read_text().split()[1])
    except OSError:
        return peak()
    return pages * resource.getpagesize() / 1e6


def in_child(kind: str, steps: int) -> dict[str, float]:
    """Measure in a process of its own: memory has a peak once."""
    command = [sys.executable, "-m", "benchmarks.scaling", "--one", kind, str(steps)]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    return json.loads(done.stdout)


def show_steps(steps: Sequence[int]) -> None:
    """Print the table of unrolled loops, each row with its growth over the row before."""
    last: dict[str, float] = {}
    for kind in KINDS:
        for n in steps:
            row = in_child(kind, n)
            if not last:
                print(f"{'program':>8} {'steps':>5} " + " ".join(f"{c:>18}" for c in row))
            before = last if n != steps[0] else {}
            cells = [f"{row[c]:9.3g}" + _growth(row[c], before.get(c)) for c in row]
            print(f"{kind:>8} {n:>5} " + " ".join(f"{cell:>18}" for cell in cells), flush=True)
            last = row


def _growth(now: float, before: float | None) -> str:
    return "        " if not before else f" (x{now / before:4.2f})"


def show_lengths(count: int) -> None:
    """Print the memory of a process that calls one function with arrays of many lengths."""
    fn = rlx.jit(lambda x: rnp.tanh(x * 2.0) + x.sum())
    print(f"{'lengths':>8} {'resident, MB':>13} {'kept':>6} {'kept, MB':>9} {'seconds':>8}")
    began = time.perf_counter()
    for n in range(1, count + 1):
        fn(np.zeros(n, np.float32))
        if n % max(1, count // REPORTS) == 0:
            info, spent = fn.cache_info(), time.perf_counter() - began
            print(
                f"{n:>8} {resident():>13.1f} {info.entries:>6} {info.bytes / 1e6:>9.1f} "
                f"{spent:>8.1f}",
                flush=True,
            )


def main() -> None:
    """Print what was asked for."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--steps", type=int, nargs="+", default=STEPS)
    parser.add_argument("--lengths", type=int)
    parser.add_argument("--one", nargs=2)
    given = parser.parse_args()
    if given.one:
        kind, steps = given.one
        print(json.dumps(measure(kind, int(steps))))
    elif given.lengths:
        show_lengths(given.lengths)
    else:
        show_steps(given.steps)


if __name__ == "__main__":
    main()
