"""Transcendental functions on vectors of float32 and float64; all lanes are computed.

Units in the last place, at the most, over all numbers:

    float32   erf, erf_inv, tan (by the C library) and all of `vector_wide.py` 1;
              exp, log, tanh, sin, cos 2; logistic, erfc 3
    float64   exp, log, tanh, logistic, sin, cos, erf, erfc, erf_inv 4; others by the C library
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence

from .code import Function, Vector
from .vector_error import complement, error_function, inverse_error_function
from .vector_exp import Writer, exponential, in_double, logarithm, logistic, tangent
from .vector_wide import WIDE


def emit_math(f: Function, name: str, vector: Vector, *values: str) -> str:
    """Emit one function on a vector."""
    w = Writer(f, vector)
    if name in KERNELS:
        return KERNELS[name](w, *values)
    if name in WIDE and not w.is_double:
        return in_double(WIDE[name], w, *values)
    return _by_lane(f, name, vector, values)


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
    huge = f.block
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
    y = w.select(is_negative, w.negated(y), y)
    if quarter:
        return y
    return w.select(w.compare("oeq", x, w.number(0.0)), x, y)  # keeps the sign of 0


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


KERNELS: dict[str, Callable[..., str]] = {
    "sin": sine,
    "cos": cosine,
    "exp": exponential,
    "log": logarithm,
    "tanh": tangent,
    "logistic": logistic,
    "erf": error_function,
    "erfc": complement,
    "erf_inv": inverse_error_function,
}
MATH = frozenset({*KERNELS, *WIDE, "tan"})
