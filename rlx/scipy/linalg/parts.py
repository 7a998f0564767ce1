"""What other factors give: polar, qr_multiply, eigh_tridiagonal, expm_frechet."""

from __future__ import annotations

from typing import Any

from ... import numpy
from ...numpy.elementwise import Tensor
from ...numpy.linalg.matrices import adjoint, check_matrix, inexact, wrong_shape, wrong_value
from ...trace.apply import apply, as_tensor
from ...trace.arguments import choice, flag
from ...trace.array_arguments import with_axes
from ...transforms import jvp
from .functions import expm


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
