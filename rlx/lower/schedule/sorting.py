"""Sorting: the key's lines in order, and where each element of them stood."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from ...ir.body import Fill
from ...ir.dims import quotient
from ...ir.graph import Node, Value
from ...ir.types import Type, as_dtype
from ..lir.expr import load
from ..lir.index import Index, loaded
from ..lir.program import Buffer, Kernel, Sort, Step, Store
from .elements import flatten, loops_of
from .fuse import maker, memory_of

if TYPE_CHECKING:
    from .schedule import Scheduler

INT32 = as_dtype("int32")


def sort_steps(scheduler: Scheduler, node: Node) -> list[Step]:
    """Sort the lines of the first operand; the others are read where its numbers stood.

    The lines are moved to be rows of memory, and back.
    """
    key, *others = node.args
    axis: int = node.attrs["axis"]
    is_last = axis == key.type.rank - 1
    shape = (*(n for i, n in enumerate(key.shape) if i != axis), key.shape[axis])
    rows = Type(key.dtype, shape)
    result = scheduler.result_buffer
    if key.type.size == 0:
        for value in node.results:
            result(value)
        return []
    numbers, steps = _rows(scheduler, key, rows, axis, node)
    ordered = result(node.results[0]) if is_last else scheduler.new_buffer(rows)
    places = spare_places = None
    moved = list(zip(others, node.results[1:], strict=True))
    if moved:
        numbered = [y for x, y in moved if is_last and _counts(x, axis)]
        places = result(numbered[0]) if numbered else scheduler.new_buffer(_numbers(rows))
        spare_places = scheduler.new_buffer(_numbers(rows))
        moved = [(x, y) for x, y in moved if y not in numbered[:1]]
    count = quotient(rows.size, shape[-1])
    assert count is not None, "the elements are in rows"
    spare = scheduler.new_buffer(rows)
    steps.append(Sort(count, shape[-1], numbers, ordered, places, spare, spare_places, node.source))
    if not is_last:
        steps.append(_copied(result(node.results[0]), ordered, key, axis, node))
    for x, y in moved:
        assert places is not None
        steps.append(_followed(scheduler, x, result(y), places, axis, node))
    return steps


def _numbers(rows: Type) -> Type:
    return Type(INT32, rows.shape)


def _counts(value: Value, axis: int) -> bool:
    """Whether each element is its own place along an axis."""
    body = maker(value).op.rules.get("body") if value.node else None
    if not isinstance(body, Fill) or value.dtype != INT32:
        return False
    _, place = loops_of(value.shape)
    number = body.number(place, value.type, **maker(value).attrs)
    return isinstance(number, Index) and number == place[axis]


def _moved(place: Sequence[Index], axis: int) -> tuple[Index, ...]:
    """A place in the rows, given one in the operands."""
    return (*(p for i, p in enumerate(place) if i != axis), place[axis])


def _rows(
    scheduler: Scheduler, key: Value, rows: Type, axis: int, node: Node
) -> tuple[Buffer, list[Step]]:
    """The buffer with a key's lines as rows, and what fills it."""
    root = memory_of(key, scheduler.target)
    is_stored = root in scheduler.buffers or root.constant is not None
    if is_stored and axis == rows.rank - 1 and not scheduler.elements.is_fill(key):
        return scheduler.buffer(key), []
    buffer = scheduler.new_buffer(rows)
    loops, place = loops_of(rows.shape)
    there = (*place[:axis], place[-1], *place[axis:-1])
    store = Store(buffer, flatten(place, rows.shape), scheduler.elements.at(key, there))
    return buffer, [Kernel(loops, (store,), node.source)]


def _copied(result: Buffer, ordered: Buffer, value: Value, axis: int, node: Node) -> Kernel:
    """The kernel that moves sorted rows back to lines along an axis."""
    loops, place = loops_of(value.shape)
    element = load(ordered, flatten(_moved(place, axis), ordered.type.shape))
    return Kernel(loops, (Store(result, flatten(place, value.shape), element),), node.source)


def _followed(
    scheduler: Scheduler, value: Value, result: Buffer, places: Buffer, axis: int, node: Node
) -> Kernel:
    """The kernel that reads an operand where the key's numbers stood."""
    shape = value.shape
    loops, place = loops_of(shape)
    rows = (*(n for i, n in enumerate(shape) if i != axis), shape[axis])
    number = load(places, flatten(_moved(place, axis), rows))
    there = (*place[:axis], loaded(number, 0, shape[axis] - 1), *place[axis + 1 :])
    store = Store(result, flatten(place, shape), scheduler.elements.at(value, there))
    return Kernel(loops, (store,), node.source)
