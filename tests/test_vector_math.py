"""The polynomial kernels of `cpu` against NumPy in double precision, in units in the last place."""

from __future__ import annotations

import numpy as np
import pytest

import rlx
import rlx.numpy as rnp

NAMES = ["exp", "log", "tanh", "sin", "cos", "expm1", "log1p"]
SPECIAL = [0.0, -0.0, np.inf, -np.inf, np.nan, 1e-42, -1e-42, 1e30, -1e30, 88.7, 89.1, -103.0]


def arguments(name: str) -> np.ndarray:
    """Dense numbers of all sizes, and the special ones."""
    random = np.random.default_rng(0)
    spread = np.exp2(random.uniform(-40, 12, 100_000)) * random.choice([-1.0, 1.0], 100_000)
    near = random.uniform(-90, 90, 100_000)
    x = np.concatenate([SPECIAL, spread, near]).astype(np.float32)
    return np.abs(x) if name == "log" else x


@pytest.mark.parametrize("name", NAMES)
def test_single_precision_is_within_two_units(name: str):
    x = arguments(name)
    found = np.asarray(rlx.jit(getattr(rnp, name))(x)).astype(np.float64)
    with np.errstate(all="ignore"):
        exact = getattr(np, name)(x.astype(np.float64))
        rounded = exact.astype(np.float32)
        unit = np.spacing(np.abs(rounded)).astype(np.float64)
    np.testing.assert_array_equal(np.isnan(found), np.isnan(rounded))
    same = (found == rounded) | np.isnan(rounded)
    with np.errstate(all="ignore"):
        error = np.where(same, 0.0, np.abs(found - exact) / unit)
    worst = int(np.argmax(error))
    assert error[worst] <= 2.0, f"{name}({x[worst]}) is {error[worst]} units off"


@pytest.mark.parametrize("name", NAMES)
def test_double_precision_is_near_numpy(name: str):
    x = arguments(name)[:50_000].astype(np.float64)
    found = np.asarray(rlx.jit(getattr(rnp, name))(x))
    with np.errstate(all="ignore"):
        wanted = getattr(np, name)(x)
    np.testing.assert_allclose(found, wanted, rtol=1e-15, atol=1e-300)
