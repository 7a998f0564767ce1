"""Systems of equations and inverses: linear_solve, pinv."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from ...body import Library
from ...errors import DtypeError, ShapeError
from ...graph import Value
from ...op import ALIGNED, define, is_linear
from ...rules import align
from ...types import Type
from ..arithmetic import add, neg, sub
from .matrices import (
    ITERATED,
    adjoint,
    check_matrix,
    lapack,
    operations,
    product,
    real_dtype,
    solve_with_shared,
    transposed,
)
from .small import solved, systems
from .triangular import check_system


@define
def linear_solve(a: Type, b: Type, *, transpose_a: bool = False) -> Type:
    """The x of a x = b for square a; of aᵀ x = b with `transpose_a`.

    `f32[..., n, n], f32[..., n, k] → f32[..., n, k]`. LAPACK solves it by LU with exchange of
    rows; a singular a gives NaN.
    """
    return check_system(a, b)


@linear_solve.reference
def linear_solve_reference(a: np.ndarray, b: np.ndarray, *, transpose_a: bool) -> np.ndarray:
    a = a.swapaxes(-1, -2) if transpose_a else a
    return lapack(lambda a, b: (np.linalg.solve(a, b),), a, b)[0]


def _solve_small(a: np.ndarray, b: np.ndarray, *, transpose_a: bool) -> np.ndarray:
    return solved(a.T if transpose_a else a, b)


linear_solve.body(systems(_solve_small, lambda **attrs: True))
linear_solve.library_work(
    "direct", operations(lambda m, n, columns, **attrs: 2 * n**3 / 3 + 2 * n**2 * columns)
)


@linear_solve.jvp
def linear_solve_jvp(
    primals: Sequence[Value], tangents: Sequence[Value | None], *, transpose_a: bool
) -> tuple[Value, Value]:
    """From a x = b: a dx = db - da x."""
    (a, b), (da, db) = primals, tangents
    x = linear_solve(a, b, transpose_a=transpose_a)
    if da is None:
        rest = db
    else:
        moved = product(transposed(da) if transpose_a else da, x)
        rest = neg(moved) if db is None else sub(db, moved)
    return x, linear_solve(a, rest, transpose_a=transpose_a)


@linear_solve.transpose
def linear_solve_transpose(ct: Value, a: Value, b: Any, *, transpose_a: bool) -> list[Value | None]:
    if not is_linear(b):
        return [None, None]
    return [None, linear_solve(a, ct, transpose_a=not transpose_a)]


@linear_solve.batch
def linear_solve_batch(
    args: Sequence[Value], batched: Sequence[bool], *, transpose_a: bool
) -> Value:
    a, b = args
    if batched[0] or a.rank > 2:
        return linear_solve(*align(args, batched), transpose_a=transpose_a)
    return solve_with_shared(lambda a, b: linear_solve(a, b, transpose_a=transpose_a), a, b)


_SQUARE = np.array([[2.0, -1.0, 0.5], [1.0, 3.0, -1.0], [0.0, 1.5, 2.0]])
_COMPLEX = np.array([[1 + 2j, 3 - 1j], [0.5j, -2 + 1j]])
linear_solve.samples(_SQUARE, (3, 2))
linear_solve.samples(_SQUARE, (3, 1), transpose_a=True)
linear_solve.samples(np.stack([_SQUARE, _SQUARE.T]), (2, 3, 2))
linear_solve.samples(_COMPLEX, _COMPLEX + 1, transpose_a=True)
linear_solve.samples(np.zeros((0, 0), np.float32), np.zeros((0, 2), np.float32))
linear_solve.samples([[0.0, 2.0], [3.0, 1.0]], [[4.0], [5.0]], expect=[[1.0], [2.0]])
linear_solve.samples(
    [[[1.0, 2.0], [2.0, 4.0]], [[2.0, 0.0], [0.0, 2.0]]],
    np.ones((2, 2, 1)),
    expect=[[[np.nan], [np.nan]], [[0.5], [0.5]]],
)


@define
def pinv(x: Type, cutoff: Type) -> Type:
    """The pseudo-inverse of Moore and Penrose.

    The least-squares solution of x y = b is pinv(x) b.
    `f32[..., m, n], f32[...] → f32[..., n, m]`. Singular values that are not greater than
    `cutoff` times the greatest count as zero; `cutoff` has no derivative. The derivative holds
    where the rank does not change.
    """
    check_matrix(x)
    if cutoff.shape != x.shape[:-2]:
        raise ShapeError(
            f"`cutoff` is {cutoff} for matrices {x}",
            fix=f"give one number for each: {x.shape[:-2]}",
        )
    if cutoff.dtype != real_dtype(x):
        raise DtypeError(
            f"`cutoff` is {cutoff}, absolute values of x are {real_dtype(x).name}",
            fix=f"convert it: cutoff.astype({real_dtype(x).name!r})",
        )
    return x.with_shape((*x.shape[:-2], x.shape[-1], x.shape[-2]))


@pinv.reference
def pinv_reference(x: np.ndarray, cutoff: np.ndarray) -> np.ndarray:
    return lapack(lambda x, cutoff: (np.linalg.pinv(x, cutoff),), x, cutoff)[0]


pinv.body(Library())
pinv.library_work("iterative", operations(lambda m, n, _: 24 * m * n * min(m, n), ITERATED))


def _pinv_tangent(t: Value, p: Value, x: Value, cutoff: Value) -> Value:
    """-p dx p + p pᴴ dxᴴ (1 - x p) + (1 - p x) dxᴴ pᴴ p, by Golub and Pereyra (1973)."""
    back = adjoint(t)
    m, n = x.shape[-2:]
    if isinstance(m, int) and isinstance(n, int) and m < n:
        left, right = product(p, product(adjoint(p), back)), product(back, product(adjoint(p), p))
        moved = product(p, product(t, p))
        left = sub(left, product(left, product(x, p)))
        right = sub(right, product(p, product(x, right)))
    else:
        left, right = product(product(p, adjoint(p)), back), product(product(back, adjoint(p)), p)
        moved = product(product(p, t), p)
        left = sub(left, product(product(left, x), p))
        right = sub(right, product(product(p, x), right))
    return sub(add(left, right), moved)


pinv.jvp([_pinv_tangent, None])
pinv.batch(ALIGNED)


_CUTOFF = np.float64(1e-9)
pinv.samples((4, 2), _CUTOFF)
pinv.samples((2, 2, 3), np.full(2, 1e-9))
pinv.samples(_COMPLEX, _CUTOFF)
pinv.samples((2, 0, 3), np.full(2, 1e-9))
pinv.samples([[3.0, 0.0], [4.0, 0.0]], np.float64(0.1), expect=[[0.12, 0.16], [0.0, 0.0]])
