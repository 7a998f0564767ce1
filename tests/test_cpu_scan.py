"""Running combinations on `cpu`: lanes along the line or beside it, any length, backwards."""

from __future__ import annotations

import numpy as np
import pytest

import rlx
import rlx.numpy as rnp
from rlx.backends.cpu.loops import in_order

UFUNCS = {"cumsum": np.add, "cumprod": np.multiply, "cummax": np.maximum, "cummin": np.minimum}
SHAPES = ((1, 2), (2, 1), (3, 17), (40, 15), (5, 130), (2, in_order.BLOCK // 4 + 77))


@pytest.mark.parametrize("name", UFUNCS)
@pytest.mark.parametrize("dtype", ["int8", "int32", "float32", "float64"])
def test_lines_of_any_length_along_any_axis(name: str, dtype: str) -> None:
    random = np.random.default_rng(0)
    for shape in SHAPES:
        x = random.choice([-1, 1, 1, 1, 2] if name == "cumprod" else range(-4, 5), shape)
        x = (np.where(random.random(shape) < 0.9, 1, x) if name == "cumprod" else x).astype(dtype)
        for axis, reverse in ((0, False), (1, False), (0, True), (1, True)):
            fn = getattr(rlx.lax, name)
            found = rlx.jit(lambda x, a=axis, r=reverse, fn=fn: fn(x, a, r))(x)
            turned = np.flip(x, axis) if reverse else x
            wanted = UFUNCS[name].accumulate(turned, axis, dtype=dtype)
            wanted = np.flip(wanted, axis) if reverse else wanted
            if np.issubdtype(x.dtype, np.floating) and name == "cumprod":
                limit = 2 * x.size * float(np.finfo(dtype).eps)
                np.testing.assert_allclose(np.asarray(found), wanted, rtol=limit)
            else:
                np.testing.assert_array_equal(np.asarray(found), wanted)


def test_nan_and_the_sign_of_zero_go_on() -> None:
    x = np.ones(100, np.float32)
    x[37] = np.nan
    for name in UFUNCS:
        found = np.asarray(rlx.jit(getattr(rlx.lax, name))(x))
        np.testing.assert_array_equal(np.isnan(found), np.arange(100) >= 37)
    zeros = np.asarray(rlx.jit(rnp.cumsum)(np.full(40, -0.0, "float32")))
    assert np.signbit(zeros).all()


def test_lines_of_any_number_and_length() -> None:
    sums = rlx.jit(lambda x: (rnp.cumsum(x, 0), rnp.cumsum(x, 1)), dynamic={"x": {0: "n", 1: "m"}})
    for shape in ((1, 1), (3, 70), (70, 3), (2, 33)):
        x = (np.arange(np.prod(shape)).reshape(shape) % 7 - 3).astype("float32")
        for axis, found in enumerate(sums(x)):
            np.testing.assert_array_equal(np.asarray(found), np.cumsum(x, axis))
