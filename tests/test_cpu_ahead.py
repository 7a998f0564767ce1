"""Rows that are asked for while the row before them is computed."""

from __future__ import annotations

import numpy as np
import pytest

import rlx
from rlx.backends.cpu.llvm.host import host


def softmax(x: rlx.Array) -> rlx.Array:
    return rlx.nn.functional.softmax(x, -1)


@pytest.mark.parametrize("is_large", [False, True])
def test_only_rows_that_lie_far_away_are_asked_for(is_large: bool) -> None:
    rows = host().l2 // (2 * 4 * 600) + 8 if is_large else 64
    x = np.random.default_rng(0).standard_normal((rows, 600), np.float32)
    compiled = rlx.jit(softmax).lower(x).compile()
    assert ("call void @llvm.prefetch" in compiled.stages["llvm"]) == is_large
    expected = np.exp(x - x.max(-1, keepdims=True))
    expected /= expected.sum(-1, keepdims=True)
    np.testing.assert_allclose(compiled(x), expected, rtol=16 * np.finfo(np.float32).eps)


def test_the_only_row_of_a_round() -> None:
    q, k, v = (
        np.random.default_rng(i).standard_normal((1, 12, n, 64))
        for i, n in enumerate((1, 256, 256))
    )
    q, k, v = (np.swapaxes(x, 1, 2).astype(np.float32) for x in (q, k, v))

    def attend(q: rlx.Array, k: rlx.Array, v: rlx.Array) -> rlx.Array:
        return rlx.nn.functional.dot_product_attention(q, k, v)

    rlx.verify(attend)(q, k, v)
