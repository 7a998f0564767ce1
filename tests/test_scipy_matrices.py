"""The rest of `rlx.scipy.linalg`: named matrices, triangular forms, functions of matrices."""

from __future__ import annotations

import inspect
from typing import Any

import jax.scipy.linalg
import numpy as np
import pytest
import scipy.linalg

import rlx
import rlx.numpy as rnp
from rlx.ir.errors import RlxError
from rlx.scipy import linalg

RANDOM = np.random.default_rng(0)
A, B, C = RANDOM.normal(size=(5, 5)), RANDOM.normal(size=(4, 4)), RANDOM.normal(size=(5, 4))
Z = A + 1j * RANDOM.normal(size=(5, 5))
POSITIVE = A @ A.T + np.eye(5)
LINE = RANDOM.normal(size=5)


def close(got: Any, wanted: Any, tolerance: float = 1e-10) -> None:
    got, wanted = np.asarray(got), np.asarray(wanted)
    assert got.shape == wanted.shape
    np.testing.assert_allclose(got, wanted, rtol=tolerance, atol=tolerance)


def test_names_and_parameters_are_those_of_jax() -> None:
    for name, other in vars(jax.scipy.linalg).items():
        if not name.startswith("_") and callable(other):
            wanted = [(p.name, p.kind) for p in inspect.signature(other).parameters.values()]
            mine = inspect.signature(getattr(linalg, name)).parameters.values()
            assert [(p.name, p.kind) for p in mine] == wanted, name


NAMED = """
hilbert(4) | invhilbert(5) | pascal(5) | pascal(4, "lower") | pascal(4, "upper") | invpascal(5)
invpascal(4, "lower") | helmert(5) | helmert(4, full=True) | hadamard(8) | hadamard(1) | dft(6)
dft(5, "sqrtn") | dft(4, "n") | hankel(LINE) | hankel(LINE, C[:, 0]) | circulant(LINE)
leslie(LINE, LINE[:4]) | companion(LINE) | fiedler(LINE) | fiedler_companion(LINE)
fiedler_companion(LINE[:2]) | fiedler_companion(LINE[:3]) | convolution_matrix(LINE, 3)
convolution_matrix(LINE, 7, "same") | convolution_matrix(LINE, 3, "valid")
convolution_matrix(LINE[:2], 4, "same") | convolution_matrix(LINE, 1)
"""


CALLS = [text.strip() for text in NAMED.replace("\n", "|").split("|") if text.strip()]


@pytest.mark.parametrize("text", CALLS)
def test_named_matrices_are_those_of_scipy(text: str) -> None:
    got = eval(f"m.{text}", {"m": linalg, "LINE": LINE, "C": C})
    wanted = eval(f"m.{text}", {"m": scipy.linalg, "LINE": LINE, "C": C})
    close(got, wanted, 1e-12 if got.dtype == "float64" else 1e-5)


def test_matrices_of_lines_batch_and_differentiate() -> None:
    rows = RANDOM.normal(size=(3, 5))
    for make in (
        linalg.circulant,
        linalg.hankel,
        linalg.companion,
        linalg.fiedler,
        linalg.fiedler_companion,
    ):
        close(make(rows), np.stack([make(row) for row in rows]))
        close(rlx.vmap(make)(rows), make(rows))
    slope = rlx.grad(lambda c: (linalg.circulant(c) * np.arange(25.0).reshape(5, 5)).sum())(LINE)
    close(slope[0], np.trace(np.arange(25.0).reshape(5, 5)))


# -- triangular forms -----------------------------------------------------------------------------


SQUARES = {
    "real": A,
    "complex": Z,
    "one": A[:1, :1],
    "turn": np.roll(np.eye(4), 1, 0),
    "eye": np.eye(3),
    "zero": 0 * A,
    "symmetric": POSITIVE,
    "nilpotent": np.diag(np.ones(3), 1),
    "many": np.stack([A, A.T]),
}


@pytest.mark.parametrize("a", SQUARES.values(), ids=SQUARES)
def test_triangular_forms(a: np.ndarray) -> None:
    for output in ("real", "complex"):
        t, z = map(np.asarray, linalg.schur(a, output))
        back = z @ t @ np.swapaxes(z.conj(), -1, -2)
        close(back, a.astype(back.dtype))
        close(z @ np.swapaxes(z.conj(), -1, -2), np.broadcast_to(np.eye(a.shape[-1]), a.shape))
        is_real = t.dtype.kind == "f"
        assert not np.tril(t, -2 if is_real else -1).any()
        if is_real and a.ndim == 2:
            below = np.diagonal(t, -1) != 0
            assert not (below[1:] & below[:-1]).any()
            assert (np.diagonal(t)[1:] == np.diagonal(t)[:-1])[below].all()
    h, q = map(np.asarray, linalg.hessenberg(a, calc_q=True))
    close(q @ h @ np.swapaxes(q.conj(), -1, -2), a)
    assert not np.tril(h, -2).any()
    close(linalg.hessenberg(a), h)


def test_triangular_forms_compile_and_become_complex() -> None:
    t, z = rlx.jit(linalg.schur)(A)
    turned, q = map(np.asarray, linalg.rsf2csf(t, z))
    assert not np.tril(turned, -1).any()
    close(q @ turned @ q.conj().T, A.astype(complex))
    single = linalg.schur(A.astype("float32"))[0]
    assert single.dtype == "float32"
    many = rlx.vmap(linalg.schur)(np.stack([A, A.T]))
    close(many[0][1], linalg.schur(A.T)[0])
    with pytest.raises(RlxError, match="not unique"):
        rlx.grad(lambda a: linalg.schur(a)[0].sum())(A)


# -- functions of matrices ------------------------------------------------------------------------


def slopes_agree(fn: Any, *xs: np.ndarray) -> None:
    """Compiled gradients against differences."""
    gradients = rlx.jit(rlx.grad(fn, tuple(range(len(xs)))))(*xs)
    for i, (x, gradient) in enumerate(zip(xs, gradients, strict=True)):
        step = 1e-6 * RANDOM.normal(size=x.shape)
        ends = [float(fn(*xs[:i], x + s * step, *xs[i + 1 :])) for s in (1, -1)]
        change = float((gradient * step).sum())
        np.testing.assert_allclose(change, (ends[0] - ends[1]) / 2, rtol=1e-5, atol=1e-11)


def test_roots_of_matrices() -> None:
    for a in (POSITIVE, A, Z, A[:1, :1]):
        root = np.asarray(linalg.sqrtm(a))
        close(root @ root, a.astype(complex), 1e-9)
        assert (np.linalg.eigvals(root).real > -1e-12).all()
    close(linalg.sqrtm(np.stack([POSITIVE, A]))[1], linalg.sqrtm(A))
    close(rlx.vmap(linalg.sqrtm)(np.stack([POSITIVE, A]))[0], linalg.sqrtm(POSITIVE))
    weights = RANDOM.normal(size=(5, 5))
    slopes_agree(lambda a: (linalg.sqrtm(a).real * weights).sum(), POSITIVE)


def test_equations_of_sylvester() -> None:
    for a, b, c in ((A, B, C), (Z, B, C + 1j), (A, B.astype(complex), C)):
        x = np.asarray(linalg.solve_sylvester(a, b, c))
        close(a @ x + x @ b, c.astype(x.dtype), 1e-9)
    assert linalg.solve_sylvester(A, B, C).dtype == "float64"
    close(linalg.solve_sylvester(A, B, C, method="eigen"), linalg.solve_sylvester(A, B, C))
    many = linalg.solve_sylvester(np.stack([A, 2 * A]), B, C)
    close(many[1], linalg.solve_sylvester(2 * A, B, C))
    assert np.isnan(linalg.solve_sylvester(A, -A, A)).all()
    weights = RANDOM.normal(size=(5, 4))
    slopes_agree(lambda a, b, c: (linalg.solve_sylvester(a, b, c) * weights).sum(), A, B, C)


def test_functions_of_matrices() -> None:
    close(linalg.funm(A, rnp.exp), scipy.linalg.expm(A).astype(complex), 1e-8)
    close(linalg.funm(POSITIVE, lambda x: x**3), np.linalg.matrix_power(POSITIVE, 3), 1e-7)
    result, error = linalg.funm(A, rnp.sin, disp=False)
    close(result, scipy.linalg.sinm(A).astype(complex), 1e-8)
    assert 0 < error < 1e-10
    both = linalg.expm_frechet(A, C @ C.T)
    for got, wanted in zip(both, scipy.linalg.expm_frechet(A, C @ C.T), strict=True):
        close(got, wanted, 1e-9)
    close(linalg.expm_frechet(A, C @ C.T, compute_expm=False), both[1])


def test_polar_and_products_with_q() -> None:
    for a in (A, C, C.T, Z):
        for side in ("right", "left"):
            for got, wanted in zip(linalg.polar(a, side), scipy.linalg.polar(a, side), strict=True):
                close(got, wanted)
    slopes_agree(lambda a: (linalg.polar(a)[1] * np.arange(16.0).reshape(4, 4)).sum(), C)
    right = ((C, LINE, "right"), (C, RANDOM.normal(size=(3, 5)), "right"), (Z, A, "right"))
    for a, c, mode in (*right, (C, B, "left"), (C, B[0], "left"), (Z, A, "left")):
        for conjugate in (False, True):
            cq, r = linalg.qr_multiply(a, c, mode, conjugate=conjugate)
            q, _ = linalg.qr(a, mode="economic")
            q = np.conj(q) if conjugate else np.asarray(q)
            close(cq, q @ c if mode == "left" else c @ q)
            close(np.abs(r), np.abs(scipy.linalg.qr_multiply(a, c, mode)[1]))


def test_tridiagonal_matrices() -> None:
    d, e = LINE, RANDOM.normal(size=4)
    values, vectors = linalg.eigh_tridiagonal(d, e)
    wanted, _ = scipy.linalg.eigh_tridiagonal(d, e)
    close(values, wanted)
    matrix = np.diag(d) + np.diag(e, 1) + np.diag(e, -1)
    close(matrix @ vectors, np.asarray(vectors) * np.asarray(values))
    close(
        linalg.eigh_tridiagonal(d, e, eigvals_only=True, select="i", select_range=(1, 3)),
        wanted[1:4],
    )
    slopes_agree(lambda d, e: linalg.eigh_tridiagonal(d, e, eigvals_only=True)[0], d, e)


def test_what_has_no_meaning_is_refused() -> None:
    for call in (
        lambda: linalg.pascal(3, "left"),
        lambda: linalg.hilbert(-1),
        lambda: linalg.helmert(0),
        lambda: linalg.hadamard(6),
        lambda: linalg.dft(3, "half"),
        lambda: linalg.dft(3, dtype="float32"),
        lambda: linalg.leslie(LINE, LINE),
        lambda: linalg.companion([1.0]),
        lambda: linalg.convolution_matrix(LINE, 0),
        lambda: linalg.convolution_matrix(LINE, 3, "whole"),
        lambda: linalg.schur(C),
        lambda: linalg.schur(A, "imaginary"),
        lambda: linalg.rsf2csf(A, B),
        lambda: linalg.funm(np.stack([A, A]), rnp.exp),
        lambda: linalg.sqrtm(A, blocksize=4),
        lambda: linalg.solve_sylvester(A, B, C.T),
        lambda: linalg.solve_sylvester(A, B, C, method="magic"),
        lambda: linalg.polar(A, "up"),
        lambda: linalg.qr_multiply(A, C, "right"),
        lambda: linalg.qr_multiply(A, C, pivoting=True),
        lambda: linalg.eigh_tridiagonal(LINE, LINE),
        lambda: linalg.eigh_tridiagonal(LINE, LINE[1:], select="v"),
        lambda: linalg.expm_frechet(A, B),
    ):
        with pytest.raises(RlxError) as caught:
            call()
        assert caught.value.fix
