"""Functions of matrices, and the decompositions they are computed from."""

from __future__ import annotations

from collections.abc import Callable
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
from ...trace.arguments import callable_of, choice, count_of, flag
from ...trace.array import Array
from ...trace.array_arguments import known_real, with_axes
from ...trace.control import cond
from ...trace.promotion import promote_operands
from ...trace.scan import scan
from ...transforms.custom import custom_jvp
from ...transforms.forward import jvp
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


def expm(A: Tensor, *, upper_triangular: bool = False, max_squarings: int = 16) -> Array:
    """The matrix exponential, by scaling, Padé approximation and squaring.

    With `upper_triangular` the matrix is taken as that. One that would need more than
    `max_squarings` squarings gives NaN. Higham, "The scaling and squaring method for the matrix
    exponential revisited", 2005.

    >>> expm([[0.0, 1.0], [0.0, 0.0]]).tolist()
    [[1.0, 1.0], [0.0, 1.0]]
    """
    upper_triangular = flag("expm: upper_triangular", upper_triangular)
    max_squarings = count_of("expm: max_squarings", max_squarings)
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


def _squared(x: Any, squarings: Any, most: int) -> Array:
    """Each matrix squared so many times."""
    needed = numpy.max(squarings, initial=0)

    def step(x: Any, i: Any) -> tuple[Any, None]:
        def square(x: Any) -> Any:
            return numpy.where(i < squarings, x @ x, x)

        return cond(i < needed, square, lambda x: x, x), None

    return scan(step, x, numpy.arange(most, dtype=squarings.dtype))[0]


def det(a: Tensor, overwrite_a: bool = False, check_finite: bool = True) -> Array:
    """The determinant; see `rlx.numpy.linalg.det`."""
    return numpy.linalg.det(a)


def inv(a: Tensor, overwrite_a: bool = False, check_finite: bool = True) -> Array:
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
    """The singular value decomposition; see `rlx.numpy.linalg.svd`.

    `full_matrices` and `compute_uv` are as there.
    """
    choice("svd: lapack_driver", lapack_driver, ("gesdd", "gesvd"))
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
    """The eigenvalues and eigenvectors of Hermitian matrices.

    See `rlx.numpy.linalg.eigh`; with `eigvals_only` it is the eigenvalues alone. Generalized
    problems, `b` and `type`, and a selection of eigenvalues, `eigvals`, raise
    `AttributeValueError`, as in JAX.
    """
    choice("eigh: type", type, (1,))
    if b is not None or eigvals is not None:
        what, fix = "it takes one matrix, and gives all values", "leave out b and eigvals"
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
) -> tuple[Array, Array]:
    """The polar decomposition a = U P, or a = P U for the `side` "left".

    U is unitary, or has orthonormal columns or rows if a is not square; P is positive semidefinite.
    `method` is "qdwh" or "svd"; both use the singular value decomposition, and `eps` and
    `max_iterations` have no effect.
    """
    choice("polar: side", side, ("right", "left"))
    choice("polar: method", method, ("qdwh", "svd"))
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
) -> tuple[Array, Array]:
    """The product c Q and R, where a = Q R; in `mode` "left" Q c and R.

    `c` is a matrix; `conjugate` conjugates Q. `pivoting` must be False.
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
    """The eigenvalues and eigenvectors of a Hermitian tridiagonal matrix.

    `d` is its diagonal, `e` the one beside it. `select` "a" is all eigenvalues, "i" those with the
    indices `select_range`, both ends included. With `eigvals_only` it is the eigenvalues alone.
    `tol` and `key` have no effect.

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
) -> tuple[Array, Array] | Array:
    """The matrix exponential of A and its Fréchet derivative in the direction `E`.

    Without `compute_expm` it is the derivative alone. `method` has no effect.
    """
    compute_expm = flag("expm_frechet: compute_expm", compute_expm)
    a, e = inexact(as_tensor(A), as_tensor(E))
    if a.shape != e.shape:
        wrong_shape("expm_frechet", "the shapes differ", a, e, fix="give matrices of one shape")
    both = jvp(expm, (a,), (e,))
    return both if compute_expm else both[1]


# -- triangular forms of matrices, and functions that are easy for them ----------------------------


def schur(a: Tensor, output: str = "real") -> tuple[Array, Array]:
    """The Schur decomposition a = Z T Zᴴ: Z unitary, T upper triangular.

    The `output` "real" of a real matrix has 2 x 2 blocks on the diagonal of T for pairs of complex
    eigenvalues; "complex" has none. There is no derivative.
    """
    choice("schur: output", output, ("real", "complex"))
    (a,) = inexact(a)
    check_square("schur", a)
    triangular, unitary = apply("schur", _as_complex(a) if output == "complex" else a)
    return triangular, unitary


def _as_complex(x: Any) -> Array:
    dtype = "complex128" if x.dtype.name == "float64" else "complex64"
    return x if numpy.iscomplexobj(x) else numpy.astype(x, dtype)


def hessenberg(
    a: Tensor, *, calc_q: bool = False, overwrite_a: bool = False, check_finite: bool = True
) -> Any:
    """The upper Hessenberg form H with a = Q H Qᴴ; with `calc_q` H and the unitary Q.

    There is no derivative.
    """
    (a,) = inexact(a)
    check_square("hessenberg", a)
    h, q = apply("hessenberg", a)
    return (h, q) if calc_q else h


def rsf2csf(T: Tensor, Z: Tensor, check_finite: bool = True) -> tuple[Array, Array]:
    """Convert a real Schur form `T`, `Z` to a complex one, and return both."""
    t, z = map(as_tensor, promote_operands(as_tensor(T), as_tensor(Z), inexact=True))
    check_square("rsf2csf", t)
    check_square("rsf2csf", z)
    if t.shape[-1] != z.shape[-1]:
        wrong_shape("rsf2csf", "the sizes differ", t, z, fix="give matrices of one size")
    turned, q = apply("schur", _as_complex(t))
    return turned, _as_complex(z) @ q


# -- functions by triangular forms -----------------------------------------------------------------


def funm(A: Tensor, func: Callable[[Any], Any], disp: bool = True) -> Any:
    """A matrix function, given by `func`, that of numbers; the result is complex.

    Without `disp` an error estimate is returned too. Close eigenvalues lose accuracy. Golub and Van
    Loan, "Matrix Computations", algorithm 11.1.1 (Parlett's recurrence).

    >>> funm([[1.0, 1.0], [0.0, 2.0]], lambda x: x * x).real.round(3).tolist()
    [[1.0, 3.0], [0.0, 4.0]]
    """
    disp = flag("funm: disp", disp)
    (a,) = inexact(A)
    check_square("funm", a)
    if a.ndim > 2:
        wrong_shape("funm", f"{a.type} is a batch", a, fix="use rlx.vmap")
    callable_of("funm: func", func)
    t, z = schur(a, "complex")
    n = t.shape[0]
    f = numpy.diag(numpy.astype(func(numpy.diagonal(t)), t.dtype))
    least = numpy.real(t[0, 0]) * 0 + 1
    for p in range(1, n):
        for i in range(n - p):
            j = i + p
            total = t[i, j] * (f[j, j] - f[i, i])
            inner = slice(i + 1, j)
            total = total + t[i, inner] @ f[inner, j] - f[i, inner] @ t[inner, j]
            gap = t[j, j] - t[i, i]
            is_zero = gap == 0
            f = f.at[i, j].set(numpy.where(is_zero, total, total / numpy.where(is_zero, 1, gap)))
            least = numpy.minimum(least, numpy.where(is_zero, least, numpy.abs(gap)))
    result = z @ f @ adjoint(z)
    if disp:
        return result
    epsilon = float(numpy.finfo(t.dtype).eps)
    spread = numpy.linalg.norm(numpy.triu(t, 1), 1)
    error = numpy.clip(epsilon / least * spread, epsilon, 1)
    return result, numpy.where(numpy.any(numpy.isinf(result)), numpy.inf, error)


def sqrtm(A: Tensor, blocksize: int = 1) -> Array:
    """The principal square root of a matrix, complex.

    Björck and Hammarling, "A Schur method for the square root of a matrix", 1983.

    >>> sqrtm([[4.0, 0.0], [0.0, 9.0]]).real.tolist()
    [[2.0, 0.0], [0.0, 3.0]]
    """
    if count_of("sqrtm: blocksize", blocksize) > 1:
        wrong_value("sqrtm", "there are no blocks", fix="leave out blocksize")
    (a,) = inexact(A)
    check_square("sqrtm", a)
    return _root(_as_complex(a))


@custom_jvp
def _root(a: Any) -> Array:
    t, z = apply("schur", a)
    return z @ _triangular_root(t) @ adjoint(z)


@_root.defjvp
def _root_jvp(primals: Any, tangents: Any) -> Any:
    """Where x x = a, dx solves x dx + dx x = da."""
    root = _root(*primals)
    return root, solve_sylvester(root, root, tangents[0])


def _triangular_root(t: Any) -> Array:
    """The root of a triangular matrix, column by column from the left, each from below."""
    n = t.shape[-1]
    ends = numpy.sqrt(numpy.diagonal(t, axis1=-2, axis2=-1))
    start = numpy.eye(n, dtype=t.dtype) * ends[..., None, :]

    def step(u: Any, place: Any) -> tuple[Any, None]:
        i, j = place // n, place % n
        rest = t[..., i, j] - numpy.sum(u[..., i, :] * u[..., :, j], axis=-1)
        below = ends[..., i] + ends[..., j]
        found = numpy.where(rest == 0, 0, rest / numpy.where(below == 0, 1, below))
        return u.at[..., i, j].set(found), None

    order = [i * n + j for j in range(n) for i in range(j - 1, -1, -1)]
    if not order:
        return start
    return scan(step, start, numpy.asarray(order, "int32"))[0]


def solve_sylvester(
    A: Tensor, B: Tensor, C: Tensor, *, method: str = "schur", tol: float = 1e-8
) -> Array:
    """Solve A X + X B = C; NaN if A and -B share an eigenvalue, to within `tol`.

    `method` is "schur" or "eigen"; both are that of Bartels and Stewart, 1972. Axes before the last
    two are a batch.

    >>> solve_sylvester([[1.0]], [[2.0]], [[6.0]]).tolist()
    [[2.0]]
    """
    choice("solve_sylvester: method", method, ("schur", "eigen"))
    a, b, c = inexact(A, B, C)
    check_square("solve_sylvester", a)
    check_square("solve_sylvester", b)
    if c.shape[-2:] != (a.shape[-1], b.shape[-1]):
        wrong_shape(
            "solve_sylvester",
            "the sizes differ",
            a,
            b,
            c,
            fix="give shapes (m, m), (n, n) and (m, n)",
        )
    batch = numpy.broadcast_shapes(a.shape[:-2], b.shape[:-2], c.shape[:-2])
    a, b, c = (numpy.broadcast_to(x, (*batch, *x.shape[-2:])) for x in (a, b, c))
    return _sylvester(known_real("solve_sylvester: tol", tol))(a, b, c)


def _sylvester(tol: float) -> Callable[..., Any]:
    @custom_jvp
    def solution(a: Any, b: Any, c: Any) -> Any:
        r, u = apply("schur", _as_complex(a))
        s, v = apply("schur", _as_complex(b))
        x = u @ _triangular_sylvester(r, s, adjoint(u) @ c @ v, tol) @ adjoint(v)
        return x if numpy.iscomplexobj(c) else numpy.astype(numpy.real(x), c.dtype)

    @solution.defjvp
    def solution_jvp(primals: Any, tangents: Any) -> Any:
        a, b, c = primals
        da, db, dc = tangents
        x = solution(a, b, c)
        return x, solution(a, b, dc - da @ x - x @ db)

    @solution.deftranspose
    def solution_transpose(a: Any, b: Any, ct: Any) -> Any:
        swap = numpy.matrix_transpose
        return solution(swap(a), swap(b), ct)

    return solution


def _triangular_sylvester(r: Any, s: Any, f: Any, tol: float) -> Array:
    """Columns from the left: (r + s[j, j]) y[j] is what earlier columns leave of f[j]."""
    m, n = f.shape[-2:]
    gaps = numpy.diagonal(r, axis1=-2, axis2=-1)[..., :, None]
    gaps = gaps + numpy.diagonal(s, axis1=-2, axis2=-1)[..., None, :]
    unit = numpy.eye(m, dtype=r.dtype)

    def step(y: Any, j: Any) -> tuple[Any, None]:
        rest = f[..., :, j] - (y @ s[..., :, j][..., None])[..., 0]
        matrix = r + s[..., j, j][..., None, None] * unit
        column = apply("triangular_solve", matrix, rest[..., None], lower=False)
        return y.at[..., :, j].set(column[..., 0]), None

    y, _ = scan(step, 0 * f, numpy.arange(n))
    is_singular = numpy.min(numpy.abs(gaps), axis=(-2, -1), keepdims=True) <= tol
    return numpy.where(is_singular, numpy.nan, y)
