"""Scatters on `cpu` whose updates are computed many at a time and combined one by one."""

from __future__ import annotations

import ml_dtypes
import numpy as np
import pytest

import rlx
import rlx.numpy as rnp

NUMBERS = ("uint8", "int64", "float16", "bfloat16", "float32")
HOWS = [(how, dtype) for how in ("set", "add", "multiply", "min", "max") for dtype in NUMBERS]


def check(fn, *arrays: np.ndarray) -> None:
    """Compare both devices, bit for bit but for NaN."""
    found, wanted = rlx.jit(fn)(*arrays), rlx.jit(fn, device="reference")(*arrays)
    assert found.dtype == wanted.dtype
    wide = np.float64 if found.dtype.name == "bfloat16" else found.dtype
    np.testing.assert_array_equal(np.asarray(found).astype(wide), np.asarray(wanted).astype(wide))


@pytest.mark.parametrize(("how", "dtype"), [("set", "bool"), *HOWS])
def test_many_updates_of_few_places(how: str, dtype: str) -> None:
    random = np.random.default_rng(0)
    kind = np.dtype(ml_dtypes.bfloat16 if dtype == "bfloat16" else dtype)
    for count, places in ((16, "int32"), (77, "int64"), (130, "uint8"), (3, "int32")):
        x, y = (random.integers(0, 3, n).astype(kind) for n in (9, count))
        here = random.integers(0, 14 if places == "uint8" else 9, count).astype(places)
        there = here.astype("int64") * 2 - 9  # some outside on either side
        check(lambda x, i, y: getattr(x.at[i], how)(y), x, here, y)
        check(lambda x, i, y: getattr(x.at[i], how)(y, mode="drop"), x, there, y)
        check(lambda x, i, y: getattr(x.at[i], how)(y * y, mode="clip"), x, there, y)


def test_the_last_of_equal_places_stays() -> None:
    x, here = np.zeros(5, np.float32), np.arange(100) * 3 % 5
    check(lambda x, i: x.at[i].set(rnp.arange(100.0)), x, here)


def test_updates_of_more_axes() -> None:
    random = np.random.default_rng(1)
    x, y = random.normal(size=(6, 7, 3)), random.normal(size=(4, 50, 3))
    rows, columns = random.integers(-9, 9, (4, 50)), random.integers(0, 7, (4, 50))
    check(lambda x, i, j, y: x.at[i, j].add(y), x, rows, columns, y)
    check(lambda x, i, j, y: x.at[i, j, 1].max(y[..., 0] - 1), x, rows, columns, y)
    check(lambda x, j, y: x.at[:, j].min(y[:, :1].sum()), x, columns[0], y)


def test_any_number_of_updates() -> None:
    total = rlx.jit(lambda x, i: x.at[i].add(1.0), dynamic={"i": {0: "n"}})
    for count in (1, 5, 16, 33, 200):
        here = np.arange(count) * 5 % 7
        wanted = np.bincount(here, minlength=7).astype(np.float32)
        np.testing.assert_array_equal(np.asarray(total(np.zeros(7, np.float32), here)), wanted)
