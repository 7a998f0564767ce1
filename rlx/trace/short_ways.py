"""Caches of fast paths for calls on known arrays.

They are taken only while nothing looks at single operations: no `debug_nans` or `debug_infs`, no
`disable_jit`, no other device by default.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any, Generic, TypeVar

import numpy as np

from ..ir.config import Settings, config

ENOUGH = 20e6  # numbers that NumPy reads and writes in about the time of a compile
MOST = 1024  # kinds of calls that are remembered of one function

Kind = TypeVar("Kind")
Code = Callable[..., Any]  # of known arrays; gives something else than an `Array` for others


class Kinds(Generic[Kind]):
    """A FIFO cache by kind of call, in single operations on a dict: it needs no lock."""

    def __init__(self, most: int = MOST) -> None:
        self._most = most
        self._known: dict[Any, Kind] = {}
        self.get = self._known.get
        self.latest: Code | None = None  # of calls with arrays alone; misses where it does not fit
        _all.append(self)

    def keep(self, key: Any, kind: Kind) -> Kind:
        """Add an entry unless another thread has, and give the entry."""
        if len(self._known) >= self._most:
            for old in list(self._known)[: self._most // 2]:
                self._known.pop(old, None)
        return self._known.setdefault(key, kind)

    def __len__(self) -> int:
        return len(self._known)

    def __iter__(self) -> Iterator[Kind]:
        return iter(list(self._known.values()))

    def clear(self) -> None:
        """Remove all entries."""
        self.latest = None
        self._known.clear()


def _no_code(function: Callable[..., Any], args: tuple[Any, ...]) -> Code | None:
    return None


exact_code = _no_code


def set_exact_code(make: Callable[[Callable[..., Any], tuple[Any, ...]], Code | None]) -> None:
    """Set the compiler of functions of numbers, to code of arrays with NumPy's bits."""
    global exact_code
    exact_code = make


def _no_loop(ufunc: np.ufunc, dtype: np.dtype, most: int) -> Code | None:
    return None


ufunc_code = _no_loop


def set_ufunc_code(make: Callable[[np.ufunc, np.dtype, int], Code | None]) -> None:
    """Set the source of code for ufuncs on small arrays, which gives NumPy's bits."""
    global ufunc_code
    ufunc_code = make


_all: list[Kinds[Any]] = []  # those of functions, which stay
is_open = True  # whether short ways may be taken


def forget() -> None:
    """Clear the caches."""
    for kinds in list(_all):
        kinds.clear()


def _follow(before: Settings | None, after: Settings) -> None:
    global is_open
    looks = after.debug_nans or after.debug_infs or after.disable_jit or after.guards
    is_open = not looks and after.device in (None, "cpu")
    if before is not None and before.compiled_in != after.compiled_in:
        forget()


_follow(None, config.settings)
config.watch(_follow)
