"""Ctrl-C ends what runs in compiled code, and the process goes on well.

Signals reach the main thread only, so all of it runs in one process of its own.
"""

from __future__ import annotations

import functools
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Sequence
from typing import Any

import pytest

from rlx.runtime.queue import Queue

ENDLESS = 10**15
BOUND = 5.0  # seconds, of which a handler takes a fifth of one: this is about ending at all


def _interrupted(
    run: Callable[[], object], number: int = signal.SIGINT, after: float = 0.3
) -> None:
    """Send a signal while something runs: the handler's exception comes out, and soon."""
    sent: list[float] = []

    def send() -> None:
        sent.append(time.monotonic())
        os.kill(os.getpid(), number)

    timer = threading.Timer(after, send)
    timer.start()
    try:
        run()
    except (KeyboardInterrupt, TimeoutError):
        assert time.monotonic() - sent[0] < BOUND, "it took too long"
    else:
        raise AssertionError("it was not interrupted")
    finally:
        timer.cancel()


def _kinds() -> dict[str, Callable[[], object]]:
    """Programs that would run for minutes, each of which takes a moment to compile."""
    import numpy as np

    import rlx
    import rlx.numpy as rnp

    small, x = np.ones((3, 3), "f4"), np.ones(3, "f4")

    def endless(x: Any) -> Any:
        return rlx.while_loop(
            lambda c: c[0] < ENDLESS,
            lambda c: (c[0] + 1, rnp.sin(c[1])),
            (rnp.array(0, "int64"), x),
        )

    def steps(x: Any, turns: int = 10**9) -> Any:
        return rlx.scan(lambda c, _: (rnp.tanh(c @ c), None), x, None, length=turns)[0]

    def long(x: Any) -> Any:
        several = rlx.checkpoint(lambda x: steps(x, 100))  # little is kept for the way back
        return rlx.scan(lambda c, _: (several(c), None), x, None, length=10**6)[0].sum()

    def turns(x: Any) -> Any:
        return rlx.fori_loop(0, 10**9, lambda i, c: rnp.sin(c) + i, x)

    def nested(x: Any) -> Any:
        return rlx.fori_loop(0, 10**6, lambda i, c: rlx.cond(i >= 0, turns, lambda c: c, c), x)

    def open_size(x: Any) -> Any:
        return rlx.fori_loop(0, 10**9, lambda i, c: rnp.cos(c), x)

    def called_back(x: Any) -> Any:
        shape = rlx.spec((3,), "float32")
        quiet = lambda c: rlx.pure_callback(lambda c: np.asarray(c) * 1, shape, c)  # noqa: E731
        return rlx.fori_loop(0, 10**9, lambda i, c: quiet(c), x)

    rows, whole = np.ones((64, 256), "f4"), np.ones((3000, 3000), "i8")
    into, donating = rlx.jit(turns), rlx.jit(turns, donate_argnums=0)
    weights = np.ones((4000, 4000), "f8")
    products = lambda x: x @ x @ x @ x @ x @ x @ x @ x @ x @ x  # noqa: E731
    return {
        "while": lambda: rlx.jit(endless)(x),
        "scan": lambda: rlx.jit(steps)(small),
        "parts of a loop": lambda: rlx.jit(turns)(rows),
        "vmap": lambda: rlx.jit(rlx.vmap(turns))(small),
        "grad": lambda: rlx.jit(rlx.grad(long))(small),
        "loops in loops": lambda: rlx.jit(nested)(x),
        "jit in jit": lambda: rlx.jit(lambda x: rlx.jit(rlx.jit(turns))(x) + 1)(x),
        "open sizes": lambda: rlx.jit(open_size, dynamic={"x": {0: "n"}})(x),
        "callbacks": lambda: rlx.jit(called_back)(x),
        "run_into": lambda: into.run_into(x, out=np.empty(3, "f4")),
        "donation": lambda: donating(rlx.array(x)),
        "loops of a kernel": lambda: rlx.jit(lambda x: x @ x)(whole),
        "products": lambda: rlx.jit(products)(weights),
    }


def _soundness() -> Callable[[], None]:
    """What runs next gives what it should, and needs no new memory again and again."""
    import numpy as np

    import rlx
    import rlx.numpy as rnp
    from rlx.backends.cpu.runtime.entry import memory_counts

    x = np.arange(40_000, dtype="f4").reshape(200, 200) / 1e4
    f = rlx.jit(lambda x: rlx.fori_loop(0, 3, lambda i, c: rnp.tanh(c @ x), x).sum(0))
    wanted = x
    for _ in range(3):
        wanted = np.tanh(wanted @ x)

    def check() -> None:
        np.testing.assert_allclose(f(x), wanted.sum(0), rtol=1e-4)
        before = memory_counts()[0]
        for _ in range(20):
            f(x)
        assert memory_counts()[0] - before <= 2, "memory leaks"

    return check


def _handlers() -> None:
    """Other signals and handlers: those that raise nothing interrupt nothing."""
    import numpy as np

    import rlx
    import rlx.numpy as rnp

    x, seen = np.ones(3, "f4"), []
    finite = rlx.jit(lambda x, n: rlx.fori_loop(0, n, lambda i, c: rnp.sin(c) + i, x))
    began = time.monotonic()
    wanted = np.asarray(finite(x, np.int32(10**6)))
    n = np.int32(min(10**9, int(1e6 * 0.5 / (time.monotonic() - began))))
    wanted = np.asarray(finite(x, n))
    for handler in (lambda *_: seen.append(np.asarray(finite(x, np.int32(5)))), signal.SIG_IGN):
        signal.signal(signal.SIGINT, handler)
        timer = threading.Timer(0.15, os.kill, (os.getpid(), signal.SIGINT))
        timer.start()
        np.testing.assert_array_equal(finite(x, n), wanted)
        timer.cancel()
    assert len(seen) == 1
    signal.signal(signal.SIGINT, signal.default_int_handler)

    def expire(*_: object) -> None:
        raise TimeoutError

    signal.signal(signal.SIGALRM, expire)
    _interrupted(lambda: finite(x, np.int32(2**31 - 1)), signal.SIGALRM)


def _threads() -> None:
    """A program of another thread goes on when that of the main thread is interrupted."""
    import numpy as np

    import rlx
    import rlx.numpy as rnp

    x, got = np.ones((64, 256), "f4"), []
    finite = rlx.jit(lambda x, n: rlx.fori_loop(0, n, lambda i, c: rnp.sin(c) + i, x))
    wanted = np.asarray(finite(x, np.int32(3000)))
    endless = rlx.jit(lambda x: rlx.fori_loop(0, 10**9, lambda i, c: rnp.sin(c) + i, x))
    stop = threading.Event()

    def work() -> None:
        while not stop.is_set():
            got.append(np.asarray(finite(x, np.int32(3000))))

    thread = threading.Thread(target=work)
    thread.start()
    _interrupted(lambda: endless(x))
    stop.set()
    thread.join()
    assert got
    for each in got:
        np.testing.assert_array_equal(each, wanted)


def _sorts() -> None:
    """Long sorts are left in their middle, and sort as well when called again."""
    import numpy as np

    import rlx
    import rlx.numpy as rnp

    x = np.random.default_rng(0).random(40_000_000)
    ordered = rlx.jit(rnp.sort)
    wanted = np.asarray(ordered(x))
    stopped = []
    for _ in range(3):
        began = time.process_time()
        _interrupted(lambda: ordered(x), after=0.05)
        stopped.append(time.process_time() - began)
    began = time.process_time()
    again = ordered(x)
    whole = time.process_time() - began
    # of the processors: others may have them in between
    assert min(stopped) < 0.8 * whole, f"{stopped} s of {whole} s"
    np.testing.assert_array_equal(again, wanted)


def run_all(names: Sequence[str] = ()) -> None:
    """What the tests start in processes of their own: all kinds, or some."""
    signal.signal(signal.SIGINT, signal.default_int_handler)  # what `nohup` starts ignores it
    is_sound = _soundness()
    for name, run in _kinds().items():
        if not names or name in names:
            print(name, flush=True)
            _interrupted(run)
            is_sound()
    if not names:
        _handlers()
        _threads()
        _sorts()
        is_sound()
    print("all")


@pytest.mark.skipif(sys.platform == "win32", reason="signals are sent as on Unix")
@pytest.mark.parametrize(
    "threads, names", [(1, ("parts of a loop", "loops of a kernel", "products")), (2, ())]
)
def test_signals_interrupt_compiled_code(threads: int, names: Sequence[str]) -> None:
    environment = {**os.environ, "RLX_NUM_THREADS": str(threads)}
    code = f"import test_interrupts; test_interrupts.run_all({names})"
    done = subprocess.run(
        [sys.executable, "-c", code], cwd=os.path.dirname(__file__), env=environment,
        capture_output=True, text=True, timeout=240,
    )  # fmt: skip
    assert done.stdout.endswith("all\n"), done.stdout + done.stderr


def test_calls_that_run_do_not_hold_up_the_end() -> None:
    """Neither with the interpreter lock nor without."""
    code = """
import numpy as np, rlx, rlx.numpy as rnp, time
f = rlx.jit(lambda x: rlx.while_loop(lambda c: rnp.sum(c) > -1, lambda c: rnp.abs(rnp.sin(c)), x))
pending = [f.run_async(np.ones(3)), rlx.jit(lambda x: x * 2).run_async(np.ones(3))]
time.sleep(0.3)
print("end", [p.done() for p in pending], flush=True)
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=30)
    assert (done.returncode, done.stdout) == (0, "end [False, False]\n"), done.stderr


def test_the_end_waits_for_jobs_a_moment() -> None:
    queue, done = Queue(), threading.Event()
    pending = [queue.submit(functools.partial(time.sleep, 0.01)) for _ in range(5)]
    queue.wait(30.0)
    assert all(p.done() for p in pending)
    last = queue.submit(done.wait)
    queue.wait(0.05)
    assert not last.done()
    done.set()
    assert last.result(30.0)
