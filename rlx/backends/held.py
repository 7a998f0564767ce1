"""Settings of the whole process that hold while code is made."""

from __future__ import annotations

import gc
import os
import sys
import threading
from collections.abc import Callable
from typing import final

from .forks import hold_in_forks

TURN = 0.0001  # seconds a thread runs Python code while others wait
PutBack = Callable[[], None]


@final
class Held:
    """A setting that holds as long as anybody is within it.

    `change` sets it, and gives what puts back the one before: the first who comes does the one,
    the last who leaves does the other.
    """

    def __init__(self, change: Callable[[], PutBack]) -> None:
        self._change = change
        self._lock = hold_in_forks(2, threading.Lock())
        self._users = 0
        self._put_back: PutBack | None = None
        if hasattr(os, "register_at_fork"):
            os.register_at_fork(after_in_child=self._forget)

    def begin(self) -> None:
        """One user more."""
        with self._lock:
            if not self._users:
                self._put_back = self._change()
            self._users += 1

    def end(self) -> None:
        """One user less."""
        with self._lock:
            self._users = max(0, self._users - 1)
            if not self._users:
                self._restore()

    def __enter__(self) -> None:
        self.begin()

    def __exit__(self, *_: object) -> None:
        self.end()

    def _restore(self) -> None:
        put_back, self._put_back = self._put_back, None
        if put_back:
            put_back()

    def _forget(self) -> None:
        """In a forked child: the threads that needed it live in the parent."""
        self._users = 0
        self._restore()


def _shorten_turns() -> PutBack:
    before = sys.getswitchinterval()
    sys.setswitchinterval(min(TURN, before))
    return lambda: sys.setswitchinterval(before)


def _rest() -> PutBack:
    was_enabled = gc.isenabled()
    gc.disable()
    return gc.enable if was_enabled else lambda: None


# Python's threads take turns more often: one that compiles asks for a turn some thirty times for
# each text, and would wait longer than it works
short_turns = Held(_shorten_turns)
# Python looks for no cycles that are garbage: of what lowering makes nearly all is in use until the
# end, and looking through it again and again took a fifth of the time
no_collection = Held(_rest)
