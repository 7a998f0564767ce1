"""Entries into compiled code of devices that have memory of their own."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from ..ir.bind import bind_sizes
from ..ir.errors import SymbolicSizeError
from ..ir.graph import Graph
from ..ir.memory import Memory
from ..ir.types import Type
from .backend import MISS, Executable

Run = Callable[[list[Any]], Sequence[Any]]


def device_executable(graph: Graph, array: type, memory: Memory, run: Run) -> Executable:
    """An executable of `run`, which takes and gives the device's form of arrays.

    Arrays of the device are passed as they are, those of the host are copied there. Arrays of
    another device, and what has another type, miss.
    """
    types = graph.param_types

    def entry(*arrays: Any) -> Any:
        if len(arrays) != len(types):
            return MISS
        given = _each(arrays, types, array, memory)
        if given is None:
            return MISS
        results = tuple(array(data, memory) for data in run(given))
        return results[0] if len(results) == 1 else results

    def prepare(arrays: Sequence[Any]) -> Sequence[Any]:
        """Copy fixed arrays to the device once, not in each call."""
        return [x if isinstance(x, array) else array(memory.from_host(x), memory) for x in arrays]

    return Executable(entry, MISS, prepare=prepare, memory=memory)


def _each(
    arrays: Sequence[Any], types: Sequence[Type], array: type, memory: Memory
) -> list[Any] | None:
    """The device's forms of arguments, or None if one does not fit.

    A function of its own, so that nothing but the list refers to them while the device runs.
    """
    given = []
    for x, wanted in zip(arrays, types, strict=True):
        data = _data(x, wanted, array, memory)
        if data is None:
            return None
        given.append(data)
    return given


def _data(given: Any, wanted: Type, array: type, memory: Memory) -> Any:
    """The device's form of an argument, or None if it does not fit."""
    place = given._device if type(given) is array else None
    if place is not None and place is not memory:
        return None
    data = given._data if type(given) is array else given
    if place is None and type(data) is not np.ndarray:
        return None
    if data.dtype != wanted.dtype or tuple(data.shape) != wanted.shape:
        return None
    return data if place is memory else memory.from_host(np.asarray(data, order="C"))


# -- an entry for each combination of shapes, where sizes are symbolic -----------------------------

KEPT = 256  # combinations of shapes with an entry; making one takes some microseconds
Sizes = Mapping[str, int]


def sized_entry(
    types: Sequence[Type], make: Callable[[Sizes], Callable[..., Any]]
) -> Callable[..., Any]:
    """An entry for arguments of these types, whose sizes are found in each call.

    `make(sizes)` gives an entry to the same machine code for certain numbers of the dims. Sizes
    that fit no numbers, or are out of range, are a `MISS`.
    """
    entries: dict[tuple, Callable[..., Any]] = {}
    names = [str(i) for i in range(len(types))]
    recent: Callable[..., Any] = lambda *arrays: MISS  # noqa: E731

    def entry(*arrays: Any, **keywords: Any) -> Any:
        nonlocal recent
        if keywords:
            return MISS
        result = recent(*arrays)  # a miss costs less than looking at the shapes
        if result is not MISS:
            return result
        shapes = tuple([getattr(array, "shape", None) for array in arrays[: len(types)]])
        if len(shapes) < len(types) or not all(map(_has_rank, shapes, types)):
            return MISS
        found = entries.get(shapes)
        if found is None:
            try:
                sizes = bind_sizes(types, shapes, names)  # type: ignore[arg-type]
            except SymbolicSizeError:
                return MISS
            found = entries[shapes] = make(sizes)
            for old in list(entries)[:-KEPT]:
                entries.pop(old, None)  # another thread may have done so
        recent = found  # other threads set it to theirs
        return found(*arrays)

    return entry


def _has_rank(shape: Any, type: Type) -> bool:
    return isinstance(shape, tuple) and len(shape) == type.rank
