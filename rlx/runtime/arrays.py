"""The arrays of a call, checked against what a graph takes and gives."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from ..ir.bind import bind_sizes, concrete_type, has_sizes, is_symbolic
from ..ir.errors import ArgumentError, DtypeError, RlxError, ShapeError
from ..ir.graph import Value
from ..ir.memory import Memory
from ..ir.types import Type, type_of
from ..trace.array import Array
from ..trace.host import is_python_scalar, scalar_to_numpy, to_numpy


def prepare(
    params: Sequence[Value], arrays: Sequence[Any], name: str, memory: Memory | None = None
) -> list[Any]:
    """Check arguments against parameters; gives dense host arrays.

    Arrays that lie in a device's `memory` stay as they are.
    """
    if len(arrays) != len(params):
        raise wrong_count(name, len(params), len(arrays))
    places = [p.origin or f"argument {i} of {name}" for i, p in enumerate(params)]
    types = sized_types([p.type for p in params], arrays, places)
    given = zip(types, arrays, places, strict=True)
    return [_prepared(type, array, place, name, memory) for type, array, place in given]


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
    array: Any = given.host() if isinstance(given, Array) else given
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
    """Whether compiled code takes the array as it is."""
    if type(array) is not np.ndarray or array.dtype is not wanted.dtype:
        return False
    return array.shape == wanted.shape and array.flags.c_contiguous and array.flags.aligned


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
