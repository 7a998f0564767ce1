"""Placement: the device on which an operation runs.

It runs where its arrays lie, or on the device that a function in it was compiled for; if neither
says, on the default device. Two devices are an error.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from ..ir.builder import current
from ..ir.errors import DeviceMismatchError
from ..ir.graph import Graph, Placed
from ..ir.memory import Memory
from ..ir.source import user_source
from .array import Array, default_memory, find_memory


def home(name: str, operands: Sequence[Any], placed: Sequence[Placed] = ()) -> Memory | None:
    """The memory for the results of an operation; None is the host's."""
    memory = common_device(name, operands, placed)
    return default_memory() if memory is None and not placed else memory


def common_device(
    name: str, operands: Sequence[Any], placed: Sequence[Placed] = ()
) -> Memory | None:
    """The common memory of arrays; None is the host's, which yields to another.

    Two devices are an error, and so is one on which a function among `placed` does not run.
    """
    places: list[Memory] = []
    for x in operands:
        memory = x._device if isinstance(x, Array) else None
        if memory is not None and not any(memory is m for m in places):
            places.append(memory)
    if len(places) > 1:
        raise DeviceMismatchError(
            f"{name}: the operands live on different devices, {places[0].name} and "
            f"{places[1].name}",
            notes=[f"{x.type} on {x.device}" for x in operands if isinstance(x, Array)],
            fix=f'move one with x.to("{places[0].name}")',
        )
    found = places[0] if places else None
    return _placed(name, found, placed) if placed else found


def run_here(who: str, device: str) -> None:
    """Let the graph under construction run on the device of a function in it."""
    recorder = current()
    if recorder is not None:
        recorder.graph.place([Placed(who, str(device), str(user_source()))])


def bring_to(device: Memory | str | None) -> None:
    """Let the graph under construction run on a device, if that has memory of its own."""
    memory = device if device is None or isinstance(device, Memory) else find_memory(device)
    if memory is not None:
        run_here(f"x.to({memory.name!r})", memory.name)


def check_unplaced(graph: Graph, what: str) -> None:
    """Raise if a function in a graph is for a device by name: `what` runs elsewhere."""
    for placed in graph.placed:
        raise DeviceMismatchError(
            f"{graph.name}: {placed.who} runs on {placed.device!r}, but what {what} gives does not",
            where=placed.where,
            fix=f"leave the device out of {placed.who}",
        )


def _placed(name: str, found: Memory | None, placed: Sequence[Placed]) -> Memory | None:
    """The memory where functions run, if arrays in the memory `found` may go there."""
    first = placed[0]
    for other in placed[1:]:
        if other.device != first.device:
            raise DeviceMismatchError(
                f"{name}: {first.who} runs on {first.device!r}, {other.who} on {other.device!r}",
                where=other.where,
                notes=[f"{p.who}: {p.where}" for p in (first, other)],
                fix=f"name one device for both, or call them outside of {name}",
            )
    memory = find_memory(first.device)
    if found is not None and found is not memory:
        raise DeviceMismatchError(
            f"{name}: {first.who} runs on {first.device!r}, but an array lies on {found.name!r}",
            where=first.where,
            fix=f'move the array with x.to("{first.device}"), or leave the device out of '
            f"{first.who}",
        )
    return memory
