"""Compiling on other threads, while the caller goes on."""

from __future__ import annotations

import atexit
import threading
import zlib
from contextlib import ExitStack
from queue import SimpleQueue
from typing import final

from rlx.backends.cpu.host import host
from rlx.backends.cpu.machine import addresses_as_written, compile_beside
from rlx.backends.forks import Turns, hold_in_forks
from rlx.backends.held import short_turns

END = "\0"  # of a text among others
LONG = 32_000  # characters of a program's text, from which on a fifth of its time counts

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
        """Compile one text more."""
        self._put(text)
        if len(self._threads) < host().cores - 1:
            thread = threading.Thread(target=self._work)
            if starts(thread):
                self._threads.append(thread)

    def finish(self, last: list[str]) -> tuple[bytes, ...]:
        """The object code of all texts in their order, the last ones included.

        The caller compiles, too, and alone where there is one text only.
        """
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
        is_long, self._size = self._size > LONG, self._size + len(text)
        if self._tier == "auto" and self._size > LONG and not is_long:
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
        short_turns.begin()
        return self

    def __exit__(self, kind: object, error: BaseException | None, *_: object) -> None:
        short_turns.end()
        if error:
            self._errors.append(error)  # what is left need not be compiled
        self._end()

    def _end(self) -> None:
        self._left.put(None)
        for thread in self._threads:
            thread.join()
        self._held.close()


def compiled_again(packed: bytes) -> tuple[bytes, ...]:
    """Better object code of packed texts, made by this thread alone."""
    made = []
    for text in zlib.decompress(packed).decode().split(END):
        with llvm_turn:
            made.append(compile_beside(text, "better")[0])
    return tuple(made)


def starts(thread: threading.Thread) -> bool:
    """Start a thread, if there can be one more: while Python ends there cannot."""
    try:
        thread.start()
    except RuntimeError:
        return False
    return True
