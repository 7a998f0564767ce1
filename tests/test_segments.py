"""Rows with matrices of their own: numbers, bits, derivatives, one program for all adapters."""

from __future__ import annotations

import numpy as np
import pytest

import rlx
from rlx import nn
from rlx.ir.errors import RlxError

RANDOM = np.random.default_rng(0)
DYNAMIC = {"x": {0: "T"}, "w": {0: rlx.dim("count", min=0)}, "index": {0: "T"}}
SIZES = [(576, 8), (8, 576), (1, 1), (7, 33), (3, 130), (64, 16)]
PRODUCT = rlx.jit(nn.segmented_dot, dynamic=DYNAMIC)


def drawn(tokens: int, count: int, k: int, n: int, dtype: str = "float32") -> tuple:
    x, w = RANDOM.normal(size=(tokens, k)), RANDOM.normal(size=(count, k, n))
    index = RANDOM.integers(-1, count, tokens).astype("int32")
    return rlx.numpy.asarray(x, dtype), rlx.numpy.asarray(w, dtype), index


def plain(x: object, w: object, index: np.ndarray) -> np.ndarray:
    x, w = (np.asarray(a).astype("float64") for a in (x, w))
    return np.stack(
        [row @ w[i] if i >= 0 else 0 * w[0, 0] for row, i in zip(x, index, strict=True)]
    )


@pytest.mark.parametrize("dtype", ["float32", "bfloat16", "float64"])
@pytest.mark.parametrize(
    "sizes", [(576, 8), (8, 576), (1, 1), (7, 33), (3, 130), (64, 16)], ids=str
)
def test_rows_have_the_bits_that_they_have_alone(sizes: tuple[int, int], dtype: str) -> None:
    x, w, index = drawn(23, 5, *sizes, dtype)
    made = np.asarray(PRODUCT(x, w, index))
    epsilon = float(rlx.numpy.finfo(dtype).eps)
    wanted = plain(x, w, index)
    scale = np.abs(np.asarray(x).astype("float64")).sum(1).max() * 4
    np.testing.assert_allclose(made.astype("float64"), wanted, rtol=epsilon, atol=epsilon * scale)
    for some in (slice(0, 1), slice(5, 6), slice(3, 20)):
        np.testing.assert_array_equal(np.asarray(PRODUCT(x[some], w, index[some])), made[some])
    order = RANDOM.permutation(5)
    places = np.where(index < 0, -1, np.argsort(order)[index]).astype("int32")
    np.testing.assert_array_equal(np.asarray(PRODUCT(x, w[order], places)), made)


def test_adapters_are_exchanged_without_a_compile() -> None:
    """Other adapters, another number of them, other choices: the program stays."""
    PRODUCT(*drawn(4, 2, 16, 4))
    with rlx.no_recompile():
        for tokens, count in ((4, 2), (1, 3), (9, 1)):
            x, w, index = drawn(tokens, count, 16, 4)
            np.testing.assert_allclose(
                PRODUCT(x, w, index), plain(x, w, index), rtol=1e-5, atol=1e-5
            )


@pytest.mark.parametrize(
    ("dtype", "index"),
    [("int64", [2**32, -(2**33), 1]), ("uint32", [2**32 - 1, 2**31, 0]), ("uint64", [2**63, 0, 1])],
)
def test_numbers_beyond_32_bits_are_beyond_the_last(dtype: str, index: list[int]) -> None:
    x, w, _ = drawn(3, 2, 4, 3)
    near = np.array([min(max(i, -1), 1) for i in index], "int32")
    wanted = nn.segmented_dot(x, w, near)
    np.testing.assert_array_equal(nn.segmented_dot(x, w, np.array(index, dtype)), wanted)


def test_derivatives() -> None:
    """By rows and matrices: those of the products one by one, also of no row for a matrix."""
    x, w, _ = drawn(6, 4, 5, 3, "float64")
    index = np.array([0, 2, -1, 2, 2, 0], "int32")

    def total(x: object, w: object) -> object:
        return (nn.segmented_dot(x, w, index) ** 2).sum()

    by_x, by_w = rlx.jit(rlx.grad(total, (0, 1)))(x, w)
    ct, xs, ws = 2 * plain(x, w, index), np.asarray(x), np.asarray(w)
    wanted_w = np.zeros(w.shape)
    for t, i in enumerate(index):
        if i >= 0:
            wanted_w[i] += np.outer(xs[t], ct[t])
    np.testing.assert_allclose(by_w, wanted_w, rtol=1e-12)
    chosen = np.where(index[:, None, None] < 0, 0, ws[index])
    np.testing.assert_allclose(by_x, np.einsum("tn,tkn->tk", ct, chosen), rtol=1e-12)
    rlx.testing.check_grads(total, (x, w), order=2)


def test_batches() -> None:
    """vmap over rows, matrices and choices is a loop."""
    drawn_ones = [drawn(4, 3, 6, 5) for _ in range(2)]
    stacked = [rlx.numpy.stack(xs) for xs in zip(*drawn_ones, strict=True)]
    made = rlx.jit(rlx.vmap(nn.segmented_dot))(*stacked)
    for one, xs in zip(made, drawn_ones, strict=True):
        np.testing.assert_allclose(one, nn.segmented_dot(*xs), rtol=1e-5, atol=1e-6)


X, W, INDEX = np.ones((4, 3), "float32"), np.ones((2, 3, 5), "float32"), np.zeros(4, "int32")
WRONG = {
    "sizes": lambda: nn.segmented_dot(X, W[:, :2], INDEX),
    "axes": lambda: nn.segmented_dot(X, W[0], INDEX),
    "count": lambda: nn.segmented_dot(X, W, INDEX[:3]),
    "float index": lambda: nn.segmented_dot(X, W, INDEX.astype("float32")),
    "whole rows": lambda: nn.segmented_dot(X.astype("int32"), W, INDEX),
}


@pytest.mark.parametrize("name", WRONG)
def test_what_is_refused(name: str) -> None:
    with pytest.raises(RlxError) as caught:
        WRONG[name]()
    assert caught.value.fix


def test_no_matrices_give_zeros() -> None:
    none = np.zeros((0, 3, 5), "float32")
    assert (np.asarray(PRODUCT(X, none, INDEX)) == 0).all()
    assert (np.asarray(rlx.jit(nn.segmented_dot)(X, none, INDEX)) == 0).all()
