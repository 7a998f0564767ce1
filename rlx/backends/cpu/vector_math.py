"""Transcendental functions on vectors of float32 and float64.

exp, log, tanh and logistic are polynomial kernels after Cephes (S. Moshier, "Methods and Programs
for Mathematical Functions", 1989), without branches. The others call the C library lane by lane;
float32 goes through the double-precision function, so the result is nearly always exact.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

from .code import Function, Vector

LIBM = {
    "tan", "asin", "acos", "atan", "sinh", "cosh", "asinh", "acosh", "atanh",
    "exp2", "expm1", "log1p", "erf", "erfc", "cbrt",
}  # fmt: skip
LIBM_BINARY = {"pow", "atan2"}
KERNELS = {"exp", "log", "tanh", "logistic", "erf_inv", "sin", "cos"}
MATH = frozenset(LIBM | LIBM_BINARY | KERNELS)


def emit_math(f: Function, name: str, vector: Vector, *values: str) -> str:
    """Emit one function on a vector; all lanes are computed."""
    if name in LIBM or name in LIBM_BINARY:
        return _by_lane(f, name, vector, values)
    kernels = {
        "sin": sine,
        "cos": cosine,
        "exp": exponential,
        "log": logarithm,
        "tanh": tangent,
        "logistic": logistic,
        "erf_inv": inverse_error_function,
    }
    return kernels[name](Writer(f, vector), *values)


class Writer:
    """Short names for the arithmetic of one vector type."""

    def __init__(self, f: Function, vector: Vector) -> None:
        self.f, self.vector = f, vector
        self.is_double = vector.dtype == "float64"
        self.integer = vector.with_dtype("int64" if self.is_double else "int32")
        self.mask = vector.with_dtype("bool").text

    def number(self, x: float) -> str:
        """A constant in all lanes."""
        return self.f.constant(self.vector, x)

    def binary(self, word: str, x: str, y: str) -> str:
        """`fadd`, `fmul` and so on."""
        return self.f.emit(f"{word} {self.vector.text} {x}, {y}")

    def fma(self, x: str, y: str, z: str) -> str:
        """x * y + z, rounded once."""
        return self.f.intrinsic("fma", self.vector, x, y, z)

    def polynomial(self, x: str, coefficients: Sequence[float]) -> str:
        """The highest power first."""
        total = self.number(coefficients[0])
        for c in coefficients[1:]:
            total = self.fma(total, x, self.number(c))
        return total

    def compare(self, word: str, x: str, y: str) -> str:
        """A lane mask."""
        return self.f.emit(f"fcmp {word} {self.vector.text} {x}, {y}")

    def select(self, mask: str, yes: str, no: str) -> str:
        """Lane by lane."""
        kind = self.vector.text
        return self.f.emit(f"select {self.mask} {mask}, {kind} {yes}, {kind} {no}")

    def power_of_two(self, n: str) -> str:
        """2 to an integer (as a vector of integers), by the exponent bits."""
        bias, shift = (1023, 52) if self.is_double else (127, 23)
        f, kind = self.f, self.integer
        biased = f.emit(f"add {kind.text} {n}, {f.constant(kind, bias)}")
        bits = f.emit(f"shl {kind.text} {biased}, {f.constant(kind, shift)}")
        return f.emit(f"bitcast {kind.text} {bits} to {self.vector.text}")


def exponential(w: Writer, x: str) -> str:
    """The exponential function, overflow and subnormal results included."""
    f, low, high = w.f, (-746.0 if w.is_double else -104.0), (710.0 if w.is_double else 89.0)
    held = w.select(w.compare("olt", x, w.number(low)), w.number(low), x)
    held = w.select(w.compare("ogt", held, w.number(high)), w.number(high), held)
    n = f.intrinsic("roundeven", w.vector, w.binary("fmul", held, w.number(1 / math.log(2))))
    if w.is_double:
        r = w.fma(n, w.number(-6.93145751953125e-1), held)
        r = w.fma(n, w.number(-1.42860682030941723212e-6), r)
        z = w.binary("fmul", r, r)
        top = [1.26177193074810590878e-4, 3.02994407707441961300e-2, 9.99999999999999999910e-1]
        under = [
            3.00198505138664455042e-6,
            2.52448340349684104192e-3,
            2.27265548208155028766e-1,
            2.0,
        ]
        p = w.binary("fmul", r, w.polynomial(z, top))
        q = w.binary("fsub", w.polynomial(z, under), p)
        y = w.fma(w.number(2.0), w.binary("fdiv", p, q), w.number(1.0))
    else:
        r = w.fma(n, w.number(-0.693359375), held)
        r = w.fma(n, w.number(2.12194440e-4), r)
        z = w.binary("fmul", r, r)
        p = w.polynomial(
            r,
            [1.9875691500e-4, 1.3981999507e-3, 8.3334519073e-3, 4.1665795894e-2, 1.6666665459e-1,
             5.0000001201e-1],
        )  # fmt: skip
        y = w.binary("fadd", w.fma(p, z, r), w.number(1.0))
    kind = w.integer.text
    # a NaN would be poison as an integer: it is put back at the end
    known = w.select(w.compare("ord", x, x), n, w.number(0.0))
    whole = f.emit(f"fptosi {w.vector.text} {known} to {kind}")
    half = f.emit(f"ashr {kind} {whole}, {f.constant(w.integer, 1)}")
    rest = f.emit(f"sub {kind} {whole}, {half}")
    y = w.binary("fmul", w.binary("fmul", y, w.power_of_two(half)), w.power_of_two(rest))
    return w.select(w.compare("ord", x, x), y, x)


def logarithm(w: Writer, x: str) -> str:
    """The natural logarithm; -inf at 0, NaN below."""
    f, kind = w.f, w.integer.text
    tiny, scale = (2.0**-1022, 2.0**54) if w.is_double else (2.0**-126, 2.0**25)
    shift, bias = (52, 1022) if w.is_double else (23, 126)
    small = w.compare("olt", x, w.number(tiny))
    scaled = w.select(small, w.binary("fmul", x, w.number(scale)), x)
    bits = f.emit(f"bitcast {w.vector.text} {scaled} to {kind}")
    exponent = f.emit(f"ashr {kind} {bits}, {f.constant(w.integer, shift)}")
    exponent = f.emit(f"sub {kind} {exponent}, {f.constant(w.integer, bias)}")
    e = f.emit(f"sitofp {kind} {exponent} to {w.vector.text}")
    e = w.select(small, w.binary("fsub", e, w.number(math.log2(scale))), e)
    fraction = f.emit(f"and {kind} {bits}, {f.constant(w.integer, (1 << shift) - 1)}")
    fraction = f.emit(f"or {kind} {fraction}, {f.constant(w.integer, bias << shift)}")
    m = f.emit(f"bitcast {kind} {fraction} to {w.vector.text}")  # 0.5 <= m < 1
    below = w.compare("olt", m, w.number(math.sqrt(0.5)))
    e = w.select(below, w.binary("fsub", e, w.number(1.0)), e)
    m = w.select(below, w.binary("fadd", m, m), m)
    r = w.binary("fsub", m, w.number(1.0))
    z = w.binary("fmul", r, r)
    cubic = w.binary("fmul", w.binary("fmul", r, z), _log_tail(w, r))
    y = w.fma(e, w.number(-2.121944400546905827679e-4), cubic)
    y = w.fma(z, w.number(-0.5), y)
    y = w.fma(e, w.number(0.693359375), w.binary("fadd", r, y))
    infinity = w.number(math.inf)
    y = w.select(w.compare("oeq", x, infinity), infinity, y)
    y = w.select(w.compare("oeq", x, w.number(0.0)), w.number(-math.inf), y)
    y = w.select(w.compare("olt", x, w.number(0.0)), w.number(math.nan), y)
    return w.select(w.compare("ord", x, x), y, x)


def _log_tail(w: Writer, r: str) -> str:
    """What multiplies r**3 in log(1 + r)."""
    if not w.is_double:
        return w.polynomial(
            r,
            [7.0376836292e-2, -1.1514610310e-1, 1.1676998740e-1, -1.2420140846e-1,
             1.4249322787e-1, -1.6668057665e-1, 2.0000714765e-1, -2.4999993993e-1,
             3.3333331174e-1],
        )  # fmt: skip
    top = [
        1.01875663804580931796e-4, 4.97494994976747001425e-1, 4.70579119878881725854,
        1.44989225341610930846e1, 1.79368678507819816313e1, 7.70838733755885391666,
    ]  # fmt: skip
    under = [
        1.0, 1.12873587189167450590e1, 4.52279145837532221105e1, 8.29875266912776603211e1,
        7.11544750618563894466e1, 2.31251620126765340583e1,
    ]  # fmt: skip
    return w.binary("fdiv", w.polynomial(r, top), w.polynomial(r, under))


def tangent(w: Writer, x: str) -> str:
    """The hyperbolic tangent: a polynomial near 0, by the exponential elsewhere."""
    size = w.f.intrinsic("fabs", w.vector, x)
    z = w.binary("fmul", x, x)
    if w.is_double:
        top = [-9.64399179425052238628e-1, -9.92877231001918586564e1, -1.61468768441708447952e3]
        under = [1.0, 1.12811678491632931402e2, 2.23548839060100448583e3, 4.84406305325125486048e3]
        tail = w.binary("fdiv", w.polynomial(z, top), w.polynomial(z, under))
    else:
        tail = w.polynomial(
            z,
            [-5.70498872745e-3, 2.06390887954e-2, -5.37397155531e-2, 1.33314422036e-1,
             -3.33332819422e-1],
        )  # fmt: skip
    near = w.fma(w.binary("fmul", z, tail), x, x)
    grown = w.binary("fadd", exponential(w, w.binary("fadd", size, size)), w.number(1.0))
    far = w.binary("fsub", w.number(1.0), w.binary("fdiv", w.number(2.0), grown))
    far = w.f.intrinsic("copysign", w.vector, far, x)
    return w.select(w.compare("ult", size, w.number(0.625)), near, far)


def logistic(w: Writer, x: str) -> str:
    """1 / (1 + exp(-x))."""
    negative = w.f.emit(f"fneg {w.vector.text} {x}")
    grown = w.binary("fadd", exponential(w, negative), w.number(1.0))
    return w.binary("fdiv", w.number(1.0), grown)


def sine(w: Writer, x: str) -> str:
    """The sine; see `_wave`."""
    return _wave(w, x, "sin", 0)


def cosine(w: Writer, x: str) -> str:
    """The cosine; see `_wave`."""
    return _wave(w, x, "cos", 1)


def _wave(w: Writer, x: str, name: str, quarter: int) -> str:
    """Reduce by multiples of pi/2 and take a polynomial; huge arguments go to the C library."""
    f = w.f
    size = f.intrinsic("fabs", w.vector, x)
    is_huge = w.compare("uge", size, w.number(1e6))
    if w.vector.lanes > 1:
        any_lane = f"@llvm.vector.reduce.or.v{w.vector.lanes}i1"
        f.declarations.add(f"declare i1 {any_lane}({w.mask})")
        is_huge = f.emit(f"call i1 {any_lane}({w.mask} {is_huge})")
    huge, near, both = f.label("huge"), f.label("near"), f.label("wave")
    f.do(f"br i1 {is_huge}, label %{huge}, label %{near}")
    f.start_block(huge)
    by_library = _by_lane(f, name, w.vector, [x])
    f.do(f"br label %{both}")
    f.start_block(near)
    by_polynomial = _near_wave(w, x, quarter)
    f.do(f"br label %{both}")
    f.start_block(both)
    return f.emit(f"phi {w.vector.text} [ {by_library}, %{huge} ], [ {by_polynomial}, %{near} ]")


# Taylor terms of sin(r) / r and of cos(r) in r**2, highest first; |r| <= pi/4
_SINE = [(-1) ** k / math.factorial(2 * k + 1) for k in reversed(range(9))]
_COSINE = [(-1) ** k / math.factorial(2 * k) for k in reversed(range(10))]
# pi/2 in three parts, the first two with trailing zeros
_HALF_PI = (1.5707963267341256, 6.077100506303966e-11, 2.0222662487959506e-21)


def _near_wave(w: Writer, x: str, quarter: int) -> str:
    """float32 is reduced in float64, which has digits to spare."""
    f = w.f
    wide = w if w.is_double else Writer(f, w.vector.with_dtype("float64"))
    r = x if w.is_double else f.emit(f"fpext {w.vector.text} {x} to {wide.vector.text}")
    turns = wide.binary("fmul", r, wide.number(2 / math.pi))
    n = f.intrinsic("roundeven", wide.vector, turns)
    for part in _HALF_PI:
        r = wide.fma(n, wide.number(-part), r)
    kind = w.vector.with_dtype("int32")
    turn = f.emit(f"fptosi {wide.vector.text} {n} to {kind.text}")
    if not w.is_double:
        r = f.emit(f"fptrunc {wide.vector.text} {r} to {w.vector.text}")
    terms = 9 if w.is_double else 5
    z = w.binary("fmul", r, r)
    cube = w.binary("fmul", w.binary("fmul", r, z), w.polynomial(z, _SINE[-terms:-1]))
    sine_of = w.binary("fadd", r, cube)
    cosine_of = w.polynomial(z, _COSINE[-terms - 1 :])
    turn = f.emit(f"add {kind.text} {turn}, {f.constant(kind, quarter)}")
    odd = f.emit(f"trunc {kind.text} {turn} to {w.mask}")
    half = f.emit(f"lshr {kind.text} {turn}, {f.constant(kind, 1)}")
    is_negative = f.emit(f"trunc {kind.text} {half} to {w.mask}")
    y = w.select(odd, cosine_of, sine_of)
    negated = f.emit(f"fneg {w.vector.text} {y}")
    y = w.select(is_negative, negated, y)
    if quarter:
        return y
    return w.select(w.compare("oeq", x, w.number(0.0)), x, y)  # keeps the sign of 0


def inverse_error_function(w: Writer, x: str) -> str:
    """M. Giles, "Approximating the erfinv function" (2010), then two steps of Halley's method."""
    if not w.is_double:
        wide = Writer(w.f, w.vector.with_dtype("float64"))
        given = w.f.emit(f"fpext {w.vector.text} {x} to {wide.vector.text}")
        result = inverse_error_function(wide, given)
        return w.f.emit(f"fptrunc {wide.vector.text} {result} to {w.vector.text}")
    one = w.number(1.0)
    product = w.binary("fmul", w.binary("fsub", one, x), w.binary("fadd", one, x))
    depth = w.f.emit(f"fneg {w.vector.text} {logarithm(w, product)}")
    near = w.polynomial(
        w.binary("fsub", depth, w.number(2.5)),
        [2.81022636e-08, 3.43273939e-07, -3.5233877e-06, -4.39150654e-06, 0.00021858087,
         -0.00125372503, -0.00417768164, 0.246640727, 1.50140941],
    )  # fmt: skip
    far = w.polynomial(
        w.binary("fsub", w.f.intrinsic("sqrt", w.vector, depth), w.number(3.0)),
        [-0.000200214257, 0.000100950558, 0.00134934322, -0.00367342844, 0.00573950773,
         -0.0076224613, 0.00943887047, 1.00167406, 2.83297682],
    )  # fmt: skip
    y = w.binary("fmul", w.select(w.compare("olt", depth, w.number(5.0)), near, far), x)
    for _ in range(2):
        y = _halley(w, y, x)
    size = w.f.intrinsic("fabs", w.vector, x)
    edge = w.f.intrinsic("copysign", w.vector, w.number(math.inf), x)
    return w.select(w.compare("oeq", size, one), edge, y)


def _halley(w: Writer, y: str, x: str) -> str:
    """Improve y towards erf(y) = x; near the ends by the complement, which keeps the digits."""
    size_x = w.f.intrinsic("fabs", w.vector, x)
    size_y = w.f.intrinsic("fabs", w.vector, y)
    short = w.binary("fsub", w.number(1.0), size_x)
    by_erf = w.binary("fsub", _by_lane(w.f, "erf", w.vector, [size_y]), size_x)
    by_erfc = w.binary("fsub", short, _by_lane(w.f, "erfc", w.vector, [size_y]))
    error = w.select(w.compare("olt", size_x, w.number(0.5)), by_erf, by_erfc)
    square = w.f.emit(f"fneg {w.vector.text} {w.binary('fmul', size_y, size_y)}")
    slope = w.binary("fmul", w.number(2 / math.sqrt(math.pi)), exponential(w, square))
    step = w.binary("fdiv", error, slope)
    damped = w.fma(size_y, step, w.number(1.0))
    better = w.binary("fsub", size_y, w.binary("fdiv", step, damped))
    return w.f.intrinsic("copysign", w.vector, better, x)


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
    if wide.lanes == 1:
        return f.emit(f"call double @{name}({', '.join(f'double {v}' for v in values)})")
    result = "poison"
    for lane in range(wide.lanes):
        given = [f.emit(f"extractelement {wide.text} {v}, i32 {lane}") for v in values]
        one = f.emit(f"call double @{name}({', '.join(f'double {v}' for v in given)})")
        result = f.emit(f"insertelement {wide.text} {result}, double {one}, i32 {lane}")
    return result
