"""Rows of what moves, sums up, multiplies, reads and writes arrays, in MIL."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from coremltools.converters.mil.mil import Var, types

from ...ir.ops.index import fill_number
from ...ir.types import Type
from ..graph_table import Row
from .elements import EVERY, FLOATS, MIL, NUMBERS, dtype_of, mb, same

Pairs = tuple[tuple[int, ...], tuple[int, ...]]
WRITTEN_OUT = 64  # elements of one number that stand in the program one by one


def of_bools_too(move: Callable[..., Var]) -> Callable[..., Var]:
    """A movement that MIL has for numbers alone."""

    def moved(*xs: Var, **attrs: Any) -> Var:
        if xs[0].dtype != types.bool:
            return move(*xs, **attrs)
        made = move(*(mb.cast(x=x, dtype="int32") for x in xs), **attrs)
        return mb.cast(x=made, dtype="bool")

    return moved


def full(*, shape: Sequence[int], value: Any, dtype: np.dtype) -> Var:
    """An array of one number."""
    with np.errstate(all="ignore"):
        number = np.asarray(value).astype(dtype)[()]
    if math.prod(shape) <= WRITTEN_OUT:
        return mb.const(val=np.full(shape, number) if shape else number)
    return mb.fill(shape=np.array(shape, np.int32), value=number)


def iota(*, shape: Sequence[int], axis: int, dtype: np.dtype) -> Var:
    """The index along one axis."""
    line = np.arange(shape[axis]).astype(dtype)
    line = line.reshape([-1 if i == axis else 1 for i in range(len(shape))])
    return tiled(mb.const(val=line), shape)


def tiled(x: Var, shape: Sequence[int]) -> Var:
    """Repeat along axes of size 1."""
    reps = [n if m == 1 else 1 for m, n in zip(x.shape, shape, strict=True)]
    return x if set(reps) <= {1} else mb.tile(x=x, reps=np.array(reps, np.int32))


def reshaped(x: Var, shape: Sequence[int]) -> Var:
    """The same elements under another shape; MIL makes scalars by squeezing alone."""
    if not shape:
        line = x if x.rank <= 1 else mb.reshape(x=x, shape=np.array([1], np.int32))
        return mb.squeeze(x=line, axes=[0]) if x.rank else same(x)
    return mb.reshape(x=x, shape=np.array(shape, np.int32))


def broadcast(x: Var, *, shape: Sequence[int], axes: Sequence[int]) -> Var:
    """Repeat along new axes and axes of size 1."""
    sizes = [1] * len(shape)
    for axis, size in zip(axes, x.shape, strict=True):
        sizes[axis] = size
    return tiled(reshaped(x, sizes), shape) if shape else same(x)


def transposed(x: Var, *, axes: Sequence[int]) -> Var:
    """Axes in another order."""
    return mb.transpose(x=x, perm=np.array(axes, np.int32)) if axes else same(x)


def cut(x: Var, *, start: Sequence[int], stop: Sequence[int], step: Sequence[int]) -> Var:
    """The elements `start, start + step, ...` below `stop` of each axis."""
    if not start:
        return same(x)
    begin, end, stride = (np.array(n, np.int32) for n in (start, stop, step))
    return mb.slice_by_index(x=x, begin=begin, end=end, stride=stride)


def pad(
    x: Var, value: Var, *, low: Sequence[int], high: Sequence[int], interior: Sequence[int]
) -> Var:
    """A scalar before, after and between the elements of each axis."""

    def filled(shape: Sequence[int]) -> Var:
        return tiled(reshaped(value, [1] * len(shape)), shape)

    for axis, (before, after, between) in enumerate(zip(low, high, interior, strict=True)):
        if between and x.shape[axis] > 1:
            shape, size = list(x.shape), x.shape[axis]
            gaps = filled([*shape[: axis + 1], between, *shape[axis + 1 :]])
            both = [mb.expand_dims(x=x, axes=[axis + 1]), gaps]
            shape[axis] = size * (between + 1)
            x = reshaped(mb.concat(values=both, axis=axis + 1), shape)
            after = after - between
        parts = [x]
        for count, place in ((before, 0), (after, 1)):
            if count > 0:
                ends = filled([count if i == axis else n for i, n in enumerate(x.shape)])
                parts.insert(len(parts) * place, ends)
        x = mb.concat(values=parts, axis=axis) if len(parts) > 1 else x
        start, stop = [0] * x.rank, list(x.shape)
        start[axis], stop[axis] = max(-before, 0), stop[axis] - max(-after, 0)
        if [*start, *stop] != [*[0] * x.rank, *x.shape]:
            x = cut(x, start=start, stop=stop, step=[1] * x.rank)
    return same(x)


def windows(x: Var, *, axis: int, size: int, stride: int, dilation: int) -> Var:
    """Windows along an axis; their elements come last."""
    count = (x.shape[axis] - (size - 1) * dilation - 1) // stride + 1
    places = np.arange(count)[:, None] * stride + np.arange(size) * dilation
    found = mb.gather(x=x, indices=places.astype(np.int32), axis=axis)
    order = [i for i in range(found.rank) if i != axis + 1]
    return transposed(found, axes=[*order, axis + 1])


# -- sums and products ----------------------------------------------------------------------------


def reduction(name: str) -> Callable[..., Var]:
    """A reduction along axes; half-size floats are summed in float32."""

    def reduce(x: Var, *, axes: Sequence[int]) -> Var:
        if not axes:
            return same(x)
        dtype = dtype_of(x)
        wide = mb.cast(x=x, dtype="fp32") if dtype == np.float16 else x
        made = getattr(mb, name)(x=wide, axes=np.array(axes, np.int32), keep_dims=False)
        return mb.cast(x=made, dtype="fp16") if dtype == np.float16 else made

    return reduce


def of_flags(name: str) -> Callable[..., Var]:
    """Whether all or any hold along axes."""
    reduce = reduction(name)
    return lambda x, *, axes: mb.cast(
        x=reduce(mb.cast(x=x, dtype="int32"), axes=axes), dtype="bool"
    )


def cumsum(x: Var, *, axis: int, reverse: bool) -> Var:
    """A running sum; half-size floats are summed in float32."""
    dtype = dtype_of(x)
    wide = mb.cast(x=x, dtype="fp32") if dtype == np.float16 else x
    return mb.cast(x=mb.cumsum(x=wide, axis=axis, reverse=reverse), dtype=MIL[dtype])


def dot_general(x: Var, y: Var, *, contract: Pairs, batch: Pairs, dtype: np.dtype | None) -> Var:
    """The product of two arrays, summed over pairs of axes."""
    form = dtype_of(x) if dtype is None else dtype
    left, right = (_as_matrices(a, contract[i], batch[i]) for i, a in enumerate((x, y)))
    shape = [x.shape[i] for i in batch[0]]
    for i, a in enumerate((x, y)):
        shape += [n for k, n in enumerate(a.shape) if k not in (*contract[i], *batch[i])]
    wide = "fp32" if form == np.float16 else MIL[form]
    left, right = (mb.cast(x=a, dtype=wide) for a in (left, right))
    made = mb.matmul(x=left, y=right, transpose_x=False, transpose_y=True)
    return mb.cast(x=reshaped(made, shape), dtype=MIL[form])


def _as_matrices(x: Var, depth: Sequence[int], batch: Sequence[int]) -> Var:
    """The array as (batch, free, depth)."""
    free = [i for i in range(x.rank) if i not in (*depth, *batch)]
    groups = [math.prod(x.shape[i] for i in axes) for axes in (batch, free, depth)]
    return reshaped(transposed(x, axes=[*batch, *free, *depth]), groups)


def conv_general_dilated(
    x: Var,
    kernel: Var,
    *,
    window_strides: Sequence[int],
    padding: Sequence[tuple[int, int]],
    rhs_dilation: Sequence[int],
    feature_group_count: int,
    **attrs: Any,
) -> Var:
    """Sums of products of a kernel with windows of x."""
    return mb.conv(
        x=x,
        weight=kernel,
        strides=np.array(window_strides, np.int32),
        pad_type="custom",
        pad=np.array([n for pair in padding for n in pair], np.int32),
        dilations=np.array(rhs_dilation, np.int32),
        groups=feature_group_count,
    )


def _convolves(
    types: Sequence[Type],
    *,
    padding: Sequence[tuple[int, int]],
    lhs_dilation: Sequence[int],
    batch_group_count: int,
    dtype: np.dtype | None,
    **attrs: Any,
) -> bool:
    """Whether MIL has such a convolution; others are sums of products."""
    if not 3 <= types[0].rank <= 5 or batch_group_count > 1 or set(lhs_dilation) > {1}:
        return False
    return min(map(min, padding)) >= 0 and set(lhs_dilation) == {1} and dtype is None


# -- reading and writing at computed places -------------------------------------------------------


Axes = Sequence[int]


def _clamped(start: Var, last: int) -> Var:
    return mb.maximum(x=mb.minimum(x=start, y=np.int32(last)), y=np.int32(0))


def gather(
    x: Var,
    indices: Var,
    *,
    offset_axes: Axes,
    collapsed_axes: Axes,
    operand_batch_axes: Axes,
    indices_batch_axes: Axes,
    start_axes: Axes,
    sizes: Sequence[int],
    mode: str,
    fill: Any,
) -> Var:
    """A window of x at each index vector, read from its row-major memory."""
    rank = len(offset_axes) + indices.rank - 1
    point_axes = [i for i in range(rank) if i not in offset_axes]
    steps = [math.prod(x.shape[i + 1 :]) for i in range(x.rank)]
    shape, window = [1] * rank, iter(offset_axes)
    for i, axis in enumerate(point_axes):
        shape[axis] = indices.shape[i]
    fixed, moving, fits = np.zeros([1] * rank, np.int32), [], []

    def along(axis: int, count: int) -> np.ndarray:
        line = np.arange(count, dtype=np.int32)
        return line.reshape([-1 if i == axis else 1 for i in range(rank)])

    for axis, (length, size) in enumerate(zip(x.shape, sizes, strict=True)):
        if axis in operand_batch_axes:
            place = point_axes[indices_batch_axes[operand_batch_axes.index(axis)]]
            fixed = fixed + along(place, length) * steps[axis]
            continue
        if axis not in collapsed_axes:
            place = next(window)
            shape[place] = size
            fixed = fixed + along(place, size) * steps[axis]
        if axis in start_axes:
            start = _column(indices, start_axes.index(axis), point_axes, rank)
            inside = _clamped(start, length - size)
            fits.append(mb.equal(x=start, y=inside))
            moving.append(mb.mul(x=inside, y=np.int32(steps[axis])))
    places: Any = fixed.astype(np.int32)
    for each in moving:
        places = mb.add(x=each, y=places)
    read = mb.gather(x=reshaped(x, [-1]), indices=tiled(_as_var(places), shape), axis=0)
    if mode != "fill":
        return read
    number = np.asarray(fill_number(dtype_of(x)) if fill is None else fill).astype(dtype_of(x))
    for fit in fits:
        read = mb.select(cond=tiled(fit, shape), a=read, b=number[()])
    return read


def _as_var(x: Any) -> Var:
    return mb.const(val=x) if isinstance(x, np.ndarray) else x


def _column(indices: Var, number: int, point_axes: Sequence[int], rank: int) -> Var:
    """One element of each index vector, at the axes of the points."""
    start, stop = [0] * indices.rank, list(indices.shape)
    start[-1], stop[-1] = number, number + 1
    column = cut(indices, start=start, stop=stop, step=[1] * indices.rank)
    sizes = iter(indices.shape)
    return reshaped(column, [next(sizes) if i in point_axes else 1 for i in range(rank)])


def _starts(starts: Sequence[Var], shape: Sequence[int], sizes: Sequence[int]) -> Var:
    lines = zip(starts, shape, sizes, strict=True)
    return mb.stack(values=[_clamped(start, n - size) for start, n, size in lines], axis=0)


def dynamic_slice(x: Var, *starts: Var, sizes: Sequence[int]) -> Var:
    """A block at starts known only at run time, moved inside."""
    if not starts:
        return same(x)
    begin = _starts(starts, x.shape, sizes)
    return mb.slice_by_size(x=x, begin=begin, size=np.array(sizes, np.int32))


def dynamic_update_slice(x: Var, update: Var, *starts: Var) -> Var:
    """A block replaced at starts known only at run time, moved inside."""
    if not starts:
        return same(update)
    begin = _starts(starts, x.shape, update.shape)
    end = mb.add(x=begin, y=np.array(update.shape, np.int32))
    return mb.slice_update(x=x, update=update, begin=begin, end=end)


ROWS = {
    "full": Row(full, EVERY),
    "iota": Row(iota, NUMBERS),
    "reshape": Row(of_bools_too(lambda x, *, shape: reshaped(x, shape)), EVERY),
    "transpose": Row(of_bools_too(transposed), EVERY),
    "flip": Row(
        of_bools_too(lambda x, *, axes: mb.reverse(x=x, axes=np.array(axes, np.int32))),
        EVERY,
        lambda types, *, axes: bool(axes),
    ),
    "broadcast": Row(of_bools_too(broadcast), EVERY),
    "slice": Row(of_bools_too(cut), EVERY),
    "concat": Row(of_bools_too(lambda *xs, axis: mb.concat(values=xs, axis=axis)), EVERY),
    "pad": Row(of_bools_too(pad), EVERY),
    "windows": Row(of_bools_too(windows), EVERY),
    "reduce_sum": Row(reduction("reduce_sum"), NUMBERS),
    "sum_in_turn": Row(reduction("reduce_sum"), NUMBERS),
    "reduce_prod": Row(reduction("reduce_prod"), NUMBERS),
    "reduce_max": Row(reduction("reduce_max"), NUMBERS),
    "reduce_min": Row(reduction("reduce_min"), NUMBERS),
    "reduce_and": Row(of_flags("reduce_min"), frozenset({"bool"})),
    "reduce_or": Row(of_flags("reduce_max"), frozenset({"bool"})),
    "cumsum": Row(cumsum, NUMBERS),
    "dot_general": Row(dot_general, NUMBERS),
    "conv_general_dilated": Row(conv_general_dilated, FLOATS, _convolves),
    "gather": Row(of_bools_too(gather), EVERY),
    "dynamic_slice": Row(dynamic_slice, NUMBERS),
    "dynamic_update_slice": Row(dynamic_update_slice, NUMBERS),
}
