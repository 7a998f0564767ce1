"""Functional updates, `x.at[index]`, and assignments, `x[i] = v`."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from ...ir import builder
from ...ir.dims import Dim
from ...ir.errors import ShapeError
from ...ir.ops.pad_slice import paddings_around
from ..apply import apply, apply_like, as_operand, as_tensor, forget_recipe, operand_type, to_value
from ..arguments import callable_of, choice, flag
from ..array import Array
from ..by_numpy import changed
from ..operators import FUNCTIONS, Operators
from ..promotion import broadcast_to, can_cast, check_fits, convert, convert_exactly, no_cast
from ..tensor import TracedTensor
from . import aliasing
from .items import INDEX, index_dtype, with_flags
from .masks import Chosen, fits, masked, misfit
from .read import (
    Plan,
    axis_kinds,
    batch_place,
    index_vectors,
    offset_axes,
    places_of,
    read_index,
    result_shape,
    starts_of,
    take_plan,
    taken_axes,
)

READ_MODES = {"clip": "clip", "fill": "fill", "drop": "fill", "promise_in_bounds": "promise"}
WRITE_MODES = {"clip": "clip", "fill": "drop", "drop": "drop", "promise_in_bounds": "promise"}


class At:
    """The object `x.at`, which is indexed to get a `Place`."""

    __slots__ = ("_array",)

    def __init__(self, array: Any) -> None:
        self._array = array

    def __getitem__(self, index: Any) -> Place:
        return Place(self._array, index)


class Place:
    """Elements of an array, to read, or to update in a new array.

    Each method takes `mode`: what happens at indices outside of the array. "drop" leaves such
    updates out, "clip" moves them to the nearest element, "promise_in_bounds" says there are none:
    if there are, `get` reads the nearest element and updates leave them out.
    Without a mode they are dropped, clipped in `get`, and where `rlx.config.checks` looks at them
    (outside of compiled functions, if it is not set) they are errors. `unique_indices` promises
    that no element is named twice; `indices_are_sorted` is taken for the sake of JAX. With
    `wrap_negative_indices` False negative indices do not count from the end, but are outside.
    """

    __slots__ = ("_array", "_index", "_name")

    def __init__(self, array: Any, index: Any, name: str = "x.at[...]") -> None:
        self._array, self._index, self._name = array, index, name

    def get(
        self,
        *,
        mode: str | None = None,
        fill_value: Any = None,
        unique_indices: bool = False,
        indices_are_sorted: bool = False,
        wrap_negative_indices: bool = True,
    ) -> Array:
        """Read elements; mode "fill" gives NaN or `fill_value` outside of the array."""
        x, index = with_flags(self._array, self._index)
        plan = _plan(index, x, mode, wrap_negative_indices)
        way = _mode(mode, READ_MODES)
        found = take_plan(x, plan, way)
        if way != "fill" or fill_value is None or not plan.has_arrays:
            return found
        zeros = apply_like(x, "full", shape=x.shape, value=0, dtype="int32")
        is_inside = apply("eq", take_plan(as_tensor(zeros), plan, "fill"), 0)
        return FUNCTIONS["where"](is_inside, found, convert(fill_value, x.dtype))

    def set(self, values: Any, **options: Any) -> Array:
        """Replace elements by values."""
        made = None if options else changed(self._name, self._array, self._index, values)
        return self._update("set", values, lambda _, new: new, **options) if made is None else made

    def add(self, values: Any, **options: Any) -> Array:
        """Add values; repeated indices accumulate."""
        return self._update("add", values, FUNCTIONS["add"], **options)

    def subtract(self, values: Any, **options: Any) -> Array:
        """Subtract values; repeated indices accumulate."""
        return self.add(FUNCTIONS["negative"](values), **options)

    def multiply(self, values: Any, **options: Any) -> Array:
        """Multiply by values; repeated indices accumulate."""
        return self._update("mul", values, FUNCTIONS["multiply"], **options)

    mul = multiply

    def divide(self, values: Any, **options: Any) -> Array:
        """Divide by values; repeated indices accumulate."""
        return FUNCTIONS["divide"](self._array, self._ones().multiply(values, **options))

    def power(self, values: Any, **options: Any) -> Array:
        """Raise to the power of values."""
        return FUNCTIONS["power"](self._array, self._ones().multiply(values, **options))

    def min(self, values: Any, **options: Any) -> Array:
        """Keep the lesser of the element and the value."""
        return self._update("min", values, FUNCTIONS["minimum"], **options)

    def max(self, values: Any, **options: Any) -> Array:
        """Keep the greater of the element and the value."""
        return self._update("max", values, FUNCTIONS["maximum"], **options)

    def apply(self, fn: Callable[[Any], Any], **options: Any) -> Array:
        """Replace elements by `fn(elements)`."""
        callable_of("at[...].apply: the function", fn)
        read = {None: None, "promise_in_bounds": "promise_in_bounds"}
        found = self.get(**{**options, "mode": read.get(options.get("mode"), "clip")})
        return self.set(fn(found), **options)

    def _ones(self) -> Place:
        x = self._array
        return Place(apply_like(x, "full", shape=x.shape, value=1, dtype=x.dtype), self._index)

    def _update(
        self,
        combine: str,
        values: Any,
        meaning: Callable[[Any, Any], Any],
        *,
        mode: str | None = None,
        unique_indices: bool = False,
        indices_are_sorted: bool = False,
        wrap_negative_indices: bool = True,
    ) -> Any:
        x, way = self._array, _mode("drop" if mode is None else mode, WRITE_MODES)
        options = {
            "mode": mode,
            "unique_indices": unique_indices,
            "wrap_negative_indices": wrap_negative_indices,
        }
        values = as_operand(values)
        check_fits(self._name, values, x.dtype)
        # without booleans that are no arrays
        plain, index = with_flags(x, self._index)
        if plain is not x:
            found = Place(plain, index, self._name)._update(combine, values, meaning, **options)
            return apply("reshape", found, shape=tuple(x.shape))
        chosen = masked(x, index, values, meaning, options)
        if chosen is not None:
            return chosen
        plan = _plan(index, x, mode, wrap_negative_indices)
        if not plan.has_arrays:
            return _update_slice(x, plan, combine, values, meaning)
        if any(step != 1 for step in plan.step):
            return _by_number(x, plan, values, combine, way, unique_indices)
        return _scatter(x, plan, values, combine, way, unique_indices)


def _plan(index: Any, x: Any, mode: str | None, wraps: Any) -> Plan:
    wraps = flag("at: wrap_negative_indices", wraps)
    return read_index(index, x.shape, checked=mode is None, wraps=wraps)


def _mode(mode: str | None, table: dict[str, str]) -> str:
    mode = next(iter(table)) if mode is None else mode
    choice("mode", mode, table)
    return table[mode]


# -- known slices -------------------------------------------------------------------------------


def _update_slice(
    x: Any, plan: Plan, combine: str, values: Any, meaning: Callable[[Any, Any], Any]
) -> Any:
    """Updates at numbers and slices: no element is named twice."""
    if combine not in ("set", "add"):
        old = take_plan(x, plan, "clip")
        combine, values = "set", convert(meaning(old, values), x.dtype)
    view, indexed = _view_shapes(plan)
    part = _fitted(values, indexed, view, x)
    part = apply("flip", part, axes=tuple(plan.flipped)) if plan.flipped else part
    if combine == "set" and all(step == 1 for step in plan.step):
        starts = {i: _place(start) for i, start in enumerate(plan.start)}
        if view == tuple(x.shape):
            return part
        return apply("dynamic_update_slice", x, part, *starts_of(x, starts))
    if combine == "add":
        return apply("add", x, _padded(part, x, plan, 0))
    ones = apply_like(x, "full", shape=view, value=True, dtype="bool")
    return apply("select", _padded(ones, x, plan, False), _padded(part, x, plan, 0), x)


def _place(start: Any) -> Any:
    return start if isinstance(start, Dim) else np.asarray(start, index_dtype(INDEX, start))


def _view_shapes(plan: Plan) -> tuple[tuple[Any, ...], tuple[Any, ...]]:
    """The shape of the sliced view, and of what the index gives."""
    sizes = [
        max((b - a + step - 1) // step, 0) if isinstance(b - a, int) else (b - a + step - 1) // step
        for a, b, step in zip(plan.start, plan.stop, plan.step, strict=True)
    ]
    each = iter(sizes)
    named = [(kind, 1 if kind == "new" else next(each)) for kind in plan.kinds if kind != "gap"]
    return tuple(sizes), tuple(n for kind, n in named if kind != "drop")


def _fitted(values: Any, indexed: tuple[Any, ...], shape: tuple[Any, ...], x: Any) -> Any:
    """Values broadcast to what an index names, under another shape."""
    given = operand_type(values).shape
    while len(given) > len(indexed) and given[0] == 1:
        given = given[1:]
    values = convert_exactly(values, x.dtype)
    values = values if values.shape == given else apply("reshape", values, shape=given)
    if not fits(given, indexed):
        raise misfit(given, indexed, x)
    values = broadcast_to(values, indexed)
    return values if values.shape == shape else apply("reshape", values, shape=shape)


def _padded(part: Any, x: Any, plan: Plan, value: Any) -> Any:
    """A view put back at its place in an array of `value`."""
    fill = as_tensor(np.asarray(value, part.dtype))
    for attrs in paddings_around(part.shape, x.shape, plan.start, plan.step):
        part = apply("pad", part, fill, **attrs)
    return part


# -- index arrays -------------------------------------------------------------------------------


def _scatter(x: Any, plan: Plan, values: Any, combine: str, mode: str, unique: bool) -> Any:
    """Updates at index arrays; slices become the start and size of a window."""
    arrays, axes = list(plan.arrays), taken_axes(plan)
    rank = max(len(a.shape) for a in arrays)
    starts = [i for i, kind in enumerate(axis_kinds(plan)) if kind == "keep" and plan.start[i]]
    indices = index_vectors([*arrays, *(_place(plan.start[i]) for i in starts)], like=x)
    batch = tuple(indices.shape[:-1])
    view, front = _view_shapes(plan)[0], batch_place(plan)
    kept = [view[i] for i, kind in enumerate(axis_kinds(plan)) if kind == "keep"]
    shape = (*kept[:front], *batch, *kept[front:])
    updates = _fitted(values, result_shape(shape, plan, rank), shape, x)
    window = offset_axes(plan, rank)
    if plan.flipped:
        turned = [i for i, kind in enumerate(axis_kinds(plan)) if kind == "keep"]
        axes_of_view = tuple(window[turned.index(i)] for i in plan.flipped)
        updates = apply("flip", updates, axes=axes_of_view)
    written = {
        "window_axes": window,
        "inserted_axes": tuple(axes),
        "scatter_axes": (*axes, *starts),
    }
    return _written(combine, x, indices, updates, mode=mode, unique=unique, **written)


def _written(combine: str, x: Any, indices: Any, updates: Any, **attrs: Any) -> Any:
    op = "scatter" if combine == "set" else f"scatter_{combine}"
    none = {"operand_batch_axes": (), "indices_batch_axes": ()}
    return apply(op, x, indices, updates, **none, **attrs)


def _by_number(x: Any, plan: Plan, values: Any, combine: str, mode: str, unique: bool) -> Any:
    """Update at stepped slices with index arrays: scatter by the numbers of the elements."""
    dtype = index_dtype(INDEX, x.size)
    numbers = apply_like(x, "iota", shape=(x.size,), axis=0, dtype=dtype)
    numbers = apply("reshape", numbers, shape=tuple(x.shape))
    places = take_plan(as_tensor(numbers), plan, "clip" if mode == "clip" else "fill")
    # a place outside became the least integer, which stays outside
    flat = apply("reshape", x, shape=(x.size,))
    updates = _fitted(values, tuple(places.shape), tuple(places.shape), x)
    vectors = apply("reshape", places, shape=(*places.shape, 1))
    alone = {"window_axes": (), "inserted_axes": (0,), "scatter_axes": (0,)}
    result = _written(combine, flat, vectors, updates, mode=mode, unique=unique, **alone)
    return apply("reshape", result, shape=tuple(x.shape))


def at(x: Operators) -> At:
    """Updates at an index, as a new array: `at(x)[0].set(1.0)`."""
    return At(x)


# -- `x[i] = v` and `x += v` -----------------------------------------------------------------------
#
# An assignment gives the object x another value: every name for the object sees it, as in NumPy,
# and arrays made from x before do not. While a function is traced it is recorded as an update.
# `x += v` gives the name x a new object, so other names keep the old one.


def assign(x: Any, index: Any, values: Any) -> None:
    """Change elements of an array, `x[index] = values`; the object gets new memory.

    >>> import rlx
    >>> x = rlx.array([1.0, 2.0, 3.0])
    >>> x[1:] = 0.0
    >>> x.tolist()
    [1.0, 0.0, 0.0]
    """
    check_may_change(x, "x[i] = v")
    before = x.copy()
    is_chosen = isinstance(values, Chosen)
    after = (
        values.put_back(x, index, before) if is_chosen else changed("x[i] = v", x, index, values)
    )
    if after is None:
        after = Place(before, index, "x[i] = v").set(values)
    parts = aliasing.has_parts(x)
    places = places_of(index, x.shape) if parts else None
    if isinstance(x, Array) and aliasing.is_tracing():
        _leave_to(x, before)
    _become(x, as_tensor(after))
    if parts:
        aliasing.outdate_parts(x, places)


def check_may_change(x: Any, action: str) -> None:
    """Raise unless nobody but the running function would see a change of the array."""
    if isinstance(x, Chosen):
        raise x.error
    aliasing.check_free(x, action)
    recorder = builder.current()
    if isinstance(x, TracedTensor):
        x = as_operand(x)  # which raises if its trace has ended
        if recorder is None or not recorder.graph.owns(x.value):
            why = f"it belongs to {x.value.graph.name}, around the function that is traced here"
            raise aliasing.taken(x, action, why)
    elif aliasing.is_tracing() and not aliasing.is_born_here(x):
        name = f"{recorder.graph.name}, which is traced here" if recorder else "the branch"
        raise aliasing.taken(x, action, f"it was made outside of {name}")


def _leave_to(x: Array, before: Array) -> None:
    """Let what was recorded with an array refer to its elements before the change."""
    for recorder in builder.open_builders():
        recorder.replace_capture(x, before)
        forget_recipe(recorder, x, before)


def _become(x: Any, new: Any) -> None:
    """Give an object the value of another."""
    if isinstance(x, TracedTensor) or isinstance(new, TracedTensor):
        # both classes have the same slots, so an array that meets traced values can turn
        object.__setattr__(x, "__class__", TracedTensor)
        x.value, x.weak = to_value(new), False
    else:
        x._data, x._device = new._data, new._device


def in_place(name: str, x: Operators, y: Any) -> Any:
    """The array that the name `x` refers to after `x += y`.

    `name` is that of the operator's function.
    """

    def change(x: Any, y: Any) -> Any:
        return like_before(name, x, FUNCTIONS[name](x, y))

    return x.changed(change, y) if isinstance(x, Chosen) else change(x, y)


def like_before(name: str, x: Operators, result: Any) -> Any:
    """Convert the result of `x += v` to the dtype of x, or raise an error."""
    if result is NotImplemented or (isinstance(x, TracedTensor) and x.weak):
        return result
    if tuple(result.shape) != tuple(x.shape):
        raise ShapeError(
            f"{name} in place: the result has the shape {tuple(result.shape)}, x {tuple(x.shape)}",
            notes=[f"x: {x.type}"],
            fix="write x = x + v, which may give x another shape",
        )
    if result.dtype == x.dtype:
        return result
    if not can_cast(operand_type(result).dtype, x.dtype):
        raise no_cast(name, operand_type(result).dtype, x.dtype)
    return convert(result, x.dtype)
