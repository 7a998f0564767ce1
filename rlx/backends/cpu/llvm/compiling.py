"""Parallel compilation of a module in units, and cached object code.

`Units` splits a module: the first units are compiled while the last are written. Each function
is in one unit, which declares other functions that it calls, and repeats constants. `Compiles`
are the threads that compile the units. Text that is the same in every process (`load_cached`) has
its object code on disk; if it is not there yet, another thread compiles it as soon as the device
is opened, while the program prepares its data.
"""

from __future__ import annotations

import atexit
import re
import threading
import zlib
from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack, suppress
from queue import SimpleQueue
from typing import final

from rlx.backends.disk import disk_cache, hashed
from rlx.backends.locks import Turns, hold_in_forks, short_turns

from ....ir.record import field, record, replace
from . import machine
from .host import host
from .machine import PLAIN, addresses_as_written, compile_beside
from .text import Function, Module

END = "\0"  # of a text among others
LONG_TEXT = 32_000  # characters of a program's text, from which on a fifth of its time counts

# of a thread that nobody waits for: no fork comes while LLVM works, nor the end of the process
llvm_turn = hold_in_forks(2, Turns())
atexit.register(llvm_turn.__enter__)


@final
class Compiles:
    """Compiles texts on other threads while the caller writes more of them.

    Leaving the context ends the threads. Within it Python's threads take short turns.
    """

    def __init__(self, tier: str = "auto") -> None:
        self._tier = tier
        self._left: SimpleQueue[tuple[int, str] | None] = SimpleQueue()
        self._threads: list[threading.Thread] = []
        self._made: dict[int, bytes] = {}
        self._texts: list[str] = []
        self._size = 0
        self._held = ExitStack()
        self._errors: list[BaseException] = []

    def add(self, text: str) -> None:
        """Add a text to compile."""
        self._put(text)
        if len(self._threads) < host().cores - 1:
            thread = threading.Thread(target=self._work)
            if starts(thread):
                self._threads.append(thread)

    def finish(self, last: list[str]) -> tuple[bytes, ...]:
        """Add the last texts, help to compile, and give all object code in order."""
        for text in last[:-1]:
            self.add(text)
        self._put(last[-1])
        self._left.put(None)
        self._work()
        self._end()
        if self._errors:
            raise self._errors[0]
        return tuple(self._made[i] for i in range(len(self._texts)))

    @property
    def packed(self) -> bytes:
        """All texts, for `compiled_again`."""
        return zlib.compress(END.join(self._texts).encode(), 1)

    def _put(self, text: str) -> None:
        is_long, self._size = self._size > LONG_TEXT, self._size + len(text)
        if self._tier == "auto" and self._size > LONG_TEXT and not is_long:
            self._held.enter_context(addresses_as_written)
        self._left.put((len(self._texts), text))
        self._texts.append(text)

    def _work(self) -> None:
        """Compile what is left until there is no more, or an error."""
        while (taken := self._left.get()) is not None and not self._errors:
            try:
                self._made[taken[0]] = compile_beside(taken[1], self._tier)[0]
            except BaseException as error:  # of the user, too, who interrupts
                self._errors.append(error)
        self._left.put(None)  # for the others

    def __enter__(self) -> Compiles:
        self._held.enter_context(short_turns)
        return self

    def __exit__(self, kind: object, error: BaseException | None, *_: object) -> None:
        if error:
            self._errors.append(error)  # what is left need not be compiled
        self._end()

    def _end(self) -> None:
        self._left.put(None)
        for thread in self._threads:
            thread.join()
        self._held.close()


def compiled_again(packed: bytes) -> tuple[bytes, ...]:
    """Compile packed texts again with more optimization, on this thread."""
    made = []
    for text in zlib.decompress(packed).decode().split(END):
        with llvm_turn:
            made.append(compile_beside(text, "better")[0])
    return tuple(made)


def starts(thread: threading.Thread) -> bool:
    """Start a thread if possible, which it is not while Python ends."""
    try:
        thread.start()
    except RuntimeError:
        return False
    return True


UNIT_TEXT = 16_000  # characters of text, some 8 ms of compiling, that pay for a unit of its own
UNITS_PER_THREAD = 4  # so that all threads end at about the same time
NAMED = re.compile(r"[@!][\w.]+")


@record(frozen=False)
class Units:
    """Splits a module into units, one as soon as finished functions fill it."""

    module: Module
    threads: int
    give: Callable[[str], None]  # takes the text of a unit
    gone: set[str] = field(default_factory=set)  # names of the functions in these
    # finished functions of the next units: others, plain ones
    waiting: tuple[list[Function], list[Function]] = field(default_factory=lambda: ([], []))

    def add(self, functions: Sequence[Function]) -> None:
        """Add finished functions."""
        for f in functions if self.threads > 1 else ():
            group = self.waiting[f.is_plain]
            group.append(f)
            if _work(group) >= UNIT_TEXT:
                self.give(self._unit(group))
                self.gone |= {f.name for f in group}
                group.clear()

    def rest(self) -> list[str]:
        """The remaining units, longest first, or one for all if one thread is enough."""
        left = [f for f in self.module.functions.values() if f.name not in self.gone]
        plain, others = [f for f in left if f.is_plain], [f for f in left if not f.is_plain]
        is_whole = self.threads == 1 or _work(others) < 2 * UNIT_TEXT
        if is_whole and not (plain or self.gone):
            return [self.module.text]
        groups = [others] if is_whole else self._groups(others)
        groups = sorted([*groups, plain], key=_work, reverse=True)
        return [self._unit(group) for group in groups if group]

    def _groups(self, functions: Sequence[Function]) -> list[list[Function]]:
        """Functions in groups of about the same size."""
        size = max(UNIT_TEXT, _work(functions) // (self.threads * UNITS_PER_THREAD))
        groups: list[list[Function]] = [[]]
        for f in functions:
            if _work(groups[-1]) >= size:
                groups.append([])
            groups[-1].append(f)
        return groups

    def _unit(self, group: Sequence[Function]) -> str:
        """The text of some functions, with what they name of the module."""
        bodies = "\n\n".join(replace(f, linkage="").text for f in group)
        functions, own = self.module.functions.values(), {f.name for f in group}
        named = set(NAMED.findall(bodies))
        others = [f for f in functions if f"@{f.name}" in named and f.name not in own]
        declarations = self.module.declarations.union(*(f.declarations for f in group))
        declarations |= {f.declaration for f in others}
        lines = [line for line in self.module.globals if _is_named(line, named)]
        text = "\n".join([*sorted(declarations), *lines]) + f"\n\n{bodies}\n"
        return PLAIN + text if all(f.is_plain for f in group) else text


def _work(functions: Sequence[Function]) -> int:
    """An estimate of compile time: characters of text, half without optimization."""
    return sum(sum(map(len, f.lines)) // (2 if f.is_plain else 1) for f in functions)


def _is_named(line: str, named: set[str]) -> bool:
    """Whether a global line is used: by its name, or by all (attributes)."""
    name = line.split(" ", 1)[0]
    return name in named or name[0] not in "@!"


_ahead: dict[str, _Ahead] = {}  # by text, those that nobody has asked for

# one at a time, for the caller needs processors, too; no fork comes while LLVM works
_turn = hold_in_forks(2, threading.Lock())


class _Ahead(threading.Thread):
    """A thread that compiles a text; in a forked child it is gone."""

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


def load_cached(text: str, *, symbols: Mapping[str, int] | None = None) -> machine.Library:
    """Compile and link a text, with object code from disk or another thread."""
    disk, key = disk_cache(), _key(text)
    known = disk.get(key) if disk else None
    if known is not None:
        names, object_code = known.split(b"\n", 1)
        return machine.Library([object_code], names.decode().split(), symbols)
    ahead = _ahead.pop(text, None)
    if ahead:
        ahead.join()
    object_code, names = (ahead and ahead.made) or machine.compile_beside(text)
    library = machine.Library([object_code], names, symbols)
    if disk:
        disk.put(key, " ".join(names).encode() + b"\n" + object_code)
    return library


def _key(text: str) -> str:
    return hashed("text", text, machine.compiler())
