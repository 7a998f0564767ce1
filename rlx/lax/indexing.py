"""Reading and writing at computed places."""

from __future__ import annotations

import enum
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

from .. import numpy as rnp
from ..ir.errors import ArgumentError, DtypeError
from ..ir.types import is_integer
from ..numpy.arithmetic import negative
from ..numpy.elementwise import named
from ..trace.apply import apply, as_operand, as_tensor, operand_type
from ..trace.arguments import callable_of, choice, flag, wrong
from ..trace.array import Array
from ..trace.axes import integer, number, one_axis
from ..trace.host import is_python_scalar
from ..trace.index.items import INDEX, index_dtype
from ..trace.promotion import convert
from .operands import Tensor, axes_of, integers, sequence, sizes_of, strict_dtype

# -- blocks -------------------------------------------------------------------------------------


def dynamic_slice(
    operand: Tensor,
    start_indices: Any,
    slice_sizes: Sequence[int],
    *,
    allow_negative_indices: bool = True,
) -> Array:
    """A slice of known sizes at dynamic start indices, which are clamped to fit.

    `slice_sizes` has a size for each axis, which may be an open one (`y.shape[0]`); one that is
    larger than the axis is a `ShapeError`, of a call if only that knows it. Negative indices count
    from the end, unless `allow_negative_indices` is False.
    """
    x = as_tensor(operand)
    starts = _starts("dynamic_slice", x, start_indices, allow_negative_indices)
    return apply("dynamic_slice", x, *starts, sizes=sizes_of("slice_sizes", slice_sizes))


def dynamic_update_slice(
    operand: Tensor, update: Tensor, start_indices: Any, *, allow_negative_indices: bool = True
) -> Array:
    """A copy with a slice replaced at dynamic start indices, which are clamped to fit."""
    x = as_tensor(operand)
    starts = _starts("dynamic_update_slice", x, start_indices, allow_negative_indices)
    new = as_operand(update)
    new = as_tensor(convert(new, strict_dtype("dynamic_update_slice", [x, new])))
    return apply("dynamic_update_slice", x, new, *starts)


def _starts(name: str, x: Any, starts: Any, from_end: bool) -> list[Array]:
    """One integer scalar for each axis; negative ones count from the end."""
    if not isinstance(starts, Sequence):
        vector = as_tensor(starts)
        if vector.ndim != 1:
            raise ArgumentError(
                f"{name}: the starts are {vector.type}",
                fix="give a vector or a list with one integer for each axis",
            )
        starts = [vector[i] for i in range(vector.shape[0])]
    if len(starts) != x.ndim:
        raise ArgumentError(
            f"{name}: there are {len(starts)} starts for the {x.ndim} axes of {x.type}",
            fix="give one integer for each axis",
        )
    return [_start(name, s, n, from_end) for s, n in zip(starts, x.shape, strict=True)]


def _start(name: str, start: Any, size: Any, from_end: bool) -> Array:
    from_end = flag(f"{name}: allow_negative_indices", from_end)
    start = as_operand(start)
    if is_python_scalar(start):
        number = integer(f"{name}: a start", start)
        negative = from_end and number < 0
        if negative:
            return convert(number, index_dtype(INDEX, size)) + size
        return convert(number, index_dtype(INDEX, abs(number)))
    dtype = operand_type(start).dtype
    if not is_integer(dtype):
        raise DtypeError(
            f"{name}: a start is {operand_type(start)}",
            fix="give an integer scalar: start.astype('int32')",
        )
    if not from_end or dtype.kind == "u":
        return start
    start = convert(start, index_dtype(dtype, size))
    return rnp.where(start < 0, start + size, start)


def dynamic_slice_in_dim(
    operand: Tensor,
    start_index: Any,
    slice_size: int,
    axis: int = 0,
    *,
    allow_negative_indices: bool = True,
) -> Array:
    """A slice of `slice_size` along one axis at a dynamic start index.

    See `dynamic_slice`.
    """
    x = as_tensor(operand)
    place = one_axis("dynamic_slice_in_dim", axis, x.ndim)
    sizes = (*x.shape[:place], slice_size, *x.shape[place + 1 :])
    starts = _along(x.ndim, place, start_index)
    return dynamic_slice(x, starts, sizes, allow_negative_indices=allow_negative_indices)


def dynamic_index_in_dim(
    operand: Tensor,
    index: Any,
    axis: int = 0,
    keepdims: bool = True,
    *,
    allow_negative_indices: bool = True,
) -> Array:
    """The element of one axis at a dynamic index; `keepdims` keeps the axis."""
    found = dynamic_slice_in_dim(
        operand, index, 1, axis, allow_negative_indices=allow_negative_indices
    )
    is_kept = flag("dynamic_index_in_dim: keepdims", keepdims)
    return found if is_kept else rnp.squeeze(found, axis)


def dynamic_update_slice_in_dim(
    operand: Tensor,
    update: Tensor,
    start_index: Any,
    axis: int,
    *,
    allow_negative_indices: bool = True,
) -> Array:
    """A copy with a slice along one axis replaced; see `dynamic_update_slice`."""
    x = as_tensor(operand)
    place = one_axis("dynamic_update_slice_in_dim", axis, x.ndim)
    starts = _along(x.ndim, place, start_index)
    return dynamic_update_slice(x, update, starts, allow_negative_indices=allow_negative_indices)


def dynamic_update_index_in_dim(
    operand: Tensor, update: Tensor, index: Any, axis: int, *, allow_negative_indices: bool = True
) -> Array:
    """A copy with the element of one axis at a dynamic index replaced."""
    x, new = as_tensor(operand), as_tensor(update)
    place = one_axis("dynamic_update_index_in_dim", axis, x.ndim)
    new = rnp.expand_dims(new, place) if new.ndim < x.ndim else new
    return dynamic_update_slice_in_dim(
        x, new, index, place, allow_negative_indices=allow_negative_indices
    )


def _along(rank: int, axis: int, start: Any) -> list[Any]:
    return [start if i == axis else 0 for i in range(rank)]


def index_take(src: Tensor, idxs: Sequence[Tensor], axes: Sequence[int]) -> Array:
    """Take elements of several axes by an index vector for each; the axes become one.

    `src` is the array, `idxs` are the vectors.
    """
    x = as_tensor(src)
    axes = axes_of("index_take", axes, x.ndim)
    given = sequence("index_take: the indices", idxs)
    if len(given) != len(axes):
        raise wrong("index_take: idxs", idxs, f"for {len(axes)} axes", "give one for each axis")
    vectors = [
        rnp.remainder(i, x.shape[axis])  # negative ones count from the end
        for i, axis in zip(given, axes, strict=True)
    ]
    indices = rnp.stack(vectors, axis=-1)
    return gather(
        x,
        indices,
        GatherDimensionNumbers(tuple(range(1, x.ndim - len(axes) + 1)), axes, axes),
        tuple(1 if i in axes else n for i, n in enumerate(x.shape)),
        mode="clip",
    )


# -- windows at computed places -----------------------------------------------------------------


class GatherDimensionNumbers(NamedTuple):
    """The axes of the operand, result and indices of `gather`.

    The result's axes `offset_dims` are those of the window; `collapsed_slice_dims` are dropped from
    the window; `start_index_map` are the operand's axes that the indices address.
    `operand_batching_dims` and `start_indices_batching_dims` are axes of both that go together.
    """

    offset_dims: tuple[int, ...]
    collapsed_slice_dims: tuple[int, ...]
    start_index_map: tuple[int, ...]
    operand_batching_dims: tuple[int, ...] = ()
    start_indices_batching_dims: tuple[int, ...] = ()


class ScatterDimensionNumbers(NamedTuple):
    """The axes of the operand, updates and indices of `scatter`.

    The updates' axes `update_window_dims` are those of the window; the window lacks
    `inserted_window_dims`; the indices address `scatter_dims_to_operand_dims`.
    `operand_batching_dims` and `scatter_indices_batching_dims` are axes of both that go together.
    """

    update_window_dims: Sequence[int]
    inserted_window_dims: Sequence[int]
    scatter_dims_to_operand_dims: Sequence[int]
    operand_batching_dims: Sequence[int] = ()
    scatter_indices_batching_dims: Sequence[int] = ()


class GatherScatterMode(enum.Enum):
    """What happens to a window that is out of bounds.

    `CLIP` moves it inside. `FILL_OR_DROP` reads a fill value and drops updates. With
    `PROMISE_IN_BOUNDS` reads are clipped and updates dropped.
    """

    CLIP = "clip"
    FILL_OR_DROP = "fill"
    PROMISE_IN_BOUNDS = "promise_in_bounds"


def _mode(name: str, mode: Any) -> GatherScatterMode:
    known = {"drop": GatherScatterMode.FILL_OR_DROP, None: GatherScatterMode.FILL_OR_DROP}
    known |= {m.value: m for m in GatherScatterMode} | {m: m for m in GatherScatterMode}
    return known[choice(f"{name}: mode", mode, known)]


def _numbers(name: str, numbers: Any, kind: type) -> Any:
    """The axes as tuples, from what says which belong together."""
    if not isinstance(numbers, kind):
        raise ArgumentError(
            f"{name}: the dimension_numbers are of {type(numbers).__name__}",
            fix=f"give a lax.{kind.__name__}",
        )
    return kind(*(integers(f"{name}: axes", axes) for axes in numbers))


def gather(
    operand: Tensor,
    start_indices: Tensor,
    dimension_numbers: GatherDimensionNumbers,
    slice_sizes: Sequence[int],
    *,
    unique_indices: bool = False,
    indices_are_sorted: bool = False,
    mode: Any = None,
    fill_value: Any = None,
) -> Array:
    """Gather windows of the operand at index vectors.

    The vectors are the last axis of `start_indices`, `slice_sizes` is the shape of a window.
    Windows out of bounds are moved inside; with the `mode` "fill" they are filled with
    `fill_value`, by default NaN. See `GatherDimensionNumbers` for the axes.
    """
    numbers = _numbers("gather", dimension_numbers, GatherDimensionNumbers)
    words = {"clip": "clip", "fill": "fill", "promise_in_bounds": "promise"}
    return apply(
        "gather",
        as_tensor(operand),
        as_tensor(start_indices),
        offset_axes=numbers.offset_dims,
        collapsed_axes=numbers.collapsed_slice_dims,
        operand_batch_axes=numbers.operand_batching_dims,
        indices_batch_axes=numbers.start_indices_batching_dims,
        start_axes=numbers.start_index_map,
        sizes=sizes_of("gather: slice_sizes", slice_sizes),
        mode=words[_mode("gather", "clip" if mode is None else mode).value],
        fill=None if fill_value is None else number("gather: fill_value", fill_value),
    )


def _scatter(name: str, op: str, doc: str, change: Callable[[Any], Any] = as_tensor):
    def function(
        operand: Tensor,
        scatter_indices: Tensor,
        updates: Tensor,
        dimension_numbers: ScatterDimensionNumbers,
        *,
        indices_are_sorted: bool = False,
        unique_indices: bool = False,
        mode: Any = None,
    ) -> Array:
        numbers = _numbers(name, dimension_numbers, ScatterDimensionNumbers)
        words = {"clip": "clip", "fill": "drop", "promise_in_bounds": "promise"}
        return apply(
            op,
            as_tensor(operand),
            as_tensor(scatter_indices),
            change(updates),
            window_axes=numbers.update_window_dims,
            inserted_axes=numbers.inserted_window_dims,
            operand_batch_axes=numbers.operand_batching_dims,
            indices_batch_axes=numbers.scatter_indices_batching_dims,
            scatter_axes=numbers.scatter_dims_to_operand_dims,
            mode=words[_mode(name, mode).value],
            unique=flag(f"{name}: unique_indices", unique_indices),
        )

    end = 'Windows out of bounds are dropped, or moved inside by `mode` "clip".'
    return named(function, name, f"{doc}\n\n    {end}")


scatter = _scatter("scatter", "scatter", "A copy with windows replaced by updates.")
scatter_add = _scatter("scatter_add", "scatter_add", "A copy with updates added to windows.")
scatter_sub = _scatter(
    "scatter_sub", "scatter_add", "A copy with updates subtracted from windows.", negative
)
scatter_mul = _scatter("scatter_mul", "scatter_mul", "A copy with windows multiplied by updates.")
scatter_min = _scatter(
    "scatter_min", "scatter_min", "A copy with windows replaced by their minimum with updates."
)
scatter_max = _scatter(
    "scatter_max", "scatter_max", "A copy with windows replaced by their maximum with updates."
)


def scatter_apply(
    operand: Tensor,
    scatter_indices: Tensor,
    func: Callable[[Any], Any],
    dimension_numbers: ScatterDimensionNumbers,
    *,
    update_shape: Sequence[int] = (),
    indices_are_sorted: bool = False,
    unique_indices: bool = False,
    mode: Any = None,
) -> Array:
    """Apply an elementwise function to windows, once even where they overlap.

    `func` is the function, `update_shape` the shape that `updates` of `scatter` would have.
    """
    callable_of("scatter_apply: func", func)
    x = as_tensor(operand)
    count = rnp.zeros_like(x)
    ones = rnp.ones(update_shape, x.dtype)
    counted = scatter(count, scatter_indices, ones, dimension_numbers, mode=mode)
    return rnp.where(counted != 0, func(x), x)
