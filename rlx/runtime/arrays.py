"""Checks of a call's arrays against the parameters and results of a graph."""

from __future__ import annotations

import sys
import threading
from collections.abc import Sequence
from typing import Any, NoReturn

import numpy as np

from ..backends.locks import hold_in_forks
from ..ir.bind import bind_sizes, concrete_type, has_sizes, is_symbolic
from ..ir.errors import ArgumentError, DonatedError, DtypeError, RlxError, ShapeError
from ..ir.gil import counts_exactly
from ..ir.graph import Source, Value
from ..ir.memory import Memory
from ..ir.source import user_source
from ..ir.types import Type, type_of
from ..trace.array import Array
from ..trace.host import PYTHON_SCALARS, is_python_scalar, scalar_to_numpy, to_numpy

DENSE = 0x101  # NumPy's flags of arrays in C's order, and aligned
KEPT = 64  # combinations of shapes whose types are known
Sized = dict[tuple[Any, ...], list[Type]]


def prepare(
    params: Sequence[Value],
    arrays: Sequence[Any],
    name: str,
    memory: Memory | None = None,
    known: Sized | None = None,
) -> list[Any]:
    """Check arguments against parameters, and give dense host arrays.

    Arrays that lie in a device's `memory` stay as they are. `known` has the types for shapes that
    came before: where sizes are open, finding them takes longer than a small program.
    """
    if len(arrays) != len(params):
        raise wrong_count(name, len(params), len(arrays))
    if known and memory is None:
        found = _as_before(arrays, known)
        if found is not None:
            return found
    places = [p.origin or f"argument {i} of {name}" for i, p in enumerate(params)]
    shapes = tuple([x.shape if isinstance(x, (Array, np.ndarray)) else None for x in arrays])
    if None in shapes:  # a number, or a list
        known = None
    types = None if known is None else known.get(shapes)
    if types is None:
        types = sized_types([p.type for p in params], arrays, places)
        if known is not None:
            known[shapes] = types
            for old in list(known)[:-KEPT]:
                known.pop(old, None)  # another thread may have done so
    given = zip(types, arrays, places, strict=True)
    return [_prepared(type, array, place, name, memory) for type, array, place in given]


def _as_before(arrays: Sequence[Any], known: Sized) -> list[np.ndarray] | None:
    """Arrays of the host as they are, if all are dense and their shapes came before."""
    given: list[Any] = [x._data if type(x) is Array and x._device is None else x for x in arrays]
    types = known.get(tuple([x.shape if type(x) is np.ndarray else None for x in given]))
    return given if types is not None and all(map(is_dense, given, types)) else None


def sized_types(types: Sequence[Type], arrays: Sequence[Any], places: Sequence[str]) -> list[Type]:
    """The types of parameters, with the sizes that the arguments give to their dims."""
    if not is_symbolic(types):
        return list(types)
    sizes = bind_sizes(types, [np.shape(x) for x in arrays], places)
    return [concrete_type(t, sizes) if has_sizes(t, sizes) else t for t in types]


def _prepared(wanted: Type, given: Any, place: str, name: str, memory: Memory | None) -> Any:
    if memory is not None and isinstance(given, Array) and given._device is memory:
        if given.type == wanted:
            return Array(given._data, memory)  # its own: a donated one loses its data
    array: Any = given._on_host() if isinstance(given, Array) else given
    if is_dense(array, wanted):
        return array
    try:
        is_number = is_python_scalar(array) and wanted.shape == ()
        array = scalar_to_numpy(array, wanted.dtype) if is_number else to_numpy(array)
    except RlxError as error:
        error.notes = (place, *error.notes)
        raise
    if array.dtype != wanted.dtype:
        raise DtypeError(
            f"{place} is {type_of(array)}, {name} was compiled for {wanted}",
            fix=f"convert it: x.astype({wanted.dtype.name!r})",
        )
    if array.shape != wanted.shape:
        raise ShapeError(
            f"{place} is {type_of(array)}, {name} was compiled for {wanted}",
            fix="compile again for this shape, or reshape the array",
        )
    # a fresh array has the one canonical dtype object that compiled code compares with
    return np.require(array, wanted.dtype, ["C", "A"]).reshape(array.shape).view(wanted.dtype)


def is_dense(array: np.ndarray, wanted: Type) -> bool:
    """Whether the array is dense and aligned, as compiled code takes it."""
    if type(array) is not np.ndarray or array.dtype is not wanted.dtype:
        return False
    return array.shape == wanted.shape and array.flags.num & DENSE == DENSE


def overlaps(array: np.ndarray, others: Sequence[np.ndarray]) -> bool:
    """Whether an array shares memory with another."""
    on_host = [other for other in others if isinstance(other, np.ndarray)]
    return any(np.may_share_memory(array, other) for other in on_host)


def check_output(i: int, target: Any, wanted: Type) -> None:
    """Raise unless a result can be copied to the array."""
    if not isinstance(target, np.ndarray) or not target.flags.writeable:
        what = "read-only" if isinstance(target, np.ndarray) else f"of type {type(target).__name__}"
        raise ArgumentError(
            f"out[{i}] is {what}, but the result is written to it",
            fix=f"pass a writeable NumPy array: {new_array(wanted)}",
        )
    if target.dtype != wanted.dtype or target.shape != wanted.shape:
        raise ShapeError(
            f"out[{i}] is {_described(target)}, the result is {wanted}",
            fix=f"allocate it with {new_array(wanted)}",
        )


def new_array(wanted: Type) -> str:
    """What makes an array of a type, as a user writes it."""
    return f"np.empty({wanted.shape}, {wanted.dtype.name!r})"


def _described(array: np.ndarray) -> str:
    """The type of an array that may have a dtype rlx does not know."""
    return f"{array.dtype}{list(array.shape)}"


def wrong_count(name: str, wanted: int, given: int) -> ArgumentError:
    """The error for too many arrays, or too few."""
    return ArgumentError(
        f"{name} takes {wanted} arrays, not {given}",
        fix="pass one array for each parameter that is not bound",
    )


# -- donation: arguments whose memory may become the memory of results ----------------------------

# A donated array is marked before the call begins, and every later use of it is an error. Its
# memory is used again only if nothing else refers to it: no NumPy view, no other array, no thread.

_marking = hold_in_forks(5, threading.Lock())
_NUMBERS = (*PYTHON_SCALARS, np.generic)


class Donated:
    """A stand-in for the data of a donated array; every use raises."""

    __slots__ = ("_param", "_place", "_source")

    def __init__(self, param: Value, place: int, source: Source | None) -> None:
        self._param, self._place, self._source = param, place, source

    def __getattr__(self, attribute: str) -> NoReturn:
        raise self.error()

    def error(self) -> DonatedError:
        """The error of a use of the array here."""
        where = [] if self._source is None else [f"at {self._source}"]
        return DonatedError(
            f"an array {self._param.type} was used after it was donated",
            notes=[f"donated as {_name(self._param, self._place)}", *where],
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
