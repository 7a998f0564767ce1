"""Rows of the table: what moves numbers, reads and writes at places, and sorts."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax

from ...ir.ops.conv.windows import window_count
from ...ir.ops.index import fill_number
from ...ir.types import Type, is_bool, is_complex, is_float
from ..graph_table import Row
from .emit_elements import Emit, narrow, wide

READ = {
    "clip": lax.GatherScatterMode.CLIP,
    "fill": lax.GatherScatterMode.FILL_OR_DROP,
    "promise": lax.GatherScatterMode.PROMISE_IN_BOUNDS,
}
WRITE = {
    "clip": lax.GatherScatterMode.CLIP,
    "drop": lax.GatherScatterMode.FILL_OR_DROP,
    "promise": lax.GatherScatterMode.PROMISE_IN_BOUNDS,
}


def _pad(
    x: jax.Array, value: jax.Array, *, low: Sequence, high: Sequence, interior: Sequence
) -> jax.Array:
    return lax.pad(x, value, list(zip(low, high, interior, strict=True)))


def _windows(x: jax.Array, *, axis: int, size: int, stride: int, dilation: int) -> jax.Array:
    count = window_count(x.shape[axis], size, stride, dilation)
    if 0 in (count, size):
        return jnp.zeros((*x.shape[:axis], count, *x.shape[axis + 1 :], size), x.dtype)
    places = np.arange(count)[:, None] * stride + np.arange(size) * dilation
    return jnp.moveaxis(jnp.take(x, places, axis, mode="clip"), axis + 1, -1)


# -- computed places ------------------------------------------------------------------------------


def _starts(starts: Sequence[jax.Array], shape: Sequence[int], sizes: Sequence[int]) -> list:
    """The nearest starts where a window lies inside."""
    places = [_signed(start) for start in starts]
    dtype = np.dtype(np.int64 if any(p.dtype == np.int64 for p in places) else np.int32)
    lines = zip(places, shape, sizes, strict=True)
    return [jnp.clip(narrow(start, dtype), 0, length - n) for start, length, n in lines]


def _signed(indices: jax.Array) -> jax.Array:
    """Indices in a dtype that holds any size; those too large stay too large."""
    if indices.dtype == np.uint64:
        indices = lax.min(indices, np.uint64(2**62))
    is_short = indices.dtype.itemsize < 4 or indices.dtype == np.int32
    return narrow(indices, np.dtype(np.int32 if is_short else np.int64))


def _dynamic_slice(x: jax.Array, *starts: jax.Array, sizes: Sequence[int]) -> jax.Array:
    places = _starts(starts, x.shape, sizes)
    return lax.dynamic_slice(x, places, sizes, allow_negative_indices=False) if sizes else x


def _dynamic_update_slice(x: jax.Array, update: jax.Array, *starts: jax.Array) -> jax.Array:
    places = _starts(starts, x.shape, update.shape)
    if not places:
        return update
    return lax.dynamic_update_slice(x, update, places, allow_negative_indices=False)


def _gather(
    x: jax.Array,
    indices: jax.Array,
    *,
    offset_axes: Sequence[int],
    collapsed_axes: Sequence[int],
    operand_batch_axes: Sequence[int],
    indices_batch_axes: Sequence[int],
    start_axes: Sequence[int],
    sizes: Sequence[int],
    mode: str,
    fill: Any,
) -> jax.Array:
    if 0 in indices.shape[:-1]:  # nothing is read, and windows need not fit
        gone = {*collapsed_axes, *operand_batch_axes}
        window = iter([n for i, n in enumerate(sizes) if i not in gone])
        points, rank = iter(indices.shape[:-1]), len(offset_axes) + indices.ndim - 1
        shape = [next(window) if i in offset_axes else next(points) for i in range(rank)]
        return jnp.zeros(shape, x.dtype)
    numbers = lax.GatherDimensionNumbers(
        offset_dims=tuple(offset_axes),
        collapsed_slice_dims=tuple(sorted(collapsed_axes)),
        start_index_map=tuple(start_axes),
        operand_batching_dims=tuple(operand_batch_axes),
        start_indices_batching_dims=tuple(indices_batch_axes),
    )
    number = None
    if mode == "fill":
        number = np.asarray(fill_number(x.dtype) if fill is None else fill)
        number = number.astype(x.dtype).item()
    return lax.gather(
        x, _signed(indices), numbers, tuple(sizes), mode=READ[mode], fill_value=number
    )


def scattering(write: Callable[..., jax.Array], *, sums: bool) -> Emit:
    """The row of an op that writes windows."""

    def row(
        x: jax.Array,
        indices: jax.Array,
        updates: jax.Array,
        *,
        window_axes: Sequence[int],
        inserted_axes: Sequence[int],
        operand_batch_axes: Sequence[int],
        indices_batch_axes: Sequence[int],
        scatter_axes: Sequence[int],
        mode: str,
        unique: bool,
    ) -> jax.Array:
        if 0 in updates.shape:
            return x
        numbers = lax.ScatterDimensionNumbers(
            update_window_dims=tuple(window_axes),
            inserted_window_dims=tuple(sorted(inserted_axes)),
            scatter_dims_to_operand_dims=tuple(scatter_axes),
            operand_batching_dims=tuple(operand_batch_axes),
            scatter_indices_batching_dims=tuple(indices_batch_axes),
        )
        attrs = {"mode": WRITE[mode], "unique_indices": unique}
        if not sums:
            return write(x, _signed(indices), updates, numbers, **attrs)
        made = write(wide(x), _signed(indices), wide(updates), numbers, **attrs)
        return narrow(made, x.dtype)

    return row


def _last_stays(
    x: jax.Array, indices: jax.Array, updates: jax.Array, numbers: Any, **attrs: Any
) -> jax.Array:
    """Write updates, of which the last stays wherever several meet.

    XLA says nothing of their order. So the greatest number of an update is written first, which
    does not depend on it, and then read to choose.
    """
    if attrs["unique_indices"]:
        return lax.scatter(x, indices, updates, numbers, **attrs)
    order = lax.iota(np.int32, updates.size).reshape(updates.shape)
    none = lax.full(x.shape, -1, np.int32)
    last = lax.scatter_max(none, indices, order, numbers, **attrs)
    chosen = jnp.take(updates.reshape(-1), lax.max(last, lax.full_like(last, 0)), mode="clip")
    return lax.select(lax.ge(last, lax.full_like(last, 0)), chosen, x)


# -- order ----------------------------------------------------------------------------------------


def _sort(*xs: jax.Array, axis: int, n_keys: int) -> tuple[jax.Array, ...]:
    # of floats of 8 bits XLA does not tell what is NaN
    given = [wide(x) if x.dtype.itemsize == 1 else x for x in xs]
    made = lax.sort(given, dimension=axis, is_stable=True, num_keys=n_keys)
    return tuple(narrow(y, x.dtype) for y, x in zip(made, xs, strict=True))


def _has_real_keys(types: Sequence[Type], *, n_keys: int, **attrs: Any) -> bool:
    """XLA orders NaNs of complex numbers part by part."""
    return not any(is_complex(x.dtype) for x in types[:n_keys])


def _top_k(x: jax.Array, *, k: int) -> tuple[jax.Array, jax.Array]:
    if k == 0 or 0 in x.shape:
        shape = (*x.shape[:-1], k)
        return jnp.zeros(shape, x.dtype), jnp.zeros(shape, np.int32)
    keys = x.astype(np.uint8) if is_bool(x.dtype) else wide(x)
    if is_float(keys.dtype):  # one zero and one NaN: XLA tells their bits apart
        keys = jnp.where(keys == 0, 0, jnp.where(jnp.isnan(keys), np.nan, keys)).astype(keys.dtype)
    _, places = lax.top_k(keys, k)
    places = places.astype(np.int32)
    return jnp.take_along_axis(x, places, axis=-1, mode="promise_in_bounds"), places


ROWS: dict[str, Row] = {
    "reshape": Row(lambda x, *, shape: lax.reshape(x, shape)),
    "transpose": Row(lambda x, *, axes: lax.transpose(x, axes)),
    "flip": Row(lambda x, *, axes: lax.rev(x, axes)),
    "broadcast": Row(lambda x, *, shape, axes: lax.broadcast_in_dim(x, shape, axes)),
    "pad": Row(_pad),
    "slice": Row(lambda x, *, start, stop, step: lax.slice(x, start, stop, step)),
    "concat": Row(lambda *xs, axis: lax.concatenate(xs, axis)),
    "windows": Row(_windows),
    "dynamic_slice": Row(_dynamic_slice),
    "dynamic_update_slice": Row(_dynamic_update_slice),
    "gather": Row(_gather),
    "scatter": Row(scattering(_last_stays, sums=False)),
    "scatter_add": Row(scattering(lax.scatter_add, sums=True)),
    "scatter_mul": Row(scattering(lax.scatter_mul, sums=True)),
    "scatter_min": Row(scattering(lax.scatter_min, sums=False)),
    "scatter_max": Row(scattering(lax.scatter_max, sums=False)),
    "sort": Row(_sort, takes=_has_real_keys),
    "top_k": Row(_top_k),
}
