"""The vector kernels of `cpu` in units in the last place: the table `UNITS` is the truth."""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable

import mpmath
import numpy as np
import pytest
from scipy import special

import rlx
from rlx.backends.cpu.formulas.functions import DOUBLE, MATH, SINGLE, UNITS
from rlx.trace.apply import apply, as_tensor


def sigmoid(x: np.ndarray) -> np.ndarray:
    """The logistic function without overflow; SciPy's has no subnormal results."""
    shrunk = np.exp(-np.abs(x))
    return np.where(x < 0, shrunk, 1.0) / (1 + shrunk)


# For each op what computes it in double precision, and what does with many digits.
REFERENCES: dict[str, tuple[Callable[..., np.ndarray], Callable[..., mpmath.mpf]]] = {
    "exp": (np.exp, mpmath.exp),
    "log": (np.log, mpmath.log),
    "tanh": (np.tanh, mpmath.tanh),
    "logistic": (sigmoid, lambda x: 1 / (1 + mpmath.exp(-x))),
    "sin": (np.sin, mpmath.sin),
    "cos": (np.cos, mpmath.cos),
    "tan": (np.tan, mpmath.tan),
    "erf": (np.vectorize(math.erf, otypes=[float]), mpmath.erf),
    "erfc": (np.vectorize(math.erfc, otypes=[float]), mpmath.erfc),
    "erf_inv": (lambda x: np.copysign(special.erfinv(x), x), mpmath.erfinv),
    "expm1": (np.expm1, mpmath.expm1),
    "log1p": (np.log1p, mpmath.log1p),
    "exp2": (np.exp2, lambda x: mpmath.mpf(2) ** x),
    "sinh": (np.sinh, mpmath.sinh),
    "cosh": (np.cosh, mpmath.cosh),
    "asinh": (np.arcsinh, mpmath.asinh),
    "acosh": (np.arccosh, mpmath.acosh),
    "atanh": (np.arctanh, mpmath.atanh),
    "cbrt": (np.cbrt, lambda x: mpmath.sign(x) * mpmath.cbrt(abs(x))),
    "atan": (np.arctan, mpmath.atan),
    "asin": (np.arcsin, mpmath.asin),
    "acos": (np.arccos, mpmath.acos),
    "pow": (np.power, lambda x, y: mpmath.re(mpmath.power(x, y))),
    "atan2": (np.arctan2, mpmath.atan2),
}
TWO = ("pow", "atan2")
DOMAINS = {"log": (0, np.inf), "log1p": (-1, np.inf), "acosh": (1, np.inf)}
DOMAINS |= dict.fromkeys(["erf_inv", "atanh", "asin", "acos"], (-1, 1))
# Where a long search found the greatest errors above 1, in float32 and in float64.
HARDEST = {
    "exp": (59.30603790283203, 370.4903696601591),
    "sin": (625.0518798828125, 15.19592351180159),
    "cos": (648.6137084960938, 8.105239150305136),
    "tanh": (0.6283095479011536, 0.6284669920211762),
    "logistic": (-4.846455097198486, -29.40664568742943),
    "erf": (0.9519689679145813, -1.0188014879162315e-07),
    "erfc": (0.2676835358142853, 1.1685960235240114),
    "erf_inv": (0.5, 0.004098148279430891),
}
SPECIAL = [0.0, -0.0, np.inf, -np.inf, np.nan, 1e-42, -1e-42, 1e30, -1e30, 88.7, 89.1, -103.0]
SPECIAL += [1.0, -1.0, 1.5, -1.5, 0.5, -0.5, 2.0, -2.0, 3.0, -3.0, 1e-30, 16777217.0]
SPECIAL += [5e-324, -5e-324, 1e-310, 1e300, -1e300, 709.7, 709.8, -744.5, -745.2, 1e6, 27.2]


def run(name: str, *xs: np.ndarray) -> np.ndarray:
    return np.asarray(rlx.jit(lambda *xs: apply(name, *map(as_tensor, xs)))(*xs))


def sizes(random: np.random.Generator, dtype: type, count: int) -> np.ndarray:
    """Numbers of every size, subnormal ones included, and of either sign."""
    info = np.finfo(dtype)
    powers = random.uniform(info.minexp - info.nmant, info.maxexp, count)
    return np.exp2(powers) * random.choice([-1.0, 1.0], count)


def arguments(name: str, dtype: type, count: int) -> np.ndarray:
    """Numbers of all sizes, dense ones, and the special ones, in the domain or outside."""
    low, high = DOMAINS.get(name, (-np.inf, np.inf))
    random = np.random.default_rng(0)
    spread = np.exp2(random.uniform(-40, 12, count)) * random.choice([-1.0, 1.0], count)
    widest = 90 if dtype is np.float32 else 750
    near = random.uniform(max(low, -widest), min(high, widest), count)
    edge = 1 - np.exp2(random.uniform(-np.finfo(dtype).nmant - 1, 0, count))
    x = np.concatenate([sizes(random, dtype, count), spread, near, near / 20, edge, -edge])
    x = np.concatenate([x[(x >= low) & (x <= high)], SPECIAL, HARDEST.get(name, ())])
    with np.errstate(all="ignore"):
        return np.sort(x.astype(dtype))  # a huge angle sends its whole vector another way


def pairs(name: str, dtype: type, count: int) -> tuple[np.ndarray, np.ndarray]:
    """Two numbers each: the special ones with each other, and others of which some are whole."""
    random = np.random.default_rng(0)
    near = np.exp2(random.uniform(-20, 20, count)) * random.choice([-1.0, 1.0], count)
    powers = random.uniform(-10, 10, count)
    # powers of any number that come near to the greatest and to the smallest
    largest = np.finfo(dtype).maxexp * random.uniform(-1.1, 1.1, count)
    wide = sizes(random, dtype, count)
    other = largest / np.log2(np.abs(wide)) if name == "pow" else wide[::-1]
    both = np.array(list(itertools.product(SPECIAL, SPECIAL)))
    x = np.concatenate([both[:, 0], near, np.abs(near), np.abs(wide) if name == "pow" else wide])
    y = np.concatenate([both[:, 1], np.round(powers), powers, other])
    with np.errstate(all="ignore"):
        return x.astype(dtype), y.astype(dtype)


def measured(name: str, dtype: type, *xs: np.ndarray) -> np.ndarray:
    """Errors in units of the last place of the exact results; what is not a number must agree."""
    found = run(name, *xs)
    reference, exact = REFERENCES[name]
    with np.errstate(all="ignore"):
        wide = reference(*(x.astype(np.float64) for x in xs))
        rounded = wide.astype(dtype)
        unit = np.spacing(np.abs(rounded)).astype(np.float64)
    np.testing.assert_array_equal(np.isnan(found), np.isnan(rounded))
    known = ~np.isnan(rounded)
    np.testing.assert_array_equal(np.signbit(found[known]), np.signbit(rounded[known]))
    with np.errstate(all="ignore"):
        error = np.abs(found.astype(np.float64) - wide) / unit
    error = np.where((found == rounded) & ~np.isfinite(unit) | ~known, 0.0, error)
    return error if dtype is np.float32 else _exact_errors(exact, found, rounded, error, *xs)


def _exact_errors(
    exact: Callable[..., mpmath.mpf],
    found: np.ndarray,
    rounded: np.ndarray,
    error: np.ndarray,
    *xs: np.ndarray,
) -> np.ndarray:
    """The errors of float64, with many digits where the results are ordinary numbers."""
    ordinary = np.all([np.isfinite(x) & (x != 0) for x in (found, rounded, *xs)], axis=0)
    with mpmath.workprec(140):
        for i in np.flatnonzero(ordinary):
            value = exact(*(mpmath.mpf(float(x[i])) for x in xs))
            error[i] = abs(value - float(found[i])) / float(np.spacing(abs(float(value))))
    return error


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("name", REFERENCES)
def test_greatest_error_is_the_stated_one(name: str, dtype: type):
    is_single = dtype is np.float32
    count = 20_000 if is_single else 200
    xs = pairs(name, dtype, count) if name in TWO else (arguments(name, dtype, count),)
    error = measured(name, dtype, *xs)
    worst, units = int(np.argmax(error)), UNITS[name][0 if is_single else 1]
    what = f"{name}({', '.join(str(x[worst]) for x in xs)}) is {error[worst]} units off"
    assert error[worst] <= units, what
    if name in (SINGLE if is_single else DOUBLE):  # the C library of this machine may be better
        assert error[worst] > units - 1, f"{what}, and no more"


def test_every_function_states_its_error():
    assert UNITS.keys() == MATH == REFERENCES.keys()


@pytest.mark.parametrize("name", ["sin", "tan", "erf", "atan", "asinh", "expm1", "cbrt", "tanh"])
def test_odd_functions_keep_the_sign_of_zero(name: str):
    assert np.signbit(run(name, np.array([-0.0, 0.0], np.float32))).tolist() == [True, False]


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("name", ["exp", "log", "tanh", "logistic", "erf", "sin", "cos", "expm1"])
def test_numbers_do_not_depend_on_how_many_are_computed_at_once(name, dtype):
    """Subnormal results, and neighbors that go to the C library, too."""
    random = np.random.default_rng(0)
    x = (random.normal(size=512) * 30).astype(dtype)
    x = np.abs(x) + 0.001 if name == "log" else x
    x[7] = 3e7 if name in ("sin", "cos") else x[7]
    x[40:60] = np.linspace(-103, -87, 20) if name == "exp" else x[40:60]
    compute = rlx.jit(lambda x: apply(name, as_tensor(x)))
    whole = np.asarray(compute(x))
    for lanes in (1, 2, 3, 8):
        wanted = [np.asarray(compute(x[i : i + lanes])) for i in range(0, 512, lanes)]
        np.testing.assert_array_equal(np.concatenate(wanted), whole)
