"""The logarithm of the gamma function, its derivatives, and Hurwitz zeta."""

from __future__ import annotations

import math

import numpy as np

from ...builder import build
from ...errors import AttributeValueError
from ...graph import Value
from ...op import define
from ...types import Type, as_dtype
from ..arithmetic import abs, floor, integer_pow, mul, neg, round, sub
from ..compare import bit_and, bit_not, bit_or, eq, ge, gt, le, lt, ne, select
from ..constant import full, like, uniform
from ..control import cond
from ..convert import convert
from ..exponential import exp, log, log1p, pow
from ..families import check_kind, check_same
from ..reduce import reduce_or
from ..trigonometric import cos, sin
from .family import (
    Taylor,
    attach,
    check_orders,
    composite,
    is_double,
    plus,
    polynomial,
    scaled,
    taylor_over_line,
    taylor_times_line,
)

LOG_ROOT_TWO_PI = 0.5 * math.log(2 * math.pi)
LARGE = 8.0  # from here on the asymptotic series are exact to float64
# lgamma(2 + y) / y for |y| <= 1/2, interpolated at Chebyshev points; for float64 and float32
_NEAR_TWO = (
    0.42278433509846713, 0.32246703342411326, -0.06735230105319814, 0.020580808427780335,
    -0.007385551028668096, 0.002890510331036772, -0.0011927539120033873, 0.0005096695153484373,
    -0.00022315475069647703, 9.945767440096764e-05, -4.492635166770342e-05,
    2.0505584372896933e-05, -9.438454884054723e-06, 4.3847319318293745e-06,
    -2.044935323180052e-06, 9.199898075671394e-07, -4.303234692956732e-07,
    2.7880013392491846e-07, -1.341570273460026e-07,
)  # fmt: skip
_NEAR_TWO_SHORT = (
    0.4227843349991114, 0.32246701788359344, -0.06735228129865486, 0.020581630642947785,
    -0.007386177637204783, 0.002878826909956992, -0.0011858376980732241, 0.0005703469213916325,
    -0.0002538618465087723,
)  # fmt: skip
MAX_ORDER = 20  # of derivatives in a parameter
# the Bernoulli numbers B2, B4, ...
BERNOULLI = (
    1 / 6, -1 / 30, 1 / 42, -1 / 30, 5 / 66, -691 / 2730, 7 / 6, -3617 / 510, 43867 / 798,
    -174611 / 330, 854513 / 138, -236364091 / 2730,
)  # fmt: skip


def stirling_rest(x: Value) -> Value:
    """What lgamma(x) is more than (x - 1/2) * log(x) - x + log(2 pi) / 2, for x >= 8."""
    count = 8 if is_double(x) else 3
    terms = [b / ((2 * k + 2) * (2 * k + 1)) for k, b in enumerate(BERNOULLI[:count])]
    inverse = like(x, 1) / x
    return mul(inverse, polynomial(mul(inverse, inverse), terms))


def _lgamma_positive(x: Value) -> Value:
    """lgamma for x >= 0, from a polynomial about 2 or Stirling's series."""
    near, product = x, like(x, 1)
    for _ in range(6):
        is_far = ge(near, like(x, 2.5))
        near = select(is_far, near - 1, near)
        product = select(is_far, mul(product, near), product)
    is_tiny, is_small = lt(x, like(x, 0.5)), lt(x, like(x, 1.5))
    # x + 1 would lose the last bits of what is left of 2
    about_two = select(is_small, select(is_tiny, x, x - 1), near - 2)
    is_large = ge(x, like(x, LARGE))
    # one logarithm: of x itself, of the factors below or of those above
    factor = select(is_small, select(is_tiny, mul(x, x + 1), x), product)
    logarithm = log(select(is_large, x, factor))
    core = mul(about_two, polynomial(about_two, _NEAR_TWO if is_double(x) else _NEAR_TWO_SHORT))
    low = core + select(is_small, neg(logarithm), logarithm)
    safe = select(is_large, x, like(x, LARGE))
    high = mul(x - 0.5, logarithm - 1) + (LOG_ROOT_TWO_PI - 0.5) + stirling_rest(safe)
    return select(is_large, high, low)


def lgamma_above_one(a: Value) -> Value:
    """lgamma(1 + a) in all digits for |a| <= 1 / 2, where 1 + a would lose some."""
    core = polynomial(a, _NEAR_TWO if is_double(a) else _NEAR_TWO_SHORT)
    return mul(a, core) - log1p(a)


def _from_whole(x: Value) -> Value:
    """The distance to the greatest whole number below; 0 for infinity."""
    return select(eq(abs(x), like(x, math.inf)), like(x, 0), sub(x, floor(x)))


def _from_nearest(x: Value) -> Value:
    """The number less the nearest whole one, in all digits; 0 for infinity."""
    return select(eq(abs(x), like(x, math.inf)), like(x, 0), sub(x, round(x)))


def _lgamma_expansion(x: Value) -> Value:
    is_negative = lt(x, like(x, 0))
    positive = _lgamma_positive(select(is_negative, 1 - x, x))
    # gamma(x) * gamma(1 - x) = pi / sin(pi * x), which is 1 / x for the smallest numbers
    part = abs(_from_nearest(x))
    is_tiny = lt(part, like(x, 1e-9))
    sine = select(is_tiny, part, sin(mul(part, math.pi)))
    most = select(is_tiny, like(x, 0), like(x, math.log(math.pi)))
    reflected = most - log(sine) - positive
    reflected = select(eq(sine, like(x, 0)), like(x, math.inf), reflected)
    return select(is_negative, reflected, positive)


def _lgamma_number(x: float) -> float:
    if math.isinf(x) or (x <= 0 and x == math.floor(x)):
        return math.inf
    try:
        return math.lgamma(x)
    except OverflowError:
        return math.inf


_lgamma = np.vectorize(_lgamma_number, otypes=[np.float64])

lgamma = composite(
    "lgamma",
    _lgamma_expansion,
    doc="Logarithm of the size of the gamma function; infinite at 0, -1, -2, ...",
    reference=lambda x: _lgamma(x.astype(np.float64)).astype(x.dtype),
    jvp=[lambda t, out, x: mul(t, digamma(x))],
    samples=[
        dict(args=((2, 3),), low=0.1, high=20.0),
        dict(args=((2, 3),), low=-3.9, high=-3.1),
        dict(
            args=([1.0, 2.0, 5.0, 0.0, -1.5, -np.inf],),
            expect=[0.0, 0.0, math.log(24.0), np.inf, math.log(4 * math.sqrt(math.pi) / 3), np.inf],
        ),
    ],
)


def deviance_of(ratio: Value, u: Value) -> Value:
    """u - log(ratio) where the ratio is 1 + u, without the cancellation near 0."""
    v = u / (u + 2)
    squared = mul(v, v)
    # log(1 + u) = 2 * artanh(v)
    series = like(u, 1 / 25)
    for k in range(23, 1, -2):
        series = mul(series, squared) + 1 / k
    near = mul(v, u - mul(mul(squared, 2), series))
    far = u - log(ratio)
    return select(lt(abs(v), like(u, 0.2)), near, far)


def growth_of(a: Value, b: Value) -> Value:
    """lgamma(a + b) - lgamma(b) without its cancellation, for b >= 10 and a smaller a."""
    share, whole = a / b, a + b
    rest = stirling_rest(whole) - stirling_rest(b)
    return (
        mul(a, log(whole)) - mul(b, deviance_of(share + 1, share)) - mul(log1p(share), 0.5) + rest
    )


# -- digamma --------------------------------------------------------------------------------------


def _digamma_expansion(x: Value) -> Value:
    is_negative = lt(x, like(x, 0))
    y = select(is_negative, 1 - x, x)
    # the sum of 1 / (y + k) until y + k >= LARGE, as one fraction
    above, below, far = like(x, 0), like(x, 1), y
    for _ in range(8):
        is_near = lt(far, like(x, LARGE))
        above = select(is_near, mul(above, far) + below, above)
        below = select(is_near, mul(below, far), below)
        far = select(is_near, far + 1, far)
    count = 8 if is_double(x) else 3
    terms = [b / (2 * k + 2) for k, b in enumerate(BERNOULLI[:count])]
    inverse = like(x, 1) / far
    squared = mul(inverse, inverse)
    series = mul(squared, polynomial(squared, terms))
    positive = log(far) - mul(inverse, 0.5) - series - above / below
    part = _from_nearest(x)
    angle = mul(part, math.pi)
    reflected = positive - mul(cos(angle) / sin(angle), math.pi)
    is_pole = bit_and(le(x, like(x, 0)), eq(part, like(x, 0)))
    return select(is_pole, like(x, math.nan), select(is_negative, reflected, positive))


digamma = composite(
    "digamma",
    _digamma_expansion,
    doc="Derivative of `lgamma`; NaN at the poles 0, -1, -2, ...",
    jvp=[lambda t, out, x: mul(t, polygamma(full(shape=x.shape, value=1, dtype=INT), x))],
    samples=[
        dict(args=((2, 3),), low=0.1, high=20.0),
        dict(args=((2, 3),), low=-3.9, high=-3.1),
        dict(
            args=([1.0, 2.0, 0.5, -0.5, 0.0, 10.0, np.inf],),
            expect=[
                *(-0.57721566490153286, 0.42278433509846714, -1.9635100260214235),
                *(0.03648997397857652, np.nan, 2.2517525890667211, np.inf),
            ],
        ),
    ],
)


# -- Hurwitz zeta ---------------------------------------------------------------------------------

INT = as_dtype("int32")
NEAR = 10  # terms added before the rest is taken from the formula of Euler and Maclaurin


def _known_whole(x: Value) -> int | None:
    """The whole number that all elements are known to be, or None."""
    number = uniform(x)
    if number is None or isinstance(number, complex) or not math.isfinite(number):
        return None
    return int(number) if number == int(number) else None


def _power(a: Value, s: Value, order: int) -> Taylor:
    """The Taylor series in s of a ** -s."""
    known = _known_whole(s)
    if known is not None and 0 < known < 30:
        result = [integer_pow(a, exponent=-known)]
    else:
        result = [pow(a, neg(s))]
    for k in range(1, order + 1):
        result.append(mul(mul(result[-1], log(a)), -1 / k))
    return result


def _zeta_expansion(s: Value, q: Value, *, order: int = 0) -> Value:
    is_whole = bit_and(eq(s, floor(s)), bit_not(eq(abs(s), like(s, math.inf))))
    is_negative = lt(q, like(q, 0))
    part = select(bit_and(is_negative, is_whole), _from_whole(q), q)
    result = mul(_zeta_positive(s, part, order)[order], float(math.factorial(order)))
    if order == 0:  # negative numbers have no logarithm
        types = [s.type, q.type]
        branches = (build(lambda s, q: [like(q, 0)], types), build(_zeta_below, types))
        axes = tuple(range(q.rank))
        is_any = convert(reduce_or(is_negative, axes=axes), dtype=INT)
        (below,) = cond(is_any, s, q, branches=branches)
        result = result + select(is_negative, below, like(q, 0))
    else:
        result = select(is_negative, like(q, math.nan), result)
    return _zeta_outside(s, q, is_whole, result)


def _zeta_below(s: Value, q: Value) -> Value:
    """The sum of (q + k) ** -s over the negative q + k, for whole s: a difference of two zetas."""
    q = select(lt(q, like(q, 0)), q, like(q, -0.5))
    half = mul(s, 0.5)
    sign = 1 - mul(half - floor(half), 4)
    first, rest = (_zeta_positive(s, place, 0)[0] for place in (1 - _from_whole(q), 1 - q))
    return mul(sign, first - rest)


def _zeta_positive(s: Value, q: Value, order: int) -> Taylor:
    """The formula of Euler and Maclaurin behind a few terms."""
    total = _power(q, s, order)
    for k in range(1, NEAR):
        total = plus(total, _power(q + k, s, order))
    far = q + NEAR
    power = _power(far, s, order)
    inverse = like(q, 1) / far
    total = plus(total, taylor_over_line(_power(far, s - 1, order), s - 1))
    total = plus(total, scaled(power, like(q, 0.5)))
    term = scaled(taylor_times_line(power, s), inverse)
    before = 1.0
    for k in range(12 if is_double(q) else 5):
        coefficient = BERNOULLI[k] / math.factorial(2 * k + 2)
        term = scaled(term, like(q, coefficient / before))
        total, before = plus(total, term), coefficient
        for j in (2 * k + 1, 2 * k + 2):
            term = scaled(taylor_times_line(term, s + j), inverse)
    return total


def _zeta_outside(s: Value, q: Value, is_whole: Value, result: Value) -> Value:
    """Poles, limits, and NaN where there is no meaning."""
    nan, infinite, zero, one = (like(q, v) for v in (math.nan, math.inf, 0, 1))
    half = mul(s, 0.5)
    is_even = eq(half, floor(half))
    is_pole = bit_and(le(q, zero), eq(q, floor(q)))
    result = select(bit_and(lt(q, zero), bit_not(is_whole)), nan, result)
    result = select(is_pole, select(bit_and(is_whole, is_even), infinite, nan), result)
    result = select(bit_and(eq(q, infinite), gt(s, one)), zero, result)
    result = select(eq(s, one), infinite, result)
    result = select(lt(s, one), nan, result)
    return select(bit_or(ne(s, s), ne(q, q)), nan, result)


@define
def zeta(s: Type, q: Type, *, order: int = 0) -> Type:
    """Hurwitz zeta function, the sum of (q + k) ** -s for k = 0, 1, ...

    It is differentiated `order` times by s.
    Infinite at s = 1 and NaN below; at q = 0, -1, ... infinite for even s, else NaN.
    """
    check_kind(s, ["float"])
    check_order(order)
    return check_same(s, q)


def check_order(order: int) -> None:
    """Raise unless the order of a derivative is 0 or more."""
    if not 0 <= order <= MAX_ORDER:
        raise AttributeValueError(
            f"the order {order} is not from 0 to {MAX_ORDER}", fix="pick an order in this range"
        )


def _zeta_by_place(t: Value, out: Value, s: Value, q: Value, *, order: int) -> Value:
    """The slope in q is -s * zeta(s + 1, q)."""
    slope = mul(neg(s), zeta(s + 1, q, order=order))
    return mul(t, slope - mul(zeta(s + 1, q, order=order - 1), order) if order else slope)


attach(
    zeta,
    _zeta_expansion,
    [lambda t, out, s, q, *, order: mul(t, zeta(s, q, order=order + 1)), _zeta_by_place],
)
zeta.samples((2, 3), (2, 3), low=1.2, high=5.0)
zeta.samples((2, 3), (2, 3), low=1.2, high=5.0, order=1)
zeta.samples(
    [2.0, 4.0, 1.5, 3.0, 2.0, 0.5],
    [1.0, 1.0, 0.5, -3.25, 0.0, 1.0],
    expect=[
        *(math.pi**2 / 6, math.pi**4 / 90, (2**1.5 - 1) * 2.612375348685488),
        *(-61.97760552109971, np.inf, np.nan),
    ],
)
# from the derivative of the Riemann zeta function
zeta.samples([2.0], [1.0], order=1, expect=[-0.93754825431584388])


# -- polygamma ------------------------------------------------------------------------------------


@define
def polygamma(n: Type, x: Type) -> Type:
    """The derivative of `digamma` of integer order n, itself for n = 0; NaN for n < 0."""
    check_orders(n, x)
    return x


def _polygamma_expansion(n: Value, x: Value) -> Value:
    known = _known_whole(n)
    order = convert(n, dtype=x.dtype) if known is None else like(x, float(known))
    if known == 0:
        return digamma(x)
    half = mul(order, 0.5)
    sign = mul(sub(half, floor(half)), 4) - 1  # -1 for even orders, 1 for odd ones
    result = mul(mul(sign, exp(lgamma(order + 1))), zeta(order + 1, x))
    if known is not None and known > 0:
        return result
    result = select(eq(order, like(x, 0)), digamma(x), result)
    return select(lt(order, like(x, 0)), like(x, math.nan), result)


attach(polygamma, _polygamma_expansion, [None, lambda t, out, n, x: mul(t, polygamma(n + 1, x))])
polygamma.samples(np.array([[0, 1, 2], [3, 1, 2]], "int32"), (2, 3), low=0.3, high=9.0)
polygamma.samples(np.array([0, 1, 2], "int32"), (3,), low=-1.9, high=-1.1)
polygamma.samples(
    np.array([1, 2, 1, 3], "int32"),
    [1.0, 1.0, -20.5, 0.0],
    expect=[math.pi**2 / 6, -2.4041138063191886, 9.8219943446498803, np.inf],
)
