"""Transposition on `cpu`: blocks in registers, their edges, and what is fused with them."""

from __future__ import annotations

from collections.abc import Callable

import ml_dtypes
import numpy as np
import pytest

import rlx
import rlx.numpy as rnp
from rlx.backends.cpu.llvm import host

DTYPES = ("bool", "uint8", "int16", "float16", "bfloat16", "int32", "float64", "uint64")
SHAPES = ((64, 64), (128, 96), (63, 65), (65, 191), (259, 40), (3, 2000), (2000, 3), (17, 1000))


def numbers(shape: tuple[int, ...], dtype: str) -> np.ndarray:
    """Different numbers, as far as the dtype has them."""
    kind = ml_dtypes.bfloat16 if dtype == "bfloat16" else dtype
    return (np.arange(np.prod(shape)).reshape(shape) * 7 % 251).astype(kind)


@pytest.mark.parametrize("dtype", DTYPES)
def test_transposition_of_each_dtype(dtype: str) -> None:
    for shape in SHAPES:
        x = numbers(shape, dtype)
        np.testing.assert_array_equal(np.asarray(rlx.jit(rnp.transpose)(x)), x.T)


@pytest.mark.parametrize("axes", [(0, 2, 1), (2, 1, 0), (1, 2, 0), (2, 0, 1)])
@pytest.mark.parametrize("shape", [(5, 70, 33), (64, 3, 130)])
def test_transposition_of_three_axes(shape: tuple[int, ...], axes: tuple[int, ...]) -> None:
    x = numbers(shape, "float32")
    moved = rlx.jit(lambda x: rnp.transpose(x, axes))(x)
    np.testing.assert_array_equal(np.asarray(moved), x.transpose(axes))


@pytest.mark.parametrize(
    "fn",
    [
        lambda x, y: x + y.T,
        lambda x, y: x.T * 2.0 - y.T,
        lambda x, y: rnp.where(x.T > y, y.T, x) + x[:, :1],
        lambda x, y: x.T.astype("float64") + y.astype("float64"),
        lambda x, y: rnp.pad(x.T, ((1, 2), (3, 0))) * 3.0,
        lambda x, y: (x.T, x + x.T),
        lambda x, y: x.T[::-1, 3:] + 1,
        lambda x, y: (x + y.T).T + y,
    ],
)
@pytest.mark.parametrize("size", [64, 97])
def test_transposition_with_arithmetic(fn: Callable, size: int) -> None:
    x, y = numbers((size, size), "float32"), numbers((size, size), "float32") + 0.5
    found, wanted = rlx.jit(fn)(x, y), rlx.jit(fn, device="reference")(x, y)
    for a, b in zip(*map(rlx.tree.leaves, (found, wanted)), strict=True):
        assert a.dtype == b.dtype
        np.testing.assert_array_equal(np.asarray(a), np.asarray(b))


def test_transposition_into_its_own_argument() -> None:
    """A donated argument that is read in both orders stays as it was until it is read."""
    x = numbers((130, 130), "float32")
    twice = rlx.jit(lambda x: (x + 1.0) + (x + 1.0).T, donate_argnums=0)
    np.testing.assert_array_equal(np.asarray(twice(rnp.array(x))), (x + 1) + (x + 1).T)


@pytest.mark.parametrize("cores", [1, 2, 3])
def test_each_number_of_threads_writes_every_block(
    cores: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    from dataclasses import replace

    few = replace(host.host(), cores=cores)
    monkeypatch.setattr("rlx.backends.cpu.backend.host", lambda: few)
    for shape in ((700, 390), (20, 9001), (9001, 20)):
        x = numbers(shape, "float32")
        np.testing.assert_array_equal(np.asarray(rlx.jit(lambda x: x.T)(x)), x.T)


def test_transposition_of_any_size() -> None:
    turned = rlx.jit(lambda x: x.T * 2.0, dynamic={"x": {0: "n", 1: "m"}})
    for shape in ((64, 128), (1, 40), (97, 131), (500, 33)):
        x = numbers(shape, "float32")
        np.testing.assert_array_equal(np.asarray(turned(x)), x.T * 2)


def test_rows_that_end_with_a_single_lane() -> None:
    """LLVM stores two half floats where the mask says one and they come from single floats."""
    x = numbers((40, 33), "bfloat16")
    rows = np.array([3, 2, 7, 6])
    put = rlx.jit(lambda x, y: x.at[rows].set(y * 2))(x, x[:4])
    wanted = x.copy()
    wanted[rows] = x[:4] * 2
    np.testing.assert_array_equal(np.asarray(put), wanted)
