"""Rows that are asked for while the row before them is computed."""

from __future__ import annotations

import numpy as np
import pytest

import rlx
from rlx.backends.cpu.host import host


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
