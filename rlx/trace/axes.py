"""Checks and conversions of axes and shapes as users write them."""

from __future__ import annotations

import math
import operator
from collections.abc import Sequence
from typing import Any

import numpy as np

from ..ir.dims import Dim, quotient
from ..ir.errors import ArgumentError, AxisError, RlxError, ShapeError
from ..ir.types import Size, check_size

Shape = tuple[Size, ...]
MOST_AXES = 64  # of arrays of NumPy


def one_axis(name: str, axis: Any, rank: int) -> int:
    """Give an axis counted from 0; `name` is the function for the error."""
    number = integer(f"{name}: the axis", axis)
    if -rank <= number < rank:
        return number % rank
    raise AxisError(
        f"{name}: axis {number} is outside an array with {rank} axes",
        fix=f"pick an axis from {-rank} to {rank - 1}" if rank else "use an array that has axes",
    )


def some_axes(name: str, axis: Any, rank: int, *, twice: bool = False) -> tuple[int, ...]:
    """Give axes counted from 0, in the order written; None means all.

    An axis may be named again if `twice`.
    """
    if axis is None:
        return tuple(range(rank))
    many = axis if isinstance(axis, Sequence) else (axis,)
    axes = tuple(one_axis(name, i, rank) for i in many)
    if len(set(axes)) < len(axes) and not twice:
        raise AxisError(f"{name}: an axis is named twice in {axis}", fix="name each axis once")
    return axes


def integer(what: str, n: Any) -> int:
    """Give a Python integer; `what` it stands for is named in the error."""
    if not isinstance(n, bool | np.bool_):
        try:
            return operator.index(n)
        except RlxError:
            raise
        except TypeError:
            pass
    raise ArgumentError(f"{what} is {n!r}, not an integer", fix="pass an integer")


def number(what: str, n: Any) -> Any:
    """Give back a number, or an array without axes; else raise an error about `what`."""
    is_plain = isinstance(n, int | float | np.number) and not isinstance(n, bool)
    dtype = getattr(n, "dtype", None)
    shape = getattr(n, "shape", None)
    is_scalar = isinstance(dtype, np.dtype) and dtype.kind not in "OSUMmb" and shape == ()
    if is_plain or is_scalar:
        return n
    kind = n if n is None or isinstance(n, bool | str) else type(n).__name__
    raise ArgumentError(f"{what} is {kind!r}, not a number", fix="pass one number")


def as_shape(shape: Any) -> Shape:
    """Give a shape for a size or a sequence of sizes, which are 0 or more."""
    sizes = _sizes(shape)
    known = [n for n in sizes if isinstance(n, int)]
    if min(known, default=0) < 0:
        raise ShapeError(f"the shape {sizes} has a negative size", fix="use sizes of 0 or more")
    return check_size(sizes)


def _sizes(shape: Any) -> Shape:
    is_many = isinstance(shape, Sequence) and not isinstance(shape, str)
    if isinstance(shape, np.ndarray):
        is_many, shape = shape.ndim > 0, shape.tolist()
    many = shape if is_many else (shape,)
    sizes = tuple(n if isinstance(n, Dim) else integer("a size", n) for n in many)
    if len(sizes) > MOST_AXES:
        raise ShapeError(
            f"a shape of {len(sizes)} sizes: arrays have at most {MOST_AXES} axes",
            fix="join axes, or leave out those of size 1",
        )
    return sizes


def resolve_shape(name: str, old: Shape, wanted: Any) -> Shape:
    """Replace -1 in a new shape by the size that fits."""
    new = _sizes(wanted)
    holes = [i for i, n in enumerate(new) if isinstance(n, int) and n == -1]
    if len(holes) > 1:
        raise ShapeError(
            f"{name}: the shape {new} has more than one -1",
            fix="leave at most one size open",
        )
    if not holes:
        _check_count(name, old, new)
        return new
    given = [n for n in new if not (isinstance(n, int) and n == -1)]
    missing = _quotient(old, given)
    if missing is None:
        raise ShapeError(
            f"{name}: {tuple(old)} cannot be given the shape {new}",
            fix=f"the sizes other than -1 must divide {math.prod(old)}",
        )
    return tuple(missing if i == holes[0] else n for i, n in enumerate(new))


def _check_count(name: str, old: Shape, new: Shape) -> None:
    if math.prod(old) != math.prod(new):
        raise ShapeError(
            f"{name}: {tuple(old)} has {math.prod(old)} elements, "
            f"{tuple(new)} has {math.prod(new)}",
            fix="pick sizes with the same product, or -1 for one of them",
        )


def _quotient(old: Shape, given: Sequence[Size]) -> Size | None:
    """The product of `old` by the product of `given`; None if it is not whole."""
    left, right = list(old), list(given)
    for n in given:
        if isinstance(n, Dim) and n in left:
            left.remove(n)
            right.remove(n)
    below = math.prod(right)
    return None if below == 0 else quotient(math.prod(left), below)


def broadcast_shapes(name: str, *shapes: Shape) -> Shape:
    """The shape that all shapes broadcast to, as in NumPy."""
    rank = max(map(len, shapes), default=0)
    result: list[Size] = [1] * rank
    for shape in shapes:
        for i, n in enumerate(shape, rank - len(shape)):
            if result[i] == 1:
                result[i] = n
            elif n != 1 and n != result[i]:
                raise ShapeError(
                    f"{name}: the shapes {', '.join(map(str, shapes))} do not broadcast",
                    fix=_broadcast_fix(shapes),
                )
    return tuple(result)


def _broadcast_fix(shapes: Sequence[Shape]) -> str:
    shorter = min(shapes, key=len)
    longer = max(shapes, key=len)
    fix = "sizes must be equal or 1, counted from the last axis"
    for i, n in enumerate(longer[:-1]):
        if len(shorter) == 1 and shorter[0] == n and len(longer) == 2:
            return f"{fix}; add an axis at the end: x[:, None] (it matches axis {i})"
    return fix
