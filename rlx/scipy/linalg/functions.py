"""Functions of matrices: expm and its derivative, polar, det, svd and their like."""

from __future__ import annotations

from typing import Any

from ... import numpy
from ...numpy.elementwise import Tensor
from ...numpy.linalg.matrices import (
    adjoint,
    check_matrix,
    check_square,
    inexact,
    wrong_shape,
    wrong_value,
)
from ...trace.apply import apply, as_tensor
from ...trace.arguments import choice, flag
from ...trace.array_arguments import with_axes
from ...trace.control import cond
from ...trace.scan import scan
from ...transforms import jvp
from .factors import solve_triangular

# Padé's approximant of exp: the coefficients of the numerator, and the greatest norm for which it
# is as exact as the dtype (Higham 2005)
SHORT = (
    (17297280.0, 8648640.0, 1995840.0, 277200.0, 25200.0, 1512.0, 56.0, 1.0),
    3.92572478313866,
)
LONG = (
    (
        *(64764752532480000.0, 32382376266240000.0, 7771770303897600.0, 1187353796428800.0),
        *(129060195264000.0, 10559470521600.0, 670442572800.0, 33522128640.0, 1323241920.0),
        *(40840800.0, 960960.0, 16380.0, 182.0, 1.0),
    ),
    5.371920351148152,
)


def expm(A: Tensor, *, upper_triangular: bool = False, max_squarings: int = 16) -> Any:
    """The exponential of square matrices, by scaling, Padé's approximant and squaring.

    What would need more than `max_squarings` is NaN.

    >>> expm([[0.0, 1.0], [0.0, 0.0]]).tolist()
    [[1.0, 1.0], [0.0, 1.0]]
    """
    upper_triangular = flag("expm: upper_triangular", upper_triangular)
    (a,) = inexact(A)
    check_square("expm", a)
    wide = a.dtype.itemsize // (2 if numpy.iscomplexobj(a) else 1) == 8
    coefficients, greatest = LONG if wide else SHORT
    norm = numpy.linalg.matrix_norm(a, ord=1)
    squarings = numpy.maximum(0, numpy.floor(numpy.log2(norm / greatest)))[..., None, None]
    odd, even = _pade(a / numpy.astype(2**squarings, a.dtype), coefficients)
    solve = solve_triangular if upper_triangular else numpy.linalg.solve
    result = _squared(solve(even - odd, even + odd), squarings, max_squarings)
    return numpy.where(squarings > max_squarings, numpy.nan, result)


def _pade(a: Any, b: tuple[float, ...]) -> tuple[Any, Any]:
    """The odd and the even part of the numerator."""
    square = a @ a
    fourth = square @ square
    powers = (numpy.eye(a.shape[-1], dtype=a.dtype), square, fourth, fourth @ square)
    odd, even = (sum(b[2 * k + i] * power for k, power in enumerate(powers)) for i in (1, 0))
    if len(b) > 8:  # powers above the sixth
        high = [sum(b[2 * k + i] * power for k, power in enumerate(powers) if k) for i in (7, 6)]
        odd, even = odd + powers[3] @ high[0], even + powers[3] @ high[1]
    return a @ odd, even


def _squared(x: Any, squarings: Any, most: int) -> Any:
    """Each matrix squared so many times."""
    needed = numpy.max(squarings, initial=0)

    def step(x: Any, i: Any) -> tuple[Any, None]:
        def square(x: Any) -> Any:
            return numpy.where(i < squarings, x @ x, x)

        return cond(i < needed, square, lambda x: x, x), None

    return scan(step, x, numpy.arange(most, dtype=squarings.dtype))[0]


def det(a: Tensor, overwrite_a: bool = False, check_finite: bool = True) -> Any:
    """The determinant; see `rlx.numpy.linalg.det`."""
    return numpy.linalg.det(a)


def inv(a: Tensor, overwrite_a: bool = False, check_finite: bool = True) -> Any:
    """The inverse; see `rlx.numpy.linalg.inv`."""
    return numpy.linalg.inv(a)


def svd(
    a: Tensor,
    full_matrices: bool = True,
    compute_uv: bool = True,
    overwrite_a: bool = False,
    check_finite: bool = True,
    lapack_driver: str = "gesdd",
) -> Any:
    """The singular values and vectors; see `rlx.numpy.linalg.svd`."""
    result = numpy.linalg.svd(a, full_matrices, compute_uv)
    return tuple(result) if compute_uv else result


def eigh(
    a: Tensor,
    b: None = None,
    lower: bool = True,
    eigvals_only: bool = False,
    overwrite_a: bool = False,
    overwrite_b: bool = False,
    turbo: bool = True,
    eigvals: None = None,
    type: int = 1,
    check_finite: bool = True,
) -> Any:
    """The eigenvalues and vectors of Hermitian matrices; see `rlx.numpy.linalg.eigh`.

    Pencils of two matrices and choices of eigenvalues are not known, as in JAX.
    """
    if b is not None or eigvals is not None or type != 1:
        what, fix = "it takes one matrix, and gives all values", "leave out b, eigvals and type"
        wrong_value("eigh", what, fix=fix)
    part = "L" if lower else "U"
    if eigvals_only:
        return numpy.linalg.eigvalsh(a, part)
    return tuple(numpy.linalg.eigh(a, part))


# -- what other factors give: polar, qr_multiply, eigh_tridiagonal, expm_frechet -------------------


def polar(
    a: Tensor,
    side: str = "right",
    *,
    method: str = "qdwh",
    eps: float | None = None,
    max_iterations: int | None = None,
) -> tuple[Any, Any]:
    """U and P with a = U P, or a = P U for the side "left": P is positive, U unitary.

    If a is not square, U has orthonormal columns or rows. Both methods, "qdwh" and "svd", go
    through singular values.
    """
    if side not in ("right", "left") or method not in ("qdwh", "svd"):
        what = f"the side is {side!r}, the method {method!r}"
        wrong_value("polar", what, fix='use "right" or "left", and "qdwh" or "svd"')
    (a,) = inexact(a)
    check_matrix("polar", a)
    u, s, v = numpy.linalg.svd(a, full_matrices=False)
    scale = numpy.astype(s, a.dtype)[..., None, :]
    positive = (adjoint(v) * scale) @ v if side == "right" else (u * scale) @ adjoint(u)
    return u @ v, positive


def qr_multiply(
    a: Tensor,
    c: Tensor,
    mode: str = "right",
    pivoting: bool = False,
    conjugate: bool = False,
    overwrite_a: bool = False,
    overwrite_c: bool = False,
) -> tuple[Any, Any]:
    """c Q and R, where a = Q R; with the mode "left" Q c and R.

    `conjugate` takes the conjugate of Q.
    """
    choice("qr_multiply: mode", mode, ("right", "left"))
    if flag("qr_multiply: pivoting", pivoting):
        wrong_value("qr_multiply", "pivoting is True", fix="leave pivoting out")
    a, c = inexact(a, with_axes("qr_multiply: c", c, 1))
    check_matrix("qr_multiply", a)
    q, r = apply("qr", a, full_matrices=False)
    q = numpy.conj(q) if conjugate else q
    line = c.ndim == 1
    if line:
        c = c[:, None] if mode == "left" else c[None, :]
    left, right = (q, c) if mode == "left" else (c, q)
    if left.shape[-1] != right.shape[-2]:
        wrong_shape("qr_multiply", "the sizes do not fit", a, c, fix="give a c that Q multiplies")
    made = left @ right
    return (numpy.ravel(made) if line else made), r


def eigh_tridiagonal(
    d: Tensor,
    e: Tensor,
    *,
    eigvals_only: bool = False,
    select: str = "a",
    select_range: tuple[float, float] | None = None,
    tol: float | None = None,
    key: Any = None,
) -> Any:
    """The eigenvalues and vectors of a matrix with diagonal d and e beside it.

    It is Hermitian. The selection "a" is all, "i" those with the numbers `select_range`, both ends
    included.

    >>> eigh_tridiagonal([2.0, 2.0], [1.0], eigvals_only=True).round(3).tolist()
    [1.0, 3.0]
    """
    eigvals_only = flag("eigh_tridiagonal: eigvals_only", eigvals_only)
    d, e = inexact(d, e)
    if d.ndim != 1 or e.shape != (max(d.shape[0] - 1, 0),):
        fix = "give two vectors, the second one shorter by one"
        wrong_shape("eigh_tridiagonal", "the lengths do not fit", d, e, fix=fix)
    choice("eigh_tridiagonal: select", select, ("a", "i", "v"))
    if select == "v" or (select == "i" and select_range is None):
        what = f"the selection is {select!r}, of {select_range}"
        wrong_value("eigh_tridiagonal", what, fix='use "a", or "i" with a select_range')
    matrix = numpy.diag(d) + numpy.diag(e, 1) + numpy.diag(numpy.conj(e), -1)
    first, last = (0, d.shape[0] - 1) if select == "a" else map(int, select_range or ())
    chosen = slice(first, last + 1)
    if eigvals_only:
        return numpy.linalg.eigvalsh(matrix)[chosen]
    values, vectors = numpy.linalg.eigh(matrix)
    return values[chosen], vectors[:, chosen]


def expm_frechet(
    A: Tensor, E: Tensor, *, method: str | None = None, compute_expm: bool = True
) -> Any:
    """The exponential of A, and how it changes with A in the direction E.

    Without `compute_expm` the change alone.
    """
    compute_expm = flag("expm_frechet: compute_expm", compute_expm)
    a, e = inexact(as_tensor(A), as_tensor(E))
    if a.shape != e.shape:
        wrong_shape("expm_frechet", "the shapes differ", a, e, fix="give matrices of one shape")
    both = jvp(expm, (a,), (e,))
    return tuple(both) if compute_expm else both[1]
