"""Tier-up: better machine code for programs that have run long, made meanwhile.

`jit(tier="auto")` leaves out passes of LLVM that take half of a compile again and make most
programs faster by less than a tenth, some by half. Nobody knows how long a program will run; the
best guess is as long as it has run. So its calls are timed, and when they have taken some ten times
as long as its compile did, another thread makes the better code, and the next call enters it.
Results are the same to the last bit. Calls that are over sooner than timing pays are not timed.
"""

from __future__ import annotations

import os
import sys
import threading
from collections.abc import Callable
from contextlib import suppress
from time import perf_counter
from typing import Any, final

from ...ir.config import config
from ...runtime import MISS
from ...runtime.debug import tell_better
from .compiled import Compiled

PAYS_AFTER = 10.0  # compiles' worth of running
LOOKS = 8  # calls, after which they are not timed any more if they are short
SHORT = 100e-6  # seconds of a call; timing takes a fifth of a microsecond
NICENESS = 5  # of the thread that compiles: the program should hardly feel it


def may_be_better(entry: Compiled) -> bool:
    """Whether the calls of a compiled function are to be timed."""
    return (
        not entry.settled.locked()
        and config.swap
        and entry.compiled.executable.make_better is not None
    )


@final
class TimedPath:
    """A way into machine code that times its calls, until a shorter one is opened."""

    def __init__(
        self, path: Callable[..., Any], entry: Compiled, settle: Callable[[Compiled], None]
    ) -> None:
        self._path, self._entry, self._settle = path, entry, settle
        self._limit = PAYS_AFTER * entry.compiled.executable.compile_seconds
        self._calls, self._seconds = 0, 0.0

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        began = perf_counter()
        result = self._path(*args, **kwargs)
        if result is not MISS:
            self._calls += 1
            self._seconds += perf_counter() - began
            pays = self._seconds > self._limit
            if pays or (self._calls >= LOOKS and self._seconds < self._calls * SHORT):
                self._end(pays and config.swap)
        return result

    def _end(self, pays: bool) -> None:
        """Time no more calls; let another thread make better code, if no one did."""
        is_first = self._entry.settled.acquire(blocking=False)
        self._settle(self._entry)
        if is_first and pays:
            thread = threading.Thread(target=self._improve, name="rlx improves", daemon=True)
            with suppress(RuntimeError):  # while Python ends no thread can start
                thread.start()

    def _improve(self) -> None:
        if sys.platform == "linux":  # elsewhere this would be the priority of the process
            with suppress(OSError):  # a sandbox may forbid it
                os.setpriority(os.PRIO_PROCESS, threading.get_native_id(), NICENESS)
        began, problem = perf_counter(), ""
        try:
            self._entry.improve()
        except Exception as error:  # the code there is stays good
            problem = str(error)
        self._settle(self._entry)
        name = self._entry.traced.graph.name
        tell_better(name, self._seconds, perf_counter() - began, problem)
