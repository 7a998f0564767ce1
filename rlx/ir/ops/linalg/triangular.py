"""Triangular matrices: triangular_solve, and cholesky, which makes one."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from ...errors import ShapeError
from ...graph import Value
from ...op import ALIGNED, define, is_linear
from ...rules import align
from ...types import Type
from ..arithmetic import div, neg
from ..compare import select
from ..constant import like
from ..families import check_dtypes
from .matrices import (
    adjoint,
    check_matrix,
    conjugated,
    hermitian,
    lapack,
    lower_part,
    on_diagonal,
    operations,
    product,
    solve_with_shared,
    transposed,
    upper_part,
)
from .small import cholesky_factor, matrices, substituted, systems

BLOCK = 64  # rows that LAPACK solves at once; matrix products do the rest


def check_system(a: Type, b: Type, *, axis: int = -2) -> Type:
    """Give the type of x in a x = b, or raise unless there is one.

    `axis` is that of b which meets the columns of a.
    """
    check_matrix(a, square=True)
    check_matrix(b)
    check_dtypes(a, b, "one: b")
    if a.shape[:-2] != b.shape[:-2]:
        raise ShapeError(
            f"the batches differ, {a} and {b}", fix="broadcast the axes before the last two"
        )
    if a.shape[-1] != b.shape[axis]:
        side = "rows" if axis == -2 else "columns"
        raise ShapeError(
            f"{a} has {a.shape[-1]} columns, {b} has {b.shape[axis]} {side}",
            fix=f"give b {a.shape[-1]} {side}",
        )
    return b


@define
def triangular_solve(
    a: Type,
    b: Type,
    *,
    left_side: bool = True,
    lower: bool = True,
    transpose_a: bool = False,
    conjugate_a: bool = False,
    unit_diagonal: bool = False,
) -> Type:
    """The x of op(a) x = b, or of x op(a) = b, for triangular a.

    `f32[..., n, n], f32[..., n, k] → f32[..., n, k]`. Only the lower part of a is read, or the
    upper one; with `unit_diagonal` its diagonal counts as ones. op(a) is a, transposed and
    conjugated as told. A zero on the diagonal gives infinities and NaN.
    """
    return check_system(a, b, axis=-2 if left_side else -1)


@triangular_solve.reference
def triangular_solve_reference(
    a: np.ndarray,
    b: np.ndarray,
    *,
    left_side: bool,
    lower: bool,
    transpose_a: bool,
    conjugate_a: bool,
    unit_diagonal: bool,
) -> np.ndarray:
    a = a.conj() if conjugate_a else a
    if transpose_a == left_side:
        a, lower = a.swapaxes(-1, -2), not lower
    b = b if left_side else b.swapaxes(-1, -2)
    if lower:  # turned around it is an upper one
        a, b = a[..., ::-1, ::-1], b[..., ::-1, :]
    x = _solved_from_below(a, b, unit_diagonal)
    x = x[..., ::-1, :] if lower else x
    return x if left_side else x.swapaxes(-1, -2)


def _solved_from_below(a: np.ndarray, b: np.ndarray, unit_diagonal: bool) -> np.ndarray:
    """Back substitution in an upper triangular system, a block of rows at a time."""
    x = np.empty_like(b)
    for stop in range(b.shape[-2], 0, -BLOCK):
        start = max(stop - BLOCK, 0)
        known = a[..., start:stop, stop:] @ x[..., stop:, :]
        square = np.triu(a[..., start:stop, start:stop])
        if unit_diagonal:
            places = np.arange(stop - start)
            square[..., places, places] = 1
        x[..., start:stop, :] = _solved_block(square, b[..., start:stop, :] - known)
    return x


def _solved_block(a: np.ndarray, b: np.ndarray) -> np.ndarray:
    try:
        # below the diagonal are zeros, so LAPACK exchanges no rows: what it does is substitution
        return np.linalg.solve(a, b)
    except np.linalg.LinAlgError:  # a zero on a diagonal
        x = np.empty_like(b)
        for i in reversed(range(b.shape[-2])):
            known = a[..., i : i + 1, i + 1 :] @ x[..., i + 1 :, :]
            x[..., i : i + 1, :] = (b[..., i : i + 1, :] - known) / a[..., i : i + 1, i : i + 1]
        return x


def _solve_small(
    a: np.ndarray, b: np.ndarray, *, left_side: bool, lower: bool, transpose_a: bool, **attrs: bool
) -> np.ndarray:
    if attrs["unit_diagonal"]:
        a = a.copy()
        np.fill_diagonal(a, 1)
    if transpose_a == left_side:
        a, lower = a.T, not lower
    b = b if left_side else b.T
    x = substituted(a[::-1, ::-1], b[::-1])[::-1] if lower else substituted(a, b)
    return x if left_side else x.T


triangular_solve.body(systems(_solve_small, lambda left_side, **attrs: left_side))
triangular_solve.library_work("direct", operations(lambda m, n, columns, **attrs: n**2 * columns))


@triangular_solve.jvp
def triangular_solve_jvp(
    primals: Sequence[Value], tangents: Sequence[Value | None], **attrs: Any
) -> tuple[Value, Value]:
    """From op(a) x = b: op(a) dx = db - op(da) x."""
    (a, b), (da, db) = primals, tangents
    x = triangular_solve(a, b, **attrs)
    parts = [] if db is None else [db]
    if da is not None:
        moved = _read_part(da, attrs)
        moved = product(moved, x) if attrs["left_side"] else product(x, moved)
        parts.append(neg(moved))
    rest = parts[0] if len(parts) == 1 else parts[0] + parts[1]
    return x, triangular_solve(a, rest, **attrs)


def _read_part(da: Value, attrs: dict[str, bool]) -> Value:
    """How op(a) moves with a: what is not read of a does not count."""
    k = 1 if attrs["unit_diagonal"] else 0
    da = lower_part(da, -k) if attrs["lower"] else upper_part(da, k)
    da = transposed(da) if attrs["transpose_a"] else da
    return conjugated(da) if attrs["conjugate_a"] else da


@triangular_solve.transpose
def triangular_solve_transpose(
    ct: Value, a: Value, b: Any, *, transpose_a: bool, **attrs: Any
) -> list[Value | None]:
    if not is_linear(b):
        return [None, None]
    return [None, triangular_solve(a, ct, transpose_a=not transpose_a, **attrs)]


@triangular_solve.batch
def triangular_solve_batch(args: Sequence[Value], batched: Sequence[bool], **attrs: Any) -> Value:
    a, b = args
    if batched[0] or a.rank > 2:
        return triangular_solve(*align(args, batched), **attrs)
    if attrs["left_side"]:
        return solve_with_shared(lambda a, b: triangular_solve(a, b, **attrs), a, b)
    turned = {**attrs, "left_side": True, "transpose_a": not attrs["transpose_a"]}
    x = solve_with_shared(lambda a, b: triangular_solve(a, b, **turned), a, transposed(b))
    return transposed(x)


_LOWER = np.array([[2.0, 9.0, 9.0], [1.0, 4.0, 9.0], [-1.0, 2.0, 0.5]])
_COMPLEX = np.array([[1 + 2j, 3 - 1j], [0.5j, -2 + 1j]])
triangular_solve.samples(_LOWER, (3, 2))
triangular_solve.samples(_LOWER, (2, 3), left_side=False, transpose_a=True)
triangular_solve.samples(_LOWER, (3, 2), lower=False, transpose_a=True, unit_diagonal=True)
triangular_solve.samples(np.stack([_LOWER, _LOWER.T]), (2, 3, 1))
triangular_solve.samples(_COMPLEX, _COMPLEX + 1, conjugate_a=True)
triangular_solve.samples(_COMPLEX, _COMPLEX, left_side=False, transpose_a=True, conjugate_a=True)
triangular_solve.samples(np.zeros((0, 0), np.float32), np.zeros((0, 2), np.float32))
triangular_solve.samples(
    [[2.0, 9.0], [1.0, 4.0]],
    [[2.0], [9.0]],
    expect=[[1.0], [2.0]],  # 2 x = 2, x + 4 y = 9
)
triangular_solve.samples(
    [[2.0, 1.0], [9.0, 4.0]], [[4.0, 8.0]], left_side=False, lower=False, expect=[[2.0, 1.5]]
)


@define
def cholesky(x: Type) -> Type:
    """The lower triangular L with L Lᴴ = x, for Hermitian positive definite x.

    `f32[..., n, n] → f32[..., n, n]`. Only the lower part of x is read. Where x is not positive
    definite the lower part of L is NaN.
    """
    check_matrix(x, square=True)
    return x


cholesky.reference(lambda x: np.tril(lapack(lambda x: (np.linalg.cholesky(x),), x)[0]))
cholesky.body(matrices(lambda x: [cholesky_factor(x)]))
cholesky.library_work("direct", operations(lambda m, n, _: n**3 / 3))


def _cholesky_tangent(t: Value, factor: Value, x: Value) -> Value:
    """L φ(L⁻¹ dx L⁻ᴴ), φ taking the lower part and half of the diagonal (arXiv:1602.07527)."""
    half_way = triangular_solve(factor, hermitian(t))
    inner = adjoint(triangular_solve(factor, adjoint(half_way)))
    weights = select(on_diagonal(inner), like(inner, 2), like(inner, 1))
    return product(factor, lower_part(div(inner, weights)))


cholesky.jvp([_cholesky_tangent])
cholesky.batch(ALIGNED)


_POSITIVE = np.array([[4.0, 1.0, -1.0], [1.0, 3.0, 0.5], [-1.0, 0.5, 2.0]])
cholesky.samples(_POSITIVE)
cholesky.samples(np.stack([_POSITIVE, _POSITIVE @ _POSITIVE]))
cholesky.samples(np.array([[4, 1 - 2j], [1 + 2j, 3]]))
cholesky.samples((2, 0, 0))
cholesky.samples([[4.0, 7.0], [2.0, 10.0]], expect=[[2.0, 0.0], [1.0, 3.0]])
cholesky.samples(np.array([[1, 0], [2, 1]], np.float32), expect=[[np.nan, 0.0], [np.nan, np.nan]])
