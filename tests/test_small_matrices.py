"""Small matrices are written out in scalars: what LAPACK gives for them, they give too."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import rlx
import rlx.numpy as rnp
from rlx.ir.graph import OPS
from rlx.trace.apply import apply

RANDOM = np.random.default_rng(7)
SIZES = (1, 2, 3, 4)
DTYPES = (np.float32, np.float64)


def compiled(f: Any, *args: Any) -> Any:
    """The function's results, made by a program without a library call."""
    jitted = rlx.jit(f)
    assert "library" not in jitted.lower(*args).compile().report()
    return jitted(*args)


def scaled(n: int, dtype: Any) -> np.ndarray:
    """Matrices whose rows and columns differ in size by many powers of ten."""
    powers = 10.0 ** RANDOM.integers(-6, 7, (40, n, 1))
    return (RANDOM.normal(size=(40, n, n)) * powers * 10.0 ** RANDOM.integers(-3, 4, n)).astype(
        dtype
    )


def pivoted(n: int, dtype: Any) -> np.ndarray:
    """Random matrices, some with zeros where elimination begins, of whole numbers with ties."""
    matrices = RANDOM.integers(-3, 4, (40, n, n)).astype(dtype)
    matrices[::2] += np.eye(n, k=1, dtype=dtype) * 7 + np.eye(n, k=1 - n, dtype=dtype) * 7
    return matrices


def is_backward_stable(a: np.ndarray, x: np.ndarray, b: np.ndarray) -> np.ndarray:
    """Whether each x solves a system near that of a: the residual of LU with exchange of rows."""
    n, eps = a.shape[-1], np.finfo(a.dtype).eps
    a, x, b = (np.asarray(each, np.float64) for each in (a, x, b))
    residual = np.abs(a @ x - b).max((-2, -1))
    sizes = np.abs(a).sum(-1).max(-1) * np.abs(x).max((-2, -1)) + np.abs(b).max((-2, -1))
    return residual <= 8 * n * 2.0 ** (n - 1) * eps * sizes


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("n", SIZES)
@pytest.mark.parametrize("count", [2, 9])
def test_solves_with_exchange_of_rows(n: int, dtype: Any, count: int):
    a = np.concatenate([pivoted(n, dtype), scaled(n, dtype)])
    b = RANDOM.normal(size=(len(a), n, count)).astype(dtype)
    is_regular = np.linalg.matrix_rank(a.astype(np.float64), rtol=1e-12) == n
    plain, turned = compiled(
        lambda a, b: [apply("linear_solve", a, b, transpose_a=t) for t in (False, True)], a, b
    )
    assert is_backward_stable(a, np.asarray(plain), b)[is_regular].all()
    assert is_backward_stable(a.swapaxes(1, 2), np.asarray(turned), b)[is_regular].all()
    assert not np.isnan(np.asarray(plain)[is_regular]).any()


@pytest.mark.parametrize("n", SIZES)
def test_a_singular_matrix_gives_nan(n: int):
    zero, last = np.zeros((n, n)), np.eye(n)
    last[-1] = 0
    both = np.stack([zero, last, np.eye(n)])
    inverse = np.asarray(compiled(rnp.linalg.inv, both))
    assert np.isnan(inverse[:2]).all()
    assert (inverse[2] == np.eye(n)).all()


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("shape", [(n, n) for n in SIZES] + [(4, 2), (1, 3), (3, 4)])
def test_lu_is_the_reference(shape: tuple[int, int], dtype: Any):
    x = RANDOM.normal(size=(40, *shape)).astype(dtype)
    x[:8] = 0
    x[8:16, 0] = 0
    both, pivots, order = compiled(lambda x: apply("lu", x), x)
    expected = OPS["lu"].run([x], {})
    assert (np.asarray(pivots) == expected[1]).all()
    assert (np.asarray(order) == expected[2]).all()
    assert pivots.dtype == order.dtype == np.int32
    unit = 2.0 ** max(shape) * np.finfo(dtype).eps
    size = np.abs(x).max((-2, -1), keepdims=True)
    growth = np.abs(expected[0]).max((-2, -1), keepdims=True)
    # an error of U of this size moves a factor by it over the pivot
    least = np.where(expected[0] == 0, np.inf, np.abs(expected[0])).min((-2, -1), keepdims=True)
    bound = 8 * unit * np.maximum(size, growth) * np.maximum(1, growth / np.minimum(least, 1))
    assert (np.abs(np.asarray(both) - expected[0]) <= bound).all()


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("n", SIZES)
def test_cholesky(n: int, dtype: Any):
    root = RANDOM.normal(size=(40, n, n)).astype(dtype)
    x = root @ root.swapaxes(1, 2) + np.eye(n, dtype=dtype)
    x[:3, -1, -1] = [0, -1, np.nan]
    lower = np.asarray(compiled(lambda x: apply("cholesky", x), x))
    assert np.isnan(lower[:3][:, *np.tril_indices(n)]).all()
    assert (np.triu(lower, 1) == 0).all()
    product = lower[3:] @ lower[3:].swapaxes(1, 2)
    bound = 4 * (n + 1) * np.finfo(dtype).eps * np.abs(x[3:]).max()
    assert np.abs(product - x[3:]).max() <= bound


@pytest.mark.parametrize("n", SIZES)
@pytest.mark.parametrize("left_side", [True, False])
@pytest.mark.parametrize("count", [3, 7])
def test_triangular_solve(n: int, left_side: bool, count: int):
    a = RANDOM.normal(size=(5, n, n)) + 3 * np.eye(n)
    b = RANDOM.normal(size=(5, n, count) if left_side else (5, count, n))
    modes = [
        {"lower": lower, "transpose_a": turned, "unit_diagonal": unit, "left_side": left_side}
        for lower in (True, False)
        for turned in (True, False)
        for unit in (True, False)
    ]
    results = compiled(lambda a, b: [apply("triangular_solve", a, b, **m) for m in modes], a, b)
    for mode, x in zip(modes, results, strict=True):
        (expected,) = OPS["triangular_solve"].run([a, b], {**mode, "conjugate_a": False})
        assert np.allclose(x, expected, rtol=0, atol=1e-12 * max(1, np.abs(expected).max()))


def test_a_zero_on_the_diagonal():
    a, b = np.array([[0.0, 0], [1, 1]]), np.array([[1.0], [2]])
    x = compiled(lambda a, b: apply("triangular_solve", a, b), a, b)
    assert np.asarray(x).tolist() == [[np.inf], [-np.inf]]


@pytest.mark.parametrize("n", SIZES)
def test_determinants(n: int):
    a = np.concatenate([pivoted(n, np.float64), RANDOM.normal(size=(20, n, n))])
    a[0] = 1
    det, (sign, size) = compiled(lambda a: [apply("det", a), apply("slogdet", a)], a)
    expected = np.linalg.det(a)
    most = np.abs(a).sum(-1).prod(-1)  # no determinant is larger
    assert (np.abs(det - expected) <= 1e-14 * most).all()
    is_regular = np.abs(expected) > 1e-9
    assert (np.asarray(sign)[is_regular] == np.sign(expected[is_regular])).all()
    assert np.allclose(np.asarray(size)[is_regular], np.log(np.abs(expected[is_regular])))
    if n > 1:
        assert (float(sign[0]), float(size[0])) == (0, -np.inf)


def test_larger_and_complex_ones_are_library_calls():
    for x in (np.eye(5), np.eye(2, dtype=np.complex64), np.zeros((0, 0))):
        report = rlx.jit(rnp.linalg.inv).lower(x).compile().report()
        assert "linear_solve: library (NumPy)" in report


def test_a_batch_of_unknown_size():
    f = rlx.jit(rnp.linalg.inv, dynamic={"a": {0: rlx.dim("n", min=0)}})
    for count in (0, 1, 21):
        a = RANDOM.normal(size=(count, 3, 3))
        assert np.allclose(f(a), np.linalg.inv(a), rtol=1e-9)
    assert "library" not in f.lower(a).compile().report()


def test_gradients_go_through():
    def f(a: Any, b: Any) -> Any:
        return rnp.sum(rnp.linalg.solve(a @ a.T + rnp.eye(3), b) ** 2) + rnp.linalg.slogdet(a)[1]

    a, b = RANDOM.normal(size=(3, 3)), RANDOM.normal(size=(3, 2))
    eager = rlx.grad(f)(a, b)
    assert np.allclose(rlx.jit(rlx.grad(f))(a, b), eager, rtol=1e-11)
    stacked = rlx.jit(rlx.vmap(rlx.grad(f)))(np.stack([a, 2 * a]), np.stack([b, b]))
    assert np.allclose(stacked[0], eager, rtol=1e-11)
