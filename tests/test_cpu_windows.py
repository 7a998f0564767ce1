"""Windows over padded images on `cpu`: masks that are known, branches, loads of pairs."""

from __future__ import annotations

import re
from typing import Any

import numpy as np
import pytest

import rlx
import rlx.lax as lax
import rlx.numpy as rnp
from rlx.backends.cpu.llvm.host import host

random = np.random.default_rng(0)


def small(shape: tuple[int, ...], dtype: str = "float32") -> np.ndarray:
    """Whole numbers, of which sums are exact."""
    return np.asarray(rnp.asarray(random.integers(-4, 5, shape)).astype(dtype))


def same(fn: object, *arrays: np.ndarray) -> None:
    found, wanted = rlx.jit(fn)(*arrays), rlx.jit(fn, device="reference")(*arrays)  # type: ignore
    np.testing.assert_array_equal(np.asarray(found), np.asarray(wanted))


@pytest.mark.parametrize("width", [5, 31, 56, 64, 65, 130])
@pytest.mark.parametrize(("stride", "dilation"), [(1, 1), (2, 1), (3, 1), (1, 2), (2, 2)])
@pytest.mark.parametrize("size", [3, 5])
def test_depthwise_convolutions(width: int, stride: int, dilation: int, size: int) -> None:
    def fn(x: rlx.Array, w: rlx.Array) -> rlx.Array:
        pads = ((size // 2, size // 2), (1, 2))
        dilations = (dilation, dilation)
        return lax.conv_general_dilated(
            x, w, (stride, stride), pads, rhs_dilation=dilations, feature_group_count=6
        )

    same(fn, small((2, 6, 12, width)), small((6, 1, size, size)))


@pytest.mark.parametrize("dtype", ["float32", "float64", "float16", "bfloat16", "int32", "uint8"])
@pytest.mark.parametrize("stride", [1, 2, 3])
def test_pools_of_each_dtype(dtype: str, stride: int) -> None:
    pads, window, strides = ((0, 0), (1, 1), (1, 0)), (1, 3, 3), (1, stride, stride)
    lowest = -4 if dtype != "uint8" else 0
    for width in (7, 56, 67):
        x = small((3, 9, width), dtype)
        same(lambda x: lax.reduce_window(x, lowest, lax.max, window, strides, pads), x)
        same(lambda x: lax.reduce_window(x, 0, lax.add, window, strides, pads), x)


def test_what_lies_outside_is_multiplied_too() -> None:
    """Zero times infinity is no number, also where the zero is padding."""

    def fn(x: rlx.Array, w: rlx.Array) -> rlx.Array:
        return lax.conv_general_dilated(x, w, (1, 1), ((1, 1), (1, 1)), feature_group_count=1)

    w = small((1, 1, 3, 3)).copy()
    w[0, 0, 0, 2] = np.inf
    same(fn, np.abs(small((1, 1, 6, 40))) + 1, w)


def test_minus_zero_outside_stays() -> None:
    x = np.full((4, 37), -0.0, np.float32)

    def fn(x: rlx.Array) -> rlx.Array:
        return rnp.pad(x, ((1, 1), (2, 1)), constant_values=-0.0)

    padded = np.asarray(rlx.jit(fn)(x))
    assert np.signbit(padded).all() and padded.shape == (6, 40)


def test_what_is_loaded_whole_is_not_taken_for_its_part() -> None:
    for size in (4, 16, 37, 100):
        same(lambda x: x + rnp.pad(x[3:], ((3, 0),)), small((size,)))
        same(lambda x: rnp.pad(x[:, 2:], ((0, 0), (2, 0))) - x * x, small((5, size)))


def test_gradients_of_windows() -> None:
    x, w = small((2, 4, 11, 20)), small((4, 1, 3, 3))

    def loss(x: rlx.Array, w: rlx.Array) -> rlx.Array:
        made = lax.conv_general_dilated(x, w, (2, 2), ((1, 1), (1, 1)), feature_group_count=4)
        return (made * made).sum()

    same(lambda x, w: rlx.grad(loss)(x, w), x, w)
    same(lambda x, w: rlx.grad(loss, argnums=1)(x, w), x, w)


@pytest.mark.parametrize("reduce", ["max", "sum"])
def test_few_partial_sums_leave_registers_for_many_lanes(reduce: str) -> None:
    """With `deterministic="batch"` windows run in vectors as wide as those of the fast mode."""

    def widest(**options: Any) -> int:
        f = rlx.jit(lambda x: getattr(rnp, reduce)(x, 1), **options)
        text = f.lower(rlx.spec((9, 3, 500))).compile().stages["llvm"]
        return max(map(int, re.findall(r"<(\d+) x float>", text)))

    assert widest(deterministic="batch") == widest() > host().lanes(4)
