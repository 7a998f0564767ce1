"""Functions that make arrays, move their elements or change their shapes."""

from __future__ import annotations

from builtins import slice as slice_
from collections.abc import Sequence
from typing import Any

import numpy as np

from .. import numpy as rnp
from ..ir.errors import ShapeError
from ..trace import axes as checked
from ..trace.apply import apply, as_operand, as_tensor
from ..trace.arguments import count_of, flag
from ..trace.array import Array
from ..trace.axes import MOST_AXES, as_shape, integer, one_axis
from ..trace.promotion import convert
from .operands import Tensor, axes_of, integers, sequence, strict_dtype


def full(shape: Any, fill_value: Tensor, dtype: Any = None) -> Array:
    """An array of the given shape filled with `fill_value`."""
    return rnp.full(shape, fill_value, dtype)


def full_like(x: Tensor, fill_value: Tensor, dtype: Any = None, shape: Any = None) -> Array:
    """An array filled with `fill_value`, with the shape and dtype of x, unless given."""
    return rnp.full_like(x, fill_value, dtype, shape=shape)


def iota(dtype: Any, size: int) -> Array:
    """The integers 0 to `size` - 1."""
    return broadcasted_iota(dtype, (size,), 0)


def broadcasted_iota(dtype: Any, shape: Any, dimension: int) -> Array:
    """The index along one axis, as an array of the given shape."""
    return apply("iota", shape=as_shape(shape), axis=integer("the axis", dimension), dtype=dtype)


def broadcast(operand: Tensor, sizes: Sequence[int]) -> Array:
    """Broadcast an array by new leading axes of the given `sizes`."""
    x = as_tensor(operand)
    shape = (*as_shape(sizes), *x.shape)
    return broadcast_in_dim(x, shape, range(len(shape) - x.ndim, len(shape)))


def broadcast_in_dim(operand: Tensor, shape: Any, broadcast_dimensions: Sequence[int]) -> Array:
    """Broadcast to a shape; axis i becomes axis `broadcast_dimensions[i]`."""
    axes = integers("broadcast_in_dim: the axes", broadcast_dimensions)
    return apply("broadcast", as_tensor(operand), shape=as_shape(shape), axes=axes)


def broadcast_shapes(*shapes: Any) -> tuple[Any, ...]:
    """The shape to which `shapes` broadcast."""
    return checked.broadcast_shapes("broadcast_shapes", *map(as_shape, shapes))


def broadcast_to_rank(x: Tensor, rank: int) -> Array:
    """Add leading axes of size 1 up to the given `rank`."""
    x = as_tensor(x)
    wanted = count_of("broadcast_to_rank: the rank", rank, most=MOST_AXES)
    return expand_dims(x, range(wanted - x.ndim))


def reshape(operand: Tensor, new_sizes: Any, dimensions: Sequence[int] | None = None) -> Array:
    """The elements in a new shape, `new_sizes`; `dimensions` permutes the axes first."""
    x = as_tensor(operand)
    x = x if dimensions is None else transpose(x, dimensions)
    return rnp.reshape(x, new_sizes)


def collapse(operand: Tensor, start_dimension: int, stop_dimension: int | None = None) -> Array:
    """Merge the axes from `start_dimension` up to `stop_dimension`, excluded."""
    x = as_tensor(operand)
    ends = [
        None if n is None else integer("collapse: an axis", n)
        for n in (start_dimension, stop_dimension)
    ]
    start, stop, _ = slice_(*ends).indices(x.ndim)
    if stop <= start:
        raise ShapeError(
            f"collapse: there are no axes from {start_dimension} below {stop_dimension}",
            fix=f"pick axes of the {x.ndim} there are, the first below the second",
        )
    return rnp.reshape(x, (*x.shape[:start], -1, *x.shape[stop:]))


def transpose(operand: Tensor, permutation: Sequence[int]) -> Array:
    """Permute the axes: axis i of the result is axis `permutation[i]`."""
    return apply("transpose", as_tensor(operand), axes=integers("transpose: axes", permutation))


def rev(operand: Tensor, dimensions: Sequence[int]) -> Array:
    """Reverse the elements along axes."""
    x = as_tensor(operand)
    return apply("flip", x, axes=axes_of("rev", dimensions, x.ndim))


def squeeze(array: Tensor, dimensions: Sequence[int]) -> Array:
    """Remove axes of size 1."""
    return rnp.squeeze(array, integers("squeeze: axes", dimensions))


def expand_dims(array: Tensor, dimensions: Sequence[int]) -> Array:
    """Insert axes of size 1 at positions of the result."""
    return rnp.expand_dims(array, integers("expand_dims: axes", dimensions))


def concatenate(operands: Sequence[Tensor], dimension: int) -> Array:
    """Join arrays of one dtype along an existing axis."""
    xs = [as_tensor(x) for x in sequence("concatenate: the operands", operands)]
    return apply("concat", *xs, axis=integer("the axis", dimension))


def split(operand: Tensor, sizes: Sequence[int], axis: int = 0) -> list[Array]:
    """Return the parts of the given `sizes` along an axis.

    Their sum is the size of the axis, else it is a `ShapeError`.
    """
    x = as_tensor(operand)
    place, ends, end = one_axis("split", axis, x.ndim), [], 0
    for size in integers("split: sizes", sizes):
        end += size
        ends.append((end - size, end))
    if end != x.shape[place]:
        raise ShapeError(
            f"split: the sizes {tuple(sizes)} sum to {end}, axis {axis} has {x.shape[place]}",
            fix=f"give sizes with the sum {x.shape[place]}",
        )
    return [slice_in_dim(x, start, stop, axis=place) for start, stop in ends]


def pad(
    operand: Tensor, padding_value: Tensor, padding_config: Sequence[tuple[int, int, int]]
) -> Array:
    """Pad with a scalar, `padding_value`.

    `padding_config` has (low, high, interior) counts for each axis.
    """
    x, value = as_tensor(operand), as_operand(padding_value)
    value = convert(value, strict_dtype("pad", [x, value]))
    lines = sequence("pad: the config", padding_config)
    config = [integers("pad: low, high, interior", line, 3) for line in lines]
    low, high, interior = (tuple(line[i] for line in config) for i in range(3))
    return apply("pad", x, value, low=low, high=high, interior=interior)


def slice(
    operand: Tensor,
    start_indices: Sequence[int],
    limit_indices: Sequence[int],
    strides: Sequence[int] | None = None,
) -> Array:
    """A slice `start:limit:stride` of every axis.

    `start_indices`, `limit_indices` and `strides` have a number for each.
    """
    x = as_tensor(operand)
    steps = (1,) * x.ndim if strides is None else integers("slice: strides", strides)
    start, stop = integers("slice: starts", start_indices), sequence("slice: limits", limit_indices)
    return apply("slice", x, start=start, stop=stop, step=steps)


def slice_in_dim(
    operand: Tensor,
    start_index: int | None,
    limit_index: int | None,
    stride: int = 1,
    axis: int = 0,
) -> Array:
    """A slice `start_index:limit_index:stride` along one axis.

    Negative indices are allowed.
    """
    x = as_tensor(operand)
    place = one_axis("slice_in_dim", axis, x.ndim)
    return x[(slice_(None),) * place + (slice_(start_index, limit_index, stride),)]


def index_in_dim(operand: Tensor, index: int, axis: int = 0, keepdims: bool = True) -> Array:
    """The element at an index along one axis; `keepdims` keeps the axis with size 1."""
    x = as_tensor(operand)
    place = one_axis("index_in_dim", axis, x.ndim)
    found = x[(slice_(None),) * place + (integer("index_in_dim: the index", index),)]
    return rnp.expand_dims(found, place) if flag("index_in_dim: keepdims", keepdims) else found


def broadcast_like(arr: Tensor, like_arr: Tensor) -> Array:
    """Broadcast the array `arr` to the shape of another, `like_arr`."""
    return rnp.broadcast_to(arr, as_tensor(like_arr).shape)


def empty(shape: Any, dtype: Any) -> Array:
    """An array of zeros, whose elements should not be relied on."""
    return full(shape, 0, dtype)


def shape_as_value(shape: Sequence[Any]) -> Any:
    """A shape as a vector of int32."""
    sizes = [
        count_of("shape_as_value: a size", n) for n in integers("shape_as_value: shape", shape)
    ]
    return np.asarray(sizes, "int32") if sizes else full((0,), 0, "int32")


def tile(operand: Tensor, reps: Sequence[int]) -> Array:
    """Repeat the whole array `reps` times along each axis."""
    return rnp.tile(operand, integers("tile: reps", reps))


def stack(operands: Sequence[Tensor], axis: int = 0) -> Array:
    """Join arrays of one dtype and shape along a new axis."""
    xs = [as_tensor(x) for x in sequence("stack: the operands", operands)]
    place = one_axis("stack", axis, xs[0].ndim + 1) if xs else 0
    return concatenate([rnp.expand_dims(x, place) for x in xs], place)


def unstack(x: Tensor, axis: int = 0) -> tuple[Array, ...]:
    """Return a tuple of the slices along an axis."""
    x = as_tensor(x)
    place = one_axis("unstack", axis, x.ndim)
    return tuple(index_in_dim(x, i, place, keepdims=False) for i in range(x.shape[place]))
