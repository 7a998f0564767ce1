"""Code that is the same in many processes: its object code stays on disk.

Where it is not there yet it is compiled on another thread, from when the device is opened on, while
the program gets its data ready and its first function is recorded.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress

from rlx.backends.cpu import machine
from rlx.backends.cpu.beside import starts
from rlx.backends.cpu.host import host
from rlx.backends.disk import disk_cache
from rlx.backends.forks import hold_in_forks
from rlx.backends.sources import hashed

_ahead: dict[str, _Ahead] = {}  # by text, those that nobody has asked for

# one at a time, for the caller needs processors, too; no fork comes while LLVM works
_turn = hold_in_forks(2, threading.Lock())


class _Ahead(threading.Thread):
    """Compiles a text; in a forked child it has ended, perhaps without a result."""

    def __init__(self, text: str) -> None:
        super().__init__(name="rlx compiles ahead")
        self.text = text
        self.made: tuple[bytes, tuple[str, ...]] | None = None

    def run(self) -> None:
        """Compile; what goes wrong shows where the text is compiled again."""
        with _turn, suppress(Exception):
            self.made = machine.compile_beside(self.text)


def compile_ahead(makers: Sequence[Callable[[], str]]) -> None:
    """Begin to compile texts that will be loaded, unless they are on disk."""
    if host().cores == 1:
        return
    disk = disk_cache()
    for text in (make() for make in makers):
        if text in _ahead or (disk and disk.get(_key(text)) is not None):
            continue
        ahead = _Ahead(text)
        if starts(ahead):
            _ahead[text] = ahead


def load_kept(text: str, *, symbols: Mapping[str, int] | None = None) -> machine.Library:
    """Do as `machine.load`, with object code from disk or another thread."""
    disk, key = disk_cache(), _key(text)
    known = disk.get(key) if disk else None
    if known is not None:
        names, object_code = known.split(b"\n", 1)
        return machine.Library([object_code], names.decode().split(), symbols)
    ahead = _ahead.pop(text, None)
    if ahead:
        ahead.join()
    object_code, names = (ahead and ahead.made) or machine.compile(text)
    library = machine.Library([object_code], names, symbols)
    if disk:
        disk.put(key, " ".join(names).encode() + b"\n" + object_code)
    return library


def _key(text: str) -> str:
    return hashed("text", text, machine.compiler())
