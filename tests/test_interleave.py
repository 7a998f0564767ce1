"""Lanes that lie apart in memory are read with their neighbors, and never past the ends."""

from __future__ import annotations

from typing import Any

import ml_dtypes
import numpy as np
import pytest

import rlx
import rlx.numpy as rnp

DTYPES = (np.float32, np.float64, np.int8, np.int32, np.bool_, np.float16, ml_dtypes.bfloat16)


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("n", [6, 64, 67, 198])
def test_every_second_number(n: int, dtype: Any):
    x = (np.arange(2 * n).reshape(2, n) % 97 % 5).astype(dtype)

    def parts(xp: Any, x: Any) -> list[Any]:
        even = n - n % 2
        first, second = x[:, 0:even:2], x[:, 1:even:2]
        return [first | second if dtype is np.bool_ else first + second, x[:, ::-2], x[:, -2::-2]]

    for result, expected in zip(rlx.jit(lambda x: parts(rnp, x))(x), parts(np, x), strict=True):
        assert (np.asarray(result) == expected).all()


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("count", [1, 15, 16, 40, 129])
@pytest.mark.parametrize("n", [2, 3, 4])
def test_stored_side_by_side(count: int, n: int, dtype: Any):
    x = (np.arange(count * n * n).reshape(count, n, n) % 7).astype(dtype) + 9 * np.eye(
        n, dtype=dtype
    )
    inverse = np.asarray(rlx.jit(rnp.linalg.inv)(x))
    unit = np.finfo(dtype).eps * 2.0**n * n
    assert np.abs(x @ inverse - np.eye(n)).max() <= unit * np.abs(x).max() * np.abs(inverse).max()
