"""Programs on which `cpu` and `reference` once differed."""

from __future__ import annotations

from collections.abc import Callable

import ml_dtypes
import numpy as np
import pytest

import rlx
import rlx.numpy as rnp


def check(fn: Callable, *xs: np.ndarray) -> None:
    """Compare both devices, bit for bit but for NaN."""
    found, wanted = rlx.jit(fn)(*xs), rlx.jit(fn, device="reference")(*xs)
    assert found.dtype == wanted.dtype
    np.testing.assert_array_equal(
        np.asarray(found).astype(np.complex128), np.asarray(wanted).astype(np.complex128)
    )


@pytest.mark.parametrize("size", [(33, 5, 2), (3, 4, 2), (2, 3, 2), (40, 8, 3), (64, 64, 16)])
@pytest.mark.parametrize(
    "fn",
    [
        lambda x, v: rnp.einsum("bkm,k->bm", x, v),
        lambda x, v: rnp.swapaxes(x, 1, 2) @ v,
        lambda x, v: rnp.tensordot(v, x, ((0,), (1,))),
        lambda x, v: rnp.swapaxes(x, 1, 2) @ v[:, None],
        lambda x, v: (rnp.swapaxes(x, 1, 2) @ v) * 2 + 1,
    ],
)
def test_products_whose_longest_axis_is_not_dense(fn, size):
    random = np.random.default_rng(0)
    x = random.integers(-3, 4, size).astype(np.float32)
    check(fn, x, random.integers(-3, 4, size[1]).astype(np.float32))


@pytest.mark.parametrize("size", [1, 33, 64, 97])
@pytest.mark.parametrize(
    "fn",
    [
        lambda x: x[:, 1, :],
        lambda x: rnp.concatenate([x, x], 2),
        lambda x: rnp.transpose(x, (2, 0, 1)),
        lambda x: x.at[0].set(2.0),
        lambda x: x[..., ::-1],
        lambda x: rnp.einsum("fcb,fdb->cd", x, x),
    ],
)
def test_moving_bfloat16(fn, size):
    x = np.arange(12 * size).reshape(4, 3, size) % 7
    check(fn, x.astype(ml_dtypes.bfloat16))


@pytest.mark.parametrize(
    ("x", "dtypes"),
    [
        (np.array([-1, -128, 5], np.int8), ["float32", "uint8"]),
        (np.array([300, -3], np.int16), ["float32", "int8"]),
        (np.array([300, -3], np.int16), ["int32", "int8"]),
        (np.array([1j, 0, 1], np.complex64), ["bool"]),
        (np.array([1 + 2**-11 + 2**-40, 2049.0000001, 65519.9999, 1e300, np.nan]), ["float16"]),
        (-np.array([1 + 2**-11 + 2**-40, 2049.0000001, 65519.9999, np.inf, 1e-9]), ["float16"]),
    ],
)
def test_conversions(x, dtypes):
    def convert(x):
        for dtype in dtypes:
            x = x.astype(dtype)
        return x

    check(convert, x)


@pytest.mark.parametrize(
    "fn",
    [
        lambda x: x * 1.5,
        lambda x: rnp.max(x, axis=1),
        lambda x: rnp.argmax(x, axis=1),
        lambda x: x.astype("float32").astype("bfloat16"),
    ],
)
def test_the_smallest_numbers_of_bfloat16(fn):
    x = np.array([[-1, -1e-40, -1e-38], [3e-39, np.nan, 1], [-1e-40, -1e-38, 1e-40]])
    check(fn, x.astype(ml_dtypes.bfloat16))


def test_products_of_bfloat16_may_take_subnormal_numbers_for_zeros():
    """Instructions for pairs do (docs/precision.md); others count them."""
    x = np.array([[-1, -1e-40, -1e-38], [3e-39, np.nan, 1], [-1e-40, -1e-38, 1e-40]])
    x = x.astype(ml_dtypes.bfloat16)
    flushed = np.where(np.abs(x.astype("f4")) < 2.0**-126, 0, x).astype(x.dtype)
    w = rnp.ones((3, 20), "bfloat16")
    found = np.asarray(rlx.jit(lambda x: x @ w)(x)).astype("f4")
    allowed = [np.asarray(z.astype("f4") @ np.ones((3, 20), "f4")) for z in (x, flushed)]
    allowed = [z.astype(x.dtype).astype("f4") for z in allowed]
    assert any(np.array_equal(found, z, equal_nan=True) for z in allowed)


@pytest.mark.parametrize("bits", [0x7FFFFFFF, 0x7F800001, -1, 0x7FC00000, 0x7F7FFFFF, 0x3F808000])
def test_any_bits_are_rounded_to_bfloat16(bits):
    check(lambda x: x.astype("bfloat16"), np.full(20, bits, np.int32).view(np.float32))


@pytest.mark.parametrize("cut", [slice(2, 2), slice(2, None), slice(1, 1), slice(3, 9)])
@pytest.mark.parametrize("first", [slice(0, 4, 3), slice(1, 5, 3), slice(4, 5), slice(0, 5, 2)])
def test_slices_of_slices(first, cut):
    check(lambda x: x[first][cut], np.arange(5, dtype=np.float32))


@pytest.mark.parametrize(
    "fn",
    [
        lambda x: x + 0.0,
        lambda x: 0.0 + x,
        lambda x: x + -0.0,
        lambda x: x - 0.0,
        lambda x: x - -0.0,
        lambda x: 0.0 - x,
        lambda x: -0.0 - x,
        lambda x: x + rnp.array([0.0, -0.0, 0.0], "float32"),
    ],
)
def test_zeros_keep_their_signs(fn):
    x = np.array([0.0, -0.0, 1.0], np.float32)
    found, wanted = (np.asarray(rlx.jit(fn, device=d)(x)) for d in ("cpu", "reference"))
    np.testing.assert_array_equal(np.signbit(found), np.signbit(wanted))


@pytest.mark.parametrize("size", [1, 63, 64, 127, 191])
def test_running_sums_of_any_width(size):
    check(lambda x: rnp.cumsum(x, axis=0), (np.arange(5 * size).reshape(5, size) % 7).astype("i1"))


def test_places_that_a_product_gives_are_read_after_it():
    x = np.random.default_rng(0).integers(0, 15, (4, 4, 15)).astype(np.int32)

    def ranks(x):
        sums = rnp.einsum("...ij,...kj->...ik", x, x)
        return rnp.argmax(rnp.searchsorted(rnp.array([0, 2, 5], "int32"), sums), -1)

    check(ranks, x)
