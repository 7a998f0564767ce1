"""Factorizations of rectangular matrices: lu, qr; and determinants: slogdet, det."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from ...body import Blocks, Library
from ...dims import compare
from ...errors import AttributeValueError, GradientError, ShapeError
from ...graph import Value
from ...op import ALIGNED, define
from ...types import Size, Type, as_dtype, is_complex
from ..arithmetic import abs, add, div, is_finite, mul, sub
from ..compare import bit_and, bit_not, eq, ge, select
from ..constant import iota, like
from ..convert import convert, narrowed, real
from ..cumulative import cumprod
from ..families import check_kind
from ..movement import reshape
from ..pad_slice import concat
from ..reduce import reduce_and, reduce_prod, reduce_sum
from .matrices import (
    adjoint,
    check_matrix,
    columns,
    diagonal_of,
    everywhere,
    identity_like,
    lapack,
    lesser,
    lower_part,
    on_diagonal,
    operations,
    product,
    real_dtype,
    real_part,
    resized,
    rows,
    sizes,
    taken_rows,
    upper_part,
)
from .small import determinant, log_determinant, lu_factors, matrices, orders
from .solve import linear_solve
from .triangular import triangular_solve, triangular_solve_reference

PANEL = 16  # columns that are eliminated one by one; matrix products do the rest


@define
def lu(x: Type) -> tuple[Type, Type, Type]:
    """P x = L U: both factors in one matrix, the pivots, and the permutation P.

    `f32[..., m, n] → f32[..., m, n], i32[..., k], i32[..., m]` with k the lesser of m and n. L is
    below the diagonal, ones on it; U at and above. Step i exchanged the rows i and `pivots[i]`;
    `x[permutation]` is L U.
    """
    check_matrix(x)
    index = as_dtype("int32")
    return x, Type(index, (*x.shape[:-2], lesser(x))), Type(index, x.shape[:-1])


@lu.reference
def lu_reference(x: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    m, n = x.shape[-2:]
    k = min(m, n)
    a = np.array(x).reshape((math.prod(x.shape[:-2]), m, n))
    pivots = np.zeros((len(a), k), np.int32)
    order = np.tile(np.arange(m, dtype=np.int32), (len(a), 1))
    _factor(a, pivots, order, 0, k)
    a[:, :k, k:] = _without_lower(a[:, :k, :k], a[:, :k, k:])
    batch = x.shape[:-2]
    return a.reshape(x.shape), pivots.reshape((*batch, k)), order.reshape((*batch, m))


def _factor(a: np.ndarray, pivots: np.ndarray, order: np.ndarray, start: int, stop: int) -> None:
    """Gauss's elimination of columns, in place: half of them, then the other half."""
    if stop - start <= PANEL:
        if len(a) == 1:
            return _eliminate_alone(a[0], pivots[0], order[0], start, stop)
        return _eliminate(a, pivots, order, start, stop)
    middle = (start + stop) // 2
    _factor(a, pivots, order, start, middle)
    right = _without_lower(a[:, start:middle, start:middle], a[:, start:middle, middle:stop])
    a[:, start:middle, middle:stop] = right
    a[:, middle:, middle:stop] -= a[:, middle:, start:middle] @ right
    return _factor(a, pivots, order, middle, stop)


def _without_lower(both: np.ndarray, b: np.ndarray) -> np.ndarray:
    """L⁻¹ b for the lower factor of a square matrix."""
    modes = {"left_side": True, "lower": True, "transpose_a": False, "conjugate_a": False}
    return triangular_solve_reference(both, b, **modes, unit_diagonal=True)


def _lengths(x: np.ndarray) -> np.ndarray:
    """The lengths of numbers; of complex ones as LAPACK takes it here."""
    return np.abs(np.real(x)) + np.abs(np.imag(x)) if x.dtype.kind == "c" else np.abs(x)


def _eliminate_alone(
    a: np.ndarray, pivots: np.ndarray, order: np.ndarray, start: int, stop: int
) -> None:
    """The same elimination of one matrix; the columns beside are exchanged last, all at once."""
    panel = np.ascontiguousarray(a[start:, start:stop].T)
    order_here = np.arange(len(a) - start)
    for j, line in enumerate(panel):
        pivot = j + int(_lengths(line[j:]).argmax())
        pivots[start + j] = start + pivot
        if pivot != j:
            panel[:, [j, pivot]] = panel[:, [pivot, j]]
            order_here[[j, pivot]] = order_here[[pivot, j]]
        below = line[j + 1 :]
        if line[j] != 0:
            below /= line[j]
        panel[j + 1 :, j + 1 :] -= panel[j + 1 :, j, None] * below
    a[start:, start:stop] = panel.T
    moved = np.flatnonzero(order_here != np.arange(len(order_here)))
    after, before = start + moved, start + order_here[moved]
    for x in (a[:, :start], a[:, stop:], order):
        x[after] = x[before]


def _eliminate(a: np.ndarray, pivots: np.ndarray, order: np.ndarray, start: int, stop: int) -> None:
    """Gauss's elimination of columns one by one, in place, with exchange of whole rows."""
    members = np.arange(len(a))
    for j in range(start, stop):
        pivot = j + np.argmax(_lengths(a[:, j:, j]), axis=1)
        pivots[:, j] = pivot
        for x in (a, order):
            x[members, j], x[members, pivot] = x[members, pivot], x[members, j]
        divisor = a[:, j, None, j]
        below = a[:, j + 1 :, j]
        below /= np.where(divisor == 0, 1, divisor)
        a[:, j + 1 :, j + 1 : stop] -= below[:, :, None] * a[:, j, None, j + 1 : stop]


lu.body(matrices(lu_factors))
lu.library_work("direct", operations(lambda m, n, _: _eliminated(m, n)))


def _eliminated(m: int, n: int) -> float:
    """The operations of Gaussian elimination (Golub, Van Loan, "Matrix Computations", 3.2)."""
    k = min(m, n)
    return 2 * m * n * k - (m + n) * k**2 + 2 * k**3 / 3


@lu.jvp
def lu_jvp(primals: Sequence[Value], tangents: Sequence[Value]) -> tuple:
    """From P x = L U: with N = L⁻¹ P dx U⁻¹, dL = L lower(N) and dU = upper(N) U.

    The lesser factor of a matrix that is not square is filled up with ones on the diagonal.
    """
    (x,), (t,) = primals, tangents
    both, pivots, order = lu(x)
    lower = _lower_factor(both)
    inner = triangular_solve(lower, taken_rows(t, order), unit_diagonal=True)
    upper = _upper_factor(both)
    inner = triangular_solve(upper, inner, left_side=False, lower=False)
    moved = add(product(lower, lower_part(inner, -1)), product(upper_part(inner), upper))
    return (both, pivots, order), (moved, None, None)


def _lower_factor(both: Value) -> Value:
    m = both.shape[-2]
    lower = lower_part(resized(both, m, m), -1)
    return select(on_diagonal(lower), like(lower, 1), lower)


def _upper_factor(both: Value) -> Value:
    m, n = sizes(both)
    upper = upper_part(resized(both, n, n))
    if m == n or m > n:
        return upper
    row = iota(shape=upper.shape, axis=upper.rank - 2, dtype="int32")
    is_new = bit_and(on_diagonal(upper), ge(row, like(row, m)))
    return select(is_new, like(upper, 1), upper)


lu.batch(ALIGNED)
lu.samples((3, 3))
lu.samples((4, 2))
lu.samples((2, 2, 4))
lu.samples(np.array([[1 + 2j, 3 - 1j], [2.5j, -2 + 1j]]))
lu.samples((2, 0, 3))
lu.samples(
    # the second row comes first: [1, 2] is 0.5 [2, 6] + [0, -1]
    [[1.0, 2.0], [2.0, 6.0]],
    expect=[[[2.0, 6.0], [0.5, -1.0]], [1, 1], [1, 0]],
)


@define
def lu_pivots_to_permutation(pivots: Type, *, size: Size) -> Type:
    """The order of `size` rows after step i has exchanged the rows i and `pivots[i]`.

    `i32[..., k] → i32[..., size]`.
    """
    check_kind(pivots, ["integer"])
    if pivots.rank == 0:
        raise ShapeError("a scalar is no list of pivots", fix="give an array with an axis")
    k = pivots.shape[-1]
    if k != size and (not isinstance(k, int) or not isinstance(size, int) or k > size):
        raise AttributeValueError(
            f"{k} pivots exchange no {size} rows", fix=f"use a size of {k} or more"
        )
    return Type(as_dtype("int32"), (*pivots.shape[:-1], size))


@lu_pivots_to_permutation.reference
def lu_pivots_to_permutation_reference(pivots: np.ndarray, *, size: int) -> np.ndarray:
    lines = pivots.reshape((math.prod(pivots.shape[:-1]), pivots.shape[-1]))
    order = np.tile(np.arange(size, dtype=np.int32), (len(lines), 1))
    members = np.arange(len(lines))
    for i in range(lines.shape[1]):
        other = np.clip(lines[:, i], 0, size - 1)
        order[members, i], order[members, other] = order[members, other], order[members, i]
    return order.reshape((*pivots.shape[:-1], size))


lu_pivots_to_permutation.body(Blocks(orders))
lu_pivots_to_permutation.nondifferentiable("an order of rows is not a number")
lu_pivots_to_permutation.batch(ALIGNED)
lu_pivots_to_permutation.samples(np.array([[2, 2], [0, 1]], np.int32), size=4)
lu_pivots_to_permutation.samples(np.array([1, 2], np.int32), size=3, expect=[1, 2, 0])
lu_pivots_to_permutation.samples(np.array([1, 0, 9], np.int32), size=4, expect=[0, 1, 3, 2])
lu_pivots_to_permutation.samples(np.arange(8)[::-1].astype(np.int64), size=9)


@define
def qr(x: Type, *, full_matrices: bool = False) -> tuple[Type, Type]:
    """x = Q R with orthonormal columns in Q, and R upper triangular.

    `f32[..., m, n] → f32[..., m, k], f32[..., k, n]` with k the lesser of m and n, or k = m with
    `full_matrices`. The derivative needs independent columns (rows, if they are fewer).
    """
    check_matrix(x)
    k = x.shape[-2] if full_matrices else lesser(x)
    return x.with_shape((*x.shape[:-1], k)), x.with_shape((*x.shape[:-2], k, x.shape[-1]))


@qr.reference
def qr_reference(x: np.ndarray, *, full_matrices: bool) -> tuple[np.ndarray, np.ndarray]:
    return lapack(lambda x: tuple(np.linalg.qr(x, "complete" if full_matrices else "reduced")), x)


qr.body(Library())
qr.library_work(
    "direct", operations(lambda m, n, _, full_matrices: 4 * _eliminated(max(m, n), min(m, n)))
)


@qr.jvp
def qr_jvp(primals: Sequence[Value], tangents: Sequence[Value], *, full_matrices: bool) -> tuple:
    (x,), (t,) = primals, tangents
    q, r = qr(x, full_matrices=full_matrices)
    m, n = sizes(x)
    if m == n:
        return (q, r), _push_tall(q, r, t)
    if compare(m, n) is None:
        return (q, r), _push_open(q, r, x, t)
    if m < n:  # x = [x1 x2] and r = [r1 r2] with x1 = q r1 square, and r2 = qᴴ x2
        dq, dr = _push_tall(q, columns(r, 0, m), columns(t, 0, m))
        rest = product(adjoint(dq), columns(x, m, n)) + product(adjoint(q), columns(t, m, n))
        return (q, r), (dq, concat(dr, rest, axis=x.rank - 1))
    thin, square = (columns(q, 0, n), rows(r, 0, n)) if full_matrices else (q, r)
    dq, dr = _push_tall(thin, square, t)
    if full_matrices:
        dq = concat(dq, _push_complement(q, dq, n), axis=x.rank - 1)
        dr = resized(dr, m, n)
    return (q, r), (dq, dr)


def _push_tall(q: Value, r: Value, t: Value) -> tuple[Value, Value]:
    """Tangents of Q and R for no fewer rows than columns.

    With C = Qᴴ dx R⁻¹ and the skew-Hermitian S that has its lower part (and the imaginary part of
    its diagonal): dQ = Q (S - C) + dx R⁻¹ and dR = (C - S) R.
    """
    moved = triangular_solve(r, t, left_side=False, lower=False)
    inner = product(adjoint(q), moved)
    below = lower_part(inner, -1)
    skew = sub(below, adjoint(below))
    if is_complex(q.dtype):
        turning = sub(inner, convert(real(inner), dtype=inner.dtype))
        skew = add(skew, select(on_diagonal(inner), turning, like(inner, 0)))
    rest = sub(inner, skew)
    return sub(moved, product(q, rest)), product(rest, r)


def _push_open(q: Value, r: Value, x: Value, t: Value) -> tuple[Value, Value]:
    """Tangents of Q and R where either size may be the lesser one: R = Qᴴ x in both cases."""
    k = lesser(x.type)
    if q.shape[-1] != k:
        raise GradientError(
            f"qr: which size of {x.type} is the lesser one is open, and so are the columns that "
            "`full_matrices` adds",
            fix="call it with full_matrices=False (mode='reduced'), or fix one of the sizes",
        )
    dq, _ = _push_tall(q, columns(r, 0, k), columns(t, 0, k))
    return dq, upper_part(add(product(adjoint(dq), x), product(adjoint(q), t)))


def _push_complement(q: Value, dq: Value, n: Any) -> Value:
    """The tangent of the columns from n on, that LAPACK fills Q up with (arXiv:2409.13374)."""
    m = q.shape[-2]
    thin, rest = columns(q, 0, n), columns(q, n, m)
    top, bottom = rows(thin, 0, n), rows(thin, n, m)
    shifted = sub(top, identity_like(top))
    z = adjoint(linear_solve(adjoint(shifted), adjoint(bottom)))
    turned = sub(rows(dq, n, m), product(z, rows(dq, 0, n)))
    return sub(product(dq, adjoint(z)), product(add(thin, product(rest, z)), adjoint(turned)))


qr.batch(ALIGNED)
qr.samples((3, 3))
qr.samples((2, 4, 2))
qr.samples((4, 2), full_matrices=True)
qr.samples((2, 4))
qr.samples(np.array([[1 + 2j, 3 - 1j], [0.5j, -2 + 1j], [1, 1]]))
qr.samples(np.array([[1 + 2j, 3 - 1j], [0.5j, -2 + 1j], [1, 1]]), full_matrices=True)
qr.samples((0, 3))
qr.samples(
    [[3.0, 5.0], [4.0, 0.0]], expect=[[[-0.6, -0.8], [-0.8, 0.6]], [[-5.0, -3.0], [0, -4.0]]]
)


# -- determinants ----------------------------------------------------------------------------------


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
def slogdet_jvp(primals: Sequence[Value], tangents: Sequence[Value]) -> tuple:
    """The tangent of log det is the trace of x⁻¹ dx; its imaginary part turns the sign."""
    (x,), (t,) = primals, tangents
    sign, size = slogdet(x)
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
