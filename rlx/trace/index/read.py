"""Indexing as in NumPy: `x[i]` and `x.at[i].set(v)`.

An index is read in two steps. The basic step takes numbers, slices, None and ... that are known
while tracing: a slice, a flip, a reshape. The array step gathers at places given by integer
arrays, which NumPy broadcasts together and places where they stood, or in front if apart.
"""

from __future__ import annotations

import operator
from typing import Any

import numpy as np

from ...ir.dims import Dim, is_at_least
from ...ir.errors import BoundsError, ConcretizationError, ShapeError
from ...ir.record import field, record
from ..apply import apply, as_operand, as_tensor, literal, operand_type
from ..array import Array
from ..axes import Shape, broadcast_shapes, integer
from ..by_numpy import elements, is_free
from ..operators import FUNCTIONS
from ..promotion import convert
from ..tensor import TracedTensor
from .aliasing import Box, is_new_part, is_part
from .items import (
    INDEX,
    are_checked,
    check_places,
    full_items,
    index_dtype,
    is_array_index,
    is_mask,
    outside,
    width,
    with_flags,
    without_masks,
)
from .masks import Chosen, traced_mask


@record(frozen=False)
class Plan:
    """An index read for a shape: a slice of each axis, then what becomes of the axis."""

    start: list[int] = field(default_factory=list)
    stop: list[Any] = field(default_factory=list)
    step: list[int] = field(default_factory=list)  # positive
    flipped: list[int] = field(default_factory=list)  # axes that are reversed
    # "keep", "drop" (a number) or "take" (an array); "new" adds an axis, "gap" keeps arrays apart
    kinds: list[str] = field(default_factory=list)
    arrays: list[Any] = field(default_factory=list)  # the indices along taken axes, in order

    def add(self, kind: str, start: Any, stop: Any, step: int = 1) -> None:
        """Append an axis."""
        self.kinds.append(kind)
        self.start.append(start)
        self.stop.append(stop)
        self.step.append(step)

    @property
    def has_arrays(self) -> bool:
        """Whether elements are gathered."""
        return bool(self.arrays)

    def box(self) -> Box:
        """The places along each axis; all of an axis that arrays take from."""
        if not all(isinstance(n, int) for n in (*self.start, *self.stop)):
            return None
        return tuple(map(range, self.start, self.stop, self.step))

    @property
    def is_part(self) -> bool:
        """Whether NumPy makes a view: numbers, traced ones too, and slices only."""
        return not self.arrays or all(not a.shape for a in self.arrays)


def read_index(index: Any, shape: Shape, *, checked: bool = True, wraps: bool = True) -> Plan:
    """Read an index as written for an array of a shape.

    Python numbers outside of the array are errors, and so are index arrays where `bounds` looks at
    them, but not if they are not `checked`. Negative ones count from the end, or are outside if an
    index does not `wrap`.
    """
    checked = checked and wraps
    items = without_masks(full_items(index, shape), shape)
    sizes = iter(shape)
    items = [
        _number_if_inside(item, next(sizes), checked) if width(item) else item for item in items
    ]
    if not checked:
        sizes = iter(shape)
        items = [_loose(item, next(sizes), wraps) if width(item) else item for item in items]
    plan, axis = Plan(), 0
    # numbers count as arrays for the place of the result when arrays are there
    has_arrays = any(is_array_index(item) for item in items)
    for item in items:
        if item is None or item is Ellipsis:
            plan.kinds.append("new" if item is None else "gap")
            continue
        size = shape[axis]
        if isinstance(item, slice):
            _add_slice(plan, axis, item, size)
        elif is_array_index(item):
            plan.add("take", 0, size)
            plan.arrays.append(_places(item, size, axis, checked))
        elif has_arrays:
            number = _number(item, size, axis)
            plan.add("take", 0, size)
            is_known = isinstance(number, int)
            dtype = index_dtype(INDEX, size)
            plan.arrays.append(np.asarray(number, dtype) if is_known else as_tensor(number))
        else:
            number = _number(item, size, axis)
            plan.add("drop", number, number + 1)
        axis += 1
    return plan


def _number_if_inside(item: Any, size: Any, checked: bool) -> Any:
    """A known array without axes as a number, unless it may lie outside, as traced ones may."""
    if not isinstance(item, np.ndarray) or item.shape:
        return item
    is_inside = not isinstance(size, int) or _fits(item, size)
    return int(item) if is_inside or (checked and are_checked()) else item


def _number(item: Any, size: Any, axis: int) -> Any:
    """A number counted from the start, within the axis."""
    number = item if isinstance(item, Dim) else operator.index(item)
    if isinstance(size, Dim) or isinstance(number, Dim):
        # a place counted from a symbolic end is symbolic too
        return size + number if is_at_least(-1, number) else number
    if not -size <= number < size:
        raise outside(number, size, axis)
    return number % size


def _places(item: Any, size: Any, axis: int, checked: bool) -> Any:
    """An integer array counted from the start, checked if that is wanted."""
    if isinstance(size, Dim):
        item = convert(as_tensor(item), INDEX)
        if checked:
            check_places(item, size, axis)
        return apply("select", apply("lt", item, 0), item + size, item)
    if isinstance(item, TracedTensor):
        if checked:
            check_places(item, size, axis)
        if item.dtype.kind == "u":  # beyond int32 it would count from the end
            wraps = item.dtype.itemsize >= 4
            fits = isinstance(size, int) and size > np.iinfo(item.dtype).max
            return apply("min", item, size) if wraps and not fits else item
        item = convert(item, index_dtype(item.dtype, size))
        return apply("select", apply("lt", item, 0), apply("add", item, size), item)
    checked = checked and are_checked()
    if checked and item.size and isinstance(size, int) and not _fits(item, size):
        bad = item[(item < -size) | (item >= size)].flat[0]
        raise BoundsError(
            f"index {bad} is outside axis {axis} with size {size}",
            fix=f"use indices from {-size} to {size - 1}" if size else "the axis is empty",
        )
    wide = item.astype("int64")
    wide = np.where(wide < 0, wide + size, wide)
    wide = wide if checked else wide.clip(-1, size)  # a place outside stays outside in int32
    return np.asarray(wide, INDEX if isinstance(size, int) and size < 2**31 else "int64")


def _fits(places: np.ndarray, size: int) -> bool:
    return bool(-size <= places.min() and places.max() < size)


def _loose(item: Any, size: Any, wraps: bool) -> Any:
    """A number outside of an axis as an array, which may name such places."""
    if not isinstance(size, int):
        return item
    if not wraps:
        if isinstance(item, TracedTensor) and item.dtype.kind == "i":
            item = convert(item, index_dtype(item.dtype, size))
            return FUNCTIONS["where"](apply("lt", item, 0), -size - 1, item)
        if isinstance(item, int | np.ndarray):
            return np.where(np.asarray(item) < 0, -size - 1, np.minimum(item, size))
    if not isinstance(item, int) or -size <= item < size:
        return item
    return np.asarray(min(max(item, -size - 1), size))


def _add_slice(plan: Plan, axis: int, item: slice, size: Any) -> None:
    parts = [None if p is None else _slice_number(p) for p in (item.start, item.stop, item.step)]
    if parts[2] == 0:
        raise BoundsError(
            "a slice has a step of 0",
            fix="use a step of 1 or more, or a negative one",
        )
    if any(isinstance(n, Dim) for n in (size, *parts)):
        _add_symbolic_slice(plan, axis, parts, size)
        return
    start, stop, step = slice(*parts).indices(size)
    count = len(range(start, stop, step))
    if step < 0:
        plan.flipped.append(axis)
        last = start + (count - 1) * step
        start, stop, step = (last, start + 1, -step) if count else (0, 0, 1)
    plan.add("keep", start, max(stop, start), step)


def _add_symbolic_slice(plan: Plan, axis: int, parts: list[Any], size: Any) -> None:
    start, stop, step = parts
    if step is not None and not isinstance(step, int):
        raise ShapeError(f"a slice has the symbolic step {step}", fix="use a step that is a number")
    if step is not None and step < 0:
        _add_backward_slice(plan, axis, size, -step, start is stop is None)
        return
    begin = 0 if start is None else start if isinstance(start, Dim) or start >= 0 else size + start
    end = size if stop is None else stop if isinstance(stop, Dim) or stop >= 0 else size + stop
    # of a symbolic size, whose bounds may be symbolic too
    plan.add("keep", begin, end, step or 1)


def _add_backward_slice(plan: Plan, axis: int, size: Any, step: int, is_whole: bool) -> None:
    if not is_whole:
        raise ShapeError(
            f"a slice goes back from or to a place in an axis of the symbolic size {size}",
            fix="turn the whole axis around first: x[::-1][start:stop]",
        )
    plan.flipped.append(axis)
    plan.add("keep", (size - 1) % step, size, step)


def _slice_number(part: Any) -> Any:
    if isinstance(part, Dim):
        return part
    if isinstance(part, TracedTensor) and part.concrete is None:
        raise ConcretizationError(
            "a slice with traced bounds has a size that is not known while tracing",
            notes=[f"a bound is {part.type}"],
            fix="give the slice a known size: x[start + rlx.numpy.arange(size)], or make the bound "
            "a Python value with static_argnames",
        )
    return integer("a slice's bound or step", part)


# -- reading ------------------------------------------------------------------------------------


def getitem(x: Any, index: Any) -> Any:
    """The elements at an `index`.

    Traced indices outside of the array give the nearest ones. Those that a mask picks which is not
    known are a `Chosen`.
    """
    if is_free(x):
        made = elements(x, index)
        if made is not None:
            shape = x._data.shape  # the array itself would be kept alive by what is known of it
            return is_new_part(x, made, lambda: places_of(index, shape)) if made.shape else made
    whole, given = x, index
    x, index = with_flags(as_tensor(x), index)
    try:
        plan = read_index(index, x.shape)
    except ConcretizationError as error:
        if traced_mask(full_items(index, x.shape)) is None:
            raise
        return Chosen(whole, given, error)
    found = take_plan(x, plan, "clip")
    return is_part(x, found, plan.box) if plan.is_part else found


def places_of(index: Any, shape: Shape) -> Box:
    """The places an index names along each axis, or None if they are not known."""
    items = full_items(index, shape)
    if any(is_mask(item) for item in items):
        return None
    return read_index(tuple(items), shape, checked=False).box()


def take_plan(x: Any, plan: Plan, mode: str) -> Any:
    """The elements a plan names."""
    x = _basic(x, plan)
    if not plan.has_arrays:
        return _reshape(x, _basic_shape(x.shape, plan))
    return _gather(x, plan, mode)


def _basic(x: Any, plan: Plan) -> Any:
    """The basic step: slices with steps, backwards where needed."""
    if any(plan.start) or any(s != 1 for s in plan.step) or plan.stop != list(x.shape):
        x = apply("slice", x, start=tuple(plan.start), stop=tuple(plan.stop), step=tuple(plan.step))
    return apply("flip", x, axes=tuple(plan.flipped)) if plan.flipped else x


def _basic_shape(shape: Shape, plan: Plan) -> Shape:
    sizes = iter(shape)
    named = [(kind, 1 if kind == "new" else next(sizes)) for kind in plan.kinds if kind != "gap"]
    return tuple(size for kind, size in named if kind != "drop")


def _reshape(x: Any, shape: Shape) -> Any:
    return x if tuple(x.shape) == tuple(shape) else apply("reshape", x, shape=shape)


def _gather(x: Any, plan: Plan, mode: str) -> Any:
    axes = taken_axes(plan)
    if mode == "clip" and all(not a.shape for a in plan.arrays):
        starts = dict(zip(axes, plan.arrays, strict=True))
        sizes = tuple(1 if i in axes else n for i, n in enumerate(x.shape))
        found = apply("dynamic_slice", x, *starts_of(x, starts), sizes=sizes)
        kept = tuple(n for i, n in enumerate(x.shape) if i not in axes)
        return _reshape(found, result_shape(kept, plan, 0))
    indices = index_vectors(plan.arrays, like=x)
    rank = indices.ndim - 1
    result = apply(
        "gather",
        x,
        indices,
        offset_axes=offset_axes(plan, rank),
        collapsed_axes=tuple(axes),
        operand_batch_axes=(),
        indices_batch_axes=(),
        start_axes=tuple(axes),
        sizes=tuple(1 if i in axes else n for i, n in enumerate(x.shape)),
        mode=mode,
    )
    return _reshape(result, result_shape(result.shape, plan, rank))


def starts_of(x: Any, starts: dict[int, Any]) -> list[Any]:
    """A start for each axis, 0 where none is given, all of one dtype."""
    wide = max(
        [np.dtype(INDEX), *(operand_type(as_operand(s)).dtype for s in starts.values())], key=_bytes
    )
    return [
        convert(as_tensor(starts[i]), wide) if i in starts else Array(np.zeros((), wide))
        for i in range(x.ndim)
    ]


def _bytes(dtype: np.dtype) -> int:
    return dtype.itemsize


def offset_axes(plan: Plan, batch_rank: int) -> tuple[int, ...]:
    """The axes of gathered elements that are kept axes of the view."""
    kept = sum(kind == "keep" for kind in plan.kinds)
    front = batch_place(plan)
    return tuple(i if i < front else i + batch_rank for i in range(kept))


def axis_kinds(plan: Plan) -> list[str]:
    """What each axis of the view becomes: "keep", "drop" or "take"."""
    return [kind for kind in plan.kinds if kind not in ("new", "gap")]


def taken_axes(plan: Plan) -> list[int]:
    """The axes of the view along which index arrays take."""
    return [i for i, kind in enumerate(axis_kinds(plan)) if kind == "take"]


def index_vectors(arrays: list[Any], like: Any) -> Any:
    """One vector for each place, on a last axis, from index arrays broadcast together."""
    if all(isinstance(a, np.ndarray) for a in arrays):
        return literal(np.stack(_broadcast_known(arrays), axis=-1), like=like)
    shape = _places_shape(arrays)
    dtype = max([np.dtype(INDEX), *(a.dtype for a in arrays)], key=_bytes)
    traced = next(a for a in arrays if isinstance(a, TracedTensor))
    columns = []
    for array in arrays:
        column = literal(array, like=traced) if isinstance(array, np.ndarray) else array
        spread = tuple(range(len(shape) - column.ndim, len(shape)))
        columns.append(apply("broadcast", convert(column, dtype), shape=(*shape, 1), axes=spread))
    return columns[0] if len(columns) == 1 else apply("concat", *columns, axis=len(shape))


def _broadcast_known(arrays: list[Any]) -> list[np.ndarray]:
    _places_shape(arrays)  # an error if they do not fit together
    return list(np.broadcast_arrays(*arrays))


def _places_shape(arrays: list[Any]) -> Shape:
    return broadcast_shapes("index arrays", *(tuple(a.shape) for a in arrays))


def batch_place(plan: Plan) -> int:
    """How many kept axes of the view stand before the places of index arrays."""
    taken = [i for i, kind in enumerate(plan.kinds) if kind == "take"]
    if taken[-1] - taken[0] + 1 != len(taken):
        return 0
    return sum(kind == "keep" for kind in plan.kinds[: taken[0]])


def result_shape(shape: Shape, plan: Plan, batch_rank: int) -> Shape:
    """Put the new axes into the shape of gathered elements."""
    taken = [i for i, kind in enumerate(plan.kinds) if kind == "take"]
    together = taken[-1] - taken[0] + 1 == len(taken)
    front = batch_place(plan)
    batch = shape[front : front + batch_rank]
    kept = iter([*shape[:front], *shape[front + batch_rank :]])
    result: list[Any] = [] if together else list(batch)
    for i, kind in enumerate(plan.kinds):
        if kind == "new":
            result.append(1)
        elif kind == "keep":
            result.append(next(kept))
        elif together and i == taken[0]:
            result += batch
    return tuple(result)
