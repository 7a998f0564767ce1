"""Functions of float32 computed in float64, and the cube root of both.

The digits to spare keep these formulas short.
"""

from __future__ import annotations

import math
from collections.abc import Callable

from .exponential import Writer, exponential, logarithm

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
