"""Decompositions: cholesky, qr, svd, eig, eigh and their values alone.

Derivatives are those of JAX. Eigenvectors and singular vectors have one only where the values
differ; elsewhere it is infinite or NaN. The values alone always have one.
"""

from __future__ import annotations

from typing import Any, NamedTuple

from ...trace.apply import apply
from ...trace.arguments import choice, flag
from ...trace.array import Array
from ..arithmetic import abs, astype, sign
from ..elementwise import Tensor
from ..indexing import take_along_axis
from ..manipulation import expand_dims, flip
from ..sorting import argsort
from .matrices import adjoint, check_matrix, check_square, inexact, symmetrized


class EighResult(NamedTuple):
    """The result of `eigh`."""

    eigenvalues: Any  # f[..., n], ascending
    eigenvectors: Any  # f[..., n, n], as columns


class EigResult(NamedTuple):
    """The result of `eig`."""

    eigenvalues: Any  # c[..., n]
    eigenvectors: Any  # c[..., n, n], as columns


class QRResult(NamedTuple):
    """The result of `qr`."""

    Q: Any  # f[..., m, k]
    R: Any  # f[..., k, n], upper triangular


class SVDResult(NamedTuple):
    """The result of `svd`."""

    U: Any  # f[..., m, k]
    S: Any  # f[..., k], descending
    Vh: Any  # f[..., k, n]


def cholesky(a: Tensor, *, upper: bool = False, symmetrize_input: bool = True) -> Array:
    """The Cholesky factor L with L Lᴴ = a, for Hermitian positive definite a.

    `upper` gives Lᴴ instead. A matrix that is not positive definite gives NaN. Without
    `symmetrize_input` only the lower triangle of a is read.

    >>> cholesky([[4.0, 2.0], [2.0, 10.0]]).tolist()
    [[2.0, 0.0], [1.0, 3.0]]
    """
    (a,) = inexact(a)
    check_square("cholesky", a)
    is_symmetrized = flag("cholesky: symmetrize_input", symmetrize_input)
    lower = apply("cholesky", symmetrized(a) if is_symmetrized else a)
    return adjoint(lower) if flag("cholesky: upper", upper) else lower


def qr(a: Tensor, mode: str = "reduced") -> Any:
    """The QR decomposition a = Q R: orthonormal columns in Q, R upper triangular.

    The `mode` "reduced" gives min(rows, columns) columns in Q, "complete" a square Q, "r" R alone.

    >>> q, r = qr([[3.0, 5.0], [4.0, 0.0]])
    >>> (q @ r).round(5).tolist()
    [[3.0, 5.0], [4.0, 0.0]]
    """
    choice("qr: mode", mode, ("reduced", "complete", "full", "r"))
    (a,) = inexact(a)
    check_matrix("qr", a)
    q, r = apply("qr", a, full_matrices=mode == "complete")
    return r if mode == "r" else QRResult(q, r)


def svd(
    a: Tensor, full_matrices: bool = True, compute_uv: bool = True, hermitian: bool = False
) -> Any:
    """The singular value decomposition a = U diag(S) Vh, with S descending.

    Without `compute_uv` it is S alone. With `full_matrices` U and Vh are square; then they have a
    derivative only if a is square. `hermitian` takes a as Hermitian and uses its eigenvectors.

    >>> svd([[0.0, 3.0], [-4.0, 0.0]], compute_uv=False).tolist()
    [4.0, 3.0]
    """
    (a,) = inexact(a)
    check_matrix("svd", a)
    compute_uv = flag("svd: compute_uv", compute_uv)
    if flag("svd: hermitian", hermitian):
        return _hermitian_svd(a, compute_uv)
    if not compute_uv:
        return apply("svd", a, compute_uv=False)[0]
    return SVDResult(*apply("svd", a, full_matrices=flag("svd: full_matrices", full_matrices)))


def _hermitian_svd(a: Any, compute_uv: bool) -> Any:
    check_square("svd", a)
    if not compute_uv:
        values = abs(eigvalsh(a))
        return flip(take_along_axis(values, argsort(values, -1), -1), -1)
    values, vectors = eigh(a)
    order = flip(argsort(abs(values), -1), -1)
    values = take_along_axis(values, order, -1)
    u = take_along_axis(vectors, expand_dims(order, -2), -1)
    signs = expand_dims(astype(sign(values), u.dtype), -2)
    return SVDResult(u, abs(values), adjoint(u * signs))


def svdvals(x: Tensor, /) -> Array:
    """The singular values, descending."""
    return svd(x, compute_uv=False)


def eigh(a: Tensor, UPLO: str | None = None, symmetrize_input: bool = True) -> Any:
    """The eigenvalues, ascending, and orthonormal eigenvectors of a Hermitian matrix.

    The eigenvectors are columns. Without `symmetrize_input` only the triangle `UPLO` is read, "L"
    or "U".

    >>> eigh([[2.0, 1.0], [1.0, 2.0]]).eigenvalues.round(5).tolist()
    [1.0, 3.0]
    """
    return EighResult(*apply("eigh", _lower(a, UPLO, symmetrize_input, "eigh")))


def eigvalsh(a: Tensor, UPLO: str | None = "L", *, symmetrize_input: bool = True) -> Array:
    """The eigenvalues of a Hermitian matrix, ascending.

    `UPLO` and `symmetrize_input` are as for `eigh`.
    """
    a = _lower(a, UPLO, symmetrize_input, "eigvalsh")
    return apply("eigh", a, compute_vectors=False)[0]


def _lower(a: Any, part: str | None, symmetrize: bool, name: str) -> Array:
    """The matrix whose lower part counts."""
    choice(f"{name}: part of a matrix", part, (None, "L", "U"))
    (a,) = inexact(a)
    check_square(name, a)
    if symmetrize:
        return symmetrized(a)
    return adjoint(a) if part == "U" else a


def eig(a: Tensor) -> Any:
    """The eigenvalues and eigenvectors of a square matrix, both complex.

    The values are in no order. The eigenvectors are columns of norm 1 whose largest element is
    real; derivatives keep this normalization.

    >>> eig([[0.0, -1.0], [1.0, 0.0]]).eigenvalues.tolist()
    [1j, -1j]
    """
    (a,) = inexact(a)
    check_square("eig", a)
    return EigResult(*apply("eig", a))


def eigvals(a: Tensor) -> Array:
    """The eigenvalues of a square matrix, complex and in no order."""
    (a,) = inexact(a)
    check_square("eigvals", a)
    return apply("eig", a, compute_vectors=False)[0]
