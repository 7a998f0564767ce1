"""Functions of numbers on WebGPU: how near they are, and what compilers may not assume."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest

import rlx
import rlx.numpy as rnp
from rlx.backends import registry


@pytest.fixture(params=["vulkan", "opengl"])
def device(request: pytest.FixtureRequest) -> str:
    """A device that is here."""
    there = rlx.Device(request.param)
    if not there.is_available():
        pytest.skip(f"{request.param}: {there.reason}")
    return request.param


ONE_TO_ONE = np.linspace(-1, 1, 4001)
WIDE = np.concatenate([np.linspace(-80, 80, 4001), np.geomspace(1e-30, 1e30, 2001)])
NEAR = np.concatenate([np.linspace(-9, 9, 4001), -np.geomspace(1e-30, 1, 2001)])
ABOVE = np.geomspace(1e-37, 1e37, 4001)
ODD = [0.0, -0.0, math.inf, -math.inf, math.nan, 1.0, -1.0]
ROOM = {  # the function in float64, where it is looked at, units in the last place
    "exp": (np.exp, WIDE, 2),
    "expm1": (np.expm1, NEAR, 2),
    "log": (np.log, ABOVE, 2),
    "log1p": (np.log1p, ABOVE, 3),
    "sin": (np.sin, WIDE, 3),
    "cos": (np.cos, WIDE, 3),
    "tan": (np.tan, WIDE, 5),
    "asin": (np.arcsin, ONE_TO_ONE, 3),
    "acos": (np.arccos, ONE_TO_ONE, 3),
    "atan": (np.arctan, WIDE, 3),
    "sinh": (np.sinh, NEAR, 3),
    "cosh": (np.cosh, NEAR, 3),
    "tanh": (np.tanh, NEAR, 3),
    "asinh": (np.arcsinh, WIDE, 3),
    "acosh": (np.arccosh, ABOVE, 4),
    "atanh": (np.arctanh, ONE_TO_ONE, 4),
    "cbrt": (np.cbrt, WIDE, 2),
    "erf": (np.vectorize(math.erf), NEAR, 2),
    "erfc": (np.vectorize(math.erfc), NEAR, 5),
}


def units(got: np.ndarray, wanted: np.ndarray) -> np.ndarray:
    """By how many units in the last place finite numbers are off; the others must be equal."""
    with np.errstate(all="ignore"):
        near = wanted.astype(got.dtype)
        odd = ~(np.isfinite(near) & np.isfinite(got))
        np.testing.assert_array_equal(got[odd], near[odd])
        least = np.finfo(got.dtype).tiny
        size = np.spacing(np.maximum(np.abs(near), least)).astype(np.float64)
        return np.where(odd, 0, np.abs(got.astype(np.float64) - wanted) / size)


@pytest.mark.parametrize("name", ["float32", "float64"])
def test_functions_are_near(device: str, name: str):
    if name not in registry.get(device).target.stored:
        pytest.skip(f"{device} has no {name}")
    off = {}
    names = {"asin": "arcsin", "acos": "arccos", "atan": "arctan", "asinh": "arcsinh"}
    names |= {"acosh": "arccosh", "atanh": "arctanh"}
    places = {key: np.append(x, ODD).astype(name) for key, (_, x, _) in ROOM.items()}
    special = {"erf": rlx.lax.erf, "erfc": rlx.lax.erfc}

    def all_of_them(places: dict[str, Any]) -> dict[str, Any]:
        return {
            key: special[key](x) if key in special else getattr(rnp, names.get(key, key))(x)
            for key, x in places.items()
        }

    found = rlx.jit(all_of_them, device=device)(places)
    for key, (fn, _, most) in ROOM.items():
        with np.errstate(all="ignore"):
            wanted = fn(places[key].astype(np.float64))
        worst = units(np.asarray(found[key]), wanted).max()
        off |= {key: worst} if worst > most else {}
    assert not off


def test_powers(device: str):
    bases = np.concatenate([np.geomspace(1e-6, 1e6, 601), -np.arange(1, 9), ODD])
    powers = np.concatenate([np.linspace(-6, 6, 25), ODD, [101.0]])
    x, y = (a.reshape(-1).astype(np.float32) for a in np.meshgrid(bases, powers))
    got = np.asarray(rlx.jit(lambda x, y: x**y, device=device)(x, y))
    with np.errstate(all="ignore"):
        wanted = np.power(x.astype(np.float64), y.astype(np.float64))
    assert units(got, wanted).max() <= 2


def test_what_compilers_may_not_assume(device: str):
    """That no number is infinite or NaN, that sums may be put in another order."""
    x = np.array([math.nan, math.inf, -math.inf, 1.0, 1e8], np.float32)

    def odd(x: Any) -> Any:
        tests = rnp.isnan(x), x == x, x != x, rnp.isfinite(x)
        kept = rnp.maximum(x, 0), x - x, x * 0, x + -x, (x + 3) - x, 0 / (x - x)
        return *tests, *kept, x.astype("int32")

    found = rlx.jit(odd, device=device)(x)
    for got, wanted in zip(found, rlx.jit(odd, device="reference")(x), strict=True):
        np.testing.assert_array_equal(np.asarray(got), np.asarray(wanted))
