"""Factorizations of matrices, and linear systems solved by them."""

from __future__ import annotations

from typing import Any

from ... import numpy
from ...ir.dims import minimum
from ...numpy.elementwise import Tensor
from ...numpy.linalg.matrices import adjoint, check_matrix, check_square, inexact, wrong_value
from ...numpy.linalg.solving import check_system, solve_columns
from ...trace.apply import apply, as_tensor
from ...trace.arguments import choice, flag, pair
from ...trace.array import Array


def cholesky(
    a: Tensor, lower: bool = False, overwrite_a: bool = False, check_finite: bool = True
) -> Array:
    """The upper Cholesky factor R with Rᴴ R = a; with `lower` L with L Lᴴ = a.

    Only that triangle of a is read.
    """
    (a,) = inexact(a)
    check_square("cholesky", a)
    factor = apply("cholesky", a if lower else adjoint(a))
    return factor if lower else adjoint(factor)


def cho_factor(
    a: Tensor, lower: bool = False, overwrite_a: bool = False, check_finite: bool = True
) -> tuple[Array, bool]:
    """The Cholesky factor for `cho_solve`, and whether it is the lower one.

    >>> import numpy as np
    >>> cho_solve(cho_factor(np.eye(2) * 4), np.array([4.0, 8.0])).tolist()
    [1.0, 2.0]
    """
    return cholesky(a, lower), lower


def cho_solve(
    c_and_lower: tuple[Tensor, bool],
    b: Tensor,
    overwrite_b: bool = False,
    check_finite: bool = True,
) -> Array:
    """Solve a x = b, given the factor of a by `cho_factor`: `c_and_lower`."""
    c, lower = pair("cho_solve: c_and_lower", c_and_lower)
    lower = flag("cho_solve: lower", lower)
    c, b = inexact(c, b)

    def solved(c: Any, b: Any) -> Any:
        first = {"lower": lower, "transpose_a": not lower, "conjugate_a": not lower}
        last = {"lower": lower, "transpose_a": lower, "conjugate_a": lower}
        return apply("triangular_solve", c, apply("triangular_solve", c, b, **first), **last)

    return solve_columns("cho_solve", solved, c, b)


def solve_triangular(
    a: Tensor,
    b: Tensor,
    trans: int | str = 0,
    lower: bool = False,
    unit_diagonal: bool = False,
    overwrite_b: bool = False,
    debug: Any = None,
    check_finite: bool = True,
) -> Array:
    """Solve a x = b for triangular a, of which only one triangle is read.

    With `unit_diagonal` its diagonal counts as 1. `trans` 1 or "T" uses the transpose of a, 2 or
    "C" its adjoint. Axes before the last two are a batch; a b of one axis is a vector.

    >>> solve_triangular([[2.0, 1.0], [0.0, 4.0]], [4.0, 8.0]).tolist()
    [1.0, 2.0]
    """
    modes = {0: 0, "N": 0, 1: 1, "T": 1, 2: 2, "C": 2}
    choice("solve_triangular: trans", trans, modes)
    a, b = inexact(a, b)
    flags = {"transpose_a": modes[trans] > 0, "conjugate_a": modes[trans] == 2}
    flags |= {"lower": bool(lower), "unit_diagonal": bool(unit_diagonal)}
    return solve_columns(
        "solve_triangular", lambda a, b: apply("triangular_solve", a, b, **flags), a, b
    )


def solve(
    a: Tensor,
    b: Tensor,
    lower: bool = False,
    overwrite_a: bool = False,
    overwrite_b: bool = False,
    debug: bool = False,
    check_finite: bool = True,
    assume_a: str = "gen",
) -> Array:
    """Solve a x = b; for a positive definite a only one triangle is read.

    `assume_a` is "gen", "sym", "her" or "pos"; "pos" uses the Cholesky factor, and its derivative
    takes a as Hermitian.
    """
    choice("solve: assume_a", assume_a, ("gen", "sym", "her", "pos"))
    if assume_a == "pos":
        return cho_solve(cho_factor(a, lower), b)
    return numpy.linalg.solve(a, b)


def lu_factor(
    a: Tensor, overwrite_a: bool = False, check_finite: bool = True
) -> tuple[Array, Array]:
    """The LU decomposition for `lu_solve`: L and U in one matrix, and the pivots."""
    (a,) = inexact(a)
    check_matrix("lu_factor", a)
    both, pivots, _ = apply("lu", a)
    return both, pivots


def lu_solve(
    lu_and_piv: tuple[Tensor, Tensor],
    b: Tensor,
    trans: int = 0,
    overwrite_b: bool = False,
    check_finite: bool = True,
) -> Array:
    """Solve a x = b, given the factors of a by `lu_factor`: `lu_and_piv`.

    `trans` 1 uses the transpose of a, 2 its adjoint.

    >>> lu_solve(lu_factor([[0.0, 2.0], [3.0, 1.0]]), [4.0, 5.0]).tolist()
    [1.0, 2.0]
    """
    choice("lu_solve: trans", trans, (0, 1, 2))
    both, pivots = pair("lu_solve: lu_and_piv", lu_and_piv)
    both, b = inexact(both, b)
    check_system("lu_solve", both, b)
    order = apply("lu_pivots_to_permutation", as_tensor(pivots), size=both.shape[-1])
    x = b if b.ndim > 1 else b[:, None]
    if trans == 0:
        x = solve_triangular(both, _taken(x, order), lower=True, unit_diagonal=True)
        x = solve_triangular(both, x)
    else:
        x = solve_triangular(both, x, trans)
        x = solve_triangular(both, x, trans, lower=True, unit_diagonal=True)
        x = _taken(x, numpy.argsort(order, -1))
    return x if b.ndim > 1 else x[..., 0]


def _taken(x: Any, order: Any) -> Array:
    """The rows of matrices in another order."""
    return numpy.take_along_axis(x, order[..., None], axis=-2)


def lu(
    a: Tensor, permute_l: bool = False, overwrite_a: bool = False, check_finite: bool = True
) -> tuple[Array, ...]:
    """The LU decomposition a = P L U; with `permute_l` the two matrices P L and U."""
    (a,) = inexact(a)
    check_matrix("lu", a)
    both, _, order = apply("lu", a)
    m: Any = a.shape[-2]
    k: Any = minimum(*a.shape[-2:])
    lower = numpy.tril(both, -1)[..., :k] + numpy.eye(m, k, dtype=a.dtype)
    upper = numpy.triu(both)[..., :k, :]
    rows = numpy.arange(m, dtype="int32")[:, None]
    permutation = numpy.real(numpy.astype(order[..., None, :] == rows, a.dtype))
    if permute_l:
        return numpy.astype(permutation, a.dtype) @ lower, upper
    return permutation, lower, upper


def qr(
    a: Tensor,
    overwrite_a: bool = False,
    lwork: Any = None,
    mode: str = "full",
    pivoting: bool = False,
    check_finite: bool = True,
) -> tuple[Array, ...]:
    """The QR decomposition a = Q R.

    Q is square in `mode` "full", has no more columns than a in "economic"; "r" gives R alone.
    `pivoting` must be False.
    """
    choice("qr: mode", mode, ("full", "economic", "r"))
    if pivoting:
        wrong_value("qr", "columns are not exchanged", fix="call it with pivoting=False")
    (a,) = inexact(a)
    check_matrix("qr", a)
    q, r = apply("qr", a, full_matrices=mode != "economic")
    return (r,) if mode == "r" else (q, r)
