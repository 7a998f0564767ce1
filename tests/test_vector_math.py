"""The vector kernels of `cpu` against double precision, in units in the last place."""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable

import numpy as np
import pytest
from scipy import special

import rlx
from rlx.trace.apply import apply, as_tensor


def sigmoid(x: np.ndarray) -> np.ndarray:
    """The logistic function without overflow; SciPy's has no subnormal results."""
    shrunk = np.exp(-np.abs(x))
    return np.where(x < 0, shrunk, 1.0) / (1 + shrunk)


# For each op what computes it in double precision, its greatest error in float32, its domain.
KERNELS: dict[str, tuple[Callable[..., np.ndarray], float, tuple[float, float]]] = {
    "exp": (np.exp, 2, (-np.inf, np.inf)),
    "log": (np.log, 2, (0, np.inf)),
    "tanh": (np.tanh, 2, (-np.inf, np.inf)),
    "logistic": (sigmoid, 3, (-np.inf, np.inf)),
    "sin": (np.sin, 2, (-np.inf, np.inf)),
    "cos": (np.cos, 2, (-np.inf, np.inf)),
    "erf": (np.vectorize(math.erf, otypes=[float]), 1, (-np.inf, np.inf)),
    "erfc": (np.vectorize(math.erfc, otypes=[float]), 3, (-np.inf, np.inf)),
    "erf_inv": (special.erfinv, 1, (-1, 1)),
    "expm1": (np.expm1, 1, (-np.inf, np.inf)),
    "log1p": (np.log1p, 1, (-1, np.inf)),
    "exp2": (np.exp2, 1, (-np.inf, np.inf)),
    "sinh": (np.sinh, 1, (-np.inf, np.inf)),
    "cosh": (np.cosh, 1, (-np.inf, np.inf)),
    "asinh": (np.arcsinh, 1, (-np.inf, np.inf)),
    "acosh": (np.arccosh, 1, (1, np.inf)),
    "atanh": (np.arctanh, 1, (-1, 1)),
    "cbrt": (np.cbrt, 1, (-np.inf, np.inf)),
    "tan": (np.tan, 1, (-np.inf, np.inf)),
    "atan": (np.arctan, 1, (-np.inf, np.inf)),
    "asin": (np.arcsin, 1, (-1, 1)),
    "acos": (np.arccos, 1, (-1, 1)),
}
SPECIAL = [0.0, -0.0, np.inf, -np.inf, np.nan, 1e-42, -1e-42, 1e30, -1e30, 88.7, 89.1, -103.0]
SPECIAL += [1.0, -1.0, 1.5, -1.5, 0.5, -0.5, 2.0, -2.0, 3.0, -3.0, 1e-30, 16777217.0]


def run(name: str, *xs: np.ndarray) -> np.ndarray:
    return np.asarray(rlx.jit(lambda *xs: apply(name, *map(as_tensor, xs)))(*xs))


def arguments(name: str, dtype: type = np.float32) -> np.ndarray:
    """Dense numbers of all sizes, and the special ones, in the domain of a function or outside."""
    low, high = KERNELS[name][2]
    random = np.random.default_rng(0)
    spread = np.exp2(random.uniform(-40, 12, 50_000)) * random.choice([-1.0, 1.0], 50_000)
    near = random.uniform(max(low, -90), min(high, 90), 50_000)
    edge = 1 - np.exp2(random.uniform(-24, 0, 20_000))
    x = np.concatenate([SPECIAL, spread, near, edge, -edge]).astype(dtype)
    return np.concatenate([SPECIAL, x[(x >= low) & (x <= high)]]).astype(dtype)


def check_units(found: np.ndarray, exact: np.ndarray, most: float, what: Callable) -> None:
    """Compare in units of the last place of the exact results."""
    with np.errstate(all="ignore"):
        rounded = exact.astype(found.dtype)
        unit = np.spacing(np.abs(rounded)).astype(np.float64)
        error = np.abs(found.astype(np.float64) - exact) / unit
    np.testing.assert_array_equal(np.isnan(found), np.isnan(rounded))
    error = np.where((found == rounded) | np.isnan(rounded), 0.0, error)
    worst = int(np.argmax(error))
    assert error[worst] <= most, f"{what(worst)} is {error[worst]} units off"


@pytest.mark.parametrize("name", KERNELS)
def test_single_precision(name: str):
    reference, units, _ = KERNELS[name]
    x = arguments(name)
    with np.errstate(all="ignore"):
        exact = reference(x.astype(np.float64))
    check_units(run(name, x), exact, units, lambda i: f"{name}({x[i]})")


@pytest.mark.parametrize("name", KERNELS)
def test_double_precision(name: str):
    x = arguments(name, np.float64)[::3]
    with np.errstate(all="ignore"):
        wanted = KERNELS[name][0](x)
    # SciPy's and NumPy's own results are a few units off, erfinv's a dozen
    check_units(run(name, x), wanted, 16, lambda i: f"{name}({x[i]})")


@pytest.mark.parametrize("name", ["sin", "erf", "atan", "asinh", "expm1", "cbrt", "tanh", "sinh"])
def test_odd_functions_keep_the_sign_of_zero(name: str):
    assert np.signbit(run(name, np.array([-0.0, 0.0], np.float32))).tolist() == [True, False]


@pytest.mark.parametrize(("name", "reference"), [("pow", np.power), ("atan2", np.arctan2)])
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_functions_of_two_numbers(name: str, reference: Callable, dtype: type):
    random = np.random.default_rng(0)
    pairs = np.array(list(itertools.product(SPECIAL, SPECIAL)))
    sizes = np.exp2(random.uniform(-20, 20, 50_000)) * random.choice([-1.0, 1.0], 50_000)
    powers = random.uniform(-10, 10, 50_000)
    whole = np.round(powers)
    x = np.concatenate([pairs[:, 0], sizes, np.abs(sizes)]).astype(dtype)
    y = np.concatenate([pairs[:, 1], whole, powers]).astype(dtype)
    with np.errstate(all="ignore"):
        exact = reference(x.astype(np.float64), y.astype(np.float64))
    found = run(name, x, y)
    check_units(found, exact, 4, lambda i: f"{name}({x[i]}, {y[i]})")
    known = ~np.isnan(exact)
    np.testing.assert_array_equal(np.signbit(found[known]), np.signbit(exact[known]))
