"""Systems of equations, inverses and determinants.

The tangent of the solution x of a x = b solves a dx = db - da x, the cotangent of b the
transposed system.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any, NamedTuple

from ...trace.apply import apply, apply_like, as_tensor
from ...trace.arguments import choice
from ...trace.array import Array
from ...trace.axes import broadcast_shapes, integer, number, some_axes
from ...trace.promotion import broadcast_to, convert
from .. import reductions
from ..arithmetic import astype, conj, real
from ..constants import int32
from ..creation import array, zeros
from ..elementwise import Tensor
from ..logic import logical_and
from ..manipulation import expand_dims, moveaxis, ravel, reshape, transpose
from .decompositions import svd, svdvals
from .matrices import (
    check_matrix,
    check_square,
    inexact,
    precision_of,
    real_dtype,
    rounding_of,
    symmetrized,
    wrong_shape,
    wrong_value,
)


class SlogdetResult(NamedTuple):
    """The result of `slogdet`."""

    sign: Any  # f[...], 0 for a singular matrix
    logabsdet: Any  # f[...], -inf for a singular matrix


def solve(a: Tensor, b: Tensor) -> Array:
    """Solve the linear system a x = b for square a.

    A b with one axis is a vector; otherwise its last two axes hold right-hand sides as columns, and
    axes before are a batch. A singular a gives NaN.

    >>> solve([[0.0, 2.0], [3.0, 1.0]], [4.0, 5.0]).tolist()
    [1.0, 2.0]
    """
    a, b = inexact(a, b)
    return solve_columns("solve", lambda a, b: apply("linear_solve", a, b), a, b)


def solve_columns(name: str, solved: Callable[[Any, Any], Any], a: Any, b: Any) -> Array:
    """Apply a solver for columns to a vector b, or to batches.

    A single matrix a is factored once for the whole batch.
    """
    check_system(name, a, b)
    if b.ndim == 1:
        return solve_columns(name, solved, a, expand_dims(b, -1))[..., 0]
    if a.ndim == 2 and b.ndim > 2:
        wide = moveaxis(b, -2, 0)
        x = solved(a, reshape(wide, (b.shape[-2], -1)))
        return moveaxis(reshape(x, wide.shape), 0, -2)
    batch = broadcast_shapes(name, a.shape[:-2], b.shape[:-2])
    return solved(*(broadcast_to(x, (*batch, *x.shape[-2:])) for x in (a, b)))


def check_system(name: str, a: Any, b: Any) -> None:
    """Raise unless a is square and b has as many rows."""
    check_square(name, a)
    n = a.shape[-1]
    if not b.ndim or b.shape[0 if b.ndim == 1 else -2] != n:
        fix = f"give b {n} rows; a batch of vectors needs an axis more: {name}(a, b[..., None])"
        wrong_shape(name, f"a has {n} columns, and b is {b.type}", a, b, fix=fix)


def inv(a: Tensor) -> Array:
    """The inverse of a square matrix; NaN if it is singular.

    >>> inv([[2.0, 0.0], [0.0, 4.0]]).tolist()
    [[0.5, 0.0], [0.0, 0.25]]
    """
    (a,) = inexact(a)
    check_square("inv", a)
    shape = a.shape[-2:]
    rows, columns = (apply_like(a, "iota", shape=shape, axis=i, dtype="int32") for i in (0, 1))
    identity = astype(apply("eq", rows, columns), a.dtype)
    return apply("linear_solve", a, broadcast_to(identity, a.shape))


def pinv(
    a: Tensor, rtol: Tensor | None = None, hermitian: bool = False, *, rcond: Tensor | None = None
) -> Array:
    """The Moore-Penrose pseudo-inverse.

    Singular values up to `rtol`, or `rcond`, times the largest are treated as zero; the default is
    10 max(m, n) times the machine epsilon. `hermitian` is as for `svd`. The derivative assumes that
    the rank is constant.
    """
    rtol = rcond if rtol is None else rtol
    (a,) = inexact(a)
    check_matrix("pinv", a)
    if hermitian:
        check_square("pinv", a)
        a = symmetrized(a)
    if rtol is None:
        rtol = 10.0 * rounding_of(a)
    return _pinv(a, rtol)


def _pinv(a: Any, cutoff: Any) -> Array:
    cutoff = broadcast_to(convert(as_tensor(cutoff), real_dtype(a)), a.shape[:-2])
    return apply("pinv", a, cutoff)


def lstsq(
    a: Tensor, b: Tensor, rcond: float | None = None, *, numpy_resid: bool = False
) -> tuple[Array, Array, Array, Array]:
    """The least-squares solution of a x = b, with residuals, rank and singular values.

    The solution has the least norm. Singular values below `rcond` times the largest are treated as
    zero; the default is max(m, n) times the machine epsilon. The residuals are |a x - b|² for each
    column of b; with `numpy_resid` they are empty where the rank is below n or m <= n, which needs
    a known rank.

    >>> lstsq([[1.0, 0.0], [1.0, 1.0], [1.0, 2.0]], [1.0, 3.0, 5.0])[0].round(4).tolist()
    [1.0, 2.0]
    """
    a, b = inexact(a, b)
    if a.ndim != 2 or b.ndim not in (1, 2):
        fix = "give a matrix a, and a vector or a matrix b"
        wrong_shape("lstsq", f"a is {a.type} and b is {b.type}", a, b, fix=fix)
    if a.shape[0] != b.shape[0]:
        what = f"a has {a.shape[0]} rows, b has {b.shape[0]}"
        wrong_shape("lstsq", what, a, b, fix=f"give b {a.shape[0]} rows")
    m, n = a.shape
    values = svdvals(a)
    least: Any = rcond
    if rcond is None:
        least = rounding_of(a)
    elif number("lstsq: rcond", rcond) < 0:
        least = precision_of(a.dtype)
    columns = expand_dims(b, -1) if b.ndim == 1 else b
    if 0 in a.shape:
        x, rank = zeros((n, columns.shape[1]), a.dtype), array(0, int32)
    else:
        counted = logical_and(values > 0, values >= least * values[0])
        x, rank = _pinv(a, least) @ columns, reductions.sum(counted)
    if numpy_resid and (m <= n or int(rank) < n):
        residuals = zeros((0,), values.dtype)
    else:
        rest = columns - a @ x
        residuals = reductions.sum(real(rest * conj(rest)), axis=0)
    return (x[:, 0] if b.ndim == 1 else x), residuals, rank, values


def slogdet(a: Tensor, *, method: str | None = None) -> Any:
    """The sign of the determinant and the logarithm of its absolute value.

    The sign of a complex determinant has absolute value 1. A singular matrix gives 0 and -inf. The
    `method` is None, "lu" or "qr": all use LAPACK's LU here.

    >>> slogdet([[0.0, 1.0], [1.0, 5.0]]).sign.tolist()
    -1.0
    """
    choice("slogdet: method", method, (None, "lu", "qr"))
    (a,) = inexact(a)
    check_square("slogdet", a)
    return SlogdetResult(*apply("slogdet", a))


def det(a: Tensor) -> Array:
    """The determinant of a square matrix.

    Singular matrices have derivatives too: of all orders up to 3 x 3, of first order above.

    >>> det([[1.0, 2.0], [3.0, 4.0]]).tolist()
    -2.0
    """
    (a,) = inexact(a)
    check_square("det", a)
    if a.shape[-1] not in (2, 3):
        return apply("det", a)
    x = [[a[..., i, j] for j in range(a.shape[-1])] for i in range(a.shape[-1])]
    if a.shape[-1] == 2:
        return x[0][0] * x[1][1] - x[0][1] * x[1][0]
    minors = [x[1][j] * x[2][k] - x[1][k] * x[2][j] for j, k in ((1, 2), (2, 0), (0, 1))]
    return x[0][0] * minors[0] + x[0][1] * minors[1] + x[0][2] * minors[2]


def matrix_rank(
    M: Tensor, rtol: Tensor | None = None, *, hermitian: bool = False, tol: Tensor | None = None
) -> Array:
    """The rank of `M`: the number of singular values above `rtol`.

    That is absolute, as in JAX. The default is max(m, n) times the machine epsilon times the
    largest singular value. `tol` is another name of `rtol`. `hermitian` is as for `svd`.
    """
    if tol is not None and rtol is not None:
        wrong_value("matrix_rank", "both `tol` and `rtol` are given", fix="give one of them")
    (x,) = inexact(M)
    if x.ndim < 2:
        return astype(reductions.any(x != 0), int32)
    values = svd(x, compute_uv=False, hermitian=hermitian)
    bound = tol if rtol is None else rtol
    if bound is None:
        bound = reductions.max(values, -1, initial=0) * rounding_of(x)
    return reductions.sum(values > expand_dims(as_tensor(bound), -1), axis=-1)


def tensorinv(a: Tensor, ind: int = 2) -> Array:
    """The inverse with respect to `tensordot`, of the first `ind` axes."""
    (a,) = inexact(a)
    ind = integer("tensorinv: ind", ind)
    if ind <= 0:
        wrong_value("tensorinv", f"`ind` is {ind}", fix="give a number of axes of 1 or more")
    first, last = a.shape[:ind], a.shape[ind:]
    if math.prod(first) != math.prod(last):
        what = f"the first {ind} sizes multiply to {math.prod(first)}, the others to "
        fix = "choose `ind` so that both parts have as many elements"
        wrong_shape("tensorinv", what + str(math.prod(last)), a, fix=fix)
    return reshape(inv(reshape(a, (math.prod(first), math.prod(last)))), (*last, *first))


def tensorsolve(a: Tensor, b: Tensor, axes: tuple[int, ...] | None = None) -> Array:
    """Solve tensordot(a, x, x.ndim) = b for x; `axes` of a are moved to its end first."""
    a, b = inexact(a, b)
    if axes is not None:
        ends = some_axes("tensorsolve", axes, a.ndim)
        a = transpose(a, [*(i for i in range(a.ndim) if i not in ends), *ends])
    shape = a.shape[b.ndim :]
    if a.shape[: b.ndim] != b.shape or math.prod(shape) != b.size:
        what = f"b has the shape {b.shape}, a the shape {a.shape}"
        fix = "let a begin with the shape of b, and have as many elements in its other axes"
        wrong_shape("tensorsolve", what, a, b, fix=fix)
    x = solve(reshape(a, (b.size, b.size)), ravel(b))
    return reshape(x, shape)
