"""Spectra: eigh, eig, svd."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from ...body import Library
from ...errors import GradientError
from ...graph import Value
from ...op import ALIGNED, define
from ...types import Type, is_complex
from ..arithmetic import abs, add, div, mul, neg, sub
from ..compare import eq, select
from ..constant import iota, like
from ..convert import COMPLEX_OF, complex, convert, imag, narrowed, real
from ..reduce import argmax, reduce_sum
from .matrices import (
    ITERATED,
    adjoint,
    as_columns,
    as_rows,
    check_matrix,
    conjugated,
    diagonal_of,
    hermitian,
    lapack,
    lesser,
    on_diagonal,
    operations,
    product,
    real_dtype,
    real_part,
)
from .solve import linear_solve


def _inverse_gaps(s: Value, like_this: Value) -> Value:
    """1 / (s_j - s_i) at row i and column j, zeros on the diagonal."""
    gaps = sub(as_columns(s, like_this), as_rows(s, like_this))
    diagonal = on_diagonal(gaps)
    inverse = div(like(gaps, 1), select(diagonal, like(gaps, 1), gaps))
    return select(diagonal, like(gaps, 0), inverse)


# -- eigh -----------------------------------------------------------------------------------------


@define
def eigh(x: Type, *, compute_vectors: bool = True) -> tuple[Type, ...]:
    """The eigenvalues and the eigenvectors of a Hermitian matrix.

    The values rise; the vectors are orthonormal columns.
    `f32[..., n, n] → f32[..., n], f32[..., n, n]`. Only the lower part of x is read. The
    derivative of the vectors needs eigenvalues that differ; it does not turn their phase.
    """
    check_matrix(x, square=True)
    values = Type(real_dtype(x), x.shape[:-1])
    return (values, x) if compute_vectors else (values,)


eigh.rules.multiple = True


@eigh.reference
def eigh_reference(x: np.ndarray, *, compute_vectors: bool) -> tuple[np.ndarray, ...]:
    if compute_vectors:
        return lapack(lambda x: tuple(np.linalg.eigh(x)), x)
    return lapack(lambda x: (np.linalg.eigvalsh(x),), x)


eigh.body(Library())
eigh.library_work(
    "iterative",
    operations(lambda m, n, _, compute_vectors: (9 if compute_vectors else 3) * n**3, ITERATED),
)


@eigh.jvp
def eigh_jvp(
    primals: Sequence[Value], tangents: Sequence[Value], *, compute_vectors: bool
) -> tuple:
    """With C = Vᴴ dx V: dw is its diagonal and dV = V (C / (w_j - w_i)), without its diagonal."""
    (x,), (t,) = primals, tangents
    values, vectors = eigh(x)
    inner = product(product(adjoint(vectors), hermitian(t)), vectors)
    moved = diagonal_of(real_part(inner))
    if not compute_vectors:
        return (values,), (moved,)
    turned = mul(_inverse_gaps(narrowed(values, x.dtype), inner), inner)
    return (values, vectors), (moved, product(vectors, turned))


eigh.batch(ALIGNED)


_SYMMETRIC = np.array([[4.0, 1.0, -1.0], [1.0, 3.0, 0.5], [-1.0, 0.5, -2.0]])
_HERMITIAN = np.array([[4, 1 - 2j], [1 + 2j, 3]])
eigh.samples(_SYMMETRIC)
eigh.samples(np.stack([_SYMMETRIC, _SYMMETRIC @ _SYMMETRIC]), compute_vectors=False)
eigh.samples(_HERMITIAN, compute_vectors=False)
eigh.samples(_HERMITIAN.astype(np.complex64))  # LAPACK chooses phases that move with x
eigh.samples((2, 0, 0))
eigh.samples([[1.0, 7.0], [2.0, 1.0]], compute_vectors=False, expect=[[-1.0, 3.0]])


# -- eig ------------------------------------------------------------------------------------------


@define
def eig(x: Type, *, compute_vectors: bool = True) -> tuple[Type, ...]:
    """The eigenvalues and the eigenvectors of a square matrix, as complex numbers.

    `f32[..., n, n] → c64[..., n], c64[..., n, n]`. The values are in no order. The vectors are
    columns of length 1, their greatest elements real. The derivative needs eigenvalues that
    differ.
    """
    check_matrix(x, square=True)
    vectors = x.with_dtype(COMPLEX_OF.get(x.dtype.name, x.dtype))
    values = vectors.with_shape(x.shape[:-1])
    return (values, vectors) if compute_vectors else (values,)


eig.rules.multiple = True


@eig.reference
def eig_reference(x: np.ndarray, *, compute_vectors: bool) -> tuple[np.ndarray, ...]:
    if compute_vectors:
        results = lapack(lambda x: tuple(np.linalg.eig(x)), x)
    else:
        results = lapack(lambda x: (np.linalg.eigvals(x),), x)
    # NumPy gives real numbers where none is complex
    return tuple(np.asarray(r).astype(np.result_type(x, np.complex64)) for r in results)


eig.body(Library())
eig.library_work(
    "iterative",
    operations(lambda m, n, _, compute_vectors: (25 if compute_vectors else 10) * n**3, ITERATED),
)


@eig.jvp
def eig_jvp(primals: Sequence[Value], tangents: Sequence[Value], *, compute_vectors: bool) -> tuple:
    """With C = V⁻¹ dx V: dw is its diagonal and dV = V (C / (w_j - w_i)), kept to unit length."""
    (x,), (t,) = primals, tangents
    values, vectors = eig(x)
    if x.shape[-1] == 0:
        return ((values, vectors), (None, None)) if compute_vectors else ((values,), (None,))
    inner = product(linear_solve(vectors, narrowed(t, vectors.dtype)), vectors)
    moved = diagonal_of(inner)
    if not compute_vectors:
        return (values,), (moved,)
    turned = product(vectors, mul(_inverse_gaps(values, inner), inner))
    return (values, vectors), (moved, add(turned, mul(vectors, _scale(vectors, turned))))


def _scale(v: Value, u: Value) -> Value:
    """The factors c with which u + c v keeps to length 1 and a real greatest element."""
    axes = (v.rank - 2,)
    lengthened = real(reduce_sum(mul(conjugated(v), u), axes=axes))
    row = iota(shape=v.shape, axis=axes[0], dtype="int32")
    greatest = eq(row, as_columns(argmax(abs(v), axis=axes[0]), v))
    u, v = (reduce_sum(select(greatest, x, like(x, 0)), axes=axes) for x in (u, v))
    return as_columns(complex(neg(lengthened), neg(div(imag(u), real(v)))), row)


eig.batch(ALIGNED)


_ROTATING = np.array([[2.0, -1.0, 0.5], [1.5, 3.0, -1.0], [0.2, 1.5, -1.0]])
eig.samples(_ROTATING)
eig.samples(np.stack([_ROTATING, _SYMMETRIC]))
eig.samples(np.stack([_ROTATING, _SYMMETRIC]), compute_vectors=False)
eig.samples(np.array([[1 + 2j, 3 - 1j], [0.5j, -2 + 1j]]))
eig.samples((2, 0, 0))
eig.samples([[0.0, -1.0], [1.0, 0.0]], compute_vectors=False, expect=[[1j, -1j]])


# -- svd ------------------------------------------------------------------------------------------


@define
def svd(x: Type, *, full_matrices: bool = False, compute_uv: bool = True) -> tuple[Type, ...]:
    """x = U diag(s) Vᴴ: gives U, the singular values s, falling, and Vᴴ; or s alone.

    `f32[..., m, n] → f32[..., m, k], f32[..., k], f32[..., k, n]` with k the lesser of m and n;
    with `full_matrices` U and Vᴴ are square. The derivative of U and Vᴴ needs singular values
    that differ (and are not 0 if m and n differ); it does not turn their phase.
    """
    check_matrix(x)
    *batch, m, n = x.shape
    k = lesser(x)
    values = Type(real_dtype(x), (*batch, k))
    if not compute_uv:
        return (values,)
    left, right = (m, n) if full_matrices else (k, k)
    return x.with_shape((*batch, m, left)), values, x.with_shape((*batch, right, n))


svd.rules.multiple = True


@svd.reference
def svd_reference(
    x: np.ndarray, *, full_matrices: bool, compute_uv: bool
) -> tuple[np.ndarray, ...]:
    if compute_uv:
        return lapack(lambda x: tuple(np.linalg.svd(x, full_matrices)), x)
    return lapack(lambda x: (np.linalg.svd(x, compute_uv=False),), x)


svd.body(Library())
svd.library_work(
    "iterative",
    operations(
        lambda m, n, _, full_matrices, compute_uv: (
            (22 if compute_uv else 4) * (max(m, n) if full_matrices else min(m, n)) * m * n
        ),
        ITERATED,
    ),
)


@svd.jvp
def svd_jvp(
    primals: Sequence[Value],
    tangents: Sequence[Value],
    *,
    full_matrices: bool,
    compute_uv: bool,
) -> tuple:
    """With C = Uᴴ dx V the tangent of s is the diagonal of C; U and V follow as eigenvectors."""
    (x,), (t,) = primals, tangents
    m, n = x.shape[-2:]
    if compute_uv and full_matrices and m != n:
        raise GradientError(
            f"svd: the vectors that `full_matrices` adds to {x.type} are not unique",
            fix="call it with full_matrices=False",
        )
    u, s, vh = svd(x)
    inner = product(product(adjoint(u), t), adjoint(vh))
    moved = diagonal_of(real_part(inner))
    if not compute_uv:
        return (s,), (moved,)
    du, dvh = _push_vectors(x, t, (u, s, vh), inner)
    return (u, s, vh), (du, moved, dvh)


def _push_vectors(
    x: Value, t: Value, factors: tuple[Value, Value, Value], inner: Value
) -> tuple[Value, Value]:
    u, s, vh = factors
    v = adjoint(vh)
    s = narrowed(s, x.dtype)
    columns, rows = as_columns(s, inner), as_rows(s, inner)
    diagonal = on_diagonal(inner)
    gaps = select(diagonal, like(inner, 1), mul(add(columns, rows), sub(columns, rows)))
    factor = select(diagonal, like(inner, 0), div(like(inner, 1), gaps))
    left, right = mul(columns, inner), mul(rows, inner)
    turn_u = mul(factor, add(left, adjoint(left)))
    turn_v = mul(factor, add(right, adjoint(right)))
    if is_complex(x.dtype):
        phase = sub(inner, convert(real(inner), dtype=inner.dtype))
        is_kept = eq(columns, like(columns, 0))
        safe = select(is_kept, like(columns, 1), columns)
        phase = select(is_kept, like(phase, 0), div(phase, safe))
        turn_u = add(turn_u, select(diagonal, phase, like(phase, 0)))
    du, dv = product(u, turn_u), product(v, turn_v)
    if u.shape[-2] != u.shape[-1]:  # of two open sizes either may be the lesser
        du = add(du, _outside(u, product(t, v), s))
    if v.shape[-2] != v.shape[-1]:
        dv = add(dv, _outside(v, product(adjoint(t), u), s))
    return du, adjoint(dv)


def _outside(u: Value, moved: Value, s: Value) -> Value:
    """The part of moved columns at right angles to those of u, over singular values."""
    rest = sub(moved, product(u, product(adjoint(u), moved)))
    return div(rest, as_columns(s, rest))


svd.batch(ALIGNED)


_TALL = np.array([[3.0, 1.0], [-1.0, 2.0], [0.5, 0.5]])
svd.samples(_TALL)
svd.samples(_TALL.T)
svd.samples(np.stack([_ROTATING, _SYMMETRIC]), full_matrices=True)
svd.samples(_TALL, compute_uv=False)
svd.samples((_TALL + 1j * _TALL[::-1]), compute_uv=False)
svd.samples((_TALL + 1j * _TALL[::-1]).astype(np.complex64))
svd.samples(_TALL.astype(np.float32), full_matrices=True)
svd.samples(np.zeros((2, 0, 3), np.float32), full_matrices=True)
svd.samples((2, 0, 3))
svd.samples([[0.0, 3.0], [-4.0, 0.0]], compute_uv=False, expect=[[4.0, 3.0]])
