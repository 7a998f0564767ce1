"""The normal distribution: erfcx, log_ndtr, its quantile ndtri, dawsn, Owen's T."""

from __future__ import annotations

import math

import numpy as np

from ...graph import Value
from ..arithmetic import abs, div, mul, neg, square
from ..compare import bit_and, eq, gt, le, lt, max, min, select
from ..constant import like
from ..error_function import NORMAL_MIDDLE, NORMAL_OUTER, NORMAL_TAIL, erf, erfc
from ..exponential import exp, log, log1p, sqrt
from .family import chebyshev, composite, is_double, odd, quotient

# Chebyshev series of (1 + 2 * x) * erfcx(x) in (x - 3.75) / (x + 3.75) for x >= 0, of which
# float32 takes the first terms. The variable is from Schonfelder, Math. Comp. 32 (1978)
_ERFCX = (
    1.1775789345674017, -0.004590054580646478, -0.08424913336651792, 0.05920993999819189,
    -0.026658668435305753, 0.009074997670705265, -0.002413163540417608, 0.0004907758365258086,
    -6.916973302501207e-05, 4.13902798607301e-06, 7.74038306619849e-07, -2.1886401049234397e-07,
    1.076499946567091e-08, 4.521959811218287e-09, -7.754400208831351e-10, -6.318088340886684e-11,
    2.86879501093067e-11, 1.9455868545777347e-13, -9.65469674843344e-13, 3.25254814814874e-14,
    3.3478119482868056e-14, -1.864562880419313e-15, -1.2507950530688648e-15, 7.418235256624044e-17,
    5.068148904796111e-17,
)  # fmt: skip
SHORT = 14


def _erfcx_expansion(x: Value) -> Value:
    size = min(abs(x), like(x, 1e30))
    series = chebyshev((size - 3.75) / (size + 3.75), _ERFCX if is_double(x) else _ERFCX[:SHORT])
    positive = series / (mul(size, 2) + 1)
    reflected = mul(exp(square(x)), 2) - positive
    positive = select(eq(x, like(x, math.inf)), like(x, 0), positive)
    return select(lt(x, like(x, 0)), reflected, positive)


erfcx = composite(
    "erfcx",
    _erfcx_expansion,
    doc="exp(x * x) * erfc(x), which does not underflow for large x.",
    jvp=[lambda t, out, x: mul(t, mul(mul(x, 2), out) - 2 / math.sqrt(math.pi))],
    samples=[
        dict(args=((2, 3),)),
        dict(
            args=([0.0, 1.0, 10.0, -1.0],),
            expect=[1.0, 0.42758357615580701, 0.056140992743822586, 5.0089800807622834],
        ),
        dict(args=(np.array([math.inf, -math.inf], "float32"),), expect=[0.0, math.inf]),
    ],
)


def _log_ndtr_expansion(x: Value) -> Value:
    scaled = mul(x, math.sqrt(0.5))
    is_low = lt(x, like(x, -1.0))
    low, high = select(is_low, scaled, like(x, -1)), select(is_low, like(x, 0), scaled)
    tail = log(mul(erfcx(neg(low)), 0.5)) - square(low)
    return select(is_low, tail, log1p(mul(erfc(high), -0.5)))


log_ndtr = composite(
    "log_ndtr",
    _log_ndtr_expansion,
    doc="Logarithm of the normal distribution function, without its underflow.",
    # density(x) / ndtr(x) = sqrt(2 / pi) / erfcx(-x / sqrt(2))
    jvp=[lambda t, out, x: mul(t, math.sqrt(2 / math.pi) / erfcx(mul(x, -math.sqrt(0.5))))],
    samples=[
        dict(args=((2, 3),), low=-5.0, high=5.0),
        dict(
            args=([0.0, -1.0, -40.0, 10.0],),
            expect=[-math.log(2.0), -1.8410216450092636, -804.60844201, -7.6198530241605e-24],
        ),
    ],
)


def _ndtri_expansion(p: Value) -> Value:
    middle = p - 0.5
    inside = bit_and(gt(p, like(p, 0)), lt(p, like(p, 1)))
    tail = select(inside, min(p, 1 - p), like(p, 0.5))
    depth = sqrt(neg(log(tail)))
    near = mul(middle, quotient(0.180625 - square(middle), NORMAL_MIDDLE))
    far = select(
        le(depth, like(p, 5)),
        quotient(depth - 1.6, NORMAL_OUTER),
        quotient(depth - 5, NORMAL_TAIL),
    )
    far = odd(far, middle)
    result = select(le(abs(middle), like(p, 0.425)), near, far)
    edge = select(eq(p, like(p, 0)), like(p, -math.inf), like(p, math.nan))
    edge = select(eq(p, like(p, 1)), like(p, math.inf), edge)
    return select(inside, result, edge)


ndtri = composite(
    "ndtri",
    _ndtri_expansion,
    doc="The number of this normal distribution function; infinite at 0 and 1, NaN outside.",
    operands=("p",),
    jvp=[lambda t, out, p: mul(t, mul(exp(mul(square(out), 0.5)), math.sqrt(2 * math.pi)))],
    samples=[
        dict(args=((2, 3),), low=0.01, high=0.99),
        dict(
            args=([0.5, 0.025, 0.999, 1e-20, 0.0, 1.0, 2.0],),
            expect=[
                *(0.0, -1.9599639845400545, 3.0902323061678132, -9.2623400897985),
                *(-math.inf, math.inf, math.nan),
            ],
        ),
    ],
)


# -- Dawson's integral ----------------------------------------------------------------------------

# Cephes, https://www.netlib.org/cephes (dawsn.c): quotients of polynomials, lowest power first;
# below 3.25 in x * x, from there to 6.25 and beyond in 1 / (x * x)
_DAWSON_NEAR = (
    (1.0, -0.09174803717734524, 0.04226182230055466, -0.0008501498467244109,
     0.00035251336852028877, 3.078283098749132e-06, 9.531517412544844e-07, 1.9443420417555306e-08,
     8.492622676674738e-10, 1.1368149897175597e-11),
    (1.0, 0.5749186294893204, 0.15887424196012057, 0.027944853119882897, 0.003488058146571626,
     0.00032552474182605793, 2.324902498207895e-05, 1.2725847827318697e-06, 5.212652810105416e-08,
     1.488646813684934e-09, 2.403720730667626e-11),
)  # fmt: skip
_DAWSON_MIDDLE = (
    (3.592333854409284e-11, -2.4027452082825098e-09, 9.100107800763914e-08,
     -2.1464035171996896e-06, 3.5964130479389666e-05, -0.0004232091144603888, 0.003662076123295692,
     -0.021871125514203903, 0.09415123353035344, -0.24475441814269785, 0.5089551564179009),
    (7.184664032357345e-11, -4.913246913319206e-09, 1.8910035811142186e-07, -4.558751532524426e-06,
     7.810255929445524e-05, -0.0009479967684866654, 0.008480417185862954, -0.053180636700322324,
     0.2367067882282487, -0.6318398698733682, 1.0),
)  # fmt: skip
_DAWSON_FAR = (
    (-0.0004868276130204627, 0.016483704782518965, -0.17285897538038814, 0.6292352427243688,
     -0.5905928605347732),
    (-0.0009736552260409412, 0.03442789240412334, -0.3937085822819395, 1.7327079904594784,
     -2.698200571975449, 1.0),
)  # fmt: skip


def _dawsn_expansion(x: Value) -> Value:
    size = abs(x)
    low, far = min(size, like(x, 3.25)), max(size, like(x, 3.25))
    near = mul(low, quotient(square(low), _DAWSON_NEAR))
    inverse = 1 / square(far)
    is_middle = lt(far, like(x, 6.25))
    middle, beyond = (
        mul(inverse, quotient(inverse, tables)) for tables in (_DAWSON_MIDDLE, _DAWSON_FAR)
    )
    outside = div(select(is_middle, middle, beyond) + 1, mul(far, 2))
    result = select(lt(size, like(x, 3.25)), near, outside)
    return odd(result, x)


dawsn = composite(
    "dawsn",
    _dawsn_expansion,
    doc="Dawson's integral, exp(-x * x) times the integral of exp(t * t) from 0 to x.",
    jvp=[lambda t, out, x: mul(t, 1 - mul(mul(x, 2), out))],
    samples=[
        dict(args=((2, 3),), low=-8.0, high=8.0),
        dict(
            args=([0.0, 1.0, -4.0, 10.0],),
            expect=[0.0, 0.53807950691276842, -0.12934800123600511, 0.050253847187598542],
        ),
    ],
)


# -- Owen's T -------------------------------------------------------------------------------------

# Patefield and Tandy, J. Stat. Softw. 5 (2000), method T5: points in (t / a) ** 2, and weights
_POINTS = (
    0.0035082039676451716, 0.031279042338030756, 0.08526682628321945, 0.16245071730812277,
    0.25851196049125436, 0.3680755384069753, 0.485010929056047, 0.6027751415261857,
    0.7147788421775323, 0.814755109887601, 0.8971102975594897, 0.9572380808594426,
    0.991788329746297,
)  # fmt: skip
_WEIGHTS = (
    0.018831438115323503, 0.01856708624397765, 0.018042093461223385, 0.017263829606398752,
    0.016243219975989858, 0.014994592034116705, 0.013535474469662087, 0.011886351605820165,
    0.010070377242777432, 0.008113054574229958, 0.006041900952847024, 0.0038862217010742057,
    0.001679303108454609,
)  # fmt: skip


def _owens_t_expansion(h: Value, a: Value) -> Value:
    """The integral for a <= 1; for a > 1 by T(h, a) + T(a * h, 1 / a), which is elementary."""
    h, size = abs(h), abs(a)
    is_steep = gt(size, like(a, 1))
    width = select(is_steep, 1 / select(is_steep, size, like(a, 1)), size)
    reach = select(is_steep, mul(size, h), h)
    half_square, width_square, total = mul(square(reach), -0.5), square(width), like(a, 0)
    for point, weight in zip(_POINTS, _WEIGHTS, strict=True):
        r = mul(width_square, point) + 1
        total = total + mul(exp(mul(half_square, r)), weight) / r
    inner = mul(width, total)
    scaled, scaled_reach = mul(h, math.sqrt(0.5)), mul(reach, math.sqrt(0.5))
    near = 0.25 - mul(mul(erf(scaled), erf(scaled_reach)), 0.25) - inner
    first, second = erfc(scaled), erfc(scaled_reach)
    far = mul(first + second - mul(first, second), 0.25) - inner
    outer = select(le(reach, like(h, 0.67)), near, far)
    result = select(is_steep, outer, inner)
    return odd(result, a)


def _owens_t_by_height(t: Value, out: Value, h: Value, a: Value) -> Value:
    edge = erf(mul(mul(a, h), math.sqrt(0.5)))
    return mul(t, mul(mul(exp(mul(square(h), -0.5)), edge), -0.5 / math.sqrt(2 * math.pi)))


def _owens_t_by_slope(t: Value, out: Value, h: Value, a: Value) -> Value:
    r = square(a) + 1
    return mul(t, mul(exp(mul(mul(square(h), r), -0.5)), 0.5 / math.pi) / r)


owens_t = composite(
    "owens_t",
    _owens_t_expansion,
    doc="Owen's T: the chance of X > h and 0 < Y < a * X for two normal numbers.",
    operands=("h", "a"),
    jvp=[_owens_t_by_height, _owens_t_by_slope],
    samples=[
        dict(args=((2, 3), (2, 3))),
        dict(
            args=([0.5, 1.0, -2.0, 0.3, 0.0], [0.5, 2.0, -3.0, 1.0, 2.0]),
            expect=[
                *(0.064488602847503757, 0.0784681869930840963, -0.0113750659715450406),
                *(0.118048448258689284, math.atan(2.0) / (2 * math.pi)),
            ],
        ),
        dict(
            args=tuple(np.array([[1, math.inf], [math.inf, 1]], "float32")),
            expect=[0.07932762696572, 0],
        ),
    ],
)
