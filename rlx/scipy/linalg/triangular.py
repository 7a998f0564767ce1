"""Triangular forms of matrices, and functions that are easy for them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from ... import numpy
from ...numpy.elementwise import Tensor
from ...numpy.linalg.matrices import adjoint, check_square, inexact, wrong_shape, wrong_value
from ...trace.apply import apply, as_tensor
from ...trace.arguments import callable_of, choice, count_of, flag
from ...trace.array_arguments import known_real
from ...trace.promotion import promote_operands
from ...trace.scan import scan
from ...transforms import custom_jvp


def schur(a: Tensor, output: str = "real") -> tuple[Any, Any]:
    """T and Z with a = Z T Zᴴ, Z unitary, T triangular.

    For a real matrix and the output "real", T has a block of two rows for each pair of complex
    eigenvalues; with "complex" both are complex. There is no derivative.
    """
    if output not in ("real", "complex"):
        wrong_value("schur", f"there is no output {output!r}", fix='use "real" or "complex"')
    (a,) = inexact(a)
    check_square("schur", a)
    return apply("schur", _as_complex(a) if output == "complex" else a)


def _as_complex(x: Any) -> Any:
    return x if numpy.iscomplexobj(x) else numpy.astype(x, _complex_dtype(x))


def _complex_dtype(x: Any) -> str:
    return "complex128" if x.dtype.name in ("float64", "complex128") else "complex64"


def hessenberg(
    a: Tensor, *, calc_q: bool = False, overwrite_a: bool = False, check_finite: bool = True
) -> Any:
    """H, zero below the first lower diagonal, with a = Q H Qᴴ; with `calc_q` H and Q.

    Q is unitary. There is no derivative.
    """
    (a,) = inexact(a)
    check_square("hessenberg", a)
    h, q = apply("hessenberg", a)
    return (h, q) if calc_q else h


def rsf2csf(T: Tensor, Z: Tensor, check_finite: bool = True) -> tuple[Any, Any]:
    """The complex triangular form T, Z of a matrix from its real one."""
    t, z = map(as_tensor, promote_operands(as_tensor(T), as_tensor(Z), inexact=True))
    check_square("rsf2csf", t)
    check_square("rsf2csf", z)
    if t.shape[-1] != z.shape[-1]:
        wrong_shape("rsf2csf", "the sizes differ", t, z, fix="give matrices of one size")
    turned, q = apply("schur", _as_complex(t))
    return turned, _as_complex(z) @ q


# -- functions of matrices ------------------------------------------------------------------------


def funm(A: Tensor, func: Callable[[Any], Any], disp: bool = True) -> Any:
    """A function of a matrix, given what it is of numbers; complex.

    Without `disp` an estimate of the error comes along. Eigenvalues that lie close together cost
    digits. Golub and Van Loan, "Matrix Computations", algorithm 11.1.1 (Parlett's recurrence).

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


def sqrtm(A: Tensor, blocksize: int = 1) -> Any:
    """The matrix whose square is A and whose eigenvalues have real parts >= 0.

    It is complex. Björck and Hammarling, "A Schur method for the square root of a matrix", 1983.

    >>> sqrtm([[4.0, 0.0], [0.0, 9.0]]).real.tolist()
    [[2.0, 0.0], [0.0, 3.0]]
    """
    if count_of("sqrtm: blocksize", blocksize) > 1:
        wrong_value("sqrtm", "there are no blocks", fix="leave out blocksize")
    (a,) = inexact(A)
    check_square("sqrtm", a)
    return _root(_as_complex(a))


@custom_jvp
def _root(a: Any) -> Any:
    t, z = apply("schur", a)
    return z @ _triangular_root(t) @ adjoint(z)


@_root.defjvp
def _root_jvp(primals: Any, tangents: Any) -> Any:
    """Where x x = a, dx solves x dx + dx x = da."""
    root = _root(*primals)
    return root, solve_sylvester(root, root, tangents[0])


def _triangular_root(t: Any) -> Any:
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
) -> Any:
    """The X with A X + X B = C; NaN if A and -B share an eigenvalue, to within `tol`.

    Both methods, "schur" and "eigen", are that of Bartels and Stewart, 1972. Axes before the last
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


def _triangular_sylvester(r: Any, s: Any, f: Any, tol: float) -> Any:
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
