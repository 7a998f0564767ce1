"""Sorting: the key's lines are sorted, and the other operands follow by places."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from ...ir.body import Fill
from ...ir.dims import quotient
from ...ir.graph import Node, Value
from ...ir.types import Size, Type, as_dtype
from ..lir.expr import Expr, load
from ..lir.index import Index, Variable, loaded
from ..lir.program import Buffer, Kernel, Sort, Step, Store
from .elements import Place, flatten, loops_of
from .fuse import maker, memory_of
from .scheduler import Scheduler

INT32 = as_dtype("int32")
ROWS = 16  # that have memory to work in: see `Sort`


def sort_steps(scheduler: Scheduler, node: Node) -> list[Step]:
    """Make the steps that sort lines of the keys and reorder the other operands."""
    if node.args[0].type.size == 0:
        for value in node.results:
            scheduler.result_buffer(value)
        return []
    lines = _Lines(scheduler, node)
    return lines.by_one() if node.attrs["n_keys"] == 1 else lines.by_several()


class _Lines:
    """The lines of a node's operands, which are sorted as rows of memory."""

    def __init__(self, scheduler: Scheduler, node: Node) -> None:
        self.scheduler, self.node = scheduler, node
        self.axis: int = node.attrs["axis"]
        self.shape = self.turned(node.args[0].shape)  # of the rows
        used = {a for n in scheduler.graph.nodes for a in n.args} | {*scheduler.graph.results}
        pairs = zip(node.args, node.results, strict=True)
        self.wanted = [(x, y) for x, y in pairs if y in used]

    def by_one(self) -> list[Step]:
        """Sort by one key: alone, or with the places that the other operands follow."""
        key, *others = self.node.args
        result, new_buffer = self.scheduler.result_buffer, self.scheduler.new_buffer
        is_last = self.axis == key.rank - 1
        numbers, steps = self.rows(key)
        if not others:
            first = self.node.results[0]
            ordered = result(first) if is_last else new_buffer(Type(key.dtype, self.shape))
            steps.append(self.sort(key, numbers, ordered, None))
            return steps if is_last else [*steps, self.line_by_line(result(first), ordered, key)]
        numbered = [y for x, y in self.wanted if is_last and _counts(x, self.axis)][:1]
        places = result(numbered[0]) if numbered else new_buffer(Type(INT32, self.shape))
        steps.append(self.sort(key, numbers, None, places))
        return [*steps, *(self.moved(x, y, places) for x, y in self.wanted if y not in numbered)]

    def by_several(self) -> list[Step]:
        """Sort by several keys: stably by each, the last one first."""
        order: Buffer | None = None
        steps: list[Step] = []
        for key in reversed(self.node.args[: self.node.attrs["n_keys"]]):
            numbers, moves = self.rows(key, order)
            places = self.scheduler.new_buffer(Type(INT32, self.shape))
            steps += [*moves, self.sort(key, numbers, None, places)]
            if order is not None:
                loops, place = loops_of(self.shape)
                joined = self.scheduler.new_buffer(Type(INT32, self.shape))
                there = flatten((*place[:-1], self.along(places, place)), self.shape)
                steps.append(self.kernel(loops, joined, place, self.shape, load(order, there)))
                places = joined
            order = places
        assert order is not None, "there is a key"
        return [*steps, *(self.moved(x, y, order) for x, y in self.wanted)]

    def sort(
        self, key: Value, numbers: Buffer, ordered: Buffer | None, places: Buffer | None
    ) -> Sort:
        """The step that sorts the rows of a key, with memory to work in."""
        count, length = quotient(key.type.size, self.shape[-1]), self.shape[-1]
        assert count is not None, "the elements are in rows"
        itemsize = key.dtype.itemsize
        width = (itemsize if places is None else 2 * itemsize + 8) * length
        rows = min(count, ROWS) if isinstance(count, int) else ROWS
        spare = self.scheduler.new_buffer(Type(as_dtype("uint8"), (rows, width)))
        return Sort(count, length, numbers, ordered, places, spare, self.node.source)

    def rows(self, key: Value, order: Buffer | None = None) -> tuple[Buffer, list[Step]]:
        """A buffer with a key's lines as rows, perhaps permuted, and the step to fill it."""
        scheduler = self.scheduler
        root = memory_of(key, scheduler.target)
        is_stored = order is None and (root in scheduler.buffers or root.constant is not None)
        if is_stored and self.axis == key.rank - 1 and not scheduler.elements.is_fill(key):
            return scheduler.buffer(key), []
        buffer = scheduler.new_buffer(Type(key.dtype, self.shape))
        loops, place = loops_of(self.shape)
        along = place[-1] if order is None else self.along(order, place)
        there = (*place[: self.axis], along, *place[self.axis : -1])
        element = scheduler.elements.at(key, there)
        return buffer, [self.kernel(loops, buffer, place, self.shape, element)]

    def line_by_line(self, result: Buffer, ordered: Buffer, value: Value) -> Kernel:
        """The kernel that moves sorted rows back to lines along the axis."""
        loops, place = loops_of(value.shape)
        element = load(ordered, flatten(self.turned(place), self.shape))
        return self.kernel(loops, result, place, value.shape, element)

    def moved(self, value: Value, result: Value, places: Buffer) -> Kernel:
        """The kernel that reorders an operand by the places of the sorted key."""
        buffer = self.scheduler.result_buffer(result)
        loops, place = loops_of(value.shape)
        along = self.along(places, self.turned(place))
        there = (*place[: self.axis], along, *place[self.axis + 1 :])
        element = self.scheduler.elements.at(value, there)
        return self.kernel(loops, buffer, place, value.shape, element)

    def kernel(
        self,
        loops: tuple[Variable, ...],
        buffer: Buffer,
        place: Place,
        shape: Sequence[Size],
        element: Expr,
    ) -> Kernel:
        """The kernel that stores an element at each place of an array."""
        return Kernel(loops, (Store(buffer, flatten(place, shape), element),), self.node.source)

    def turned(self, items: Sequence[Any]) -> tuple[Any, ...]:
        """The items of the axes of an operand in the order of those of the rows."""
        return (*(x for i, x in enumerate(items) if i != self.axis), items[self.axis])

    def along(self, order: Buffer, place: Sequence[Index]) -> Index:
        """The number of a permutation at a place of the rows."""
        return loaded(load(order, flatten(place, self.shape)), 0, self.shape[-1] - 1)


def _counts(value: Value, axis: int) -> bool:
    """Whether a value is the index along an axis (`iota`)."""
    body = maker(value).op.rules.body if value.node else None
    if not isinstance(body, Fill) or value.dtype != INT32:
        return False
    _, place = loops_of(value.shape)
    number = body.number(place, value.type, **maker(value).attrs)
    return isinstance(number, Index) and number == place[axis]
