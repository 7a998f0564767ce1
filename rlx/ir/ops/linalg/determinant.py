"""Determinants: slogdet, det."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from ...errors import GradientError
from ...graph import Value
from ...op import ALIGNED, define
from ...types import Type, is_complex
from ..arithmetic import abs, div, is_finite, mul, sub
from ..compare import bit_and, bit_not, eq, ge, select
from ..constant import iota, like
from ..convert import convert, narrowed
from ..cumulative import cumprod
from ..movement import reshape
from ..pad_slice import concat
from ..reduce import reduce_and, reduce_prod, reduce_sum
from .factor import lu
from .matrices import (
    check_matrix,
    columns,
    diagonal_of,
    everywhere,
    on_diagonal,
    operations,
    real_dtype,
    real_part,
    rows,
    sizes,
    taken_rows,
)
from .small import determinant, log_determinant, matrices
from .solve import linear_solve
from .triangular import triangular_solve


@define
def slogdet(x: Type) -> tuple[Type, Type]:
    """The determinant as its sign and the logarithm of its absolute value.

    `f32[..., n, n] → f32[...], f32[...]`. The sign of a complex determinant has length 1. A
    singular matrix gives 0 and -inf.
    """
    check_matrix(x, square=True)
    one = x.with_shape(x.shape[:-2])
    return one, one.with_dtype(real_dtype(x))


slogdet.reference(lambda x: tuple(np.linalg.slogdet(x)))
slogdet.body(matrices(log_determinant))
slogdet.library_work("direct", operations(lambda m, n, _: 2 * n**3 / 3))


@slogdet.jvp
def slogdet_jvp(primals: Sequence[Value], tangents: Sequence[Value | None]) -> tuple:
    """The tangent of log det is the trace of x⁻¹ dx; its imaginary part turns the sign."""
    (x,), (t,) = primals, tangents
    sign, size = slogdet(x)
    if t is None:
        return (sign, size), (None, None)
    moved = _trace(linear_solve(x, t))
    grown = real_part(moved)
    turned = mul(sub(moved, narrowed(grown, x.dtype)), sign) if is_complex(x.dtype) else None
    return (sign, size), (turned, grown)


def _trace(x: Value) -> Value:
    return reduce_sum(diagonal_of(x), axes=(x.rank - 2,))


slogdet.batch(ALIGNED)


_SQUARE = np.array([[2.0, -1.0, 0.5], [1.0, 3.0, -1.0], [0.0, 1.5, 2.0]])
_COMPLEX = np.array([[1 + 2j, 3 - 1j], [0.5j, -2 + 1j]])
slogdet.samples(_SQUARE)
slogdet.samples(np.stack([_SQUARE, -_SQUARE]))
slogdet.samples(_COMPLEX)
slogdet.samples((2, 0, 0))
slogdet.samples([[0.0, 1.0], [2.0, 5.0]], expect=[-1.0, np.log(2.0)])
slogdet.samples([[1.0, 1.0], [1.0, 1.0]], expect=[0.0, -np.inf])


@define
def det(x: Type) -> Type:
    """The determinant: `f32[..., n, n] → f32[...]`.

    The derivative holds for singular matrices of rank n - 1 too.
    """
    check_matrix(x, square=True)
    return x.with_shape(x.shape[:-2])


det.reference(np.linalg.det)
det.body(matrices(lambda x: [determinant(x)]))
det.library_work("direct", operations(lambda m, n, _: 2 * n**3 / 3))


def _det_tangent(t: Value, out: Value, x: Value) -> Value | None:
    size = x.shape[-1]
    if not isinstance(size, int):
        raise GradientError(
            f"det has no derivative for {x.type}, of unknown size",
            fix="give the matrix a size, or use slogdet",
        )
    if size == 0:
        return None
    return _trace(t if size == 1 else _adjugate_product(x, t))


def _adjugate_product(x: Value, y: Value) -> Value:
    """det(x) x⁻¹ y, which is finite for x of rank n - 1 as well.

    With P x = L U the last pivot, which may be 0, is replaced: the solution by U whose last pivot
    is 1 / (the product p of the others) has in its last row what det(x) x⁻¹ y has, and the other
    rows follow from it by p times the last pivot.
    """
    both, pivots, order = lu(x)
    _, n = sizes(x)
    exchanged = bit_not(eq(pivots, iota(shape=pivots.shape, axis=pivots.rank - 1, dtype="int32")))
    signs = select(exchanged, like(pivots, -1), like(pivots, 1))
    sign = reduce_prod(convert(signs, dtype=x.dtype), axes=(pivots.rank - 1,))
    axis = x.rank - 2
    partial = cumprod(diagonal_of(both), axis=axis)
    others, total = (_at(partial, n - 1 - i) for i in (1, 0))
    last = bit_and(on_diagonal(both), _is_row(both, n - 1))
    upper = select(last, everywhere(div(sign, others), both), both)
    is_sound = _is_solvable(upper, y)
    y = select(is_sound, taken_rows(y, order), like(y, 0))
    y = triangular_solve(both, y, unit_diagonal=True)
    above, below = rows(y, 0, n - 1), rows(y, n - 1, n)
    y = concat(mul(above, everywhere(mul(sign, total), above)), below, axis=axis)
    return select(is_sound, triangular_solve(upper, y, lower=False), like(y, 0))


def _at(x: Value, i: Any) -> Value:
    """The elements at a place along the last axis."""
    line = reshape(x, shape=(*x.shape[:-1], x.shape[-1], 1))
    return reshape(rows(line, i, i + 1), shape=x.shape[:-1])


def _is_row(x: Value, i: Any) -> Value:
    row = iota(shape=x.shape, axis=x.rank - 2, dtype="int32")
    return ge(row, like(row, i))


def _is_solvable(upper: Value, y: Value) -> Value:
    """Whether a triangular matrix has an inverse, at each element of y.

    If it has none although its last pivot was replaced, the rank is below n - 1 and all minors
    are zero.
    """
    probe = triangular_solve(upper, like(columns(upper, 0, 1), 1), lower=False)
    fits = reduce_and(is_finite(abs(probe)), axes=(probe.rank - 2, probe.rank - 1))
    return everywhere(fits, y)


det.jvp([_det_tangent])
det.batch(ALIGNED)
det.samples(_SQUARE)
det.samples(np.stack([_SQUARE, -_SQUARE.T]))
det.samples(_COMPLEX)
det.samples((1, 1))
det.samples((2, 0, 0))
det.samples([[1.0, 2.0], [3.0, 4.0]], expect=-2.0)
