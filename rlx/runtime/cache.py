"""The compile cache: a bounded, thread-safe map from content hash to executable.

`SingleFlight` lets one thread make an entry that several need.
"""

from __future__ import annotations

import os
import threading
import weakref
from collections import OrderedDict
from collections.abc import Callable, Hashable, Iterator
from contextlib import contextmanager
from typing import Any

from ..backends.backend import Executable
from ..backends.locks import Turns, hold_in_forks
from ..ir.config import config
from ..ir.record import field, record

# Held while anything is compiled. Little is lost, for LLVM works on all cores for one program.
compiling = hold_in_forks(1, Turns())


@record
class CacheStats:
    """Statistics of the cache: hits, misses, size."""

    hits: int
    misses: int
    entries: int
    bytes: int = 0


class CompileCache:
    """A cache of the most recently used executables, limited by count and bytes.

    Each key is compiled by one thread only.
    """

    def __init__(self, capacity: int = 1024) -> None:
        self.capacity = capacity
        self._entries: OrderedDict[Any, Any] = OrderedDict()
        self._lock = threading.Lock()
        self._hits = self._misses = self._bytes = 0
        _caches.add(self)

    def get(self, key: Any, make: Callable[[], Any]) -> Any:
        """Give the entry of a key, made by `make` if there is none.

        Threads that ask for a key that is being made wait for it. If making fails, the error goes
        to the maker and the next one tries again. `make` may ask for other keys.
        """
        found = self._found(key)
        if found is not None:
            return found
        with compiling:
            found = self._found(key)  # another thread may have made it meanwhile
            if found is not None:
                return found
            made = make()
            with self._lock:
                self._misses += 1
                self._entries[key] = made
                self._bytes += _bytes_of(made)
                while len(self._entries) > self.capacity or self._is_too_large():
                    _, old = self._entries.popitem(last=False)
                    self._bytes -= _bytes_of(old)
            return made

    def improve(self, make_tier_up: Callable[[], Executable], better: Executable) -> None:
        """Keep better code, which `make_tier_up` made, in the place of that there is."""
        with self._lock:
            for key, made in self._entries.items():
                if isinstance(made, Executable) and made.make_tier_up is make_tier_up:
                    self._entries[key] = made.improved(better)
                    self._bytes += _bytes_of(self._entries[key]) - _bytes_of(made)

    def _is_too_large(self) -> bool:
        return len(self._entries) > 1 and self._bytes > config.cache_bytes

    def _found(self, key: Any) -> Any:
        with self._lock:
            found = self._entries.get(key)
            if found is not None:
                self._hits += 1
                self._entries.move_to_end(key)
            return found

    def clear(self) -> None:
        """Remove all entries."""
        with self._lock:
            self._entries.clear()
            self._bytes = 0

    @property
    def stats(self) -> CacheStats:
        """Counts since the start."""
        with self._lock:
            return CacheStats(self._hits, self._misses, len(self._entries), self._bytes)

    def renew_lock(self) -> None:
        """Forget that a thread held the lock: in a forked child that thread is gone."""
        self._lock = threading.Lock()


def _bytes_of(made: Any) -> int:
    return made.held_bytes if isinstance(made, Executable) else 0


_caches: weakref.WeakSet[CompileCache] = weakref.WeakSet()


def clear_all() -> None:
    """Forget the entries of every cache."""
    for each in list(_caches):
        each.clear()


def _renew_locks() -> None:
    for each in list(_caches):
        each.renew_lock()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_renew_locks)


# -- one thread makes what several need -----------------------------------------------------------

# No thread waits in a circle. A function that is recorded may still wait for a thread of its own
# that calls it: after so many seconds that one records it, too.
PATIENCE = 10.0

_awaited: dict[int, _Flight] = {}  # what threads wait for, by their numbers


@record(frozen=False, eq=False)
class _Flight:
    """Something that a thread makes."""

    thread: int = field(default_factory=threading.get_ident)
    process: int = field(default_factory=os.getpid)
    landed: threading.Event = field(default_factory=threading.Event)


class SingleFlight:
    """Lets one thread at a time make the entry of a key.

    There is no lock that a forked child could find taken.
    """

    def __init__(self) -> None:
        self._flights: dict[Hashable, _Flight] = {}

    @contextmanager
    def turn(self, key: Hashable) -> Iterator[None]:
        """Hold a key, when who held it before is done: what it made may be there.

        If waiting could last forever, the key is not held: a thread that comes back to it while it
        makes it, threads that wait for each other, a thread that compiles.
        """
        own = _Flight()
        while (flight := self._flights.setdefault(key, own)) is not own:
            if flight.process != own.process:  # its thread lives in the parent
                self._flights.pop(key, None)
            elif not _landed(flight):
                break
        try:
            yield
        finally:
            if flight is own:
                self._flights.pop(key, None)
                own.landed.set()


def _landed(flight: _Flight) -> bool:
    """Wait for a flight, unless that may last forever; whether it has landed."""
    me = threading.get_ident()
    _awaited[me] = flight
    try:
        return not _is_stuck(me) and flight.landed.wait(PATIENCE)
    finally:
        del _awaited[me]


def _is_stuck(thread: int) -> bool:
    """Whether what a thread waits for waits for this thread."""
    if compiling.is_mine:  # others may need to compile
        return True
    seen, other = set(), thread
    while (flight := _awaited.get(other)) is not None and other not in seen:
        seen.add(other)
        other = flight.thread
    return other in seen
