"""Exponential integrals expn and expi, and the dilogarithm spence."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from ...graph import Value
from ...op import define
from ...types import Type
from ..arithmetic import abs, div, floor, mul, neg, sub
from ..compare import bit_and, bit_not, bit_or, eq, ge, gt, le, lt, max, ne, select
from ..constant import full, like
from ..convert import convert
from ..exponential import exp, log
from .family import attach, check_orders, composite, epsilon_of, is_double, polynomial, repeat_while
from .gamma import INT, digamma, lgamma
from .incomplete_gamma import upper_fraction


@define
def expn(n: Type, x: Type) -> Type:
    """The exponential integral of exp(-x * t) / t ** n over t from 1 on.

    NaN for negative n and negative x.
    """
    check_orders(n, x)
    return x


def _expn_series(n: Value, x: Value) -> Value:
    """The power series, for n >= 1 and 0 < x <= 1."""
    below = n - 1
    half = mul(below, 0.5)
    sign = sub(like(x, 1), mul(sub(half, floor(half)), 4))
    logarithm = log(x)
    special = mul(mul(sign, exp(mul(below, logarithm) - lgamma(n))), digamma(n) - logarithm)
    total, power = special, like(x, 1)
    for m in range(21 if is_double(x) else 12):
        gap = m - below
        is_gap = ne(gap, like(x, 0))
        term = div(power, select(is_gap, gap, like(x, 1)))
        total = sub(total, select(is_gap, term, like(x, 0)))
        power = mul(mul(power, x), -1 / (m + 1))
    return total


def _expn_expansion(n: Value, x: Value) -> Value:
    order, zero, one = convert(n, dtype=x.dtype), like(x, 0), like(x, 1)
    is_small = le(x, one)
    near = _expn_series(max(order, one), select(bit_and(is_small, gt(x, zero)), x, one))
    is_large = bit_and(gt(x, one), bit_and(ge(order, one), lt(x, like(x, math.inf))))
    far = mul(exp(neg(x)), upper_fraction(1 - order, x, is_large, 0)[0])
    far = select(is_large, far, zero)
    result = select(is_small, near, far)
    result = select(eq(order, zero), exp(neg(x)) / x, result)
    at_zero = select(lt(order, like(x, 2)), like(x, math.inf), 1 / (order - 1))
    result = select(eq(x, zero), at_zero, result)
    outside = bit_or(bit_or(lt(order, zero), lt(x, zero)), ne(x, x))
    return select(outside, like(x, math.nan), result)


def _expn_slope(t: Value, out: Value, n: Value, x: Value) -> Value:
    """-expn(n - 1, x), which is elementary for n = 0 and n = 1."""
    first = exp(neg(x)) / x
    second = div(mul(first, x + 1), x)
    lower = expn(max(n - 1, like(n, 1)), x)
    lower = select(gt(n, like(n, 1)), lower, select(eq(n, like(n, 0)), second, first))
    return neg(mul(t, lower))


attach(expn, _expn_expansion, [None, _expn_slope])
expn.samples(np.array([0, 1, 2, 3], "int32"), (4,), low=0.2, high=6.0)
expn.samples(
    np.array([1, 1, 2, 3, 2, 0], "int32"),
    np.array([1, 2, 0.5, 3, 10, 1], "float32"),
    expect=[
        *(0.21938393439552028, 0.04890051070806112, 0.32664386232455302),
        *(0.0089306465560227, 3.830240465631609e-06, math.exp(-1)),
    ],
)
expn.samples(
    np.array([1, 3, 1, -1], "int32"),
    np.array([0, 0, math.inf, 1], "float32"),
    expect=[math.inf, 0.5, 0.0, math.nan],
)


# -- expi -----------------------------------------------------------------------------------------


def _expi_series(x: Value, enabled: Value) -> Value:
    """0.57721... + log(x) + the sum of x ** k / (k * k!), for moderate x > 0."""
    safe = select(enabled, x, like(x, 0))

    def step(constants: Any, carry: Any) -> Any:
        (x,), (count, power, total) = constants, carry
        count = count + 1
        power = div(mul(power, x), count)
        term = power / count
        return gt(term, mul(total, epsilon_of(x))), [count, power, total + term]

    start = [like(x, 0), like(x, 1), like(x, 0)]
    _, _, total = repeat_while(step, [safe], start, 500)
    return log(x) + np.euler_gamma + total


def _expi_expansion(x: Value) -> Value:
    terms = 40 if is_double(x) else 18
    zero = like(x, 0)
    is_near = bit_and(gt(x, zero), lt(x, like(x, float(terms))))
    near = _expi_series(x, is_near)
    far = select(is_near, like(x, terms), abs(x))
    inverse, series = 1 / far, like(x, 1)
    for k in range(terms, 0, -1):
        series = mul(mul(series, inverse), float(k)) + 1
    # exp(x) alone would overflow too early
    root = exp(mul(far, 0.5))
    positive = select(is_near, near, mul(mul(mul(root, inverse), series), root))
    positive = select(eq(x, like(x, math.inf)), x, positive)
    negative = neg(expn(full(shape=x.shape, value=1, dtype=INT), neg(x)))
    result = select(lt(x, zero), negative, positive)
    result = select(eq(x, zero), like(x, -math.inf), result)
    return select(ne(x, x), x, result)


expi = composite(
    "expi",
    _expi_expansion,
    doc="The exponential integral, exp(t) / t summed over t up to x; -inf at 0.",
    jvp=[lambda t, out, x: mul(t, exp(x) / x)],
    samples=[
        dict(args=((2, 3),), low=0.2, high=30.0),
        dict(
            args=([1.0, -1.0, 10.0, 50.0],),
            expect=[
                1.8951178163559368,
                -0.21938393439552028,
                2492.2289762418778,
                1.0585636897131690e20,
            ],
        ),
        dict(
            args=(np.array([0, math.inf, -math.inf], "float32"),), expect=[-math.inf, math.inf, 0]
        ),
    ],
)


# -- spence ---------------------------------------------------------------------------------------

# Cephes, https://www.netlib.org/cephes: spence(1 + w) / -w for |w| <= 1/2, lowest power first
_ABOVE = (
    1.00000000000000000126e0, 3.29771340985225106936e0, 4.25697156008121755724e0,
    2.71149851196553469920e0, 8.79691311754530315341e-1, 1.33847639578309018650e-1,
    7.31589045238094711071e-3, 4.65128586073990045278e-5,
)  # fmt: skip
_BELOW = (
    9.99999999999999998740e-1, 3.54771340985225096217e0, 5.03278880143316990390e0,
    3.63800533345137075418e0, 1.41172597751831069617e0, 2.82974860602568089943e-1,
    2.54043763932544379113e-2, 6.90990488912553276999e-4,
)  # fmt: skip


def _spence_expansion(x: Value) -> Value:
    is_great = gt(x, like(x, 1.5))
    inside = bit_and(gt(x, like(x, 0)), lt(x, like(x, math.inf)))
    safe = select(inside, x, like(x, 1))
    inverted = gt(safe, like(x, 2))
    place = select(inverted, 1 / safe, safe)
    is_low = lt(place, like(x, 0.5))
    between = bit_and(is_great, bit_not(inverted))
    w = select(between, 1 / place - 1, select(is_low, neg(place), place - 1))
    core = neg(mul(w, polynomial(w, _ABOVE) / polynomial(w, _BELOW)))
    logarithm = log(place)
    rest = log(1 - select(is_low, place, like(x, 0.25)))
    reflected = math.pi**2 / 6 - mul(logarithm, rest) - core
    result = select(is_low, reflected, core)
    result = select(is_great, neg(mul(mul(logarithm, logarithm), 0.5)) - result, result)
    result = select(eq(x, like(x, 0)), like(x, math.pi**2 / 6), result)
    result = select(eq(x, like(x, math.inf)), like(x, -math.inf), result)
    return select(bit_or(lt(x, like(x, 0)), ne(x, x)), like(x, math.nan), result)


def _spence_slope(t: Value, out: Value, x: Value) -> Value:
    """log(x) / (1 - x), which is -1 at 1."""
    is_one = eq(x, like(x, 1))
    safe = select(is_one, like(x, 2), x)
    return mul(t, select(is_one, like(x, -1), log(safe) / (1 - safe)))


spence = composite(
    "spence",
    _spence_expansion,
    doc="The dilogarithm of 1 - x: log(t) / (1 - t) summed over t from 1 to x.",
    jvp=[_spence_slope],
    samples=[
        dict(args=((2, 3),), low=0.1, high=4.0),
        dict(
            args=([0.5, 2.0, 1.75, 3.0],),
            expect=[
                math.pi**2 / 12 - math.log(2.0) ** 2 / 2,
                -(math.pi**2) / 12,
                *(-0.64276126883997887, -1.4367463668836809),
            ],
        ),
        dict(args=(np.array([0, 1, -1], "float32"),), expect=[math.pi**2 / 6, 0.0, math.nan]),
    ],
)
