"""The error function, its complement and its inverse on vectors.

erf, erfc   float64: FreeBSD's s_erf.c (Sun Microsystems, 1993)
            float32: N. Juffa's erff and erfcf (2016)
erf_inv     after M. Giles, "Approximating the erfinv function" (2010), then Halley's method
"""

from __future__ import annotations

import math

from ...erf_coefficients import AROUND_ONE, ERF_OF_ONE, FAR, MIDDLE, NEAR
from .exponential import Writer, exponential, in_double, logarithm

_LARGEST = 28.0  # erfc of more is 0


def error_function(w: Writer, x: str) -> str:
    """erf."""
    return _erf_and_erfc(w, x)[0] if w.is_double else _single_erf(w, x)


def complement(w: Writer, x: str) -> str:
    """erfc, one minus erf."""
    return _erf_and_erfc(w, x)[1] if w.is_double else _single_erfc(w, x)


def _single_erf(w: Writer, x: str) -> str:
    t, s = w.f.intrinsic("fabs", w.vector, x), w.binary("fmul", x, x)
    near = _single_near(w, x, s)
    r = w.fma(w.number(-1.72853470e-5), t, w.number(3.83197126e-4))
    u = w.fma(w.number(-3.88396438e-3), t, w.number(2.42546219e-2))
    r = w.fma(r, s, u)
    for c in (-1.06777877e-1, -6.34846687e-1, -1.28717512e-1):
        r = w.fma(r, t, w.number(c))
    r = w.fma(r, t, w.negated(t))
    far = w.binary("fsub", w.number(1.0), exponential(w, r))
    far = w.f.intrinsic("copysign", w.vector, far, x)
    return w.select(w.compare("ogt", t, w.number(0.927734375)), far, near)


def _single_near(w: Writer, x: str, square: str) -> str:
    """erf near 0."""
    terms = [-5.96761703e-4, 4.99119423e-3, -2.67681349e-2, 1.12819925e-1, -3.76125336e-1,
             1.28379166e-1]  # fmt: skip
    return w.fma(w.polynomial(square, terms), x, x)


def _single_erfc(w: Writer, x: str) -> str:
    """exp(-a * a) times a polynomial in (a - 2) / (a + 2), for a = |x|, corrected."""
    a, one = w.f.intrinsic("fabs", w.vector, x), w.number(1.0)
    a = w.select(w.compare("olt", a, w.number(_LARGEST)), a, w.number(_LARGEST))
    r = w.binary("fdiv", one, w.binary("fadd", a, w.number(2.0)))
    q = w.binary("fmul", w.binary("fsub", a, w.number(2.0)), r)
    rest = w.fma(w.binary("fadd", q, one), w.number(-2.0), a)
    q = w.fma(r, w.fma(q, w.negated(a), rest), q)
    p = w.polynomial(
        q,
        [-4.01139259e-4, -1.23075210e-3, 1.31355342e-3, 8.63227434e-3, -8.05991981e-3,
         -5.42046614e-2, 1.64055392e-1, -1.66031361e-1, -9.27639827e-2, 2.76978403e-1],
    )  # fmt: skip
    r = w.binary("fdiv", w.number(0.5), w.binary("fadd", a, w.number(0.5)))
    q = w.fma(p, r, r)
    rest = w.fma(w.binary("fadd", q, q), w.negated(a), one)
    small = w.binary("fadd", w.binary("fsub", p, q), rest)
    total = w.fma(small, r, q)
    lost = w.fma(small, r, w.binary("fsub", q, total))
    # what the rounding lost is put back into the exponent: relative to about 1 / (2 * a + 1)
    square = w.binary("fmul", a, a)
    rest = w.fma(w.negated(a), a, square)
    rest = w.fma(lost, w.fma(a, w.number(2.0), one), rest)
    result = exponential(w, w.negated(square), rest, factor=total)
    result = w.select(
        w.compare("olt", x, w.number(0.0)), w.binary("fsub", w.number(2.0), result), result
    )
    near = w.binary("fsub", one, _single_near(w, x, square))
    result = w.select(w.compare("olt", a, w.number(0.25)), near, result)
    return w.select(w.compare("ord", x, x), result, x)


def _erf_and_erfc(w: Writer, x: str) -> tuple[str, str]:
    """The error function and its complement in float64: four rationals, one division."""
    one, size = w.number(1.0), w.f.intrinsic("fabs", w.vector, x)
    size = w.select(w.compare("olt", size, w.number(_LARGEST)), size, w.number(_LARGEST))
    is_near = w.compare("olt", size, w.number(0.84375))
    is_one = w.compare("olt", size, w.number(1.25))
    is_middle = w.compare("olt", size, w.number(1 / 0.35))
    square = w.binary("fmul", size, size)
    far = w.binary("fdiv", one, w.select(is_one, one, square))
    argument = w.select(is_one, w.binary("fsub", size, one), far)
    argument = w.select(is_near, square, argument)
    # over / (1 + under) as over - over * under / (1 + under) keeps the digits of `under`
    over = w.polynomial(argument, AROUND_ONE[0][::-1])
    under = w.binary("fmul", argument, w.polynomial(argument, AROUND_ONE[1][:0:-1]))
    around = (w.negated(w.binary("fmul", over, under)), w.binary("fadd", one, under))
    parts = []
    for i in range(2):
        near, middle, end = (
            w.polynomial(argument, table[i][::-1]) for table in (NEAR, MIDDLE, FAR)
        )
        part = w.select(is_middle, middle, end)
        parts.append(w.select(is_near, near, w.select(is_one, around[i], part)))
    ratio = w.binary("fdiv", *parts)
    is_negative = w.compare("olt", x, w.number(0.0))
    # near 0: x + x * ratio
    near_erf = w.fma(size, ratio, size)
    half = w.number(0.5)
    start = w.select(w.compare("olt", size, half), half, one)  # for an exact difference
    grown = w.fma(size, ratio, w.binary("fsub", size, start))
    near_rest = w.binary("fsub", w.binary("fsub", one, start), grown)
    # around 1: a constant, the numerator and the ratio
    one_erf = w.binary("fadd", w.binary("fadd", over, ratio), w.number(ERF_OF_ONE))
    one_rest = w.binary("fsub", w.binary("fsub", w.number(1 - ERF_OF_ONE), over), ratio)
    tail = _tail(w, size, w.select(is_one, w.number(0.0), ratio))
    erf = w.select(is_one, one_erf, w.binary("fsub", one, tail))
    erf = w.select(is_near, near_erf, erf)
    erfc = w.select(is_near, near_rest, w.select(is_one, one_rest, tail))
    erfc = w.select(is_negative, w.binary("fadd", one, erf), erfc)
    erf = w.f.intrinsic("copysign", w.vector, erf, x)
    is_known = w.compare("ord", x, x)
    return w.select(is_known, erf, x), w.select(is_known, erfc, x)


def _tail(w: Writer, size: str, ratio: str) -> str:
    """erfc from 1.25, exp(-x * x + ratio) / x, with the square in two parts."""
    square = w.binary("fmul", size, size)
    rest = w.fma(w.negated(size), size, square)
    high = w.binary("fsub", w.number(-0.5625), square)
    lost = w.binary("fsub", w.number(-0.5625), w.binary("fadd", high, square))
    total = w.binary("fadd", high, ratio)
    lost = w.binary("fadd", lost, w.binary("fsub", ratio, w.binary("fsub", total, high)))
    inverse = w.binary("fdiv", w.number(1.0), size)
    rest = w.binary("fadd", rest, w.fma(w.negated(inverse), size, w.number(1.0)))
    return exponential(w, total, w.binary("fadd", rest, lost), factor=inverse)


def inverse_error_function(w: Writer, x: str) -> str:
    """The inverse of erf: seven digits, tripled; float32 is computed in float64."""
    if not w.is_double:
        return in_double(inverse_error_function, w, x)
    one = w.number(1.0)
    product = w.binary("fmul", w.binary("fsub", one, x), w.binary("fadd", one, x))
    depth = w.negated(logarithm(w, product))
    near = w.polynomial(
        w.binary("fsub", depth, w.number(2.5)),
        [2.81022636e-08, 3.43273939e-07, -3.5233877e-06, -4.39150654e-06, 0.00021858087,
         -0.00125372503, -0.00417768164, 0.246640727, 1.50140941],
    )  # fmt: skip
    far = w.polynomial(
        w.binary("fsub", w.f.intrinsic("sqrt", w.vector, depth), w.number(4.0)),
        [-1.63404469e-06, -5.32518375e-07, 3.46814691e-05, -7.3327834e-05, 3.07845678e-05,
         -4.7661e-05, 3.40753161e-04, -9.15787921e-04, 1.25254588e-03, 1.00950178, 3.83978435],
    )  # fmt: skip
    y = w.binary("fmul", w.select(w.compare("olt", depth, w.number(5.0)), near, far), x)
    y = _halley(w, y, x)
    size = w.f.intrinsic("fabs", w.vector, x)
    edge = w.f.intrinsic("copysign", w.vector, w.number(math.inf), x)
    return w.select(w.compare("oeq", size, one), edge, y)


def _halley(w: Writer, y: str, x: str) -> str:
    """One step of Halley's method towards erf(y) = x; near -1 and 1 with the complement."""
    size_x = w.f.intrinsic("fabs", w.vector, x)
    size_y = w.f.intrinsic("fabs", w.vector, y)
    short = w.binary("fsub", w.number(1.0), size_x)
    erf, erfc = _erf_and_erfc(w, size_y)
    by_erf, by_erfc = w.binary("fsub", erf, size_x), w.binary("fsub", short, erfc)
    error = w.select(w.compare("olt", size_x, w.number(0.5)), by_erf, by_erfc)
    square = w.negated(w.binary("fmul", size_y, size_y))
    slope = w.binary("fmul", w.number(2 / math.sqrt(math.pi)), exponential(w, square))
    step = w.binary("fdiv", error, slope)
    damped = w.fma(size_y, step, w.number(1.0))
    better = w.binary("fsub", size_y, w.binary("fdiv", step, damped))
    return w.f.intrinsic("copysign", w.vector, better, x)
