"""Sorting: the key's lines are sorted, and the other operands follow by places."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from ...ir.body import Fill
from ...ir.dims import quotient
from ...ir.graph import Node, Value
from ...ir.types import Size, Type, as_dtype
from ..lir.expr import load
from ..lir.index import Index, loaded
from ..lir.program import Buffer, Kernel, Sort, Step, Store
from .elements import flatten, loops_of
from .fuse import maker, memory_of

if TYPE_CHECKING:
    from .schedule import Scheduler

INT32 = as_dtype("int32")
ROWS = 16  # that have memory to work in: see `Sort`


def sort_steps(scheduler: Scheduler, node: Node) -> list[Step]:
    """Make the steps that sort lines of the key and reorder the other operands.

    The lines are moved to be rows of memory, and back.
    """
    if node.attrs["n_keys"] > 1:
        return _by_several(scheduler, node)
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
    moved = list(zip(node.args, node.results, strict=True))
    ordered = places = None
    if others:
        used = {a for n in scheduler.graph.nodes for a in n.args} | {*scheduler.graph.results}
        moved = [(x, y) for x, y in moved if y in used]
        numbered = [y for x, y in moved if is_last and _counts(x, axis)][:1]
        places = result(numbered[0]) if numbered else scheduler.new_buffer(Type(INT32, shape))
        moved = [(x, y) for x, y in moved if y not in numbered]
    else:
        ordered = result(node.results[0]) if is_last else scheduler.new_buffer(rows)
    count = quotient(rows.size, shape[-1])
    assert count is not None, "the elements are in rows"
    spare = scheduler.new_buffer(_spare(rows, count, bool(others)))
    steps.append(Sort(count, shape[-1], numbers, ordered, places, spare, node.source))
    if ordered is not None and not is_last:
        steps.append(_copied(result(node.results[0]), ordered, key, axis, node))
    if places is not None:
        steps += [_followed(scheduler, x, result(y), places, axis, node) for x, y in moved]
    return steps


def _by_several(scheduler: Scheduler, node: Node) -> list[Step]:
    """Sort by several keys: stably by each, the last one first."""
    axis: int = node.attrs["axis"]
    key = node.args[0]
    if key.type.size == 0:
        for value in node.results:
            scheduler.result_buffer(value)
        return []
    shape = (*(n for i, n in enumerate(key.shape) if i != axis), key.shape[axis])
    length = shape[-1]
    count = quotient(key.type.size, length)
    assert count is not None, "the elements are in rows"
    order: Buffer | None = None
    steps: list[Step] = []
    for key in reversed(node.args[: node.attrs["n_keys"]]):
        rows = Type(key.dtype, shape)
        numbers, moves = _rows(scheduler, key, rows, axis, node, order)
        places = scheduler.new_buffer(Type(INT32, shape))
        spare = scheduler.new_buffer(_spare(rows, count, True))
        steps += [*moves, Sort(count, length, numbers, None, places, spare, node.source)]
        if order is not None:
            loops, place = loops_of(shape)
            joined = scheduler.new_buffer(Type(INT32, shape))
            element = load(order, _ordered(places, place, shape))
            store = Store(joined, flatten(place, shape), element)
            steps.append(Kernel(loops, (store,), node.source))
            places = joined
        order = places
    assert order is not None, "there is a key"
    read = {a for n in scheduler.graph.nodes for a in n.args} | {*scheduler.graph.results}
    for x, y in zip(node.args, node.results, strict=True):
        if y in read:
            steps.append(_followed(scheduler, x, scheduler.result_buffer(y), order, axis, node))
    return steps


def _ordered(order: Buffer, place: Sequence[Index], shape: Sequence[Size]) -> Index:
    """The element of a row at a place of a permutation."""
    number = load(order, flatten(place, shape))
    return flatten((*place[:-1], loaded(number, 0, shape[-1] - 1)), shape)


def _spare(rows: Type, count: Size, has_places: bool) -> Type:
    """The scratch memory of a sort."""
    itemsize = rows.dtype.itemsize
    width = (2 * itemsize + 8 if has_places else itemsize) * rows.shape[-1]
    return Type(as_dtype("uint8"), (min(count, ROWS) if isinstance(count, int) else ROWS, width))


def _counts(value: Value, axis: int) -> bool:
    """Whether a value is the index along an axis (`iota`)."""
    body = maker(value).op.rules.body if value.node else None
    if not isinstance(body, Fill) or value.dtype != INT32:
        return False
    _, place = loops_of(value.shape)
    number = body.number(place, value.type, **maker(value).attrs)
    return isinstance(number, Index) and number == place[axis]


def _moved(place: Sequence[Index], axis: int) -> tuple[Index, ...]:
    """Map a place in the operands to one in the rows."""
    return (*(p for i, p in enumerate(place) if i != axis), place[axis])


def _rows(
    scheduler: Scheduler,
    key: Value,
    rows: Type,
    axis: int,
    node: Node,
    order: Buffer | None = None,
) -> tuple[Buffer, list[Step]]:
    """A buffer with a key's lines as rows, perhaps permuted, and the step to fill it."""
    root = memory_of(key, scheduler.target)
    is_stored = order is None and (root in scheduler.buffers or root.constant is not None)
    if is_stored and axis == rows.rank - 1 and not scheduler.elements.is_fill(key):
        return scheduler.buffer(key), []
    buffer = scheduler.new_buffer(rows)
    loops, place = loops_of(rows.shape)
    along = place[-1]
    if order is not None:
        along = loaded(load(order, flatten(place, rows.shape)), 0, rows.shape[-1] - 1)
    there = (*place[:axis], along, *place[axis:-1])
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
    """The kernel that reorders an operand by the places of the sorted key."""
    shape = value.shape
    loops, place = loops_of(shape)
    rows = (*(n for i, n in enumerate(shape) if i != axis), shape[axis])
    number = load(places, flatten(_moved(place, axis), rows))
    there = (*place[:axis], loaded(number, 0, shape[axis] - 1), *place[axis + 1 :])
    store = Store(result, flatten(place, shape), scheduler.elements.at(value, there))
    return Kernel(loops, (store,), node.source)
