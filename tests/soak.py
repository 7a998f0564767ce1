"""Many threads that call, compile, fail and wait at once, for minutes: nothing wrong, nothing kept.

    python tests/soak.py --seconds 600 --threads 16

prints the resident memory as it goes. It ends with status 1 if a result was wrong, or if memory
grew after the first fifth of the time by more than `MOST_GROWTH`.
"""

from __future__ import annotations

import argparse
import gc
import itertools
import resource
import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

import rlx
import rlx.numpy as rnp
from rlx.ir.errors import ShapeError

MOST_GROWTH = 0.1
KEPT_BYTES = 4 << 20  # of compiled code, so that programs are dropped all the time
LARGE = np.random.default_rng(0).normal(size=(200, 200)).astype(np.float32)


@rlx.jit
def scaled(tree: Any, scale: Any) -> Any:
    return rlx.tree.map(lambda x: x * scale + 1, tree)


@rlx.jit
def mixed(x: Any) -> Any:
    return rlx.nn.softmax(rnp.tanh(x @ x.T) + rnp.sort(x, 1)) @ x


@rlx.jit
def slope(x: Any) -> Any:
    return rlx.grad(lambda x: (rnp.sin(x @ x) ** 2).sum())(x)


def _stepped(state: Any, by: Any) -> Any:
    return {"x": state["x"] + by, "n": state["n"] + 1}


stepped = rlx.jit(_stepped, donate_argnames="state")
EXPECTED = {f: np.asarray(f(LARGE)) for f in (mixed, slope)}
numbers = itertools.count()


def call_with_trees(i: int) -> bool:
    x = np.full(i % 5 + 1, i, np.float32)
    found = scaled({"a": x, "b": [x, rlx.array(x)]}, float(i))
    return all(np.array_equal(leaf, x * i + 1) for leaf in rlx.tree.leaves(found))


def call_large(i: int) -> bool:
    f = (mixed, slope)[i % 2]
    return np.array_equal(f(LARGE), EXPECTED[f])


def call_into(i: int) -> bool:
    out = np.empty_like(LARGE)
    mixed.run_into(LARGE, out=out)
    return np.array_equal(out, EXPECTED[mixed])


def call_later(i: int) -> bool:
    pending = [scaled([np.float32(k)], 2.0) for k in range(3)]
    waiting = [scaled.run_async([np.full(3, k, np.float32)], 2.0) for k in range(3)]
    good = all(float(p[0]) == 2 * k + 1 for k, p in enumerate(pending))
    return good and all(float(p.result(60)[0][0]) == 2 * k + 1 for k, p in enumerate(waiting))


def call_with_gifts(i: int) -> bool:
    state: Any = {"x": rlx.array(np.zeros(1000, np.float32)), "n": rlx.array(0)}
    for _ in range(5):
        state = stepped(state, 2.0)
    return int(state["n"]) == 5 and bool((np.asarray(state["x"]) == 10).all())


def compile_anew(i: int) -> bool:
    number = next(numbers) % 100_000
    x = np.arange(4, dtype=np.float32)
    return np.array_equal(rlx.jit(lambda x: x * 2.0 + float(number))(x), x * 2 + number)


def fail(i: int) -> bool:
    try:
        mixed(LARGE[:3])
    except ShapeError:
        return True
    return False


JOBS = (call_with_trees, call_large, call_into, call_later, call_with_gifts, compile_anew, fail)


def stress(threads: int, goes_on: Callable[[int], bool]) -> list[str]:
    """What went wrong in threads that do all jobs, each in an order of its own."""
    wrong: list[str] = []
    gate = threading.Barrier(threads)

    def work(thread: int) -> None:
        gate.wait()
        for i in itertools.count():
            if not goes_on(i):
                return
            job = JOBS[(i * (1 + thread % 3) + thread) % len(JOBS)]
            try:
                if not job(i):
                    wrong.append(f"{job.__name__}({i})")
            except Exception as error:
                wrong.append(f"{job.__name__}({i}): {type(error).__name__}: {error}")

    workers = [threading.Thread(target=work, args=(i,), daemon=True) for i in range(threads)]
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join()
    return wrong


def resident() -> float:
    """The resident memory of this process in MB."""
    try:
        pages = int(Path("/proc/self/statm").read_text().split()[1])
        return pages * resource.getpagesize() / 1e6
    except OSError:
        return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1e3


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seconds", type=float, default=600)
    parser.add_argument("--threads", type=int, default=16)
    options = parser.parse_args()
    rlx.config.cache_bytes = KEPT_BYTES
    began, rounds, seen = time.monotonic(), [0], [(0.0, resident())]

    def goes_on(i: int) -> bool:
        rounds[0] += 1
        return time.monotonic() - began < options.seconds

    def watch() -> None:
        while goes_on(0):
            time.sleep(options.seconds / 40)
            gc.collect()
            seen.append((time.monotonic() - began, resident()))
            print(f"{seen[-1][0]:6.0f} s {seen[-1][1]:8.1f} MB  {rounds[0]} jobs", flush=True)

    threading.Thread(target=watch, daemon=True).start()
    wrong = stress(options.threads, goes_on)
    settled = [size for at, size in seen if at >= options.seconds / 5]
    first, last = max(settled[: len(settled) // 3]), max(settled[-len(settled) // 3 :])
    print(f"{rounds[0]} jobs, {len(wrong)} wrong; at most {first:.1f} MB early, {last:.1f} MB late")
    print(*wrong[:20], sep="\n")
    sys.exit(bool(wrong) or last > first * (1 + MOST_GROWTH))


if __name__ == "__main__":
    main()
