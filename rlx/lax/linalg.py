"""The functions of `jax.lax.linalg`: close to the ops; nothing is promoted.

Read `rlx.numpy.linalg` for the functions under NumPy's names.
"""

from __future__ import annotations

from typing import Any

from .. import numpy as rnp
from ..ir.lazy import listed
from ..numpy.linalg.matrices import adjoint, symmetrized
from ..trace.apply import apply, as_tensor
from ..trace.arguments import flag
from ..trace.array import Array
from ..trace.array_arguments import scalar, with_axes
from ..trace.axes import integer
from ..trace.scan import scan
from .operands import Tensor

__dir__ = listed(__name__)


def cholesky(x: Tensor, *, symmetrize_input: bool = True) -> Array:
    """The Cholesky factor L with L Lᴴ = x, for Hermitian positive definite x.

    Without `symmetrize_input` only the lower triangle is read.
    """
    return rnp.linalg.cholesky(x, symmetrize_input=symmetrize_input)


def cholesky_update(r_matrix: Tensor, w_vector: Tensor) -> Array:
    """The upper Cholesky factor of Rᵀ R + w wᵀ: a rank-1 update of the factor R.

    `r_matrix` is R, f[n, n], and `w_vector` is w, f[n].
    """
    r, w = as_tensor(r_matrix), as_tensor(w_vector)
    product = rnp.matrix_transpose(r) @ r + w[..., :, None] * w[..., None, :]
    return rnp.linalg.cholesky(product, upper=True)


def eig(
    x: Tensor,
    *,
    compute_left_eigenvectors: bool = True,
    compute_right_eigenvectors: bool = True,
    enable_eigvec_derivs: bool = False,
) -> list[Array]:
    """The eigenvalues, and the left and right eigenvectors that are asked for.

    That is by `compute_left_eigenvectors` and `compute_right_eigenvectors`. The eigenvectors have
    norm 1. `enable_eigvec_derivs` has no effect: they always have derivatives.
    """
    values, right = apply("eig", as_tensor(x))
    found = [values]
    if flag("eig: compute_left_eigenvectors", compute_left_eigenvectors):
        left = adjoint(rnp.linalg.inv(right))
        found.append(left / rnp.linalg.norm(left, axis=-2, keepdims=True))
    is_wanted = flag("eig: compute_right_eigenvectors", compute_right_eigenvectors)
    return [*found, right] if is_wanted else found


def eigh(
    x: Tensor, *, lower: bool = True, symmetrize_input: bool = True, sort_eigenvalues: bool = True
) -> tuple[Array, Array]:
    """The eigenvectors and the ascending eigenvalues of a Hermitian matrix.

    Without `symmetrize_input` only the `lower` or the upper triangle is read. `sort_eigenvalues`
    has no effect: they are sorted.
    """
    x = as_tensor(x)
    if flag("eigh: symmetrize_input", symmetrize_input):
        x = symmetrized(x)
    values, vectors = apply("eigh", x if flag("eigh: lower", lower) else adjoint(x))
    return vectors, values


def lu(x: Tensor) -> tuple[Array, Array, Array]:
    """The LU decomposition with partial pivoting: LU, the pivots, the row permutation.

    L and U share one matrix; L is below the diagonal and has ones on it.
    """
    found = apply("lu", as_tensor(x))
    return found[0], found[1], found[2]


def lu_pivots_to_permutation(pivots: Tensor, permutation_size: int) -> Array:
    """The permutation of rows that a sequence of `pivots` makes.

    There are `permutation_size` rows.
    """
    size = integer("lu_pivots_to_permutation: permutation_size", permutation_size)
    return apply("lu_pivots_to_permutation", as_tensor(pivots), size=size)


def qr(x: Tensor, *, full_matrices: bool = True) -> tuple[Array, Array]:
    """The QR decomposition x = Q R: orthonormal columns in Q, R upper triangular.

    With `full_matrices` Q is square, else it has min(m, n) columns.
    """
    q, r = apply("qr", as_tensor(x), full_matrices=flag("qr: full_matrices", full_matrices))
    return q, r


def svd(x: Tensor, *, full_matrices: bool = True, compute_uv: bool = True) -> Any:
    """The singular value decomposition x = U diag(S) Vᴴ, with S descending.

    With `full_matrices` U and V are square. Without `compute_uv` it is S alone.
    """
    x = as_tensor(x)
    if not flag("svd: compute_uv", compute_uv):
        return apply("svd", x, compute_uv=False)[0]
    return tuple(apply("svd", x, full_matrices=flag("svd: full_matrices", full_matrices)))


def symmetric_product(
    a_matrix: Tensor,
    c_matrix: Tensor,
    *,
    alpha: float = 1.0,
    beta: float = 0.0,
    symmetrize_output: bool = False,
) -> Array:
    """The symmetric product alpha a aᵀ + beta c, for symmetric c.

    `a_matrix` is a, `c_matrix` is c; `alpha` and `beta` are numbers. `symmetrize_output`
    takes the mean of the result and its transpose.
    """
    a, c = as_tensor(a_matrix), as_tensor(c_matrix)
    alpha, beta = scalar("symmetric_product: alpha", alpha), scalar("symmetric_product: beta", beta)
    made = alpha * (a @ rnp.matrix_transpose(a)) + beta * c
    is_symmetrized = flag("symmetric_product: symmetrize_output", symmetrize_output)
    return symmetrized(made) if is_symmetrized else made


def triangular_solve(
    a: Tensor,
    b: Tensor,
    *,
    left_side: bool = False,
    lower: bool = False,
    transpose_a: bool = False,
    conjugate_a: bool = False,
    unit_diagonal: bool = False,
) -> Array:
    """Solve x a = b, or a x = b with `left_side`, for triangular a.

    Only the `lower` triangle, or the upper one, is read; with `unit_diagonal` its diagonal counts
    as 1. `transpose_a` and `conjugate_a` take aᵀ and the conjugate for a.
    """
    a, b = as_tensor(a), as_tensor(b)
    has_one_axis = b.ndim == a.ndim - 1
    if has_one_axis:
        b = b[..., None] if left_side else b[..., None, :]
    options = {"lower": lower, "conjugate_a": conjugate_a, "unit_diagonal": unit_diagonal}
    if left_side:
        x = apply("triangular_solve", a, b, transpose_a=transpose_a, **options)
    else:  # x a = b is aᵀ xᵀ = bᵀ
        turned = rnp.matrix_transpose(b)
        x = apply("triangular_solve", a, turned, transpose_a=not transpose_a, **options)
        x = rnp.matrix_transpose(x)
    if not has_one_axis:
        return x
    return x[..., 0] if left_side else x[..., 0, :]


def tridiagonal_solve(dl: Tensor, d: Tensor, du: Tensor, b: Tensor) -> Array:
    """Solve a x = b for a tridiagonal a, without pivoting.

    Its diagonals are `dl`, `d` and `du`. The first element of `dl` and the last of `du` are not
    read.
    """
    dl, d, du = (rnp.moveaxis(as_tensor(x), -1, 0)[..., None] for x in (dl, d, du))
    b = rnp.moveaxis(as_tensor(b), -2, 0)

    def forward(carry: Any, row: Any) -> tuple[Any, Any]:
        above, right = carry
        low, middle, high, value = row
        pivot = middle - low * above
        made = high / pivot, (value - low * right) / pivot
        return made, made

    def backward(x: Any, row: Any) -> tuple[Any, Any]:
        above, right = row
        made = right - above * x
        return made, made

    zero = rnp.zeros_like(d[0]), rnp.zeros_like(b[0])
    low = dl.at[0].set(0)
    _, (above, right) = scan(forward, zero, (low, d, du.at[-1].set(0), b))
    _, x = scan(backward, zero[1], (above, right), reverse=True)
    return rnp.moveaxis(x, 0, -2)


# -- Householder reflections 1 - tau v vᴴ, as LAPACK writes them -----------------------------------
#
# The vectors v are the columns of a matrix below its diagonal, with 1 on it.


def householder_product(a: Tensor, taus: Tensor) -> Array:
    """The first columns of the product of Householder reflections 1 - tau v vᴴ.

    The vectors v are the columns of `a` below its diagonal, with 1 on it; `taus` are f[..., k].
    """
    a = with_axes("householder_product: a", a, 2)
    taus = with_axes("householder_product: taus", taus, 1)
    rows, columns = a.shape[-2:]
    unit = rnp.broadcast_to(rnp.eye(rows, columns, dtype=a.dtype), a.shape)
    return ormqr(a, taus, unit)


def ormqr(
    a: Tensor, taus: Tensor, c: Tensor, *, left: bool = True, transpose: bool = False
) -> Array:
    """The product Q c, where Q is given by Householder reflections and not formed.

    `a` and `taus` are as for `householder_product`, `c` is a matrix. `transpose` gives Qᴴ c;
    without `left` it is c Q or c Qᴴ.
    """
    a, c = with_axes("ormqr: a", a, 2), with_axes("ormqr: c", c, 2)
    taus = with_axes("ormqr: taus", taus, 1)
    if not left:
        return adjoint(ormqr(a, taus, adjoint(c), transpose=not transpose))
    count = taus.shape[-1]
    vectors = rnp.tril(a, -1) + rnp.eye(*a.shape[-2:], dtype=a.dtype)
    lines = rnp.moveaxis(vectors[..., :count], -1, 0)
    factors = rnp.moveaxis(rnp.conj(taus) if transpose else taus, -1, 0)

    def step(c: Any, row: Any) -> tuple[Any, None]:
        line, factor = row
        v = line[..., None]
        return c - factor[..., None, None] * (v @ (adjoint(v) @ c)), None

    return scan(step, c, (lines, factors), reverse=not transpose)[0]
