"""`rlx.numpy.linalg` is `jax.numpy.linalg`: values, dtypes, derivatives, batches; and errors."""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import rlx
import rlx.numpy as rnp
from rlx.ir.errors import (
    AttributeValueError,
    AxisError,
    ConcretizationError,
    DtypeError,
    GradientError,
    RlxError,
    ShapeError,
)
from rlx.numpy import linalg
from rlx.trace.apply import apply
from rlx.trace.make_graph import make_graph, spec


@pytest.fixture(autouse=True)
def double_precision():
    with jax.enable_x64(True):
        yield


def matrix(seed: int, *shape: int) -> np.ndarray:
    """Random numbers, far from singular if they are square matrices."""
    random = np.random.default_rng(seed)
    x = random.normal(size=shape)
    return x + 3 * np.eye(*shape[-2:]) if len(shape) > 1 else x


MODES = [
    {"left_side": left, "lower": lower, "transpose_a": turned, "conjugate_a": True}
    for left in (True, False)
    for lower in (True, False)
    for turned in (True, False)
]
ARRAYS = {
    "a": matrix(0, 4, 4),
    "b": matrix(1, 4),
    "c": matrix(2, 4, 2),
    "m": matrix(3, 2, 3, 3),
    "n": matrix(4, 2, 3, 2),
    "t": matrix(5, 5, 3),
    "w": matrix(6, 2, 3, 5),
    "s": matrix(7, 4, 4).reshape(4, 2, 2),
    "r": matrix(8, 4, 4).reshape(2, 2, 4),
    "v": matrix(9, 3),
    "d": matrix(10, 2, 2),
}
COMPLEX = {name: x + 1j * matrix(i + 20, *x.shape) for i, (name, x) in enumerate(ARRAYS.items())}

# each gives numbers that do not depend on signs and phases that LAPACK is free to choose
TWICE = """
cholesky(a @ H(a)) | qr(t).R | abs(svd(t, False).Vh[1]) | abs(eigh(a).eigenvectors) | eig_vectors(a)
solve(a, b) | inv(d) | pinv(t) | det(a) | slogdet(m).logabsdet | norm(b, 3) | norm(a, "nuc")
"""
CORE = """
qr(a).Q | qr(w).R | qr(t, "complete").Q | svdvals(t) | abs(svd(w, False).U) | eigvalsh(m)
svd(a + H(a), compute_uv=False, hermitian=True) | solve(m[0], n) | inv(m) | pinv(w)
lstsq(t, t[:, :2] ** 2)[1] | det(m)
"""
# what is different for complex numbers
PHASES = """
qr(a).R | eigvals(a) | slogdet(a).sign | norm(m)
"""
MORE = """
cholesky(m + 9 * eye(3)) | qr(w).Q | abs(svd(a + H(a), hermitian=True).U[1]) | eigvalsh(a, "U")
eigh(a).eigenvalues | solve(m, n) | solve(m, n[0]) | pinv(a + H(a), hermitian=True)
lstsq(t, t[:, 0] ** 2)[0] | lstsq(w[0], n[0])[0] | slogdet(d)[1] | norm(b) | norm(b, 0.5)
norm(a, 2) | norm(m, "nuc", axis=(2, 0)) | norm(m, inf, axis=(0, 1), keepdims=True)
cond(m, 1) | cond(a, -2) | tensorsolve(s, s[0], axes=(0,))
"""
# where no vectors and no degenerate cases are in play NumPy and differences are enough
SIMPLE = """
cholesky(a @ H(a), upper=True) | qr(t, "r") | svd(w, False).S | abs(svd(a).U[0]) | det(d[:1, :1])
svd(a + H(a), hermitian=True).S | eigvals(m) | solve(a, c) | solve(m, v[:, None]) | inv(a) | pinv(a)
det(d) | norm(b, 1) | norm(b, inf) | norm(b, -inf) | norm(b, -2) | norm(b, 0) | norm(a, 1) | cond(a)
norm(a, -1) | norm(a, inf) | norm(a, -inf) | norm(a, -2) | norm(a, "fro") | norm(m, axis=1)
norm(m, 1, axis=(2, 0)) | norm(m, axis=(0, 2)) | norm(m, 3, axis=-1, keepdims=True)
norm(m, 2, axis=(0, 1), keepdims=True) | matrix_norm(m, ord=1, keepdims=True) | vector_norm(m)
vector_norm(m, axis=1, ord=4, keepdims=True) | vector_norm(m, axis=(0, 2), ord=1) | cond(a, "fro")
cross(m, m[::-1]) | cross(m[:, :, :1], n[:, :, :1], axis=1) | diagonal(m) | diagonal(w, offset=1)
trace(m) | trace(w, offset=-1) | matmul(m, n) | matrix_transpose(n) | matrix_power(a, 0)
matrix_power(a, 5) | matrix_power(m, 1) | matrix_power(m, -3) | multi_dot([v, m[0], w[0], t])
multi_dot([a, c, c.T, b]) | outer(b, v) | tensordot(m, w, axes=((0, 1), (0, 1)))
tensordot(m[0], w[0], axes=1) | vecdot(n, n[::-1], axis=0) | tensorinv(r) | tensorinv(s, ind=1)
tensorsolve(s, b) | vecdot(m, m[::-1])
"""


def split(text: str) -> list[str]:
    return [e.strip() for line in text.split("\n") if line for e in line.split("|")]


CASES = [
    *(pytest.param(e, ARRAYS, True, id=f"second order of {e}") for e in split(TWICE)),
    *(pytest.param(e, COMPLEX, False, id=f"complex {e}") for e in split(TWICE + PHASES)),
    *(pytest.param(e, ARRAYS, False, id=e) for e in split(CORE + PHASES + MORE)),
]
EVERY = [
    *((e, ARRAYS) for e in split(TWICE + CORE + PHASES + MORE + SIMPLE)),
    *((e, COMPLEX) for e in split(TWICE + CORE + PHASES)),
]
# the programs run once: XLA shall compile fast
QUICK = {"xla_backend_optimization_level": 0, "xla_llvm_disable_expensive_passes": True}


def function(expression: str, numpy: Any, arrays: dict[str, np.ndarray]) -> Any:
    """The expression as a function of the arrays it names, and these."""
    code = compile(expression, expression, "eval")
    used = [name for name in arrays if name in code.co_names]
    tools = {name: getattr(numpy.linalg, name) for name in dir(numpy.linalg) if name[0] != "_"}
    tools |= {"H": lambda x: numpy.conj(x).T, "abs": numpy.abs, "eye": numpy.eye, "inf": np.inf}
    if numpy is jnp:  # the second derivative needs that of vectors, for which JAX asks
        tools["eigvals"] = lambda x: eig_with_derivative(x)[0]
        tools["eig_vectors"] = lambda x: eig_with_derivative(x)[1]
    else:
        tools["eig_vectors"] = lambda x: numpy.linalg.eig(x).eigenvectors

    def fn(*given: Any) -> Any:
        return eval(code, tools, dict(zip(used, given, strict=True)))

    return fn, [arrays[name] for name in used]


def eig_with_derivative(x: Any) -> Any:
    return jax.lax.linalg.eig(x, compute_left_eigenvectors=False, enable_eigvec_derivs=True)


def directions(xs: Any, seed: int) -> list[np.ndarray]:
    random = np.random.default_rng(seed)
    made = [random.normal(size=np.shape(x)) for x in xs]
    parts = [random.normal(size=np.shape(x)) for x in xs]
    return [
        m + 1j * p if np.iscomplexobj(x) else m for x, m, p in zip(xs, made, parts, strict=True)
    ]


def everything(fn: Any, tools: Any, given: Any, tangents: Any, weights: Any, second: bool) -> Any:
    """Value, tangent and cotangents; of second order also the tangent of the cotangents."""

    def pull(*xs: Any) -> Any:
        return tools.vjp(fn, *xs)[1](weights)

    forward = tools.jvp(fn, tuple(given), tuple(tangents))
    return forward, (tools.jvp(pull, tuple(given), tuple(tangents)) if second else pull(*given))


def close(ours: Any, theirs: Any, tolerance: float = 1e-9) -> None:
    mine, others = rlx.tree.leaves(ours), jax.tree.leaves(theirs)
    assert len(mine) == len(others)
    for x, y in zip(mine, others, strict=True):
        x, y = np.asarray(x), np.asarray(y)
        assert (x.shape, x.dtype) == (y.shape, y.dtype)
        scale = max(1.0, float(np.max(np.abs(y), initial=0)))
        np.testing.assert_allclose(x, y, rtol=tolerance, atol=tolerance * scale)


@pytest.mark.parametrize("expression, arrays, second", CASES)
def test_agrees_with_jax(expression: str, arrays: dict[str, np.ndarray], second: bool):
    ours, given = function(expression, rnp, arrays)
    theirs, _ = function(expression, jnp, arrays)
    tangents = directions(given, 1)
    (weights,) = directions([np.asarray(ours(*given))], 2)

    def compared(given: Any, tangents: Any) -> Any:
        return everything(theirs, jax, given, tangents, weights, second)

    wanted = jax.jit(compared, compiler_options=QUICK)(given, tangents)
    close(everything(ours, rlx, given, tangents, weights, second), wanted)


@pytest.mark.parametrize("expression", split(SIMPLE))
def test_agrees_with_numpy(expression: str):
    ours, given = function(expression, rnp, ARRAYS)
    theirs, _ = function(expression, np, ARRAYS)
    tangents = directions(given, 1)
    out, moved = rlx.jvp(ours, tuple(given), tuple(tangents))
    close(out, theirs(*given))
    above, below = (
        theirs(*(x + step * t for x, t in zip(given, tangents, strict=True)))
        for step in (1e-6, -1e-6)
    )
    np.testing.assert_allclose(moved, (above - below) / 2e-6, rtol=1e-6, atol=1e-6)


@pytest.mark.parametrize("expression, arrays", EVERY)
def test_batches(expression: str, arrays: dict[str, np.ndarray]):
    fn, given = function(expression, rnp, arrays)
    steps = directions(given, 3)
    members = [[x + 0.1 * k * t for x, t in zip(given, steps, strict=True)] for k in range(2)]
    got = rlx.vmap(fn)(*map(np.stack, zip(*members, strict=True)))
    for k, member in enumerate(members):
        close(got[k], fn(*member))


@pytest.mark.parametrize("expression", split(TWICE + CORE))
def test_compiles(expression: str):
    fn, given = function(expression, rnp, ARRAYS)
    close(rlx.jit(fn)(*given), fn(*given))


# -- values alone -------------------------------------------------------------------------------


@pytest.mark.parametrize("dtype", ["float32", "float64", "complex64", "complex128"])
def test_dtypes_are_those_of_jax(dtype: str):
    kept = COMPLEX if dtype.startswith("complex") else ARRAYS
    arrays = {name: x.astype(dtype) for name, x in kept.items()}
    calls = "cholesky(a @ H(a)) | solve(a, b) | inv(a) | det(a) | slogdet(a) | svdvals(a) | qr(a).R"
    calls += (
        " | eigvalsh(a) | pinv(a) | norm(a, 2) | eigvals(a) | eigh(a).eigenvalues | lstsq(a, b)[0]"
    )
    for call in split(calls + " | cond(a) | vector_norm(b, ord=3) | det(d) | norm(b)"):
        ours, given = function(call, rnp, arrays)
        theirs, _ = function(call, jnp, arrays)
        types = jax.tree.leaves(jax.eval_shape(theirs, *given))
        in_double, wide = function(call, rnp, kept)
        exact = rlx.tree.leaves(in_double(*wide))
        for x, type, wide in zip(rlx.tree.leaves(ours(*given)), types, exact, strict=True):
            assert (x.dtype, x.shape) == (type.dtype, type.shape), call
            tolerance = 1e3 * float(np.finfo(dtype).eps)
            np.testing.assert_allclose(x, np.asarray(wide), rtol=tolerance, atol=tolerance)


@pytest.mark.parametrize("modes", MODES)
def test_triangular_solve_is_that_of_jax(modes: dict[str, bool]):
    a, b = COMPLEX["a"], COMPLEX["a"][::-1, :2]
    b = b if modes["left_side"] else b.T
    for unit in (True, False):
        wanted = jax.lax.linalg.triangular_solve(a, b, unit_diagonal=unit, **modes)
        close(apply("triangular_solve", a, b, unit_diagonal=unit, **modes), wanted)


@pytest.mark.parametrize("n", [1, 65, 150])  # more than a block of rows
def test_systems_of_many_equations(n: int):
    a, b = matrix(1, n, n) / n + np.eye(n), matrix(2, n, 3)
    for lower, part in ((True, np.tril(a)), (False, np.triu(a))):
        x = apply("triangular_solve", a, b, lower=lower)
        np.testing.assert_allclose(part @ x, b, rtol=1e-10, atol=1e-10)
    np.testing.assert_allclose(a @ linalg.solve(a, b), b, rtol=1e-10, atol=1e-10)


@pytest.mark.parametrize("shape", [(4, 4), (70, 70), (2, 40, 6), (6, 40), (3, 0), (0, 2, 2)])
@pytest.mark.parametrize("dtype", ["float64", "complex128"])
def test_lu_is_that_of_jax(shape: tuple[int, ...], dtype: str):
    random = np.random.default_rng(0)
    x = random.normal(size=shape)
    x = x + 1j * random.normal(size=shape) if dtype == "complex128" else x
    close(apply("lu", x), list(jax.lax.linalg.lu(x)))


def test_triangular_solve_with_zeros_is_that_of_jax():
    a = np.array([[1.0, 0.0], [2.0, 0.0]])
    b = np.array([[1.0], [3.0]])
    wanted = jax.lax.linalg.triangular_solve(a, b, left_side=True, lower=True)
    np.testing.assert_array_equal(apply("triangular_solve", a, b), wanted)


# -- where answers or derivatives end -------------------------------------------------------------


def test_no_answer_is_nan_for_that_matrix_alone():
    good, bad = np.eye(2), np.ones((2, 2))
    both = np.stack([good, bad - 2 * good])
    np.testing.assert_array_equal(linalg.cholesky(both)[0], good)
    assert np.isnan(np.asarray(linalg.cholesky(both)[1])[np.tril_indices(2)]).all()
    inverse = linalg.inv(np.stack([good, bad]))
    np.testing.assert_array_equal(inverse[0], good)
    assert np.isnan(np.asarray(inverse[1])).all()
    assert linalg.slogdet(bad).logabsdet == -np.inf
    assert linalg.cond(bad, 1) == linalg.cond(0 * bad) == np.inf
    assert np.isnan(linalg.cond(bad * np.nan))
    for values in (linalg.svdvals, linalg.eigvals, linalg.eigvalsh):
        result = np.asarray(values(np.stack([good, bad * np.nan])))
        np.testing.assert_array_equal(result[0], [1, 1])
        assert np.isnan(result[1]).all()


@pytest.mark.parametrize("ord", [None, 1, 2, 3, 1.5, np.inf])
def test_norms_of_zero_have_a_finite_slope(ord: Any):
    slope = rlx.grad(lambda x: linalg.norm(x, ord))(np.zeros(3))
    assert np.isfinite(np.asarray(slope)).all()
    bend = rlx.hessian(lambda x: linalg.norm(x))(np.zeros(3))
    assert np.isfinite(np.asarray(bend)).all()


@pytest.mark.parametrize("ord", ["fro", "nuc", 1, 2, np.inf])
def test_matrix_norms_of_zero_have_a_finite_slope(ord: Any):
    slope = rlx.grad(lambda x: linalg.norm(x, ord))(np.zeros((3, 3)))
    assert np.isfinite(np.asarray(slope)).all()


@pytest.mark.parametrize("n", [1, 2, 3, 4, 6])
def test_det_of_a_singular_matrix_has_a_slope(n: int):
    x = matrix(0, n, n)
    x[0] = x[-1] * 2 if n > 1 else 0  # rank n - 1
    minors = [
        [np.linalg.det(np.delete(np.delete(x, i, 0), j, 1)) * (-1) ** (i + j) for j in range(n)]
        for i in range(n)
    ]
    slope = rlx.grad(linalg.det)(x)
    np.testing.assert_allclose(slope, minors, rtol=1e-9, atol=1e-9)
    x = np.zeros((n, n))  # of rank n - 2 or less there is no minor
    np.testing.assert_array_equal(rlx.grad(linalg.det)(x), np.ones((1, 1)) if n == 1 else x)


def test_equal_singular_values_have_derivatives_of_what_does_not_turn():
    x, t = np.eye(3), matrix(1, 3, 3)
    for fn in (linalg.svdvals, linalg.eigvalsh, linalg.pinv, lambda x: linalg.norm(x, "nuc")):
        _, moved = rlx.jvp(fn, (x,), (t,))
        assert np.isfinite(np.asarray(moved)).all()
    _, moved = rlx.jvp(linalg.pinv, (x,), (t,))
    np.testing.assert_allclose(moved, -t, atol=1e-14)


def test_full_svd_of_a_matrix_that_is_not_square_has_no_derivative():
    with pytest.raises(GradientError, match="full_matrices"):
        rlx.grad(lambda x: linalg.svd(x).U.sum())(ARRAYS["t"])


def test_without_symmetrizing_only_one_part_is_read():
    a = ARRAYS["a"]
    for part, kept in (("L", np.tril(a)), ("U", np.triu(a))):
        whole = kept + kept.T - np.diag(np.diag(a))
        wanted = np.linalg.eigvalsh(whole)
        got = linalg.eigvalsh(a, part, symmetrize_input=False)
        np.testing.assert_allclose(got, wanted, rtol=1e-12)
    lower = np.tril(a) + np.tril(a, -1).T + 9 * np.eye(4)
    got = linalg.cholesky(np.tril(lower), symmetrize_input=False)
    np.testing.assert_allclose(got, np.linalg.cholesky(lower), rtol=1e-12)


def test_rank_and_least_squares_of_dependent_columns():
    x = np.outer([1.0, 2.0, 3.0], [1.0, -1.0])
    assert linalg.matrix_rank(x) == 1
    assert linalg.matrix_rank(x, tol=100.0) == 0
    assert linalg.matrix_rank(np.array([0.0, 2.0])) == 1
    b = np.array([1.0, 2.0, 4.0])
    for ours, theirs in zip(linalg.lstsq(x, b), np.linalg.lstsq(x, b), strict=True):
        if theirs.size:  # without numpy_resid there are residuals
            np.testing.assert_allclose(ours, theirs, atol=1e-12)
    assert linalg.lstsq(x, b, numpy_resid=True)[1].shape == (0,)
    with pytest.raises(ConcretizationError):
        rlx.jit(lambda x: linalg.lstsq(x, b, numpy_resid=True)[1])(x)


# -- bad input ------------------------------------------------------------------------------------

SQUARE, TALL, LINE = np.eye(3), np.ones((3, 2)), np.ones(3)
REFUSED = [
    *(
        (name, (TALL,), ShapeError, "not square")
        for name in ("cholesky", "eigh", "eigvalsh", "eig", "eigvals", "inv", "det", "slogdet")
    ),
    *(
        (name, (LINE,), ShapeError, "no matrix")
        for name in (
            "cholesky",
            "qr",
            "svd",
            "svdvals",
            "eigh",
            "eig",
            "inv",
            "det",
            "pinv",
            "trace",
            "diagonal",
            "matrix_norm",
            "matrix_transpose",
            "cond",
        )
    ),
    *(
        (name, (SQUARE.astype("float16"),), DtypeError, "float16")
        for name in ("cholesky", "qr", "svd", "eigh", "eig", "inv", "pinv", "slogdet")
    ),
    ("solve", (TALL, LINE), ShapeError, "not square"),
    ("solve", (SQUARE, np.ones(4)), ShapeError, "3 columns"),
    ("solve", (SQUARE, 1.0), ShapeError, "3 columns"),
    ("solve", (np.ones((2, 3, 3)), np.ones((4, 3, 1))), ShapeError, "solve"),
    ("solve", (LINE, LINE), ShapeError, "no matrix"),
    ("lstsq", (SQUARE, np.ones(4)), ShapeError, "3 rows"),
    ("lstsq", (LINE, LINE), ShapeError, "lstsq"),
    ("pinv", (TALL, None, True), ShapeError, "not square"),
    ("matrix_power", (TALL, 2), ShapeError, "not square"),
    ("matrix_power", (SQUARE, 0.5), AttributeValueError, "no integer"),
    ("matrix_rank", (SQUARE, 1.0), AttributeValueError, "tol"),
    ("norm", (np.ones((2, 2, 2)), 1), ShapeError, "3 axes"),
    ("norm", (LINE, "fro"), AttributeValueError, "'fro'"),
    ("norm", (SQUARE, 3), AttributeValueError, "ord 3"),
    ("norm", (SQUARE, None, 2), AxisError, "axis 2"),
    ("norm", (SQUARE, None, (0, 0)), AxisError, "twice"),
    ("cond", (TALL, 1), ShapeError, "not square"),
    ("cond", (np.ones((0, 0)),), ShapeError, "empty"),
    ("qr", (SQUARE, "raw"), AttributeValueError, "'raw'"),
    ("eigh", (SQUARE, "X"), AttributeValueError, "'X'"),
    ("cross", (np.ones(2), np.ones(2)), ShapeError, "3 elements"),
    ("outer", (SQUARE, LINE), ShapeError, "vectors"),
    ("multi_dot", ([LINE],), AttributeValueError, "1 arrays"),
    ("multi_dot", ([LINE, TALL, SQUARE],), ShapeError, "2 and 3"),
    ("multi_dot", ([SQUARE, LINE, SQUARE],), ShapeError, "axes"),
    ("tensorinv", (TALL, 1), ShapeError, "3"),
    ("tensorinv", (SQUARE, 0), AttributeValueError, "ind"),
    ("tensorsolve", (SQUARE, np.ones(4)), ShapeError, "(4,)"),
]


@pytest.mark.parametrize("name, given, error, text", REFUSED, ids=lambda x: str(x)[:20])
def test_refuses(name: str, given: Any, error: type[RlxError], text: str):
    keywords = {"tol": 1.0} if name == "matrix_rank" else {}
    with pytest.raises(error) as caught:
        getattr(linalg, name)(*given, **keywords)
    assert text in caught.value.what
    assert caught.value.fix
    assert "test_linalg.py" in str(caught.value.where)


def test_integers_become_floats():
    assert linalg.det([[1, 2], [3, 4]]).dtype == np.float32
    assert linalg.inv(np.eye(2, dtype="int64")).dtype == np.float32


def test_matrices_without_elements():
    empty = np.zeros((2, 0, 0))
    assert linalg.det(empty).tolist() == [1, 1]
    assert linalg.inv(empty).shape == linalg.eigh(empty).eigenvectors.shape == (2, 0, 0)
    assert linalg.svd(np.zeros((0, 3)), False).Vh.shape == (0, 3)
    assert linalg.lstsq(np.zeros((0, 3)), np.zeros(0))[0].tolist() == [0, 0, 0]
    assert linalg.pinv(np.zeros((0, 3))).shape == (3, 0)
    assert linalg.norm(np.zeros((0, 3)), 2) == 0


@pytest.mark.parametrize("name", ["inv", "pinv", "cholesky", "eigvalsh", "svdvals", "norm"])
def test_sizes_may_be_symbolic(name: str):
    def total(x: Any) -> Any:
        return getattr(linalg, name)(x).sum()

    made = make_graph(rlx.grad(total))(spec(("n", "n"), "float64"))
    assert [str(type) for type in made.result_types] == ["f64[n, n]"]


def test_the_lesser_of_open_sizes_is_a_size_and_what_needs_numbers_says_so():
    made = make_graph(linalg.svdvals)(spec(("n", "k"), "float64"))
    assert [str(type) for type in made.result_types] == ["f64[minimum(k, n)]"]
    with pytest.raises(GradientError, match="slogdet"):
        make_graph(rlx.grad(linalg.det))(spec(("n", "n"), "float64"))
