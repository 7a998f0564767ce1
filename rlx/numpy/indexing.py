"""Reading and writing by index arrays: take, nonzero, choose, put and their like."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from ..ir.builder import user_source
from ..ir.errors import AttributeValueError, ConcretizationError, DtypeError
from ..ir.types import DTYPES, is_bool, is_integer
from ..trace.apply import apply, apply_like, as_tensor
from ..trace.array import Array
from ..trace.axes import as_shape, broadcast_shapes, one_axis
from ..trace.promotion import broadcast_to, convert
from ..trace.tensor import TracedTensor
from .arithmetic import clip, remainder
from .elementwise import Tensor, add, equal, less, multiply
from .logic import truth
from .logic import where as either
from .manipulation import broadcast_arrays, moveaxis, ravel, reshape, stack
from .reductions import cumsum, sum

INT32 = DTYPES["int32"]
MODES = {"fill": "fill", "clip": "clip", "wrap": "promise", "promise_in_bounds": "promise"}


def _integers(name: str, x: Tensor) -> Any:
    tensor = as_tensor(x)
    if tensor.size == 0 and isinstance(x, list | tuple):
        tensor = convert(tensor, INT32)
    if not is_integer(tensor.dtype):
        raise DtypeError(
            f"{name}: the indices are {tensor.type}, not integers",
            where=str(user_source()),
            fix='convert them: indices.astype("int32")',
        )
    return convert(tensor, INT32) if tensor.dtype.itemsize < 4 else tensor


def _mode(name: str, mode: str | None) -> str:
    if mode not in (None, *MODES):
        raise AttributeValueError(
            f"{name}: there is no mode {mode!r} for indices outside of the array",
            where=str(user_source()),
            fix=f"use one of {', '.join(MODES)}",
        )
    return mode or "fill"


def _from_start(indices: Any, size: Any, mode: str) -> Any:
    """Indices counted from the start; outside ones as the mode says."""
    if mode == "wrap":
        return remainder(indices, size)
    if mode == "clip":
        return clip(indices, 0, size - 1)
    if indices.dtype.kind == "u" or not isinstance(size, int):
        return indices
    return either(less(indices, 0), add(indices, size), indices)


def take(
    a: Tensor,
    indices: Tensor,
    axis: int | None = None,
    mode: str | None = None,
    fill_value: Tensor | None = None,
) -> Any:
    """The elements at indices along an axis.

    Outside of the array there is NaN or the least integer. `mode` "clip" takes the nearest element
    there, "wrap" counts around. None as axis counts through all elements.
    """
    a = as_tensor(a)
    a, axis = (ravel(a), 0) if axis is None else (a, axis)
    place = one_axis("take", axis, a.ndim)
    way = _mode("take", mode)
    places = _from_start(_integers("take", indices), a.shape[place], way)
    rank = places.ndim
    result = apply(
        "gather",
        a,
        reshape(places, (*places.shape, 1)),
        offset_axes=tuple(i if i < place else i + rank for i in range(a.ndim - 1)),
        collapsed_axes=(place,),
        operand_batch_axes=(),
        indices_batch_axes=(),
        start_axes=(place,),
        sizes=tuple(1 if i == place else n for i, n in enumerate(a.shape)),
        mode=MODES[way],
    )
    if fill_value is None or way != "fill":
        return result
    is_inside = _is_inside(places, a.shape[place])
    shape = (1,) * place + tuple(places.shape) + (1,) * (a.ndim - 1 - place)
    return either(reshape(is_inside, shape), result, convert(as_tensor(fill_value), a.dtype))


def _is_inside(places: Any, size: Any) -> Any:
    return apply("bit_and", apply("ge", places, 0), apply("lt", places, size))


def take_along_axis(
    arr: Tensor,
    indices: Tensor,
    axis: int | None = -1,
    mode: str | None = None,
    fill_value: Tensor | None = None,
) -> Any:
    """For each line along an axis the elements at that line's indices."""
    arr, indices = as_tensor(arr), _integers("take_along_axis", indices)
    if axis is None:
        return take(arr, ravel(indices), None, mode, fill_value)
    place = one_axis("take_along_axis", axis, arr.ndim)
    way = _mode("take_along_axis", mode)
    arr, indices = _aligned("take_along_axis", arr, indices, place)
    places = _from_start(indices, arr.shape[place], way)
    lines = tuple(i for i in range(arr.ndim) if i != place)
    result = apply(
        "gather",
        arr,
        reshape(places, (*places.shape, 1)),
        offset_axes=(),
        collapsed_axes=(place,),
        operand_batch_axes=lines,
        indices_batch_axes=lines,
        start_axes=(place,),
        sizes=(1,) * arr.ndim,
        mode=MODES[way],
    )
    if fill_value is None or way != "fill":
        return result
    return either(_is_inside(places, arr.shape[place]), result, fill_value)


def _aligned(name: str, x: Any, indices: Any, axis: int) -> tuple[Any, Any]:
    """Broadcast the axes other than the taken one."""
    lines = [tuple(n for i, n in enumerate(a.shape) if i != axis) for a in (x, indices)]
    shape = broadcast_shapes(name, *lines)
    return tuple(
        broadcast_to(a, (*shape[:axis], a.shape[axis], *shape[axis:])) for a in (x, indices)
    )


def put_along_axis(
    arr: Tensor,
    indices: Tensor,
    values: Tensor,
    axis: int,
    inplace: bool = False,
    mode: str = "drop",
) -> Any:
    """A new array with values at each line's indices along an axis."""
    arr, indices = as_tensor(arr), _integers("put_along_axis", indices)
    place = one_axis("put_along_axis", axis, arr.ndim)
    grid = [
        np.arange(n, dtype="int32").reshape((-1,) + (1,) * (arr.ndim - 1 - i))
        for i, n in enumerate(arr.shape)
    ]
    return arr.at[(*grid[:place], indices, *grid[place + 1 :])].set(values, mode=mode)


def put(a: Tensor, ind: Tensor, v: Tensor, mode: str = "drop", inplace: bool = False) -> Any:
    """A new array with values at indices that count through all elements."""
    a = as_tensor(a)
    places, v = ravel(_integers("put", ind)), ravel(v)
    count = places.shape[0]
    if v.shape[0] != count and count:
        v = v[np.arange(count, dtype="int32") % v.shape[0]]
    return reshape(ravel(a).at[places].set(v, mode=mode), a.shape)


def choose(a: Tensor, choices: Sequence[Tensor], mode: str = "clip") -> Any:
    """Elementwise the array that the index names."""
    arrays = broadcast_arrays(_integers("choose", a), *choices)
    places = _from_start(arrays[0], len(choices), mode)
    return take_along_axis(stack(arrays[1:]), places[None], 0, "clip")[0]


# -- places -------------------------------------------------------------------------------------


def known_array(name: str, x: Tensor, fix: str) -> np.ndarray:
    """The elements as a NumPy array, or an error if they are not known.

    The size of the result depends on them.
    """
    given = as_tensor(x)
    known = given.concrete if isinstance(given, TracedTensor) else given.host()
    if known is None:
        raise ConcretizationError(
            f"{name}: the size of the result depends on elements not known while tracing",
            where=str(user_source()),
            notes=[f"x: {given.type}"],
            fix=fix,
        )
    return known


def nonzero(x: Tensor, *, size: int | None = None, fill_value: Any = None) -> tuple[Any, ...]:
    """The places of elements other than zero, an index array for each axis.

    In traced code `size` is needed: so many places, the rest filled with `fill_value` or 0.
    """
    x = as_tensor(x)
    if size is None:
        known = known_array("nonzero", x, "say how many: nonzero(x, size=n)")
        return tuple(Array(a.astype("int32")) for a in np.nonzero(known))
    flags = convert(ravel(truth(x)), INT32)
    ranks = cumsum(flags)
    # rank r is first reached at the r-th place; places past the last one drop out
    numbers = apply_like(x, "iota", shape=flags.shape, axis=0, dtype="int32")
    slots = either(equal(flags, 1), ranks - 1, size)
    flat = as_tensor(apply_like(x, "full", shape=(size,), value=0, dtype=INT32))
    flat = flat.at[slots].set(numbers, mode="drop")
    is_filled = less(np.arange(size, dtype="int32"), sum(flags))
    fills = fill_value if isinstance(fill_value, tuple) else (fill_value or 0,) * max(x.ndim, 1)
    axes = unravel_index(flat, x.shape or (1,))
    return tuple(either(is_filled, a, f) for a, f in zip(axes, fills, strict=True))


def where(
    condition: Tensor,
    x: Tensor | None = None,
    y: Tensor | None = None,
    /,
    *,
    size: int | None = None,
    fill_value: Any = None,
) -> Any:
    """The elements of x where the condition holds, else those of y.

    The derivative of the branch not chosen is dropped, not multiplied by zero. Without x and y
    it is `nonzero(condition)`: the places where the condition holds.
    """
    if x is None and y is None:
        return nonzero(condition, size=size, fill_value=fill_value)
    return either(condition, x, y)


def flatnonzero(a: Tensor, *, size: int | None = None, fill_value: Any = None) -> Any:
    """The places of elements other than zero, counted through all."""
    return nonzero(ravel(a), size=size, fill_value=fill_value)[0]


def argwhere(a: Tensor, *, size: int | None = None, fill_value: Any = None) -> Any:
    """The places of elements other than zero, a row for each."""
    return stack(nonzero(a, size=size, fill_value=fill_value), axis=-1)


def extract(condition: Tensor, arr: Tensor, *, size: int | None = None, fill_value: Any = 0) -> Any:
    """The elements where a condition holds."""
    return compress(ravel(condition), ravel(arr), size=size, fill_value=fill_value)


def compress(
    condition: Tensor,
    a: Tensor,
    axis: int | None = None,
    *,
    size: int | None = None,
    fill_value: Any = 0,
) -> Any:
    """The slices along an axis where a condition holds."""
    a = as_tensor(a)
    a, axis = (ravel(a), 0) if axis is None else (a, axis)
    place = one_axis("compress", axis, a.ndim)
    count = a.shape[place]
    (places,) = nonzero(ravel(condition), size=size, fill_value=count)
    return take(a, places, place, "fill", fill_value)


def unravel_index(indices: Tensor, shape: Any) -> tuple[Any, ...]:
    """The index along each axis for indices that count through all elements."""
    left, sizes = _integers("unravel_index", indices), as_shape(shape)
    found = []
    for n in reversed(sizes):
        found.append(remainder(left, n))
        left = left // n
    return tuple(reversed(found))


def ravel_multi_index(
    multi_index: Sequence[Tensor], dims: Sequence[int], mode: str = "raise", order: str = "C"
) -> Any:
    """Indices that count through all elements, from an index along each axis."""
    result: Any = Array(np.zeros((), INT32))
    pairs = list(zip(multi_index, dims, strict=True))
    for index, n in pairs if order == "C" else reversed(pairs):
        index = _integers("ravel_multi_index", index)
        index = _from_start(index, n, mode) if mode != "raise" else index
        result = add(multiply(result, n), index)
    return result


# -- index helpers for matrices -----------------------------------------------------------------


def diag_indices(n: int, ndim: int = 2) -> tuple[Any, ...]:
    """The places of the diagonal, an index array for each axis."""
    line = apply("iota", shape=(n,), axis=0, dtype="int32")
    return (line,) * ndim


def diag_indices_from(arr: Tensor) -> tuple[Any, ...]:
    """The places of the diagonal of an array."""
    arr = as_tensor(arr)
    return diag_indices(arr.shape[0], arr.ndim)


def tril_indices(n: int, k: int = 0, m: int | None = None) -> tuple[Any, Any]:
    """The places at and below a diagonal."""
    rows, columns = np.tril_indices(n, k, m)
    return Array(rows.astype("int32")), Array(columns.astype("int32"))


def triu_indices(n: int, k: int = 0, m: int | None = None) -> tuple[Any, Any]:
    """The places at and above a diagonal."""
    rows, columns = np.triu_indices(n, k, m)
    return Array(rows.astype("int32")), Array(columns.astype("int32"))


def tril_indices_from(arr: Tensor, k: int = 0) -> tuple[Any, Any]:
    """The places at and below a diagonal of a matrix."""
    rows, columns = as_tensor(arr).shape
    return tril_indices(rows, k, columns)


def triu_indices_from(arr: Tensor, k: int = 0) -> tuple[Any, Any]:
    """The places at and above a diagonal of a matrix."""
    rows, columns = as_tensor(arr).shape
    return triu_indices(rows, k, columns)


def ix_(*args: Tensor) -> tuple[Any, ...]:
    """Index arrays that span a grid: `x[ix_([0, 2], [1, 3])]`; masks stand for places."""
    rank = len(args)
    vectors = [as_tensor(s) for s in args]
    vectors = [nonzero(v)[0] if is_bool(v.dtype) else v for v in vectors]
    return tuple(
        reshape(v, tuple(-1 if i == j else 1 for j in range(rank))) for i, v in enumerate(vectors)
    )


def fill_diagonal(a: Tensor, val: Tensor, wrap: bool = False, *, inplace: bool = False) -> Any:
    """A new array with a value on the diagonal."""
    a = as_tensor(a)
    line = np.arange(min(a.shape), dtype="int32")
    return a.at[(line,) * a.ndim].set(val)


def place(arr: Tensor, mask: Tensor, vals: Tensor, *, inplace: bool = False) -> Any:
    """A new array with values put one after another where a mask holds."""
    arr, vals = as_tensor(arr), ravel(vals)
    ranks = cumsum(convert(ravel(truth(mask)), INT32)) - 1
    chosen = take(vals, remainder(ranks, vals.shape[0]), mode="clip")
    return either(mask, reshape(chosen, arr.shape), arr)


def putmask(x: Tensor, mask: Tensor, values: Tensor) -> Any:
    """A new array with values, repeated to its size, where a mask holds."""
    x, values = as_tensor(x), ravel(values)
    numbers = np.arange(math.prod(x.shape), dtype="int32") % values.shape[0]
    return either(mask, reshape(values[numbers], x.shape), x)


def insert(
    arr: Tensor, obj: int | slice | Sequence[int], values: Tensor, axis: int | None = None
) -> Any:
    """Values put before places along an axis, which are known numbers of arr itself."""
    arr = as_tensor(arr)
    arr, axis = (ravel(arr), 0) if axis is None else (arr, axis)
    axis = one_axis("insert", axis, arr.ndim)
    if not isinstance(obj, int | np.integer):
        return _insert_many(arr, obj, as_tensor(values), axis)
    obj = int(obj)
    arr = moveaxis(arr, axis, 0)
    values = as_tensor(values)
    extra = moveaxis(values, axis, 0) if values.ndim == arr.ndim else values[None]
    extra = broadcast_to(convert(extra, arr.dtype), (extra.shape[0], *arr.shape[1:]))
    number = obj % arr.shape[0] if obj < 0 else obj
    joined = apply("concat", arr[:number], extra, arr[number:], axis=0)
    return moveaxis(joined, 0, axis)


def _insert_many(x: Any, index: Any, values: Any, axis: int) -> Any:
    """One slice of the values before each place."""
    size = x.shape[axis]
    known = index if isinstance(index, slice) else known_array("insert", index, "give numbers")
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


def delete(arr: Tensor, obj: int | slice | Sequence[int], axis: int | None = None) -> Any:
    """The array without the slices at known indices."""
    arr = as_tensor(arr)
    arr, axis = (ravel(arr), 0) if axis is None else (arr, axis)
    place = one_axis("delete", axis, arr.ndim)
    kept = np.delete(np.arange(arr.shape[place], dtype="int32"), obj)
    return take(arr, kept, place)
