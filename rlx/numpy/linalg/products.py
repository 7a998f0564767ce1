"""Products and parts of matrices, most of them functions of `rlx.numpy` as well."""

from __future__ import annotations

import operator
from collections.abc import Sequence
from itertools import pairwise
from string import ascii_lowercase
from typing import Any

from ...trace.apply import as_tensor
from ...trace.arguments import members
from ...trace.axes import one_axis
from ...trace.promotion import broadcast_to, rounded_once
from .. import contraction, creation, manipulation
from ..einsum import einsum
from ..elementwise import Tensor
from .matrices import check_matrix, check_square, wrong_shape, wrong_value
from .solving import inv


def cross(x1: Tensor, x2: Tensor, /, *, axis: int = -1) -> Any:
    """The vectors at right angles to two vectors of 3 elements along an axis."""
    x1, x2 = as_tensor(x1), as_tensor(x2)
    for x in (x1, x2):
        if x.shape[one_axis("cross", axis, x.ndim)] != 3:
            fix = "name the axis of the vectors with axis="
            wrong_shape("cross", f"axis {axis} of {x.type} has not 3 elements", x1, x2, fix=fix)
    return contraction.cross(x1, x2, axis=axis)


def diagonal(x: Tensor, /, *, offset: int = 0) -> Any:
    """The diagonals of matrices, along a last axis."""
    x = as_tensor(x)
    check_matrix("diagonal", x)
    return creation.diagonal(x, offset, -2, -1)


def trace(x: Tensor, /, *, offset: int = 0, dtype: Any = None) -> Any:
    """The sums of the diagonals of matrices."""
    x = as_tensor(x)
    check_matrix("trace", x)
    return creation.trace(x, offset, -2, -1, dtype)


def matmul(
    x1: Tensor, x2: Tensor, /, *, precision: Any = None, preferred_element_type: Any = None
) -> Any:
    """The product of matrices; the same as `rlx.numpy.matmul`."""
    return contraction.matmul(
        x1, x2, precision=precision, preferred_element_type=preferred_element_type
    )


def matrix_transpose(x: Tensor, /) -> Any:
    """The last two axes exchanged."""
    x = as_tensor(x)
    check_matrix("matrix_transpose", x)
    return manipulation.matrix_transpose(x)


def matrix_power(a: Tensor, n: int) -> Any:
    """A square matrix multiplied by itself n times; by its inverse for negative n.

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


def _power(a: Any, n: int) -> Any:
    square, n = (inv(a), -n) if n < 0 else (a, n)
    result = None
    while True:
        n, is_odd = divmod(n, 2)
        if is_odd:
            result = square if result is None else contraction.matmul(result, square)
        if not n:
            return result
        square = contraction.matmul(square, square)


def multi_dot(arrays: Sequence[Tensor], *, precision: Any = None) -> Any:
    """The product of two or more matrices, in an order that takes few operations.

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
    labels = [ascii_lowercase[i : i + 2] for i in range(len(given))]
    labels[0] = labels[0][2 - ranks[0] :]
    labels[-1] = labels[-1][: ranks[-1]]
    ends = labels[0][: ranks[0] - 1] + labels[-1][1:]
    return einsum(",".join(labels) + "->" + ends, *given, precision=precision)


def outer(x1: Tensor, x2: Tensor, /) -> Any:
    """All products of elements of two vectors: `f32[n], f32[m]` gives `f32[n, m]`."""
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
) -> Any:
    """The sum of products over axes; the same as `rlx.numpy.tensordot`."""
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
) -> Any:
    """The sums of products along an axis, elements of x1 conjugated."""
    return contraction.vecdot(
        x1, x2, axis=axis, precision=precision, preferred_element_type=preferred_element_type
    )
