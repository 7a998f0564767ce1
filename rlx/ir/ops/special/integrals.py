"""Integrals: the exponential ones expn and expi, the dilogarithm, those of waves.

The latter are the sine and cosine integrals and those of Fresnel.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from ...graph import Value
from ...op import define
from ...types import Type
from ..arithmetic import abs, div, floor, mul, neg, rem, square, sub
from ..compare import bit_and, bit_not, bit_or, eq, ge, gt, le, lt, max, min, ne, select
from ..constant import full, like
from ..convert import convert
from ..exponential import exp, log
from ..trigonometric import cos, sin
from .family import (
    attach,
    check_orders,
    composite,
    epsilon_of,
    is_double,
    odd,
    polynomial,
    quotient,
    repeat_while,
)
from .gamma import INT, digamma, lgamma
from .incomplete import upper_fraction


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


# Cephes, https://www.netlib.org/cephes (sici.c and fresnl.c): quotients of polynomials, lowest
# power first. sin(t) / t over t from 0 to x <= 4 in x * x, the same of (cos(t) - 1) / t, and for
# 4 <= x < 8 and 8 <= x the two functions that the waves are multiplied with, in 1 / (x * x)
_SINE = (
    (1.0, -0.04134703162294066, 0.0009769454381704354, -9.757593038436328e-06,
     4.625917144270128e-08, -8.391678279103039e-11),
    (1.0, 0.01420852393261499, 9.964121220438756e-05, 4.418278428012189e-07, 1.279978911799433e-09,
     2.0326926619595193e-12),
)  # fmt: skip
_COSINE = (
    (-1.0, 0.028915965260755523, -0.0004740072068734079, 3.593250514199931e-06,
     -1.3524950491579076e-08, 2.0252400238910228e-11),
    (4.0, 0.051002805623644606, 0.00031744202477503275, 1.2321035568588342e-06,
     3.067809975818878e-09, 4.077460400618806e-12),
)  # fmt: skip
_NEAR_F = (
    (5.489002234213736e-07, 0.00010893658065032867, 0.006810201324725182, 0.16700661183132304,
     1.6208328770153833, 5.4593771716181285, 4.236128628922166),
    (5.489002527562557e-07, 0.00011003435715391573, 0.007017106683227897, 0.1787920529631499,
     1.867922579501842, 7.308288225055645, 8.16496634205391, 1.0),
)  # fmt: skip
_NEAR_G = (
    (7.825790407440903e-09, 1.9796387414096365e-06, 0.00016199979459893403, 0.005388686814621773,
     0.07485277376284691, 0.3971802963923375, 0.6113791099522193, 0.08710016989731142),
    (7.825792189335346e-09, 2.0265918208634397e-06, 0.0001732210814741771, 0.006223963454417684,
     0.09887717612776888, 0.666296701268988, 1.6440220241335535, 1.0),
)  # fmt: skip
_FAR_F = (
    (9.70507110881952e-14, 9.41779576128513e-11, 3.200927900910049e-08, 4.8621543082645475e-06,
     0.00034955644244785906, 0.01160642294081244, 0.16030015822231947, 0.7137152741001467,
     0.4558808734704653),
    (9.70507110881952e-14, 9.437205903502767e-11, 3.21956939101046e-08, 4.924350643178815e-06,
     0.00035869648188185157, 0.012225359477197129, 0.17868554533207454, 0.9174636118736841, 1.0),
)  # fmt: skip
_FAR_G = (
    (3.1404009894636335e-15, 3.859459254302766e-12, 1.7040445278204452e-09, 3.471311670841167e-07,
     3.4894116550227946e-05, 0.001717182390523479, 0.03848787676499743, 0.33041097930563207,
     0.6973599534432762),
    (3.1404009894636335e-15, 3.878301660239547e-12, 1.7269374896631615e-09, 3.5704322344374083e-07,
     3.684755044425611e-05, 0.0019028442667439953, 0.04679131942596258, 0.48785225869530496,
     1.6854889881101165, 1.0),
)  # fmt: skip
# for small x in x ** 4, for large x in 1 / (pi * x * x) ** 2
_FRESNEL_S = (
    (318016297876.5678, -44297951805.96978, 2548908805.7337637, -62974148.62058625,
     708840.0452577386, -2991.8191940101983),
    (607366389490.0846, 22441179564.534092, 419320245.8981112, 5173438.887700964,
     45584.78108065326, 281.3762688899943, 1.0),
)  # fmt: skip
_FRESNEL_C = (
    (1.0, -0.20552590095501388, 0.018884331939670384, -0.0006451914356839651,
     9.504280628298596e-06, -4.9884311457357354e-08),
    (1.0, 0.04121420907221998, 0.0008680295429417843, 1.2226278902417902e-05,
     1.2500186247959882e-07, 9.154392157746574e-10, 3.99982968972496e-12),
)  # fmt: skip
_FRESNEL_F = (
    (3.763297112699879e-20, 1.3428327623306275e-16, 1.7201074326816183e-13, 1.0230451416490724e-10,
     3.055689837902576e-08, 4.6361374928786735e-06, 0.000345017939782574, 0.011522095507358577,
     0.1434079197807589, 0.4215435550436775),
    (1.2544323709001127e-20, 4.5200143407412973e-17, 5.887545336215784e-14, 3.6014002958937136e-11,
     1.1269922476399903e-08, 1.8462756734893055e-06, 0.00015593440916415301, 0.0064405152650885865,
     0.11688892585919138, 0.7515863983533789, 1.0),
)  # fmt: skip
_FRESNEL_G = (
    (1.8695871016278324e-22, 8.363544356306774e-19, 1.375554606332618e-15, 1.0826804113902088e-12,
     4.4534441586175015e-10, 9.828524436884223e-08, 1.1513882611188428e-05, 0.0006840793809153931,
     0.018764858409257526, 0.1971028335255234, 0.5044420736433832),
    (1.8695871016278324e-22, 8.391588162831187e-19, 1.3879653125957886e-15, 1.1027321506624028e-12,
     4.6068072814652043e-10, 1.0431458965757199e-07, 1.2754507566772912e-05, 0.0008146791071843061,
     0.02536037414203388, 0.33774898912002, 1.4749575992512833, 1.0),
)  # fmt: skip


# -- sine and cosine integral ---------------------------------------------------------------------


def _waves(size: Value) -> tuple[Value, Value]:
    """The factors f and g with Si = pi / 2 - f * cos - g * sin, Ci = f * sin - g * cos."""
    far = max(size, like(size, 4))
    z = 1 / square(far)
    is_near = lt(far, like(far, 8))
    f = select(is_near, quotient(z, _NEAR_F), quotient(z, _FAR_F)) / far
    g = mul(z, select(is_near, quotient(z, _NEAR_G), quotient(z, _FAR_G)))
    return f, g


def _sine_integral_expansion(x: Value) -> Value:
    size = abs(x)
    low = min(size, like(x, 4))
    near = mul(low, quotient(square(low), _SINE))
    f, g = _waves(size)
    far = math.pi / 2 - mul(f, cos(size)) - mul(g, sin(size))
    far = select(eq(size, like(x, math.inf)), like(x, math.pi / 2), far)
    return odd(select(lt(size, like(x, 4)), near, far), x)


def _cosine_integral_expansion(x: Value) -> Value:
    size = abs(x)
    low = min(size, like(x, 4))
    squared = square(low)
    near = log(low) + np.euler_gamma + mul(squared, quotient(squared, _COSINE))
    f, g = _waves(size)
    far = mul(f, sin(size)) - mul(g, cos(size))
    far = select(eq(x, like(x, math.inf)), like(x, 0), far)
    return select(lt(size, like(x, 4)), near, far)


def _sine_slope(t: Value, out: Value, x: Value) -> Value:
    """sin(x) / x, which is 1 at 0."""
    is_zero = eq(x, like(x, 0))
    safe = select(is_zero, like(x, 1), x)
    return mul(t, select(is_zero, like(x, 1), sin(safe) / safe))


sine_integral = composite(
    "sine_integral",
    _sine_integral_expansion,
    doc="The integral of sin(t) / t over t from 0 to x.",
    jvp=[_sine_slope],
    samples=[
        dict(args=((2, 3),), low=-12.0, high=12.0),
        dict(
            args=([0.0, 1.0, -5.0, 10.0],),
            expect=[0.0, 0.94608307036718301, -1.5499312449446741, 1.6583475942188740],
        ),
        dict(args=(np.array([math.inf, math.nan], "float32"),), expect=[math.pi / 2, math.nan]),
    ],
)
cosine_integral = composite(
    "cosine_integral",
    _cosine_integral_expansion,
    doc="The real part of the integral of -cos(t) / t over t from x on; -inf at 0.",
    jvp=[lambda t, out, x: mul(t, cos(x) / x)],
    samples=[
        dict(args=((2, 3),), low=0.5, high=12.0),
        dict(
            args=([1.0, 5.0, 10.0],),
            expect=[0.33740392290096813, -0.19002974965664388, -0.045456433004455373],
        ),
        dict(
            args=(np.array([0, math.inf, -math.inf], "float32"),), expect=[-math.inf, 0, math.nan]
        ),
    ],
)


# -- Fresnel --------------------------------------------------------------------------------------


def _turns(x: Value) -> Value:
    """pi / 2 * x * x less whole turns, exact for large x."""
    part = rem(x, like(x, 2))
    half_turns = rem(mul(part, x - mul(part, 0.5)), like(x, 2))
    is_long = gt(abs(half_turns), like(x, 1))
    shorter = sub(half_turns, select(lt(half_turns, like(x, 0)), like(x, -2), like(x, 2)))
    return mul(select(is_long, shorter, half_turns), math.pi)


def _fresnel(x: Value, near: Value, is_sine: bool) -> Value:
    size = abs(x)
    far = max(size, like(x, 1.5))
    inverse = 1 / mul(square(far), math.pi)
    squared = square(inverse)
    f = 1 - mul(squared, quotient(squared, _FRESNEL_F))
    g = mul(inverse, quotient(squared, _FRESNEL_G))
    sine, cosine = sin(_turns(far)), cos(_turns(far))
    wave = neg(mul(f, cosine) + mul(g, sine)) if is_sine else mul(f, sine) - mul(g, cosine)
    outside = wave / mul(far, math.pi) + 0.5
    outside = select(eq(size, like(x, math.inf)), like(x, 0.5), outside)
    result = select(lt(square(size), like(x, 2.5625)), near, outside)
    return select(ne(x, x), x, odd(result, x))


def _fresnel_sine_expansion(x: Value) -> Value:
    low = min(abs(x), like(x, 1.75))
    squared = square(low)
    near = mul(mul(low, squared), quotient(square(squared), _FRESNEL_S))
    return _fresnel(x, near, True)


def _fresnel_cosine_expansion(x: Value) -> Value:
    low = min(abs(x), like(x, 1.75))
    near = mul(low, quotient(square(square(low)), _FRESNEL_C))
    return _fresnel(x, near, False)


fresnel_sine = composite(
    "fresnel_sine",
    _fresnel_sine_expansion,
    doc="The integral of sin(pi / 2 * t * t) over t from 0 to x.",
    jvp=[lambda t, out, x: mul(t, sin(_turns(x)))],
    samples=[
        dict(args=((2, 3),), low=-4.0, high=4.0),
        dict(
            args=([0.0, 1.0, -2.0, 5.0],),
            expect=[0.0, 0.43825914739035477, -0.34341567836369824, 0.49919138191711687],
        ),
        dict(args=(np.array([math.inf, math.nan], "float32"),), expect=[0.5, math.nan]),
    ],
)
fresnel_cosine = composite(
    "fresnel_cosine",
    _fresnel_cosine_expansion,
    doc="The integral of cos(pi / 2 * t * t) over t from 0 to x.",
    jvp=[lambda t, out, x: mul(t, cos(_turns(x)))],
    samples=[
        dict(args=((2, 3),), low=-4.0, high=4.0),
        dict(
            args=([0.0, 1.0, -2.0, 5.0],),
            expect=[0.0, 0.77989340037682283, -0.48825340607534073, 0.56363118870401223],
        ),
        dict(args=(np.array([math.inf, math.nan], "float32"),), expect=[0.5, math.nan]),
    ],
)
