"""The least-recently-used cache of a jitted function, limited by count and bytes."""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, NamedTuple

from ...ir.config import config

REMEMBERED = 1024  # hashes of kinds that were forgotten, to say so if they come again

_uses = itertools.count()


class CacheInfo(NamedTuple):
    """What a jitted function keeps: kinds of arguments it is compiled for.

    There are `limit` at most, of `bytes_limit` bytes together (`rlx.config.cache_bytes`);
    `bytes` estimates what the programs take up. `compiles` counts all compiles so far; `reason`
    says what was new in the last one.
    """

    entries: int
    limit: int
    compiles: int
    reason: str
    bytes: int = 0
    bytes_limit: int = 0


@dataclass
class _Used:
    """An entry, and when it was used last."""

    entry: Any
    at: int


class LruCache:
    """Compiled functions by kind of arguments.

    The least recently used are forgotten first. Threads use it at once: every step is one operation
    on a dict, and no lock is there that a forked child could find taken.
    """

    def __init__(self) -> None:
        self._entries: dict[Any, _Used] = {}
        self._forgotten: dict[int, None] = {}

    def __len__(self) -> int:
        return len(self._entries)

    def __iter__(self) -> Iterator[Any]:
        return (key for key, _ in self._by_use())

    def get(self, key: Any) -> Any:
        """The entry of a kind, the most recently used from now on; None if there is none."""
        used = self._entries.get(key)
        if used is None:
            return None
        used.at = next(_uses)
        return used.entry

    def put(self, key: Any, entry: Any, limit: int) -> None:
        """Keep an entry, and forget others until `limit` and `cache_bytes` are kept."""
        self._entries[key] = _Used(entry, next(_uses))
        for old, _ in self._by_use()[:-1]:
            if len(self) <= limit and self.bytes <= config.cache_bytes:
                break
            self._entries.pop(old, None)  # another thread may have forgotten it meanwhile
            self._forgotten[hash(old)] = None
        for old in list(self._forgotten)[:-REMEMBERED]:
            self._forgotten.pop(old, None)

    def reason(self, key: Any, limit: int) -> str:
        """Why a kind that was compiled before is compiled again; empty if it was not."""
        if hash(key) not in self._forgotten:
            return ""
        size = f"{config.cache_bytes / 1e6:.4g} MB"
        return (
            f"it was compiled for such arguments and forgotten since: {limit} kinds or {size} are "
            "kept (rlx.config.cache_bytes)"
        )

    @property
    def last(self) -> Any:
        """The most recently used entry."""
        return self._by_use()[-1][1].entry

    @property
    def bytes(self) -> int:
        """What the programs take up, roughly."""
        return sum(u.entry.compiled.executable.held_bytes for u in self._entries.copy().values())

    def clear(self) -> None:
        """Forget everything."""
        self._entries.clear()
        self._forgotten.clear()

    def _by_use(self) -> list[tuple[Any, _Used]]:
        """Kinds and entries, the most recently used last."""
        return sorted(self._entries.copy().items(), key=lambda pair: pair[1].at)
