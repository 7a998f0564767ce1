"""Transcendental functions on vectors of float32 and float64.

All lanes are computed. `UNITS` is how exact they are; no function is more than 2 units in the last
place off.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from functools import partial

from ..llvm.text import Function, Vector
from .error import complement, error_function, inverse_error_function
from .exponential import Writer, exponential, hyperbolic_tangent, in_double, logarithm, logistic

# -- functions of float32 computed in float64, whose digits to spare keep these formulas short -----

SMALL = 1e-3  # below, the first terms of a series are exact enough, and differences are not


def _near(w: Writer, x: str, terms: list[float], far: str) -> str:
    """A series for small x: x times `terms`, highest power first; else `far`."""
    size = w.f.intrinsic("fabs", w.vector, x)
    near = w.binary("fmul", x, w.polynomial(x, terms))
    return w.select(w.compare("olt", size, w.number(SMALL)), near, far)


def expm1(w: Writer, x: str) -> str:
    """exp(x) - 1."""
    far = w.binary("fsub", exponential(w, x), w.number(1.0))
    return _near(w, x, [1 / 24, 1 / 6, 1 / 2, 1.0], far)


def log1p(w: Writer, x: str) -> str:
    """log(1 + x)."""
    far = logarithm(w, w.binary("fadd", x, w.number(1.0)))
    return _near(w, x, [-1 / 4, 1 / 3, -1 / 2, 1.0], far)


def exp2(w: Writer, x: str) -> str:
    """2 ** x."""
    return exponential(w, w.binary("fmul", x, w.number(math.log(2))))


def sinh(w: Writer, x: str) -> str:
    """The hyperbolic sine."""
    grown = exponential(w, x)
    far = w.binary("fsub", grown, w.binary("fdiv", w.number(1.0), grown))
    return _near(w, x, [1 / 6, 0.0, 1.0], w.binary("fmul", far, w.number(0.5)))


def cosh(w: Writer, x: str) -> str:
    """The hyperbolic cosine."""
    grown = exponential(w, x)
    total = w.binary("fadd", grown, w.binary("fdiv", w.number(1.0), grown))
    return w.binary("fmul", total, w.number(0.5))


def asinh(w: Writer, x: str) -> str:
    """The inverse of the hyperbolic sine."""
    size = w.f.intrinsic("fabs", w.vector, x)
    root = w.f.intrinsic("sqrt", w.vector, w.fma(x, x, w.number(1.0)))
    far = w.f.intrinsic("copysign", w.vector, logarithm(w, w.binary("fadd", size, root)), x)
    return _near(w, x, [-1 / 6, 0.0, 1.0], far)


def acosh(w: Writer, x: str) -> str:
    """The inverse of the hyperbolic cosine; NaN below 1."""
    root = w.f.intrinsic("sqrt", w.vector, w.fma(x, x, w.number(-1.0)))
    found = logarithm(w, w.binary("fadd", x, root))
    return w.select(w.compare("oge", x, w.number(1.0)), found, w.number(math.nan))


def atanh(w: Writer, x: str) -> str:
    """The inverse of the hyperbolic tangent; infinite at -1 and 1, NaN outside."""
    one = w.number(1.0)
    ratio = w.binary("fdiv", w.binary("fadd", one, x), w.binary("fsub", one, x))
    far = w.binary("fmul", logarithm(w, ratio), w.number(0.5))
    return _near(w, x, [1 / 3, 0.0, 1.0], far)


def cbrt(w: Writer, x: str) -> str:
    """The cube root."""
    size = w.f.intrinsic("fabs", w.vector, x)
    root = exponential(w, w.binary("fmul", logarithm(w, size), w.number(1 / 3)))
    return w.f.intrinsic("copysign", w.vector, root, x)


def double_cbrt(w: Writer, x: str) -> str:
    """The cube root in float64: that of float32, and a Newton step on the residue."""
    size = w.f.intrinsic("fabs", w.vector, x)
    is_small = w.compare("olt", size, w.number(2.0**-900))  # the residue would be subnormal
    size = w.select(is_small, w.binary("fmul", size, w.number(2.0**300)), size)
    root = cbrt(w, size)
    square = w.binary("fmul", root, root)
    lost = w.fma(root, root, w.negated(square))
    residue = w.fma(lost, root, w.fma(square, root, w.negated(size)))
    step = w.binary("fdiv", residue, w.binary("fmul", square, w.number(3.0)))
    # the step is NaN at 0 and at infinity
    root = w.select(w.compare("ord", step, step), w.binary("fsub", root, step), root)
    root = w.select(is_small, w.binary("fmul", root, w.number(2.0**-100)), root)
    return w.f.intrinsic("copysign", w.vector, root, x)


def power(w: Writer, x: str, y: str) -> str:
    """x ** y with every special case of IEEE 754."""
    one, zero = w.number(1.0), w.number(0.0)
    size = w.f.intrinsic("fabs", w.vector, x)
    grown = exponential(w, w.binary("fmul", y, logarithm(w, size)))
    grown = w.select(w.compare("oeq", size, one), one, grown)
    is_whole = w.compare("oeq", w.f.intrinsic("floor", w.vector, y), y)
    half = w.binary("fmul", y, w.number(0.5))
    is_even = w.compare("oeq", w.f.intrinsic("floor", w.vector, half), half)
    # a negative number: the sign of an odd power, NaN for a broken one (infinities have none)
    turned = w.select(is_even, grown, w.negated(grown))
    is_fine = w.compare("oeq", size, w.number(math.inf))
    broken = w.select(is_fine, grown, w.number(math.nan))
    broken = w.select(w.compare("oeq", size, zero), grown, broken)
    below = w.select(is_whole, turned, broken)
    signed = w.f.intrinsic("copysign", w.vector, one, x)
    result = w.select(w.compare("olt", signed, zero), below, grown)
    return w.select(w.compare("oeq", y, zero), one, result)


# arctan in x**2 / x**3 (Cephes), for |x| <= tan(pi / 8)
_ARCTAN = [8.05374449538e-2, -1.38776856032e-1, 1.99777106478e-1, -3.33329491539e-1]


def atan2(w: Writer, y: str, x: str) -> str:
    """The angle of the point (x, y), from -pi to pi."""
    one, zero = w.number(1.0), w.number(0.0)
    tall, wide = w.f.intrinsic("fabs", w.vector, y), w.f.intrinsic("fabs", w.vector, x)
    is_steep = w.compare("ogt", tall, wide)
    low, high = w.select(is_steep, wide, tall), w.select(is_steep, tall, wide)
    ratio = w.binary("fdiv", low, high)
    ratio = w.select(w.compare("oeq", low, high), one, ratio)  # two infinities
    ratio = w.select(w.compare("oeq", high, zero), zero, ratio)
    angle = _arctan_of_ratio(w, ratio)
    quarter = w.binary("fsub", w.number(math.pi / 2), angle)
    angle = w.select(is_steep, quarter, angle)
    is_left = w.compare("olt", w.f.intrinsic("copysign", w.vector, one, x), zero)
    angle = w.select(is_left, w.binary("fsub", w.number(math.pi), angle), angle)
    angle = w.f.intrinsic("copysign", w.vector, angle, y)
    unknown = w.binary("fadd", x, y)
    return w.select(w.compare("uno", x, y), unknown, angle)


def _arctan_of_ratio(w: Writer, x: str) -> str:
    """arctan from 0 to 1."""
    one = w.number(1.0)
    is_high = w.compare("ogt", x, w.number(math.tan(math.pi / 8)))
    turned = w.binary("fdiv", w.binary("fsub", x, one), w.binary("fadd", x, one))
    r = w.select(is_high, turned, x)
    z = w.binary("fmul", r, r)
    angle = w.fma(w.binary("fmul", z, w.polynomial(z, _ARCTAN)), r, r)
    return w.binary("fadd", w.select(is_high, w.number(math.pi / 4), w.number(0.0)), angle)


def atan(w: Writer, x: str) -> str:
    """The arc tangent."""
    return atan2(w, x, w.number(1.0))


def asin(w: Writer, x: str) -> str:
    """The arc sine; NaN outside of -1 to 1."""
    return atan2(w, x, _leg(w, x))


def acos(w: Writer, x: str) -> str:
    """The arc cosine; NaN outside of -1 to 1."""
    return atan2(w, _leg(w, x), x)


def _leg(w: Writer, x: str) -> str:
    one = w.number(1.0)
    product = w.binary("fmul", w.binary("fsub", one, x), w.binary("fadd", one, x))
    return w.f.intrinsic("sqrt", w.vector, product)


WIDE: dict[str, Callable[..., str]] = {
    f.__name__: f for f in (expm1, log1p, exp2, sinh, cosh, asinh, acosh, atanh, cbrt)
} | {"pow": power, "atan2": atan2, "atan": atan, "asin": asin, "acos": acos}


# -- all functions ---------------------------------------------------------------------------------


def emit_math(f: Function, name: str, vector: Vector, *values: str) -> str:
    """Emit one function on a vector, the same for any number of lanes."""
    w = Writer(f, vector)
    kernels = DOUBLE if w.is_double else SINGLE
    if name not in kernels:
        return _by_lane(f, name, vector, values)
    if name in WAVES or not w.is_short:
        return kernels[name](w, *values)
    whole = w.whole()
    made = kernels[name](whole, *(w.repeated(x, whole) for x in values))
    return w.first_of(made, whole)


def _wave(w: Writer, x: str, name: str) -> str:
    """`sin`, `cos` or `tan`: a polynomial after range reduction, or libm for huge arguments."""
    f = w.f
    size = f.intrinsic("fabs", w.vector, x)
    is_huge = w.compare("uge", size, w.number(HUGE))
    if w.vector.lanes > 1:
        any_lane = f"@llvm.vector.reduce.or.v{w.vector.lanes}i1"
        is_huge = f.call("i1", any_lane, (w.mask, is_huge))
    by_polynomial = _near_wave(w, x, name)
    huge, near, both = f.label("huge"), f.label("near"), f.label("wave")
    f.do(f"br i1 {is_huge}, label %{huge}, label %{near}, !prof {RARELY}")
    f.start_block(huge)
    by_library = _of_huge(w, name, x, by_polynomial)
    huge = f.block
    f.do(f"br label %{both}")
    f.start_block(near)
    f.go_on(both)
    return f.emit(f"phi {w.vector.text} [ {by_library}, %{huge} ], [ {by_polynomial}, %{near} ]")


def _of_huge(w: Writer, name: str, x: str, otherwise: str) -> str:
    """The C library's results for lanes with huge arguments, else `otherwise`."""
    f, lanes, lane = w.f, w.vector.lanes, Vector(w.vector.dtype)
    if lanes == 1:
        return _by_lane(f, name, w.vector, [x])
    given, made = (f.reserve(w.vector.text, 64) for _ in range(2))
    f.do(f"store {w.vector.text} {x}, ptr {given}")
    f.do(f"store {w.vector.text} {otherwise}, ptr {made}")
    one = Writer(f, lane)
    with f.loop("0", str(lanes)) as loop:
        place = f.offset(given, lane.text, loop.index)
        each = f.emit(f"load {lane.text}, ptr {place}")
        with f.when(one.compare("uge", f.intrinsic("fabs", lane, each), one.number(HUGE))):
            result = _by_lane(f, name, lane, [each])
            f.do(f"store {lane.text} {result}, ptr {f.offset(made, lane.text, loop.index)}")
    return f.emit(f"load {w.vector.text}, ptr {made}")


HUGE = 1e6  # from where on the C library reduces arguments
# The registers of the usual path are then not spilled for the sake of the calls on the other.
RARELY = '!{!"branch_weights", i32 1, i32 1000000}'
# Taylor terms of sin(r) / r and of cos(r) in r**2, highest first; |r| <= pi/4
_SINE = [(-1) ** k / math.factorial(2 * k + 1) for k in reversed(range(9))]
_COSINE = [(-1) ** k / math.factorial(2 * k) for k in reversed(range(10))]
# pi/2 in three parts, the first two with trailing zeros
_HALF_PI = (1.5707963267341256, 6.077100506303966e-11, 2.0222662487959506e-21)


def _near_wave(w: Writer, x: str, name: str) -> str:
    """Reduce by multiples of pi/2 in float64 and take the polynomial.

    For float32, float64 has digits to spare; the tangent stays there.
    """
    f, kind = w.f, w.vector.with_dtype("int32")
    wide = w.widened()
    r = x if w.is_double else f.emit(f"fpext {w.vector.text} {x} to {wide.vector.text}")
    turns = wide.binary("fmul", r, wide.number(2 / math.pi))
    n = f.intrinsic("roundeven", wide.vector, turns)
    for part in _HALF_PI:
        r = wide.fma(n, wide.number(-part), r)
    turn = f.emit(f"fptosi {wide.vector.text} {n} to {kind.text}")
    if name == "tan":
        y = _quotient(wide, r, f.emit(f"trunc {kind.text} {turn} to {w.mask}"))
        y = f.emit(f"fptrunc {wide.vector.text} {y} to {w.vector.text}")
    else:
        if not w.is_double:
            r = f.emit(f"fptrunc {wide.vector.text} {r} to {w.vector.text}")
        y = _chosen(w, r, turn, 1 if name == "cos" else 0)
    if name == "cos":
        return y
    return w.select(w.compare("oeq", x, w.number(0.0)), x, y)  # keeps the sign of 0


def _chosen(w: Writer, r: str, turn: str, quarter: int) -> str:
    """Sine or cosine of r, by the number of quarter turns."""
    f, kind = w.f, w.vector.with_dtype("int32")
    sine_of, cosine_of = _sine_and_cosine(w, r, 9 if w.is_double else 5)
    turn = f.emit(f"add {kind.text} {turn}, {f.constant(kind, quarter)}")
    odd = f.emit(f"trunc {kind.text} {turn} to {w.mask}")
    half = f.emit(f"lshr {kind.text} {turn}, {f.constant(kind, 1)}")
    is_negative = f.emit(f"trunc {kind.text} {half} to {w.mask}")
    y = w.select(odd, cosine_of, sine_of)
    return w.select(is_negative, w.negated(y), y)


def _quotient(w: Writer, r: str, odd: str) -> str:
    """The tangent of r, or after an odd number of quarter turns."""
    sine_of, cosine_of = _sine_and_cosine(w, r, 6)
    over = w.select(odd, w.negated(cosine_of), sine_of)
    return w.binary("fdiv", over, w.select(odd, sine_of, cosine_of))


def _sine_and_cosine(w: Writer, r: str, terms: int) -> tuple[str, str]:
    z = w.binary("fmul", r, r)
    cube = w.binary("fmul", w.binary("fmul", r, z), w.polynomial(z, _SINE[-terms:-1]))
    return w.binary("fadd", r, cube), w.polynomial(z, _COSINE[-terms - 1 :])


def _by_lane(f: Function, name: str, vector: Vector, values: Sequence[str]) -> str:
    """Call the C library's double-precision function for each lane."""
    f.declarations.add(f"declare double @{name}({', '.join(['double'] * len(values))})")
    wide = vector.with_dtype("float64")
    if vector.dtype == "float32":
        values = [f.emit(f"fpext {vector.text} {v} to {wide.text}") for v in values]
    result = _calls(f, name, wide, values)
    if vector.dtype == "float32":
        return f.emit(f"fptrunc {wide.text} {result} to {vector.text}")
    return result


def _calls(f: Function, name: str, wide: Vector, values: Sequence[str]) -> str:
    """The calls in a loop through memory: unrolled they would take long to compile."""
    if wide.lanes == 1:
        return f.emit(f"call double @{name}({', '.join(f'double {v}' for v in values)})")
    places = [f.reserve(wide.text, 64) for _ in values]
    for place, value in zip(places, values, strict=True):
        f.do(f"store {wide.text} {value}, ptr {place}")
    with f.loop("0", str(wide.lanes)) as loop:
        lanes = [f.offset(place, "double", loop.index) for place in places]
        given = [f.emit(f"load double, ptr {lane}") for lane in lanes]
        one = f.emit(f"call double @{name}({', '.join(f'double {v}' for v in given)})")
        f.do(f"store double {one}, ptr {lanes[0]}")
    return f.emit(f"load {wide.text}, ptr {places[0]}")


_BOTH: dict[str, Callable[..., str]] = {
    "sin": partial(_wave, name="sin"),
    "cos": partial(_wave, name="cos"),
    "exp": exponential,
    "log": logarithm,
    "tanh": hyperbolic_tangent,
    "logistic": logistic,
    "erf": error_function,
    "erfc": complement,
    "erf_inv": inverse_error_function,
}
_IN_DOUBLE = {name: partial(in_double, kernel) for name, kernel in WIDE.items()}
SINGLE = {**_BOTH, "tan": partial(_wave, name="tan"), **_IN_DOUBLE}
DOUBLE = {**_BOTH, "cbrt": double_cbrt}  # the others by the C library
MATH = frozenset(SINGLE)
WAVES = frozenset(("sin", "cos", "tan"))  # in one way for any lanes

# The greatest error found in float32 and in float64, in units in the last place of the exact result
# and rounded up. The tests hold each number from above, and from below too for what is computed
# here; what the C library computes was measured with glibc. Where it says 2, it is below 1.03 for
# exp and for erf, and below 1.9 for all.
UNITS = {
    "sin": (2, 2),
    "cos": (2, 2),
    "tan": (1, 1),
    "exp": (2, 2),
    "log": (1, 1),
    "tanh": (2, 2),
    "logistic": (2, 2),
    "erf": (2, 1),
    "erfc": (2, 2),
    "erf_inv": (1, 2),
    "expm1": (1, 1),
    "log1p": (1, 1),
    "exp2": (1, 1),
    "sinh": (1, 2),
    "cosh": (1, 2),
    "asinh": (1, 2),
    "acosh": (1, 3),
    "atanh": (1, 2),
    "cbrt": (1, 1),
    "pow": (1, 1),
    "atan2": (1, 1),
    "atan": (1, 1),
    "asin": (1, 1),
    "acos": (1, 1),
}
