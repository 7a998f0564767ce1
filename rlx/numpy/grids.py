"""Grids and what is measured on them: mgrid, r_, tril_indices, gradient."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, final

import numpy as np

from ..ir.errors import ArgumentError
from ..ir.types import Size, is_bool, is_inexact
from ..trace.apply import apply, as_tensor
from ..trace.arguments import callable_of, choice, count_of
from ..trace.array import Array, new_array
from ..trace.array_arguments import matrix, with_axes
from ..trace.axes import MOST_AXES, as_shape, integer, some_axes
from ..trace.host import is_python_scalar
from ..trace.promotion import FLOAT, convert, convert_exactly, promote_operands
from .creation import arange, linspace, ones, zeros
from .elementwise import Tensor, add, divide, multiply
from .indexing import nonzero
from .manipulation import (
    atleast_1d,
    broadcast_arrays,
    concatenate,
    expand_dims,
    moveaxis,
    reshape,
    stack,
    transpose,
)
from .reductions import Axis, diff
from .sorting import check_vector

# -- by indexing --------------------------------------------------------------------------------

MOST_ROWS = 1 << 16  # whose triangle has more places than int32 counts


def _line(part: slice) -> Array:
    """The numbers of a slice; an imaginary step is their count, the stop included."""
    start = 0 if part.start is None else part.start
    if isinstance(part.step, complex):
        return linspace(start, part.stop, int(abs(part.step)))
    return arange(start, part.stop, 1 if part.step is None else part.step)


@final
class Grid:
    """`mgrid[0:3, 0:2]`: the coordinates of a grid's points, one array for each axis.

    A sparse grid has arrays of size 1 along all axes but their own.
    """

    def __init__(self, is_sparse: bool) -> None:
        self._is_sparse = is_sparse

    def __getitem__(self, key: Any) -> Any:
        if isinstance(key, slice):
            return _line(key)
        lines = promote_operands(*(_line(part) for part in key)) if key else []
        rank = len(lines)
        thin = [
            reshape(line, tuple(-1 if i == j else 1 for j in range(rank)))
            for i, line in enumerate(lines)
        ]
        if self._is_sparse:
            return thin
        return stack(broadcast_arrays(*thin)) if thin else zeros((0,), "int32")


mgrid, ogrid = Grid(is_sparse=False), Grid(is_sparse=True)


@final
class Joined:
    """`r_[0:3, 7, x]`: slices, numbers and arrays concatenated along an axis.

    A leading text "axis,ndim,position" gives the axis, the least number of axes of the parts, and
    where the axes of arrays with fewer are placed.
    """

    def __init__(self, axis: int, rank: int, place: int) -> None:
        self._usual = (axis, rank, place)

    def __getitem__(self, key: Any) -> Any:
        parts = list(key) if isinstance(key, tuple) else [key]
        axis, rank, place = self._usual
        if parts and isinstance(parts[0], str):
            text = parts.pop(0)
            numbers = [_direction(text, n) for n in text.split(",")]
            axis, rank, place = (*numbers, *self._usual[len(numbers) :])
        made = [self._made(part, rank, place) for part in parts]
        return concatenate(made, axis)

    def _made(self, part: Any, rank: int, place: int) -> Any:
        if isinstance(part, slice):
            x = _line(part)
        else:
            x = part if is_python_scalar(part) else as_tensor(part)
            x = atleast_1d(x)
        missing = rank - x.ndim
        if missing <= 0:
            return x
        wide = expand_dims(x, tuple(range(missing)))
        order = list(range(missing))
        first = place % rank if place < 0 else place
        order[first:first] = range(missing, rank)
        return transpose(wide, order)


def _direction(text: str, number: str) -> int:
    try:
        return int(number)
    except ValueError:
        raise ArgumentError(
            f"r_: {text!r} says no axis",
            fix='write one to three integers, as r_["0,2", x, y]',
        ) from None


r_, c_ = Joined(0, 1, -1), Joined(-1, 2, 0)


@final
class Index:
    """`s_[1:3, ...]`: an index expression as a value."""

    def __init__(self, is_tuple: bool) -> None:
        self._is_tuple = is_tuple

    def __getitem__(self, key: Any) -> Any:
        return (key,) if self._is_tuple and not isinstance(key, tuple) else key


s_, index_exp = Index(is_tuple=False), Index(is_tuple=True)


def mask_indices(
    n: int, mask_func: Callable[..., Any], k: Any = 0, *, size: Size | None = None
) -> tuple[Array, ...]:
    """The indices where `mask_func(square, k)`, such as `triu`, is nonzero."""
    callable_of("mask_indices: mask_func", mask_func)
    return nonzero(mask_func(ones((n, n)), k), size=size)


# -- places in matrices --------------------------------------------------------------------------


def diag_indices(n: int, ndim: int = 2) -> tuple[Array, ...]:
    """The indices of the main diagonal, one array for each of `ndim` axes."""
    line = apply("iota", shape=as_shape(n), axis=0, dtype="int32")
    return (line,) * count_of("diag_indices: ndim", ndim, most=MOST_AXES)


def diag_indices_from(arr: Tensor) -> tuple[Array, ...]:
    """The indices of the main diagonal of an array."""
    arr = with_axes("diag_indices_from: arr", arr, 1)
    return diag_indices(arr.shape[0], arr.ndim)


def tril_indices(n: int, k: int = 0, m: int | None = None) -> tuple[Array, Array]:
    """The indices of the lower triangle of an n x m matrix."""
    return _triangle("tril_indices", np.tril_indices, n, k, m)


def triu_indices(n: int, k: int = 0, m: int | None = None) -> tuple[Array, Array]:
    """The indices of the upper triangle of an n x m matrix."""
    return _triangle("triu_indices", np.triu_indices, n, k, m)


def _triangle(name: str, places: Callable[..., Any], n: Any, k: Any, m: Any) -> tuple[Array, Array]:
    n = count_of(f"{name}: n", n, most=MOST_ROWS)
    m = n if m is None else count_of(f"{name}: m", m, most=MOST_ROWS)
    rows, columns = places(n, max(min(integer(f"{name}: k", k), m), -n), m)
    return new_array(rows.astype("int32")), new_array(columns.astype("int32"))


def tril_indices_from(arr: Tensor, k: int = 0) -> tuple[Array, Array]:
    """The indices of the lower triangle of a matrix."""
    rows, columns = matrix("tril_indices_from: arr", arr).shape
    return tril_indices(rows, k, columns)


def triu_indices_from(arr: Tensor, k: int = 0) -> tuple[Array, Array]:
    """The indices of the upper triangle of a matrix."""
    rows, columns = matrix("triu_indices_from: arr", arr).shape
    return triu_indices(rows, k, columns)


def ix_(*args: Tensor) -> tuple[Array, ...]:
    """An open mesh of index vectors `args`: `x[ix_([0, 2], [1, 3])]`.

    Returns a tuple of arrays that broadcast; bool masks are allowed.
    """
    rank = len(args)
    vectors = [as_tensor(s) for s in args]
    for vector in vectors:
        check_vector("ix_", vector)
    vectors = [nonzero(v)[0] if is_bool(v.dtype) else v for v in vectors]
    return tuple(
        reshape(v, tuple(-1 if i == j else 1 for j in range(rank))) for i, v in enumerate(vectors)
    )


# -- slopes -------------------------------------------------------------------------------------


def gradient(f: Tensor, *varargs: Any, axis: Axis = None, edge_order: int | None = None) -> Any:
    """The gradient by central differences inside, one-sided differences at the edges.

    The result is an array, or a list with one for each of several axes of `f`. `varargs` is one
    spacing for all axes, or for each axis a spacing or its coordinates. `edge_order` must be 1.
    """
    if choice("gradient: edge_order", edge_order, (None, 1, 2)) == 2:
        raise ArgumentError(
            "gradient: edge_order is 2",
            fix="leave it out: differences at the edges use two samples",
        )
    f = as_tensor(f)
    f = f if is_inexact(f.dtype) else convert(f, FLOAT)
    axes = some_axes("gradient", axis, f.ndim)
    steps = list(varargs) * len(axes) if len(varargs) == 1 else list(varargs) or [1.0] * len(axes)
    if len(steps) != len(axes):
        raise ArgumentError(
            f"gradient: {len(varargs)} distances for {len(axes)} axes",
            fix="give one for all axes, or one for each",
        )
    slopes = [_slope(f, place, step) for place, step in zip(axes, steps, strict=True)]
    is_single = len(axes) == 1 and (axis is None or not isinstance(axis, Sequence))
    return slopes[0] if is_single else slopes


def _slope(x: Any, axis: int, step: Any) -> Array:
    x = moveaxis(x, axis, 0)
    if x.shape[0] < 2:
        raise ArgumentError(
            f"gradient: axis {axis} of {x.type} has fewer than 2 samples",
            fix="leave the axis out: gradient(x, axis=...)",
        )
    thin = (-1,) + (1,) * (x.ndim - 1)
    step = convert_exactly(step, x.dtype) if is_python_scalar(step) else as_tensor(step)
    widths = reshape(diff(step), thin) if step.ndim else step
    ratios = divide(x[1:] - x[:-1], widths)
    left, right = ratios[:-1], ratios[1:]
    if step.ndim:
        near, far = widths[:-1], widths[1:]
        middle = divide(add(multiply(left, far), multiply(right, near)), add(near, far))
    else:
        middle = divide(add(left, right), 2)
    return moveaxis(concatenate([ratios[:1], middle, ratios[-1:]]), 0, axis)
