"""Functions of matrices: expm, and some that `rlx.numpy.linalg` has as well."""

from __future__ import annotations

from typing import Any

from ... import numpy
from ...numpy.elementwise import Tensor
from ...numpy.linalg.matrices import check_square, inexact, wrong_value
from ...trace.arguments import flag
from ...trace.control import cond
from ...trace.scan import scan
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
