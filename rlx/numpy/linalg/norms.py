"""Norms of vectors and matrices, and the condition number.

A norm has a corner at 0. There the derivative of roots is 0, one of the slopes a tangent plane can
have; JAX gives NaN.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from ...trace.arguments import choice, flag
from ...trace.axes import some_axes
from ...trace.promotion import rounded_once
from .. import reductions
from ..arithmetic import absolute, astype, conj, power, real
from ..elementwise import Tensor, not_equal, sqrt
from ..logic import isnan, logical_and, logical_not, where
from ..manipulation import expand_dims, moveaxis
from .decompositions import svdvals
from .matrices import check_matrix, check_square, inexact, wrong_shape, wrong_value
from .solving import inv

Axis = int | Sequence[int] | None


def norm(
    x: Tensor, ord: int | float | str | None = None, axis: Axis = None, keepdims: bool = False
) -> Any:
    """The norm of vectors (one axis) or of matrices (two axes).

    By default it is the root of the sum of squares. `ord` of a vector is any number, inf or -inf;
    of a matrix "fro", "nuc", 1, -1, 2, -2, inf or -inf. Without axis and `ord` all elements count.

    >>> norm([3.0, 4.0]).tolist(), norm([[1.0, -7.0], [2.0, 3.0]], ord=1).tolist()
    (5.0, 10.0)
    """
    return rounded_once(lambda x: _norm(x, ord, axis, keepdims), *inexact(x))


def _norm(x: Any, ord: int | float | str | None, axis: Axis, keepdims: bool) -> Any:
    if axis is None and ord is None:
        return _length(x, None, keepdims)
    axes = some_axes("norm", axis, x.ndim)
    if len(axes) == 1:
        return vector_norm(x, axis=axes, keepdims=keepdims, ord=2 if ord is None else ord)
    if len(axes) == 2:
        return _matrix_norm("norm", x, "fro" if ord is None else ord, axes, keepdims)
    fix = "name one axis for vectors, or two for matrices"
    return wrong_shape("norm", f"there is no norm over {len(axes)} axes of {x.type}", x, fix=fix)


NUMBERS = (1, -1, 2, -2, math.inf, -math.inf)  # norms of matrices, besides those with names


def vector_norm(
    x: Tensor, /, *, axis: Axis = None, keepdims: bool = False, ord: int | float | str = 2
) -> Any:
    """The norm over axes, as if they were one; None means all."""
    return rounded_once(lambda x: _vector_norm(x, axis, keepdims, ord), *inexact(x))


def _vector_norm(x: Any, axis: Axis, keepdims: bool, ord: int | float | str) -> Any:
    if not (ord is None or isinstance(ord, int | float | np.number)):
        fix = "use a number, such as 2 or numpy.inf"
        wrong_value("vector_norm", f"vectors have no norm {ord!r}", fix=fix)
    if ord is None or ord == 2:
        return _length(x, axis, keepdims)
    size = absolute(x)
    if ord == math.inf:
        return reductions.max(size, axis, keepdims=keepdims, initial=0)
    if ord == -math.inf:
        return reductions.min(size, axis, keepdims=keepdims)
    if ord == 0:
        return reductions.sum(astype(not_equal(x, 0), size.dtype), axis, keepdims=keepdims)
    if ord == 1:
        return reductions.sum(size, axis, keepdims=keepdims)
    if ord < 0:
        return power(reductions.sum(power(size, ord), axis, keepdims=keepdims), 1 / ord)
    return _power(reductions.sum(_power(size, ord), axis, keepdims=keepdims), 1 / ord)


def _length(x: Any, axis: Axis, keepdims: bool) -> Any:
    total = reductions.sum(real(x * conj(x)), axis, keepdims=keepdims)
    is_zero = total == 0
    return where(is_zero, 0, sqrt(where(is_zero, 1, total)))


def _power(x: Any, exponent: float) -> Any:
    """A positive power, whose derivative at 0 is 0."""
    is_zero = x == 0
    return where(is_zero, 0, power(where(is_zero, 1, x), exponent))


def matrix_norm(x: Tensor, /, *, keepdims: bool = False, ord: int | float | str = "fro") -> Any:
    """The norm of matrices in the last two axes; see `norm`."""
    (x,) = inexact(x)
    check_matrix("matrix_norm", x)
    axes = (x.ndim - 2, x.ndim - 1)
    return rounded_once(lambda x: _matrix_norm("matrix_norm", x, ord, axes, keepdims), x)


def _matrix_norm(name: str, x: Any, ord: Any, axes: Sequence[int], keepdims: bool) -> Any:
    keepdims = flag(f"{name}: keepdims", keepdims)
    if isinstance(ord, np.number):
        ord = ord.item()
    choice(f"{name}: ord", ord, ("f", "fro", "nuc", *NUMBERS, *map(float, NUMBERS)))
    if ord in ("f", "fro"):
        return _length(x, tuple(axes), keepdims)
    x = moveaxis(x, tuple(axes), (-2, -1))
    if ord in ("nuc", 2, -2):
        values = svdvals(x)
        kept, line = values, -1
    else:
        line = -1
        kept = reductions.sum(absolute(x), -2 if abs(ord) == 1 else -1)
    if ord == "nuc":
        result = reductions.sum(kept, line)
    else:
        result = reductions.max(kept, line, initial=0) if ord > 0 else reductions.min(kept, line)
    return expand_dims(result, tuple(sorted(axes))) if keepdims else result


def cond(x: Tensor, p: int | float | str | None = None) -> Any:
    """How much more the solution of x y = b changes than b: |x| |x⁻¹|.

    `p` is the norm, by default 2: the greatest singular value over the least. A singular matrix
    gives inf.

    >>> cond([[1.0, 0.0], [0.0, 4.0]]).tolist()
    4.0
    """
    (x,) = inexact(x)
    check_matrix("cond", x)
    if 0 in x.shape[-2:]:
        wrong_shape("cond", f"{x.type} has empty matrices", x, fix="give matrices with elements")
    choice("cond: p", p, (None, "f", "fro", "nuc", *NUMBERS, *map(float, NUMBERS)))
    if p in (None, 2, -2):
        values = svdvals(x)
        first, last = (-1, 0) if p == -2 else (0, -1)
        ratio = values[..., first] / values[..., last]
    else:
        check_square("cond", x)
        ratio = matrix_norm(x, ord=p) * matrix_norm(inv(x), ord=p)
    was_nan = reductions.any(isnan(x), (-2, -1))
    return where(logical_and(isnan(ratio), logical_not(was_nan)), math.inf, ratio)
