"""Arguments that are given away: their memory may become the memory of results.

A donated array is marked before the call begins, and every later use of it is an error. Its
memory is used again only if nothing else refers to it: no NumPy view, no other array, no thread.
"""

from __future__ import annotations

import sys
import threading
from collections.abc import Sequence
from typing import Any, NoReturn

import numpy as np

from ..backends.locks import hold_in_forks
from ..ir.errors import ArgumentError, DonatedError
from ..ir.gil import counts_exactly
from ..ir.graph import Source, Value
from ..ir.source import user_source
from ..trace.array import Array
from ..trace.host import PYTHON_SCALARS

_marking = hold_in_forks(5, threading.Lock())
_NUMBERS = (*PYTHON_SCALARS, np.generic)


class Donated:
    """Stands for the data of an array that was given away; every use raises."""

    __slots__ = ("_param", "_place", "_source")

    def __init__(self, param: Value, place: int, source: Source | None) -> None:
        self._param, self._place, self._source = param, place, source

    def __getattr__(self, attribute: str) -> NoReturn:
        raise self.error()

    def error(self) -> DonatedError:
        """The error of a use of the array here."""
        return DonatedError(
            f"an array {self._param.type} was used after it was donated",
            notes=[f"donated as {_name(self._param, self._place)}", f"at {self._source}"],
            fix="use the array that the function returned instead, or do not donate the argument",
        )


def check_donated(params: Sequence[Value], arrays: Sequence[Any], places: Sequence[int]) -> None:
    """Raise unless the arguments at `places` can be given away, each for itself."""
    seen = {id(x): i for i, x in enumerate(arrays)}
    if len(seen) < len(arrays):
        _check_apart(params, arrays, places, seen)
    for i in places:
        array = arrays[i]
        # a number has no memory to give
        if type(array) is not Array and not isinstance(array, _NUMBERS):
            raise ArgumentError(
                f"{_name(params[i], i)} is donated, but {_a(array)} cannot be given away",
                fix="pass an rlx array: rlx.array(x); or do not donate the argument",
            )


def _check_apart(
    params: Sequence[Value], arrays: Sequence[Any], places: Sequence[int], seen: dict[int, int]
) -> None:
    """Raise if a donated array is another argument as well.

    `seen` has the last place of each.
    """
    for i, array in enumerate(arrays):
        other = seen[id(array)]
        if i != other and isinstance(array, Array) and (i in places or other in places):
            donated, kept = (i, other) if i in places else (other, i)
            raise ArgumentError(
                f"{_name(params[donated], donated)} is donated, but the same array is also "
                f"{_name(params[kept], kept)}",
                fix="pass a copy for one of them: rlx.array(np.array(x))",
            )


def mark_donated(params: Sequence[Value], arrays: Sequence[Any], places: Sequence[int]) -> None:
    """Empty the arrays at `places`; raises if one was donated in the meantime."""
    source = user_source()
    with _marking:
        given = [i for i in places if type(arrays[i]) is Array]
        for i in given:
            if isinstance(arrays[i]._data, Donated):
                raise arrays[i]._data.error()
        for i in given:
            arrays[i]._data = arrays[i]._device = Donated(params[i], i, source)


def _name(param: Value, place: int) -> str:
    return param.origin or f"parameter {place}"


def _a(thing: Any) -> str:
    name = type(thing).__name__
    return "a NumPy array" if isinstance(thing, np.ndarray) else f"a {name}"


def alone(arrays: list[np.ndarray], i: int) -> bool:
    """Whether only this list refers to an array and nothing else to its memory."""
    is_alone = counts_exactly(arrays[i]) and sys.getrefcount(arrays[i]) == _REFERENCES
    return is_alone and arrays[i].flags.owndata


_REFERENCES = next(sys.getrefcount(one[i]) for one in [[np.empty(1)]] for i in [0])
