"""Products, parts and norms of matrices, most of them in `rlx.numpy` as well."""

from __future__ import annotations

import math
import operator
from collections.abc import Sequence
from itertools import pairwise
from typing import Any

import numpy as np

from ...trace.apply import as_tensor
from ...trace.arguments import choice, flag, members
from ...trace.array import Array
from ...trace.axes import one_axis, some_axes
from ...trace.promotion import broadcast_to, rounded_once
from .. import contraction, creation, manipulation, reductions
from ..arithmetic import absolute, astype, conj, power, real
from ..elementwise import Tensor, not_equal, sqrt
from ..logic import isnan, logical_and, logical_not, where
from ..manipulation import expand_dims, moveaxis
from ..subscripts import einsum
from .decompositions import svdvals
from .matrices import check_matrix, check_square, inexact, wrong_shape, wrong_value
from .solving import inv


def cross(x1: Tensor, x2: Tensor, /, *, axis: int = -1) -> Array:
    """The cross products of vectors of 3 elements along an axis."""
    x1, x2 = as_tensor(x1), as_tensor(x2)
    for x in (x1, x2):
        if x.shape[one_axis("cross", axis, x.ndim)] != 3:
            fix = "name the axis of the vectors with axis="
            wrong_shape("cross", f"axis {axis} of {x.type} has not 3 elements", x1, x2, fix=fix)
    return contraction.cross(x1, x2, axis=axis)


def diagonal(x: Tensor, /, *, offset: int = 0) -> Array:
    """The diagonals of matrices, along a new last axis."""
    x = as_tensor(x)
    check_matrix("diagonal", x)
    return creation.diagonal(x, offset, -2, -1)


def trace(x: Tensor, /, *, offset: int = 0, dtype: Any = None) -> Array:
    """The traces of matrices: the sums of their diagonals."""
    x = as_tensor(x)
    check_matrix("trace", x)
    return creation.trace(x, offset, -2, -1, dtype)


def matmul(
    x1: Tensor, x2: Tensor, /, *, precision: Any = None, preferred_element_type: Any = None
) -> Array:
    """The product of matrices; the same as `rlx.numpy.matmul`."""
    return contraction.matmul(
        x1, x2, precision=precision, preferred_element_type=preferred_element_type
    )


def matrix_transpose(x: Tensor, /) -> Array:
    """Transpose the last two axes."""
    x = as_tensor(x)
    check_matrix("matrix_transpose", x)
    return manipulation.matrix_transpose(x)


def matrix_power(a: Tensor, n: int) -> Array:
    """A square matrix raised to an integer power; negative powers invert it first.

    >>> matrix_power([[1.0, 1.0], [0.0, 1.0]], 5).tolist()
    [[1.0, 5.0], [0.0, 1.0]]
    """
    a = as_tensor(a)
    check_square("matrix_power", a)
    try:
        n = operator.index(n)
    except TypeError:
        wrong_value("matrix_power", f"the power {n!r} is no integer", fix="give an integer")
    if n == 0:
        return broadcast_to(creation.eye(a.shape[-1], dtype=a.dtype), a.shape)
    return rounded_once(lambda a: _power(a, n), a)


def _power(a: Any, n: int) -> Array:
    square, n = (inv(a), -n) if n < 0 else (a, n)
    result: Any = None
    while True:
        n, is_odd = divmod(n, 2)
        if is_odd:
            result = square if result is None else contraction.matmul(result, square)
        if not n:
            return result
        square = contraction.matmul(square, square)


def multi_dot(arrays: Sequence[Tensor], *, precision: Any = None) -> Array:
    """The product of two or more `arrays`, in the order of least cost.

    The first and the last may be vectors.

    >>> multi_dot([[1.0, 2.0], [[1.0, 0.0], [0.0, 1.0]], [3.0, 4.0]]).tolist()
    11.0
    """
    given = [as_tensor(x) for x in members("multi_dot: arrays", arrays)]
    if len(given) < 2:
        wrong_value("multi_dot", f"there are {len(given)} arrays", fix="give two or more")
    ranks = [x.ndim for x in given]
    if not {ranks[0], ranks[-1]} <= {1, 2} or set(ranks[1:-1]) - {2}:
        fix = "give matrices; only the first and the last may be vectors"
        wrong_shape("multi_dot", f"the arrays have {ranks} axes", *given, fix=fix)
    for x, y in pairwise(given):
        if x.shape[-1] != y.shape[0]:
            what = f"the inner sizes differ, {x.shape[-1]} and {y.shape[0]}"
            fix = "let each array end with the size with which the next begins"
            wrong_shape("multi_dot", what, *given, fix=fix)
    letters = "abcdefghijklmnopqrstuvwxyz"
    labels = [letters[i : i + 2] for i in range(len(given))]
    labels[0] = labels[0][2 - ranks[0] :]
    labels[-1] = labels[-1][: ranks[-1]]
    ends = labels[0][: ranks[0] - 1] + labels[-1][1:]
    return einsum(",".join(labels) + "->" + ends, *given, precision=precision)


def outer(x1: Tensor, x2: Tensor, /) -> Array:
    """The outer product of two vectors: `f32[n], f32[m] → f32[n, m]`."""
    x1, x2 = as_tensor(x1), as_tensor(x2)
    if x1.ndim != 1 or x2.ndim != 1:
        fix = "make them vectors with ravel(), or use rlx.numpy.outer"
        wrong_shape("outer", f"{x1.type} and {x2.type} are not both vectors", x1, x2, fix=fix)
    return contraction.outer(x1, x2)


def tensordot(
    x1: Tensor,
    x2: Tensor,
    /,
    *,
    axes: int | Sequence[Any] = 2,
    precision: Any = None,
    preferred_element_type: Any = None,
) -> Array:
    """The tensor contraction over axes; the same as `rlx.numpy.tensordot`."""
    return contraction.tensordot(
        x1, x2, axes, precision=precision, preferred_element_type=preferred_element_type
    )


def vecdot(
    x1: Tensor,
    x2: Tensor,
    /,
    *,
    axis: int = -1,
    precision: Any = None,
    preferred_element_type: Any = None,
) -> Array:
    """The dot products of vectors along an axis, the first ones conjugated."""
    return contraction.vecdot(
        x1, x2, axis=axis, precision=precision, preferred_element_type=preferred_element_type
    )


# -- norms of vectors and matrices, and the condition number ---------------------------------------
#
# A norm has a corner at 0. There the derivative of roots is 0, one of the slopes a tangent plane
# can have; JAX gives NaN.


Axis = int | Sequence[int] | None


def norm(
    x: Tensor, ord: int | float | str | None = None, axis: Axis = None, keepdims: bool = False
) -> Array:
    """The norm of vectors (one axis) or of matrices (two axes).

    The default is the 2-norm or Frobenius norm. `ord` of a vector is any number, inf or -inf; of a
    matrix "fro", "nuc", 1, -1, 2, -2, inf or -inf. Without `axis` and `ord` the array is flattened.

    >>> norm([3.0, 4.0]).tolist(), norm([[1.0, -7.0], [2.0, 3.0]], ord=1).tolist()
    (5.0, 10.0)
    """
    return rounded_once(lambda x: _norm(x, ord, axis, keepdims), *inexact(x))


def _norm(x: Any, ord: int | float | str | None, axis: Axis, keepdims: bool) -> Array:
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
) -> Array:
    """The vector norm of order `ord` over axes; None takes all axes."""
    return rounded_once(lambda x: _vector_norm(x, axis, keepdims, ord), *inexact(x))


def _vector_norm(x: Any, axis: Axis, keepdims: bool, ord: int | float | str) -> Array:
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
    return _flat_power(reductions.sum(_flat_power(size, ord), axis, keepdims=keepdims), 1 / ord)


def _length(x: Any, axis: Axis, keepdims: bool) -> Array:
    total = reductions.sum(real(x * conj(x)), axis, keepdims=keepdims)
    is_zero = total == 0
    return where(is_zero, 0, sqrt(where(is_zero, 1, total)))


def _flat_power(x: Any, exponent: float) -> Array:
    """A positive power, whose derivative at 0 is 0."""
    is_zero = x == 0
    return where(is_zero, 0, power(where(is_zero, 1, x), exponent))


def matrix_norm(x: Tensor, /, *, keepdims: bool = False, ord: int | float | str = "fro") -> Array:
    """The matrix norm of order `ord` over the last two axes; see `norm`."""
    (x,) = inexact(x)
    check_matrix("matrix_norm", x)
    axes = (x.ndim - 2, x.ndim - 1)
    return rounded_once(lambda x: _matrix_norm("matrix_norm", x, ord, axes, keepdims), x)


def _matrix_norm(name: str, x: Any, ord: Any, axes: Sequence[int], keepdims: bool) -> Array:
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


def cond(x: Tensor, p: int | float | str | None = None) -> Array:
    """The condition number |x| |x⁻¹| of matrices, inf for a singular one.

    `p` is the order of the norm; 2, the default, is the ratio of the largest to the smallest
    singular value.

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
