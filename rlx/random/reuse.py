"""Where keys go: the setting `key_reuse` lets none be used twice.

`takes_key` stands on every function that uses up a key. Known keys are told by their numbers, and
one that is made anew counts as new; traced keys are told by identity, in the graph that uses them.
What it misses: a compiled function that is called twice with one key.
"""

from __future__ import annotations

import functools
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, Protocol, TypeVar, cast
from weakref import WeakKeyDictionary

import numpy as np

from ..ir import builder
from ..ir.builder import Builder
from ..ir.config import config
from ..ir.errors import ArgumentError, KeyReuseError
from ..ir.source import user_source
from ..trace.array import Array
from ..trace.tensor import TracedTensor

F = TypeVar("F", bound=Callable[..., Any])
Words = tuple[int, ...]  # the numbers of a key


class Source(Protocol):
    """What gives a new key each time."""

    def key(self, name: str) -> Any:
        """The next key, for the function of this name."""


class _State(threading.local):
    def __init__(self) -> None:
        self.sources: list[Source] = []
        self.is_inside = False  # of a function that has its key
        self.used: dict[Any, str] = {}  # keys, with the line that used them
        self.folded: dict[Words, set[bytes]] = {}  # keys, with what they were folded with


_state = _State()
# a graph may be recorded again, so what was used in it is forgotten with it
_used_in: WeakKeyDictionary[Builder, dict[Any, str]] = WeakKeyDictionary()


def takes_key(fn: F) -> F:
    """Let a function use up its first argument, a key.

    For None it gets one of a stream.
    """
    name = fn.__name__

    @functools.wraps(fn)
    def with_key(key: Any = None, *args: Any, **keywords: Any) -> Any:
        is_given = key is not None
        key = key if is_given else _next_key(name)
        if not config.key_reuse or _state.is_inside:
            return fn(key, *args, **keywords)
        if is_given:
            use(name, key)
        with _inside():
            return fn(key, *args, **keywords)

    return cast(F, with_key)


def gives_keys(fn: F) -> F:
    """Let the keys that a function makes count as new."""

    @functools.wraps(fn)
    def giving(*args: Any, **keywords: Any) -> Any:
        keys = fn(*args, **keywords)
        if config.key_reuse:
            made_anew(keys)
        return keys

    return cast(F, giving)


@contextmanager
def drawing_from(source: Source) -> Iterator[None]:
    """Take keys from this source for the block."""
    _state.sources.append(source)
    try:
        yield
    finally:
        _state.sources.pop()


def _next_key(name: str) -> Any:
    if not _state.sources:
        raise ArgumentError(
            f"{name}: there is no key",
            fix="pass rlx.random.key(0), or open a stream: with rlx.random.stream(0): ...",
        )
    with _inside():
        return _state.sources[-1].key(name)


@contextmanager
def _inside() -> Iterator[None]:
    before, _state.is_inside = _state.is_inside, True
    try:
        yield
    finally:
        _state.is_inside = before


# -- the check ------------------------------------------------------------------------------------


def use(name: str, key: Any) -> None:
    """Remember that a function uses up a key; raise if one did before."""
    words = _words(key)
    if words is None and not isinstance(key, TracedTensor):
        return  # no key; the function will say so
    token = key.value if words is None else words
    scopes = _scopes(is_known=words is not None)
    before = next((scope[token] for scope in scopes if token in scope), None)
    if before is not None:
        raise KeyReuseError(
            f"{name}: the key was used before",
            notes=[f"first used at {before}"],
            fix="make a key for each use: first, second = rlx.random.split(key)",
        )
    scopes[0][token] = str(user_source())


def made_anew(keys: Any) -> None:
    """Forget keys that are made just now: their equals of before do not count."""
    known = _known(keys) if _is_on() else None
    if known is not None:
        for row in known.reshape(-1, 2).tolist():
            _state.folded.pop(tuple(row), None)
            for scope in _scopes(is_known=True):
                scope.pop(tuple(row), None)


def folded(key: Any, data: Any, child: Any) -> Any:
    """Give back a key made by folding: a new one for new data, for the same the same."""
    words, number = (_words(key), _known(data)) if _is_on() else (None, None)
    if words is not None and number is not None:
        before = _state.folded.setdefault(words, set())
        if number.tobytes() not in before:
            made_anew(child)
            before.add(number.tobytes())
    return child


def _is_on() -> bool:
    return config.key_reuse and not _state.is_inside


def _scopes(*, is_known: bool) -> list[dict[Any, str]]:
    """The used keys that count here, innermost first.

    A graph recorded for one run on known arrays has no known keys of its own.
    """
    graphs = [
        _used_in.setdefault(recorder, {})
        for recorder in reversed(builder.open_builders())
        if not (is_known and recorder.runs_once)
    ]
    return [*graphs, _state.used]


def _words(key: Any) -> Words | None:
    known = _known(key)
    return None if known is None or known.shape != (2,) else tuple(known.tolist())


def _known(x: Any) -> np.ndarray | None:
    """The numbers of an operand, where they are known."""
    if isinstance(x, TracedTensor):
        return x.concrete
    if isinstance(x, Array):
        return x.host()
    return np.asarray(x) if isinstance(x, np.ndarray | np.generic | int) else None
