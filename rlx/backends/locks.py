"""Locks across forks, and locks of devices.

Otherwise a child would never see the end of what another thread was at. They are taken in the order
of their ranks, as threads that need several of them do.
"""

from __future__ import annotations

import gc
import os
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import cache
from typing import Any, final

from ..ir.errors import DeviceLostError

_held: list[tuple[int, Any]] = []


def hold_in_forks(rank: int, lock: Any) -> Any:
    """Hold a lock while the process forks, after those of lower ranks; gives the lock."""
    _held.append((rank, lock))
    _held.sort(key=lambda pair: pair[0])
    return lock


# Held while a device is opened, so that there is one of it: `cache` lets threads that come at once
# each make their own.
opening = hold_in_forks(2, threading.RLock())


def _take() -> None:
    for _, lock in list(_held):
        lock.__enter__()


def _give() -> None:
    for _, lock in reversed(list(_held)):
        lock.__exit__(None, None, None)


def _give_in_child() -> None:
    _give()
    for _, lock in _held:
        if isinstance(lock, Turns):
            lock.forget_who_waits()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(before=_take, after_in_parent=_give, after_in_child=_give_in_child)


@final
class Turns:
    """A fair, reentrant lock: it goes to the thread that waits.

    A plain one may go to the thread that just released it, again and again.
    """

    def __init__(self) -> None:
        self._waiting, self._lock = threading.Lock(), threading.RLock()
        self._owner = 0
        self._depth = 0

    @property
    def is_mine(self) -> bool:
        """Whether this thread holds it."""
        return self._owner == threading.get_ident()

    def forget_who_waits(self) -> None:
        """In a forked child: the thread that waited for its turn lives in the parent."""
        self._waiting = threading.Lock()

    def __enter__(self) -> None:
        me = threading.get_ident()
        if self._owner == me:
            self._lock.acquire()
        else:
            with self._waiting:  # who gives the lock back comes after the one who holds this
                self._lock.acquire()
        self._owner, self._depth = me, self._depth + 1

    def __exit__(self, *error: object) -> None:
        self._depth -= 1
        if not self._depth:
            self._owner = 0
        self._lock.release()


def check_process(device: str, opened_in: int) -> None:
    """Raise in a forked child of who opened a device: it could wait forever."""
    if os.getpid() != opened_in:
        raise DeviceLostError(
            f"{device} was opened before this process was forked, and drivers do not "
            "work on in a forked child",
            fix='start processes by multiprocessing.get_context("spawn"), or use the device '
            "first in the child; device='cpu' works here, too",
        )


@final
class DeviceLock:
    """A lock of a device that only the process which opened it can use.

    A thread may take it several times. A forked child has neither the driver's threads nor a
    context of its own: there an error says so, whoever held the lock in the parent.
    """

    def __init__(self, device: str) -> None:
        self._device, self._process = device, os.getpid()
        self._lock = threading.RLock()
        self._depth = 0
        _keep_garbage_in_children()

    def __enter__(self) -> None:
        check_process(self._device, self._process)
        self._lock.acquire()
        self._depth += 1

    def __exit__(self, *error: object) -> None:
        self._depth -= 1
        self._lock.release()

    @contextmanager
    def let_go(self) -> Iterator[None]:
        """Let other threads have it for a block, however often this thread took it."""
        depth = self._depth
        for _ in range(depth):
            self.__exit__()
        try:
            yield
        finally:
            for _ in range(depth):
                self.__enter__()


@cache
def _keep_garbage_in_children() -> None:
    """Let the parent's garbage be in children: to free a driver's may take forever."""
    if hasattr(os, "register_at_fork"):
        os.register_at_fork(after_in_child=gc.freeze)


# -- settings of the whole process that hold for a while -------------------------------------------

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

    def __enter__(self) -> None:
        with self._lock:
            if not self._users:
                self._put_back = self._change()
            self._users += 1

    def __exit__(self, *_: object) -> None:
        with self._lock:
            self._users = max(0, self._users - 1)
            if not self._users:
                self._restore()

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
