"""The array API standard's special cases: NaN, infinities, signed zeros, real and complex.

Real functions are compared with Python's `math`, put right where Python raises or differs;
complex ones with the standard's tables. Arrays take both ways, eager and compiled.
"""

from __future__ import annotations

import itertools
import math
import operator
from collections.abc import Callable
from functools import cache
from typing import Any

import numpy as np
import pytest

import rlx
import rlx.numpy as rnp
from rlx.ir.errors import RlxError

inf, nan, pi = math.inf, math.nan, math.pi
FLOATS = ("float32", "float64")
NUMBERS = (
    *(0.0, -0.0, 0.5, -0.5, 1.0, -1.0, 1.5, -1.5, 2.0, -2.0, 2.5, -2.5, 3.0, -3.0, 7.0),
    *(100.0, -100.0, 1e-30, -1e-30, 1e30, -1e30, 5e-324, -5e-324, inf, -inf, nan),
)


def numbers(dtype: str) -> list[float]:
    """The samples as the dtype holds them."""
    return np.array(NUMBERS, dtype).tolist()


def agrees(found: float, wanted: float, tolerance: float) -> bool:
    """Whether special numbers are the same, zeros in their sign, and others close."""
    if wanted != wanted:
        return found != found
    if wanted == 0 or math.isinf(wanted):
        return found == wanted and math.copysign(1, found) == math.copysign(1, wanted)
    return abs(found - wanted) <= tolerance * abs(wanted) + 5e-324


def tolerance_of(dtype: str) -> float:
    """Some units in the last place: libraries differ by that much."""
    return 64 * rnp.finfo(dtype).eps


# -- one real argument ----------------------------------------------------------------------------


def total(function: Callable[[float], float], overflow: Callable[[float], float] = abs) -> Any:
    """Python's function with NaN outside of its domain and infinities where it overflows."""

    def at(x: float) -> float:
        try:
            return function(x)
        except ValueError:
            return nan
        except OverflowError:
            return math.copysign(inf, overflow(x))

    return at


def logarithm(function: Callable[[float], float]) -> Any:
    return lambda x: -inf if x == 0 else total(function)(x)


def rounding(function: Callable[[float], int]) -> Any:
    return lambda x: math.copysign(function(x), x) if math.isfinite(x) else x


def sign(x: float) -> float:
    return x if x != x else math.copysign(1, x) if x else 0.0


UNARY: dict[str, Callable[[float], float]] = {
    "abs": abs,
    "acos": total(math.acos),
    "acosh": total(math.acosh),
    "asin": total(math.asin),
    "asinh": math.asinh,
    "atan": math.atan,
    "atanh": lambda x: math.copysign(inf, x) if abs(x) == 1 else total(math.atanh)(x),
    "ceil": rounding(math.ceil),
    "cos": total(math.cos),
    "cosh": total(math.cosh),
    "exp": total(math.exp),
    "expm1": total(math.expm1),
    "floor": rounding(math.floor),
    "log": logarithm(math.log),
    "log10": logarithm(math.log10),
    "log1p": lambda x: -inf if x == -1 else total(math.log1p)(x),
    "log2": logarithm(math.log2),
    "negative": operator.neg,
    "positive": operator.pos,
    "reciprocal": lambda x: quotient(1.0, x),
    "round": rounding(round),
    "sign": sign,
    "sin": total(math.sin),
    "sinh": total(math.sinh, lambda x: x),
    "sqrt": lambda x: x if x == 0 else total(math.sqrt)(x),
    "square": lambda x: x * x,
    "tan": total(math.tan),
    "tanh": math.tanh,
    "trunc": rounding(math.trunc),
}
PERIODIC = ("sin", "cos", "tan")  # far from zero their accuracy is no matter of the standard


def unary_results(x: Any) -> dict[str, Any]:
    return {name: getattr(rnp, name)(x) for name in UNARY}


@cache
def unary_found(dtype: str, compiled: bool) -> dict[str, list[float]]:
    x = rnp.asarray(numbers(dtype), dtype=dtype)
    found = rlx.jit(unary_results)(x) if compiled else unary_results(x)
    assert {result.dtype.name for result in found.values()} == {dtype}
    return {name: result.tolist() for name, result in found.items()}


@pytest.mark.parametrize("compiled", [False, True], ids=["eager", "compiled"])
@pytest.mark.parametrize("dtype", FLOATS)
@pytest.mark.parametrize("name", UNARY)
def test_one_real_argument(name: str, dtype: str, compiled: bool):
    for x, found in zip(numbers(dtype), unary_found(dtype, compiled)[name], strict=True):
        if name in PERIODIC and math.isfinite(x) and abs(x) > 1e3:
            continue
        with np.errstate(over="ignore"):
            wanted = float(np.dtype(dtype).type(UNARY[name](x)))
        assert agrees(found, wanted, tolerance_of(dtype)), f"{name}({x}) is {found}, not {wanted}"


# -- two real arguments ---------------------------------------------------------------------------


def quotient(x: float, y: float) -> float:
    if y == 0:
        return nan if x == 0 or x != x else math.copysign(inf, x) * math.copysign(1, y)
    return x / y


def floor_quotient(x: float, y: float) -> float:
    if x == 0 or y == 0 or not (math.isfinite(x) and math.isfinite(y)):
        return quotient(x, y)  # a zero or an infinity keeps its sign
    return x // y


def remainder(x: float, y: float) -> float:
    if y == 0 or math.isinf(x) or x != x or y != y:
        return nan
    if math.isinf(y):
        return math.copysign(0, y) if x == 0 else x if (x > 0) == (y > 0) else y
    return x % y


def power(x: float, y: float) -> float:
    is_odd = y.is_integer() and y % 2 == 1
    try:
        return math.pow(x, y)
    except OverflowError:
        return -inf if x < 0 and is_odd else inf
    except ValueError:
        return nan if x != 0 else math.copysign(inf, x) if is_odd else inf


def log_of_sum(x: float, y: float) -> float:
    high, low = max(x, y), min(x, y)
    if x != x or y != y or math.isinf(high):
        return x + y if x != x or y != y else high
    return high + math.log1p(math.exp(low - high))


def propagating(function: Callable[[float, float], float]) -> Callable[[float, float], float]:
    return lambda x, y: nan if x != x or y != y else function(x, y)


BINARY: dict[str, Callable[[float, float], float | bool]] = {
    "add": operator.add,
    "atan2": math.atan2,
    "copysign": math.copysign,
    "divide": quotient,
    "equal": operator.eq,
    "floor_divide": floor_quotient,
    "greater": operator.gt,
    "greater_equal": operator.ge,
    "hypot": math.hypot,
    "less": operator.lt,
    "less_equal": operator.le,
    "logaddexp": log_of_sum,
    "maximum": propagating(max),
    "minimum": propagating(min),
    "multiply": operator.mul,
    "not_equal": operator.ne,
    "pow": power,
    "remainder": remainder,
    "subtract": operator.sub,
}
OPERATORS = {
    **{"add": operator.add, "subtract": operator.sub, "multiply": operator.mul},
    **{"divide": operator.truediv, "floor_divide": operator.floordiv, "remainder": operator.mod},
    **{"pow": operator.pow, "equal": operator.eq, "not_equal": operator.ne},
    **{"less": operator.lt, "less_equal": operator.le},
    **{"greater": operator.gt, "greater_equal": operator.ge},
}


def binary_results(x: Any, y: Any) -> dict[str, Any]:
    return {name: getattr(rnp, name)(x, y) for name in BINARY}


def pairs(dtype: str) -> list[tuple[float, float]]:
    return [(x, y) for x in numbers(dtype) for y in numbers(dtype)]


@cache
def binary_found(dtype: str, compiled: bool) -> dict[str, list[float]]:
    x, y = (rnp.asarray(column, dtype=dtype) for column in zip(*pairs(dtype), strict=True))
    found = rlx.jit(binary_results)(x, y) if compiled else binary_results(x, y)
    assert {result.dtype.name for result in found.values()} == {dtype, "bool"}
    return {name: result.tolist() for name, result in found.items()}


def check_binary(name: str, dtype: str, x: float, y: float, found: float | bool) -> None:
    if name in ("maximum", "minimum", "logaddexp") and found == 0:
        found = 0.0  # of two zeros either may be taken
    if name in ("remainder", "floor_divide") and abs(x) > 1e6 * abs(y) and math.isfinite(x):
        return  # the quotient is rounded before it is rounded down
    with np.errstate(over="ignore"):
        wanted = BINARY[name](x, y)
        wanted = wanted if isinstance(wanted, bool) else float(np.dtype(dtype).type(wanted))
    if name in ("maximum", "minimum", "logaddexp") and wanted == 0:
        wanted = 0.0
    same = found is wanted if isinstance(wanted, bool) else agrees(found, wanted, 1e-4)
    assert same, f"{name}({x}, {y}) is {found}, not {wanted}"


@pytest.mark.parametrize("compiled", [False, True], ids=["eager", "compiled"])
@pytest.mark.parametrize("dtype", FLOATS)
@pytest.mark.parametrize("name", BINARY)
def test_two_real_arguments(name: str, dtype: str, compiled: bool):
    for (x, y), found in zip(pairs(dtype), binary_found(dtype, compiled)[name], strict=True):
        check_binary(name, dtype, x, y, found)


@pytest.mark.parametrize("name", OPERATORS)
def test_operators_with_python_numbers(name: str):
    for number in (0.0, -0.0, 0.5, 1.0, -2.5, inf, -inf, nan):
        x = rnp.asarray(numbers("float64"), dtype="float64")
        for element, found in zip(x.tolist(), OPERATORS[name](x, number).tolist(), strict=True):
            check_binary(name, "float64", element, number, found)
        for element, found in zip(x.tolist(), OPERATORS[name](number, x).tolist(), strict=True):
            check_binary(name, "float64", number, element, found)


def test_divmod_keeps_to_python():
    finite = [x for x in numbers("float64") if math.isfinite(x) and x]
    for y in (*finite, inf, -inf):
        x = [x for x in finite if abs(x) < 1e6 * abs(y)]
        whole, left = rnp.divmod(rnp.asarray(x, dtype="float64"), y)
        assert list(zip(whole.tolist(), left.tolist(), strict=True)) == [divmod(z, y) for z in x]


def test_roots_of_single_zeros_and_infinities():
    for x, wanted in ((-0.0, 0.0), (-inf, inf)):
        root = rnp.asarray(x) ** rnp.asarray(0.5)
        assert bits(complex(root)) == bits(complex(wanted))


@pytest.mark.parametrize(("x", "y", "slopes"), [(4, 2, (1, -2)), (0, -2, (1, 0)), (-4, 2, (1, 2))])
def test_zeros_with_the_sign_of_the_divisor_have_slopes(x: int, y: int, slopes: tuple[int, int]):
    both = rlx.grad(rnp.remainder, argnums=(0, 1))(float(x), float(y))
    assert tuple(map(float, both)) == slopes
    none = rlx.grad(rnp.floor_divide, argnums=(0, 1))(float(x), float(y))
    assert tuple(map(float, none)) == (0, 0)


def test_nextafter_of_zeros():
    x = rnp.asarray([0.0, -0.0, 0.0, nan, 1.0])
    y = rnp.asarray([-0.0, 0.0, 1.0, 1.0, nan])
    found = rnp.nextafter(x, y).tolist()
    assert [math.copysign(1, z) for z in found[:3]] == [-1, 1, 1]
    assert found[:2] == [0, 0] and found[2] == rnp.finfo("float32").smallest_subnormal
    assert found[3] != found[3] and found[4] != found[4]


def test_signs_of_nan():
    negative_nan = rnp.copysign(rnp.asarray(nan), -1.0)
    assert bool(rnp.signbit(negative_nan)) and bool(rnp.isnan(negative_nan))
    assert rnp.copysign(rnp.asarray([1.0, 2.0]), negative_nan).tolist() == [-1.0, -2.0]
    assert not bool(rnp.signbit(rnp.copysign(negative_nan, 0.0)))


def test_nan_goes_through_clip_and_reductions():
    x = rnp.asarray([1.0, nan, 3.0])
    assert rnp.isnan(rnp.clip(x, 0.0, 2.0)).tolist() == [False, True, False]
    assert bool(rnp.all(rnp.isnan(rnp.clip(rnp.ones(2), nan))))
    assert bool(rnp.all(rnp.isnan(rnp.clip(rnp.ones(2), max=nan))))
    for name in ("max", "min", "mean", "prod", "std", "sum", "var"):
        assert bool(rnp.isnan(getattr(rnp, name)(x))), name


def test_reductions_of_nothing():
    nothing = rnp.zeros((0,))
    assert float(rnp.sum(nothing)) == 0.0 and float(rnp.prod(nothing)) == 1.0
    assert not bool(rnp.any(nothing)) and bool(rnp.all(nothing))
    for name in ("mean", "std", "var"):
        assert bool(rnp.isnan(getattr(rnp, name)(nothing))), name
    for name in ("max", "min", "argmax", "argmin"):
        with pytest.raises(RlxError):
            getattr(rnp, name)(nothing)


def test_integers_rounded_stay_themselves():
    for dtype in ("int8", "uint16", "int64"):
        x = rnp.asarray([0, 1, 5], dtype=dtype)
        for name in ("ceil", "floor", "round", "trunc"):
            rounded = getattr(rnp, name)(x)
            assert rounded.dtype == dtype and rounded.tolist() == [0, 1, 5]


# -- complex arguments ----------------------------------------------------------------------------

SAMPLES = {
    "+0": (0.0,),
    "0": (0.0, -0.0),
    "1": (1.0,),
    "-1": (-1.0,),
    "inf": (inf,),
    "-inf": (-inf,),
    "±inf": (inf, -inf),
    "nan": (nan,),
    "finite": (0.0, -0.0, 1.5, -2.5, 2.0**100, -(2.0**-100)),
    "nonzero": (1.5, -2.5, -(2.0**100), 2.0**-100),
    "positive": (1.5, 0.25, 2.0, 2.0**100, 2.0**-100),
    "any": (0.0, -1.5, inf, -inf, nan),
}
# function: real part, imaginary part -> the parts of the result; ? where the sign is left open
COMPLEX = """
abs   ±inf any -> inf 0        | any ±inf -> inf 0       | nan finite -> nan 0
abs   finite nan -> nan 0      | nan nan -> nan 0        | 0 nonzero -> abs(b) 0
abs   nonzero 0 -> abs(a) 0
acos  0 +0 -> pi/2 -0.0        | 0 nan -> pi/2 nan       | finite inf -> pi/2 -inf
acos  nonzero nan -> nan nan   | -inf positive -> pi -inf | inf positive -> 0.0 -inf
acos  -inf inf -> 3*pi/4 -inf  | inf inf -> pi/4 -inf    | ±inf nan -> nan ?inf
acos  nan finite -> nan nan    | nan inf -> nan -inf     | nan nan -> nan nan
acosh 0 +0 -> 0.0 pi/2         | finite inf -> inf pi/2  | nonzero nan -> nan nan
acosh +0 nan -> nan ?pi/2      | -inf positive -> inf pi | inf positive -> inf 0.0
acosh -inf inf -> inf 3*pi/4   | inf inf -> inf pi/4     | ±inf nan -> inf nan
acosh nan finite -> nan nan    | nan inf -> inf nan      | nan nan -> nan nan
asinh +0 +0 -> 0.0 0.0         | positive inf -> inf pi/2 | finite nan -> nan nan
asinh inf positive -> inf 0.0  | inf inf -> inf pi/4     | nan +0 -> nan 0.0
asinh nan nonzero -> nan nan   | nan inf -> ?inf nan     | nan nan -> nan nan
atanh +0 +0 -> 0.0 0.0         | +0 nan -> 0.0 nan       | 1 +0 -> inf 0.0
atanh positive inf -> 0.0 pi/2 | nonzero nan -> nan nan  | inf positive -> 0.0 pi/2
atanh inf inf -> 0.0 pi/2      | inf nan -> 0.0 nan      | nan finite -> nan nan
atanh nan inf -> ?0.0 pi/2     | nan nan -> nan nan
cosh  +0 +0 -> 1.0 0.0         | +0 inf -> nan ?0.0      | +0 nan -> nan ?0.0
cosh  nonzero inf -> nan nan   | nonzero nan -> nan nan  | inf +0 -> inf 0.0
cosh  inf nonzero -> inf*cos(b) inf*sin(b)               | inf inf -> ?inf nan
cosh  inf nan -> inf nan       | nan 0 -> nan ?0.0       | nan nonzero -> nan nan
cosh  nan nan -> nan nan
exp   0 +0 -> 1.0 0.0          | finite inf -> nan nan   | finite nan -> nan nan
exp   inf +0 -> inf 0.0        | -inf finite -> 0.0*cos(b) 0.0*sin(b)
exp   inf nonzero -> inf*cos(b) inf*sin(b)               | -inf inf -> 0.0 0.0
exp   inf inf -> inf nan       | -inf nan -> 0.0 0.0     | inf nan -> inf nan
exp   nan +0 -> nan 0.0        | nan nonzero -> nan nan  | nan nan -> nan nan
expm1 0 +0 -> 0.0 0.0          | finite inf -> nan nan   | finite nan -> nan nan
expm1 inf +0 -> inf 0.0        | -inf finite -> -1.0 0.0*sin(b)
expm1 inf nonzero -> inf*cos(b) inf*sin(b)               | -inf inf -> -1.0 0.0
expm1 inf inf -> inf nan       | -inf nan -> -1.0 0.0   | inf nan -> inf nan
expm1 nan +0 -> nan 0.0        | nan nonzero -> nan nan  | nan nan -> nan nan
log   finite inf -> inf pi/2   | finite nan -> nan nan   | -inf positive -> inf pi
log   inf positive -> inf 0.0  | -inf inf -> inf 3*pi/4  | inf inf -> inf pi/4
log   ±inf nan -> inf nan      | nan finite -> nan nan   | nan inf -> inf nan
log   nan nan -> nan nan       | +0 +0 -> -inf 0.0
log1p -1 +0 -> -inf 0.0        | finite inf -> inf pi/2  | finite nan -> nan nan
log1p -inf positive -> inf pi  | inf positive -> inf 0.0 | -inf inf -> inf 3*pi/4
log1p inf inf -> inf pi/4      | ±inf nan -> inf nan     | nan finite -> nan nan
log1p nan inf -> inf nan       | nan nan -> nan nan
sinh  +0 +0 -> 0.0 0.0         | +0 inf -> ?0.0 nan      | +0 nan -> ?0.0 nan
sinh  positive inf -> nan nan  | positive nan -> nan nan | inf +0 -> inf 0.0
sinh  inf positive -> inf*cos(b) inf*sin(b)              | inf inf -> ?inf nan
sinh  inf nan -> ?inf nan      | nan +0 -> nan 0.0       | nan nonzero -> nan nan
sinh  nan nan -> nan nan
sqrt  0 +0 -> 0.0 0.0          | any inf -> inf inf      | finite nan -> nan nan
sqrt  -inf positive -> 0.0 inf | inf positive -> inf 0.0 | -inf nan -> nan ?inf
sqrt  inf nan -> inf nan       | nan finite -> nan nan   | nan nan -> nan nan
tanh  +0 +0 -> 0.0 0.0         | nonzero inf -> nan nan  | +0 inf -> 0.0 nan
tanh  nonzero nan -> nan nan   | +0 nan -> 0.0 nan       | inf positive -> 1.0 0.0
tanh  inf inf -> 1.0 ?0.0      | inf nan -> 1.0 ?0.0     | nan +0 -> nan 0.0
tanh  nan nonzero -> nan nan   | nan nan -> nan nan
"""
# these are the others at a rotated argument: f(z) = -i g(iz) or g(iz)
ROTATED = {"asin": "asinh", "atan": "atanh", "sin": "sinh", "tan": "tanh", "cos": "cosh"}


def read_table() -> dict[str, list[tuple[str, str, str, str]]]:
    table: dict[str, list[tuple[str, str, str, str]]] = {}
    for line in COMPLEX.strip().splitlines():
        name, rows = line.split(maxsplit=1)
        for row in rows.split("|"):
            given, wanted = row.split("->")
            (a, b), (re, im) = given.split(), wanted.split()
            table.setdefault(name, []).append((a, b, re, im))
    return table


TABLE = read_table()


def part_agrees(found: float, text: str, a: float, b: float, tolerance: float) -> bool:
    names = {"inf": inf, "nan": nan, "pi": pi, "a": a, "b": b, "abs": abs}
    wanted = eval(text.removeprefix("?"), {**names, "cos": math.cos, "sin": math.sin})
    if text.startswith("?"):
        found, wanted = abs(found), abs(wanted)
    return agrees(found, float(wanted), tolerance)


def complex_results(x: Any) -> dict[str, Any]:
    return {name: getattr(rnp, name)(x) for name in [*TABLE, *ROTATED]}


PARTS = {repr(part): part for samples in SAMPLES.values() for part in samples}.values()
POINTS = [complex(*parts) for parts in itertools.product(PARTS, repeat=2)]


def bits(z: complex) -> tuple[str, str]:
    """A complex number under which NaN and signed zeros are found again."""
    return repr(z.real), repr(z.imag)


@cache
def complex_found(dtype: str, compiled: bool) -> dict[str, dict[tuple[str, str], complex]]:
    x = rnp.asarray(POINTS, dtype=dtype)
    found = rlx.jit(complex_results)(x) if compiled else complex_results(x)
    return {
        name: dict(zip(map(bits, POINTS), map(complex, result.tolist()), strict=True))
        for name, result in found.items()
    }


@pytest.mark.parametrize("compiled", [False, True], ids=["eager", "compiled"])
@pytest.mark.parametrize("dtype", ["complex64", "complex128"])
@pytest.mark.parametrize("name", TABLE)
def test_complex(name: str, dtype: str, compiled: bool):
    found = complex_found(dtype, compiled)[name]
    tolerance = tolerance_of(dtype)
    for row in TABLE[name]:
        for a, b in itertools.product(SAMPLES[row[0]], SAMPLES[row[1]]):
            z = found[bits(complex(a, b))]
            close = part_agrees(z.real, row[2], a, b, tolerance)
            close = close and part_agrees(z.imag, row[3], a, b, tolerance)
            assert close, f"{name}({a} + {b} i) is {z}, the standard says {row}"


@pytest.mark.parametrize("dtype", ["complex64", "complex128"])
def test_complex_logarithms_of_other_bases(dtype: str):
    x = rnp.asarray(POINTS, dtype=dtype)
    natural = rnp.log(x).tolist()
    for name, base in (("log2", 2.0), ("log10", 10.0)):
        for z, found, log in zip(POINTS, getattr(rnp, name)(x).tolist(), natural, strict=True):
            for part, whole in ((found.real, log.real), (found.imag, log.imag)):
                assert agrees(part, whole / math.log(base), tolerance_of(dtype)), (name, z, found)


def test_complex_signs_and_products():
    x = rnp.asarray([3 + 4j, 0j, -2j, complex(nan, 1)])
    assert rnp.sign(x).tolist()[:3] == pytest.approx([0.6 + 0.8j, 0, -1j])
    assert bool(rnp.isnan(rnp.sign(x))[3])
    for zero in (complex(0.0, 0.0), complex(-0.0, 0.0), complex(-0.0, -0.0)):
        assert bits(complex(rnp.sign(rnp.asarray(zero)))) == ("0.0", "0.0")
    assert bits(complex(rnp.conj(rnp.asarray(complex(1.0, 0.0))))) == ("1.0", "-0.0")
    assert rnp.round(rnp.asarray([1.5 + 2.5j, -0.5 - 3.5j])).tolist() == [2 + 2j, -4j]
    total_of_zeros = rnp.asarray(complex(-0.0, 0.0)) + rnp.asarray(complex(-0.0, -0.0))
    assert bits(complex(total_of_zeros)) == ("-0.0", "0.0")
