"""A process that computes for this one: messages, signs of life, and its end.

It is started afresh, not forked, and asked over a channel (`rings.py`). In a few bytes that both
share it says until when it will give its next sign of life; a thread here kills those that do not,
as a process that was stopped or that hangs in native code. Messages to a process that is dead raise
an `OSError`, those from it an `EOFError`: nobody waits for what will never come.
"""

from __future__ import annotations

import atexit
import multiprocessing
import multiprocessing.connection  # and with it what ends at exit after the processes here
import os
import signal
import sys
import threading
import time
from collections.abc import Callable
from contextlib import suppress
from typing import Any, final

from ..ir.config import THREADS
from ..ir.errors import AttributeValueError
from .rings import Channel

CONTEXT = multiprocessing.get_context("spawn")
START = 120.0  # seconds that a process may take to begin
TICK = 0.25  # seconds between two looks at the signs of life
SOON = 5.0  # seconds for a killed process to be gone
ENDED, LATE = "was ended", "took more time than it may"
FALSE = "gave a sign of life that cannot be true"
KILLED, STOPPED = "was ended by SIGKILL", "was stopped by a signal"  # as only others do
LEAST = 32 << 20  # bytes that a process may be bounded by: a thread's stack takes 8 MB
OVER = 71  # exit code of a process that took more memory than it may


@final
class Life:
    """What a process tells the one that started it, without a message.

    `shared` are two numbers in memory of both: when it last gave a sign of life, and until when it
    will give the next.
    """

    def __init__(self, shared: Any) -> None:
        self._shared = shared

    def beat(self, within: float) -> None:
        """Give a sign of life; the next one comes `within` so many seconds."""
        now = time.monotonic()
        self._shared[0], self._shared[1] = now, now + within

    @property
    def last(self) -> float:
        """When the last sign was given, on the clock `time.monotonic`.

        It is 0 where that cannot be true: memory of a process that went wrong has any numbers.
        """
        found = self._shared[0]
        return found if 0.0 <= found <= time.monotonic() else 0.0

    @property
    def due(self) -> float:
        """Until when the next one must be given."""
        return self._shared[1]


@final
class Process:
    """A process that calls `target(connection, life, *args)`.

    The target is a function of a module. The process may take `memory` bytes more than it begins
    with (None: all there is) and uses `threads` threads for the `cpu` device (None: as many as this
    process was told to).
    """

    def __init__(
        self,
        target: Callable[..., None],
        *args: Any,
        memory: int | None = None,
        threads: int | None = None,
    ) -> None:
        self.connection, theirs = Channel.pair()
        self.life = Life(self.connection.signs)
        self.life.beat(START)
        given = (theirs, memory, threads, target, args)
        self._process = CONTEXT.Process(target=_main, args=given, name="rlx worker")
        self._lock = threading.Lock()
        self._deadline = float("inf")
        self._why = ""
        try:
            _watch.start(self, self._process)
        except BaseException:
            self.connection.close()
            raise
        finally:
            theirs.close()
        self.pid = self._process.pid

    @property
    def is_alive(self) -> bool:
        """Whether it has not ended yet."""
        return self._process.is_alive()

    def expect(self, seconds: float | None) -> None:
        """Kill it in so many `seconds`, whatever signs of life it gives; never for None."""
        with self._lock:
            self._deadline = float("inf") if seconds is None else time.monotonic() + seconds

    def kill(self, why: str) -> None:
        """End it at once, and remember `why`."""
        with self._lock:
            self._kill(why)

    def check(self, now: float) -> None:
        """Kill it if at the time `now` it is late."""
        with self._lock:
            if now > self._deadline:
                self._kill(LATE)
            elif not now <= self.life.due:  # what is no number is late, too
                last = self.life.last
                silent = f"gave no sign of life for {now - last:.1f} seconds" if last else FALSE
                self._kill(f"{STOPPED}, and {silent}" if self._is_stopped() else silent)

    def end(self) -> str:
        """Be rid of it, and return how it ended, as "was ended by SIGSEGV"."""
        self.connection.close()
        self._process.join(TICK)  # one that is ending tells how
        self.kill(ENDED)
        self._process.join(SOON)
        _watch.remove(self)
        return self._why or _how(self._process.exitcode)

    def _is_stopped(self) -> bool:
        """Whether a signal has stopped it, where the system tells that."""
        with suppress(ChildProcessError, AttributeError):
            how = os.WSTOPPED | os.WNOHANG | os.WNOWAIT
            return os.waitid(os.P_PID, self.pid or 0, how) is not None
        return False

    def _kill(self, why: str) -> None:
        if self._process.is_alive():
            self._why = self._why or why
            self._process.kill()  # which ends stopped processes, too


def _how(code: int | None) -> str:
    """How a process ended, by its exit code."""
    if code == OVER:
        return "took more memory than it may"
    if code is None or code >= 0:
        return f"ended with exit code {code}"
    try:
        return f"was ended by {signal.Signals(-code).name}"
    except ValueError:
        return f"was ended by signal {-code}"


@final
class _Watch:
    """A thread that kills processes which give no sign of life; it runs while there are any."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._processes: set[Process] = set()
        self._is_running = False
        self._has_ended = False

    def start(self, process: Process, started: Any) -> None:
        """Start a process, and watch it from now on."""
        with self._lock:
            if self._has_ended:
                raise OSError("this program ends, and starts no process any more")
            started.start()
            self._processes.add(process)
            if not self._is_running:
                self._is_running = True
                threading.Thread(target=self._run, name="rlx.workers", daemon=True).start()

    def remove(self, process: Process) -> None:
        with self._lock:
            self._processes.discard(process)

    def end_all(self) -> None:
        """Kill all: this process ends."""
        with self._lock:
            self._has_ended, left = True, list(self._processes)
        for process in left:
            process.kill(ENDED)

    def _run(self) -> None:
        before = time.monotonic()
        while True:
            time.sleep(TICK)
            now = time.monotonic()
            was_stopped, before = now - before > 4 * TICK, now  # as the others, perhaps
            with self._lock:
                if not self._processes:
                    self._is_running = False
                    return
                watched = [] if was_stopped else list(self._processes)
            for process in watched:
                process.check(now)


_watch = _Watch()
atexit.register(_watch.end_all)  # before multiprocessing waits for them


# -- in the process --------------------------------------------------------------------------------


def _main(
    connection: Channel,
    memory: int | None,
    threads: int | None,
    target: Callable[..., None],
    args: tuple[Any, ...],
) -> None:
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C is for the one who asks
    if threads is not None:
        os.environ[THREADS] = str(threads)
    if memory is not None:
        bound_memory(memory)
    target(connection, Life(connection.signs), *args)


def is_orphan() -> bool:
    """Whether the process that started this one has ended."""
    parent = multiprocessing.parent_process()
    return parent is not None and not parent.is_alive()


def check_memory(memory: int | None) -> None:
    """Raise an `AttributeValueError` if so many bytes cannot bound a process."""
    if memory is None:
        return
    if sys.platform not in ("linux", "darwin"):
        raise AttributeValueError(
            "memory: this system bounds no memory of processes", fix="leave memory out"
        )
    if memory < LEAST:  # Python waits forever for a thread that has no memory to begin
        raise AttributeValueError(
            f"memory is {memory} bytes, with which a process may not even start a thread",
            fix=f"allow {LEAST >> 20}M or more",
        )


def bound_memory(memory: int) -> None:
    """Allow this process so many bytes more.

    What asks for others gets a `MemoryError`. On macOS, which refuses none, the process ends when
    it has taken them.
    """
    import resource

    if sys.platform == "linux":
        with open("/proc/self/status") as file:
            kilobytes = next(int(x.split()[1]) for x in file if x.startswith("VmData:"))
        most = kilobytes * 1024 + memory
        resource.setrlimit(resource.RLIMIT_DATA, (most, most))
        return

    def taken() -> int:
        return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss

    def look(most: int) -> None:
        while taken() <= most:
            time.sleep(TICK)
        os._exit(OVER)

    threading.Thread(target=look, args=(taken() + memory,), daemon=True).start()
