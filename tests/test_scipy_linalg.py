"""`rlx.scipy.linalg` is `jax.scipy.linalg`: values, derivatives, batches; and errors."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import jax
import jax.numpy as jnp
import jax.scipy.linalg
import numpy as np
import pytest
import scipy.linalg
from test_linalg import (
    ARRAYS,
    COMPLEX,
    QUICK,
    close,
    directions,
    everything,
    function,
    matrix,
    split,
)

import rlx
import rlx.numpy as rnp
from rlx.ir.errors import AttributeValueError, DtypeError, RlxError, ShapeError
from rlx.scipy import linalg

OURS = SimpleNamespace(linalg=linalg, conj=rnp.conj, abs=rnp.abs, eye=rnp.eye)
THEIRS = SimpleNamespace(linalg=jax.scipy.linalg, conj=jnp.conj, abs=jnp.abs, eye=jnp.eye)
SCIPY = SimpleNamespace(linalg=scipy.linalg, conj=np.conj, abs=np.abs, eye=np.eye)
# complex, and with derivatives
LIKE_JAX = """
cho_solve(cho_factor(a @ H(a)), b) | solve_triangular(a, c, "C", lower=True) | lu(w[0])[2]
solve_triangular(m[0], n, unit_diagonal=True) | lu_solve(lu_factor(a), b)
"""
SMOOTH = """
cholesky(a @ H(a)) | cho_solve(cho_factor(a @ H(a), True), c) | solve_triangular(a, b) | inv(a)
solve_triangular(a, c, trans=1, lower=True) | solve_triangular(a, b, "N", True, True) | solve(a, b)
det(a) | solve(a + H(a), c, assume_a="sym") | lu_solve(lu_factor(a), b, 1)
lu_solve(lu_factor(a), c, 2) | lu(t)[1] | lu(t, permute_l=True)[0] | expm(a)
expm(d * 0.001) | expm(m) | expm(9 * m[0])
expm(0 * a + d[0, 0] * eye(4)) | qr(t, mode="economic")[1] | toeplitz(b, v) | toeplitz(v)
block_diag(a, b, t) | block_diag(v[0], m[0]) | svd(t, compute_uv=False) | abs(svd(a)[2])
abs(eigh(a @ H(a))[1]) | eigh(a @ H(a), eigvals_only=True) | qr(t)[0] | qr(t, mode="r")[0]
"""


@pytest.fixture(autouse=True)
def double_precision():
    with jax.enable_x64(True):
        yield


@pytest.mark.parametrize("expression", split(LIKE_JAX))
def test_agrees_with_jax(expression: str):
    ours, given = function(expression, OURS, COMPLEX)
    theirs, _ = function(expression, THEIRS, COMPLEX)
    tangents = directions(given, 1)
    (weights,) = directions([np.asarray(ours(*given))], 2)

    def compared(given: Any, tangents: Any) -> Any:
        return everything(theirs, jax, given, tangents, weights, False)

    wanted = jax.jit(compared, compiler_options=QUICK)(given, tangents)
    close(everything(ours, rlx, given, tangents, weights, False), wanted)


@pytest.mark.parametrize("expression", split(SMOOTH))
def test_agrees_with_scipy(expression: str):
    ours, given = function(expression, OURS, ARRAYS)
    theirs, _ = function(expression, SCIPY, ARRAYS)
    tangents = directions(given, 1)
    out, moved = rlx.jvp(ours, tuple(given), tuple(tangents))
    close(out, theirs(*given), 1e-8 if "9 *" in expression else 1e-9)
    above, below = (
        theirs(*(x + step * t for x, t in zip(given, tangents, strict=True)))
        for step in (1e-6, -1e-6)
    )
    scale = 1e-6 * max(1.0, float(np.max(np.abs(out))))
    np.testing.assert_allclose(moved, (above - below) / 2e-6, rtol=1e-6, atol=scale)
    (weights,) = directions([np.asarray(out)], 2)
    back = rlx.vjp(ours, *given)[1](weights)
    left = np.sum(weights * np.asarray(moved))
    right = sum(np.sum(np.asarray(b) * t) for b, t in zip(back, tangents, strict=True))
    np.testing.assert_allclose(left, right, rtol=1e-9, atol=1e-9)


@pytest.mark.parametrize("expression", split(LIKE_JAX + SMOOTH))
def test_batches_and_compiles(expression: str):
    fn, given = function(expression, OURS, ARRAYS)
    steps = directions(given, 3)
    members = [[x + 0.1 * k * t for x, t in zip(given, steps, strict=True)] for k in range(2)]
    got = rlx.jit(rlx.vmap(fn))(*map(np.stack, zip(*members, strict=True)))
    for k, member in enumerate(members):
        close(got[k], fn(*member))


def test_what_needs_too_many_squarings_is_nan():
    x = ARRAYS["a"] * 1000
    assert np.isnan(np.asarray(linalg.expm(x, max_squarings=3))).all()
    assert np.isfinite(np.asarray(linalg.expm(x[:1, :1] / 1000, max_squarings=0))).all()
    assert linalg.block_diag().shape == (1, 0)


def test_expm_of_each_matrix_of_a_batch_is_squared_as_often_as_it_needs():
    many = np.stack([matrix(0, 3, 3) * scale for scale in (0.01, 1.0, 20.0)])
    got = linalg.expm(many)
    for x, one in zip(many, got, strict=True):
        wanted = np.asarray(linalg.expm(x))
        np.testing.assert_allclose(one, wanted, rtol=1e-12, atol=1e-12 * np.abs(wanted).max())
    values, vectors = np.linalg.eig(many[1])
    exact = ((vectors * np.exp(values)) @ np.linalg.inv(vectors)).real
    np.testing.assert_allclose(got[1], exact, rtol=1e-11)
    short = linalg.expm(many[1].astype("float32"))
    assert short.dtype == np.float32
    np.testing.assert_allclose(short, exact, rtol=1e-4)


def test_positive_definite_systems_read_one_part():
    a = ARRAYS["a"] @ ARRAYS["a"].T
    for lower, part in ((True, np.tril(a)), (False, np.triu(a))):
        x = linalg.solve(part, ARRAYS["b"], lower=lower, assume_a="pos")
        np.testing.assert_allclose(x, np.linalg.solve(a, ARRAYS["b"]), rtol=1e-9)


SQUARE, TALL = np.eye(3), np.ones((3, 2))
REFUSED = [
    ("cho_factor", (TALL,), ShapeError),
    ("cho_solve", ((SQUARE, True), np.ones(4)), ShapeError),
    ("solve_triangular", (TALL, np.ones(3)), ShapeError),
    ("solve_triangular", (SQUARE, np.ones(3), 3), AttributeValueError),
    ("solve_triangular", (SQUARE.astype("float16"), np.ones(3, "float16")), DtypeError),
    ("lu_factor", (np.ones(3),), ShapeError),
    ("lu_solve", (linalg.lu_factor(SQUARE), np.ones(4)), ShapeError),
    ("lu_solve", (linalg.lu_factor(SQUARE), np.ones(3), 5), AttributeValueError),
    ("lu", (np.ones(3),), ShapeError),
    ("qr", (SQUARE, False, None, "raw"), AttributeValueError),
    ("qr", (SQUARE, False, None, "full", True), AttributeValueError),
    ("eigh", (SQUARE, SQUARE), AttributeValueError),
    ("expm", (TALL,), ShapeError),
    ("block_diag", (np.ones((2, 2, 2)),), ShapeError),
    ("solve", (SQUARE, np.ones(3), False, False, False, False, True, "band"), AttributeValueError),
]


@pytest.mark.parametrize("name, given, error", REFUSED, ids=lambda x: str(x)[:20])
def test_refuses(name: str, given: Any, error: type[RlxError]):
    with pytest.raises(error) as caught:
        getattr(linalg, name)(*given)
    assert caught.value.fix
    assert "test_scipy_linalg.py" in str(caught.value.where)
