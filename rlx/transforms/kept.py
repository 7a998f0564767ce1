"""What a jitted function keeps compiled, bounded by number and by bytes."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Iterable, Iterator
from contextlib import suppress
from typing import Any, NamedTuple

from ..ir.config import config

REMEMBERED = 1024  # hashes of kinds that were forgotten, to say so if they come again


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


class Kept:
    """Compiled functions by kind of arguments.

    The least recently used are forgotten first.
    """

    def __init__(self) -> None:
        self._entries: OrderedDict[Any, Any] = OrderedDict()
        self._forgotten: OrderedDict[int, None] = OrderedDict()

    def __len__(self) -> int:
        return len(self._entries)

    def __iter__(self) -> Iterator[Any]:
        return iter(_at_once(self._entries))

    def get(self, key: Any) -> Any:
        """The entry of a kind, the most recently used from now on; None if there is none."""
        entry = self._entries.get(key)
        if entry is not None:
            with suppress(KeyError):  # another thread may have forgotten it meanwhile
                self._entries.move_to_end(key)
        return entry

    def put(self, key: Any, entry: Any, limit: int) -> None:
        """Keep an entry, and forget others until `limit` and `cache_bytes` are kept."""
        self._entries[key] = entry
        while len(self) > limit or (len(self) > 1 and self.bytes > config.cache_bytes):
            old, _ = self._entries.popitem(last=False)
            self._forgotten[hash(old)] = None
        while len(self._forgotten) > REMEMBERED:
            self._forgotten.popitem(last=False)

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
        return _at_once(self._entries.values())[-1]

    @property
    def bytes(self) -> int:
        """What the programs take up, roughly."""
        return sum(e.compiled.executable.held_bytes for e in _at_once(self._entries.values()))

    def clear(self) -> None:
        """Forget everything."""
        self._entries.clear()
        self._forgotten.clear()


def _at_once(things: Iterable[Any]) -> list[Any]:
    """All of what an OrderedDict holds.

    Going through it hashes keys in Python, where another thread may put an entry in between.
    """
    while True:
        with suppress(RuntimeError, KeyError):
            return list(things)
