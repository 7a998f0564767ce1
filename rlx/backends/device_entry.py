"""The way into compiled code of a device that has memory of its own."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

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
