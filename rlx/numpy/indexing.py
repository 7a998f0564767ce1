"""Reading and writing by index arrays: take, nonzero, choose, put and their like."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any, overload

import numpy as np

from ..ir.errors import ArgumentError, ConcretizationError, ImmutableError, ShapeError
from ..ir.types import DTYPES, Size
from ..trace.apply import apply, apply_like, as_operand, as_tensor
from ..trace.arguments import choice, flag, members, size_of, wrong
from ..trace.array import Array
from ..trace.array_arguments import with_axes
from ..trace.axes import broadcast_shapes, one_axis
from ..trace.index.items import index_dtype, outside
from ..trace.placement import home
from ..trace.promotion import broadcast_to, convert, convert_exactly, result_dtype
from ..trace.tensor import TracedTensor
from .creation import arange
from .division import remainder
from .elementwise import Tensor, equal, less, refuse_out
from .logic import truth, where as either
from .manipulation import along, broadcast_arrays, moveaxis, ravel, reshape, stack
from .places import MODES, check_inside, from_start, integers, mode_of, unravel_index
from .reductions import cumsum, sum

INT32 = DTYPES["int32"]


def take(
    a: Tensor,
    indices: Tensor,
    axis: int | None = None,
    out: None = None,
    mode: str | None = None,
    unique_indices: bool = False,
    indices_are_sorted: bool = False,
    fill_value: Tensor | None = None,
) -> Array:
    """Take elements, or slices along an axis, at `indices`; None flattens first.

    `mode` "fill", the default, gives `fill_value` at indices out of bounds (NaN, or the minimum of
    an integer dtype), "clip" clips them and "wrap" takes them modulo the size. `unique_indices` and
    `indices_are_sorted` have no effect.
    """
    refuse_out("take", out)
    a, place = along("take", a, axis)
    way = mode_of("take", mode)
    places = from_start(integers("take", indices), a.shape[place], way)
    rank = places.ndim
    kept = tuple(i if i < place else i + rank for i in range(a.ndim - 1))
    sizes = tuple(1 if i == place else n for i, n in enumerate(a.shape))
    result = _gathered(a, places, place, kept, (), sizes, way)
    if fill_value is None or way != "fill":
        return result
    is_inside = _is_inside(places, a.shape[place])
    shape = (1,) * place + tuple(places.shape) + (1,) * (a.ndim - 1 - place)
    return either(reshape(is_inside, shape), result, convert_exactly(fill_value, a.dtype))


def _gathered(x: Any, places: Any, axis: int, kept: Any, lines: Any, sizes: Any, way: str) -> Array:
    """Windows of some sizes at places along an axis; axes that are `kept`, or go along as lines."""
    return apply(
        "gather",
        x,
        reshape(places, (*places.shape, 1)),
        offset_axes=kept,
        collapsed_axes=(axis,),
        operand_batch_axes=lines,
        indices_batch_axes=lines,
        start_axes=(axis,),
        sizes=sizes,
        mode=MODES[way],
    )


def _is_inside(places: Any, size: Any) -> Array:
    return apply("bit_and", apply("ge", places, 0), less(places, size))


def take_along_axis(
    arr: Tensor,
    indices: Tensor,
    axis: int | None = -1,
    mode: str | None = None,
    fill_value: Tensor | None = None,
    *,
    wrap_negative_indices: bool | None = None,
) -> Array:
    """Take elements along an axis by index arrays that match in the other axes.

    `indices` has as many axes as the array; `mode` and `fill_value` are as for `take`. Negative
    indices count from the end unless `wrap_negative_indices` is False.
    """
    arr, indices = as_tensor(arr), integers("take_along_axis", indices)
    if wrap_negative_indices is False:  # out of bounds they are: an index past the end
        far = np.iinfo(indices.dtype).max
        indices = either(less(indices, 0), 0 if mode == "clip" else far, indices)
    if axis is None:
        return take(arr, ravel(indices), None, mode=mode, fill_value=fill_value)
    place = one_axis("take_along_axis", axis, arr.ndim)
    way = mode_of("take_along_axis", mode)
    if arr.ndim != indices.ndim:
        raise ShapeError(
            f"take_along_axis: the array is {arr.type}, the indices are {indices.type}",
            fix="give indices with as many axes as the array",
        )
    arr, indices = _aligned("take_along_axis", arr, indices, place)
    places = from_start(indices, arr.shape[place], way)
    lines = tuple(i for i in range(arr.ndim) if i != place)
    result = _gathered(arr, places, place, (), lines, (1,) * arr.ndim, way)
    if fill_value is None or way != "fill":
        return result
    return either(_is_inside(places, arr.shape[place]), result, fill_value)


def _aligned(name: str, x: Any, indices: Any, axis: int) -> tuple[Array, Array]:
    """Broadcast the axes other than the taken one."""
    lines = [tuple(n for i, n in enumerate(a.shape) if i != axis) for a in (x, indices)]
    shape = broadcast_shapes(name, *lines)
    first, second = (
        broadcast_to(a, (*shape[:axis], a.shape[axis], *shape[axis:])) for a in (x, indices)
    )
    return first, second


def put_along_axis(
    arr: Tensor,
    indices: Tensor,
    values: Tensor,
    axis: int | None,
    inplace: bool = False,
    *,
    mode: str | None = None,
) -> Array:
    """A copy with `values` put along an axis; `indices` are as for `take_along_axis`.

    `mode` says what becomes of indices out of bounds: they are dropped, or taken by "clip" or
    "wrap".
    """
    check_copied("put_along_axis", inplace)
    if axis is None:
        arr = as_tensor(arr)
        return reshape(put_along_axis(ravel(arr), indices, values, 0, mode=mode), arr.shape)
    arr, indices = as_tensor(arr), integers("put_along_axis", indices)
    place = one_axis("put_along_axis", axis, arr.ndim)
    grid = [
        reshape(arange(n, dtype="int32"), (-1,) + (1,) * (arr.ndim - 1 - i))
        for i, n in enumerate(arr.shape)
    ]
    written = arr.at[(*grid[:place], indices, *grid[place + 1 :])]
    return written.set(values, mode="drop" if mode is None else mode)


def check_copied(name: str, inplace: bool) -> None:
    """Refuse to change an array."""
    if flag(f"{name}: inplace", inplace):
        raise ImmutableError(
            f"{name}: arrays are immutable, so nothing can be written in place",
            fix=f"use the result: x = {name}(x, ..., inplace=False)",
        )


def put(
    a: Tensor, ind: Tensor, v: Tensor, mode: str | None = None, *, inplace: bool = False
) -> Array:
    """A copy with values put at flat indices `ind`.

    Indices out of bounds are dropped, unless `mode` is "clip" or "wrap".
    """
    check_copied("put", inplace)
    a = as_tensor(a)
    places, v = ravel(integers("put", ind)), ravel(v)
    way = choice("put: mode", mode, (None, "clip", "wrap", "raise", "drop"))
    if way in ("clip", "wrap"):
        places = from_start(places, a.size, way)
    count = places.shape[0]
    if count and not v.shape[0]:
        raise ArgumentError("put: v is empty", fix="give a value or more")
    if v.shape[0] != count and count:
        v = v[np.arange(count, dtype="int32") % v.shape[0]]
    return reshape(ravel(a).at[places].set(v, mode="drop"), a.shape)


def choose(a: Tensor, choices: Sequence[Tensor], out: None = None, mode: str = "raise") -> Array:
    """Elements chosen from a list of arrays, `choices`, by an array of indices.

    Indices out of bounds raise `BoundsError` where they are known, unless `mode` is "clip" or
    "wrap".
    """
    refuse_out("choose", out)
    choices = members("choose: choices", choices)
    if not choices:
        raise ArgumentError("choose: choices is empty", fix="give one array or more")
    check_inside("choose", a, len(choices), mode)
    dtype = result_dtype(*map(as_operand, choices))
    fitted = [convert_exactly(choice, dtype) for choice in choices]
    arrays = broadcast_arrays(integers("choose", a), *fitted)
    places = from_start(arrays[0], len(choices), mode)
    return take_along_axis(stack(arrays[1:]), places[None], 0, "clip")[0]


def known_array(name: str, x: Tensor, fix: str) -> np.ndarray:
    """The elements as a NumPy array; raise `ConcretizationError` if they are traced."""
    given = as_tensor(x)
    known = given.concrete if isinstance(given, TracedTensor) else given.host()
    if known is None:
        raise ConcretizationError(
            f"{name}: the size of the result depends on elements not known while tracing",
            notes=[f"x: {given.type}"],
            fix=fix,
        )
    return known


def nonzero(a: Tensor, *, size: Size | None = None, fill_value: Any = None) -> tuple[Array, ...]:
    """The indices of nonzero elements, one int32 array for each axis.

    Traced code needs `size`; shorter results are padded with `fill_value`, by default 0.
    """
    a = as_tensor(a)
    if size is None:
        known = known_array("nonzero", a, "say how many: nonzero(x, size=n)")
        return tuple(Array(x.astype("int32")).to(home("nonzero", [a])) for x in np.nonzero(known))
    size = size_of("nonzero: size", size)
    dtype = index_dtype(INT32, a.size)
    flags = convert(ravel(truth(a)), dtype)
    ranks = cumsum(flags)
    # rank r is first reached at the r-th place; places past the last one drop out
    numbers = apply_like(a, "iota", shape=flags.shape, axis=0, dtype=dtype)
    slots = either(equal(flags, 1), ranks - 1, size)
    flat = as_tensor(apply_like(a, "full", shape=(size,), value=0, dtype=dtype))
    flat = flat.at[slots].set(numbers, mode="drop", unique_indices=True)
    slot = apply_like(a, "iota", shape=(size,), axis=0, dtype=INT32)
    is_filled = less(slot, sum(flags))
    fill = 0 if fill_value is None else fill_value
    fills = fill if isinstance(fill, tuple) else (fill,) * max(a.ndim, 1)
    if len(fills) != max(a.ndim, 1):
        raise wrong("nonzero: fill_value", fills, f"for {a.ndim} axes", "give one for each axis")
    axes = unravel_index(flat, a.shape or (1,))
    return tuple(either(is_filled, place, f) for place, f in zip(axes, fills, strict=True))


@overload
def where(
    condition: Tensor, /, *, size: Size | None = None, fill_value: Any = None
) -> tuple[Array, ...]: ...


@overload
def where(condition: Tensor, x: Tensor, y: Tensor, /) -> Array: ...


def where(
    condition: Tensor,
    x: Tensor | None = None,
    y: Tensor | None = None,
    /,
    *,
    size: Size | None = None,
    fill_value: Any = None,
) -> Any:
    """Elements of `x` where `condition` holds, else of `y`.

    The gradient of the branch not chosen is dropped, so NaNs in it do not spread. Without x and y
    it is `nonzero(condition)`.
    """
    if x is None and y is None:
        return nonzero(condition, size=size, fill_value=fill_value)
    return either(condition, x, y)


def flatnonzero(a: Tensor, *, size: Size | None = None, fill_value: Any = None) -> Array:
    """The indices of nonzero elements of the flattened array."""
    return nonzero(ravel(a), size=size, fill_value=fill_value)[0]


def argwhere(a: Tensor, *, size: Size | None = None, fill_value: Any = None) -> Array:
    """The indices of nonzero elements, one row for each element."""
    return stack(nonzero(a, size=size, fill_value=fill_value), axis=-1)


def extract(
    condition: Tensor, arr: Tensor, *, size: Size | None = None, fill_value: Any = 0
) -> Array:
    """The elements of the flattened array where `condition` holds."""
    return compress(ravel(condition), ravel(arr), size=size, fill_value=fill_value)


def compress(
    condition: Tensor,
    a: Tensor,
    axis: int | None = None,
    *,
    size: Size | None = None,
    fill_value: Any = 0,
    out: None = None,
) -> Array:
    """The slices along an axis where `condition` holds."""
    refuse_out("compress", out)
    a, place = along("compress", a, axis)
    count = a.shape[place]
    (places,) = nonzero(ravel(condition), size=size, fill_value=count)
    return take(a, places, place, mode="fill", fill_value=fill_value)


# -- writing ------------------------------------------------------------------------------------


def fill_diagonal(a: Tensor, val: Tensor, wrap: bool = False, *, inplace: bool = False) -> Array:
    """A copy with `val`, a scalar or a vector, on the main diagonal.

    With `wrap` the diagonal of a tall matrix begins again after its end.
    """
    check_copied("fill_diagonal", inplace)
    a = with_axes("fill_diagonal: a", a, 2)
    if flag("fill_diagonal: wrap", wrap) and a.ndim == 2:
        rows, columns = a.shape
        flat = np.arange(0, rows * columns, columns + 1, dtype="int32")
        return a.at[np.divmod(flat, columns)].set(val)
    line = np.arange(min(a.shape), dtype="int32")
    return a.at[(line,) * a.ndim].set(val)


def place(arr: Tensor, mask: Tensor, vals: Tensor, *, inplace: bool = False) -> Array:
    """A copy with `vals`, repeated in order, at the elements where `mask` holds."""
    check_copied("place", inplace)
    arr, vals = as_tensor(arr), ravel(vals)
    ranks = cumsum(convert(ravel(truth(mask)), INT32)) - 1
    chosen = take(vals, remainder(ranks, vals.shape[0]), mode="clip")
    return either(mask, reshape(chosen, arr.shape), arr)


def putmask(x: Tensor, mask: Tensor, values: Tensor) -> Array:
    """A copy with `values`, repeated to the size of x, where `mask` holds."""
    x, values = as_tensor(x), ravel(values)
    if not values.shape[0]:
        raise wrong("putmask: values", values, "numbers", "give one value or more")
    numbers = np.arange(math.prod(x.shape), dtype="int32") % values.shape[0]
    return either(mask, reshape(values[numbers], x.shape), x)


def insert(arr: Tensor, obj: Tensor | slice, values: Tensor, axis: int | None = None) -> Array:
    """A copy with `values` inserted before indices `obj` along an axis.

    None flattens first.
    """
    arr, axis = along("insert", arr, axis)
    values = convert_exactly(values, arr.dtype)
    if not isinstance(obj, int | np.integer):
        return _insert_many(arr, obj, values, axis)
    obj, size = int(obj), arr.shape[axis]
    if isinstance(size, int) and not -size <= obj <= size:
        raise outside(obj, size, axis)
    arr = moveaxis(arr, axis, 0)
    extra = moveaxis(values, axis, 0) if values.ndim == arr.ndim else values[None]
    extra = broadcast_to(extra, (extra.shape[0], *arr.shape[1:]))
    number = obj % arr.shape[0] if obj < 0 else obj
    joined = apply("concat", arr[:number], extra, arr[number:], axis=0)
    return moveaxis(joined, 0, axis)


def _insert_many(x: Any, index: Any, values: Any, axis: int) -> Array:
    """One slice of the values before each place."""
    size = x.shape[axis]
    if isinstance(index, TracedTensor) and index.concrete is None:
        return _insert_traced(x, ravel(index), values, axis)
    known = (
        index if isinstance(index, slice) else _known_places("insert", index, size, axis, last=size)
    )
    # where NumPy puts them, told by the numbers of elements
    numbers = np.insert(np.arange(size), known, -1)
    is_new = numbers < 0
    shape = tuple(int(is_new.sum()) if i == axis else n for i, n in enumerate(x.shape))
    extra = broadcast_to(convert(values, x.dtype), shape)
    order = np.where(is_new, size + np.cumsum(is_new) - 1, numbers).astype("int32")
    if not isinstance(known, slice):
        places = np.where(known < 0, known + size, known).ravel()
        order[is_new] = size + np.argsort(places, kind="stable")
    return take(apply("concat", x, extra, axis=axis), order, axis)


def _known_places(name: str, index: Any, size: Any, axis: int, last: Any) -> np.ndarray:
    """Known indices up to `last` as NumPy takes them: integers, or bools for all elements."""
    known = known_array(name, index, "give numbers")
    if known.size == 0:
        return known.astype("int32")
    if known.dtype.kind not in "iub":
        fix = "give integers, a slice or bools"
        raise wrong(f"{name}: the index", index, "made of integers", fix)
    for end in (int(known.min()), int(known.max())):
        if known.dtype.kind != "b" and not -size <= end <= last:
            raise outside(end, size, axis)
    return known if known.dtype.kind == "b" else known.astype("int64")


def _insert_traced(x: Any, index: Any, values: Any, axis: int) -> Any:
    """One slice of the values before each place, for places not known while tracing."""
    size, count = x.shape[axis], index.shape[0]
    (places, which) = apply(
        "sort", from_start(index, size, "fill"), np.arange(count, dtype="int32"), axis=0, n_keys=1
    )
    blank = apply("full", shape=(size + count,), value=0, dtype=INT32)
    new = places + np.arange(count, dtype="int32")
    is_old = equal(as_tensor(blank).at[new].set(1), 0)
    (old,) = nonzero(is_old, size=size)
    source = as_tensor(blank).at[new].set(size + which).at[old].set(np.arange(size, dtype="int32"))
    shape = tuple(count if i == axis else n for i, n in enumerate(x.shape))
    extra = broadcast_to(convert(values, x.dtype), shape)
    return take(apply("concat", x, extra, axis=axis), source, axis)


def delete(
    arr: Tensor,
    obj: Tensor | slice | Tensor,
    axis: int | None = None,
    *,
    assume_unique_indices: bool = False,
) -> Array:
    """A copy without the slices at indices `obj` along an axis; None flattens first.

    The indices must be known, unless `assume_unique_indices` promises that they are distinct.
    """
    arr, place = along("delete", arr, axis)
    size = arr.shape[place]
    if flag("delete: assume_unique_indices", assume_unique_indices) and not isinstance(
        obj, int | slice
    ):
        return take(arr, _places_without(ravel(integers("delete", obj)), size), place)
    known = (
        obj
        if isinstance(obj, int | slice)
        else _known_places("delete", obj, size, place, last=size - 1)
    )
    if not isinstance(known, slice) and np.ndim(known) == 0 and not -size <= int(known) < size:
        raise outside(int(known), size, place)
    return take(arr, np.delete(np.arange(size, dtype="int32"), known), place)


def _places_without(indices: Any, size: int) -> Array:
    """The places that no index names, of so many; the indices differ."""
    numbers = np.arange(size, dtype="int32")
    gone = from_start(indices, size, "fill")
    is_gone = reshape(gone, (-1, 1)) == numbers
    is_kept = apply("bit_not", apply("reduce_or", is_gone, axes=(0,)))
    return nonzero(is_kept, size=size - indices.shape[0])[0]
