"""The incomplete gamma functions and their slopes; the incomplete beta function."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from ...errors import GradientError
from ...graph import Value
from ...op import define
from ...types import Type
from ..arithmetic import abs, div, floor, mul, neg
from ..compare import bit_and, bit_not, bit_or, eq, ge, gt, le, lt, max, min, ne, select
from ..constant import full, like
from ..exponential import exp, expm1, log, log1p, sqrt
from ..families import check_kind, check_same
from .entropy import xlog1py, xlogy
from .family import (
    Taylor,
    attach,
    composite,
    constant_taylor,
    epsilon_of,
    is_double,
    minus,
    plus,
    repeat_while,
    scaled,
    taylor_exp,
    taylor_over,
    taylor_over_line,
    taylor_times,
    taylor_times_line,
)
from .gamma import (
    INT,
    LOG_ROOT_TWO_PI,
    check_order,
    deviance_of,
    digamma,
    growth_of,
    lgamma,
    lgamma_above_one,
    polygamma,
    stirling_rest,
)

FRACTION_STEPS, SERIES_STEPS = 10000, 10000


def _log_weight(a: Value, x: Value) -> Value:
    """The logarithm of x ** a * exp(-x) / gamma(a + 1)."""
    large = max(a, like(a, 10))
    deviance = deviance_of(x / large, (x - large) / large)
    by_deviance = neg(mul(large, deviance)) - mul(log(large), 0.5) - LOG_ROOT_TWO_PI
    by_deviance = by_deviance - stirling_rest(large)
    direct = mul(a, log(x)) - x - lgamma(a + 1)
    return select(ge(a, like(a, 10)), by_deviance, direct)


def _parameter_slopes(a: Value, x: Value, order: int) -> list[Value]:
    """The Taylor coefficients behind the first of a * log(x) - lgamma(a) in a."""
    slopes = [log(x) - digamma(a)] if order else []
    for k in range(2, order + 1):
        which = full(shape=a.shape, value=k - 1, dtype=INT)
        slopes.append(mul(polygamma(which, a), -1 / math.factorial(k)))
    return slopes


def _lower(a: Value, x: Value, enabled: Value, order: int) -> Taylor:
    """The sum of x ** k / ((a + 1) ... (a + k)), for x below a or 1."""
    size = order + 1

    def step(constants: Any, carry: Any) -> Any:
        (x, enabled), (place, *rest) = constants, carry
        place = place + 1
        term = taylor_over_line(scaled(rest[:size], x), place)
        total = plus(rest[size:], term)
        moves = [gt(abs(t), mul(abs(s), epsilon_of(x))) for t, s in zip(term, total, strict=True)]
        moving = moves[0] if order == 0 else bit_or(moves[0], moves[-1])
        return bit_and(enabled, moving), [place, *term, *total]

    # where it is not wanted, a place at which it ends at once
    safe_a, safe_x = select(enabled, a, like(a, 1)), select(enabled, x, like(x, 0))
    one = constant_taylor(like(a, 1), order)
    carry = repeat_while(step, [safe_x, enabled], [safe_a, *one, *one], SERIES_STEPS)
    return carry[1 + size :]


def upper_fraction(a: Value, x: Value, enabled: Value, order: int) -> Taylor:
    """Legendre's continued fraction of gamma(a, x) * exp(x) / x ** a.

    It is for x above a and 1. It is evaluated from its end, which is as many terms away as
    numbers like these were seen to need: the recurrence from the front loses digits in each term.
    """
    a, x = select(enabled, a, like(a, 1)), select(enabled, x, like(x, 2))
    fixed, slow, wide = (8.0, 100.0, 2.5) if is_double(x) else (6.0, 20.0, 1.3)
    count = floor(slow / x + mul(sqrt(max(a, like(a, 0))), wide) + fixed)
    count = select(enabled, min(count, like(x, FRACTION_STEPS)), like(x, 0))

    def line(a: Value, x: Value, place: Value) -> Taylor:
        return [x - a + (mul(place, 2) + 1), *constant_taylor(like(x, -1), order)][: order + 1]

    def step(constants: Any, carry: Any) -> Any:
        (a, x), (place, *last) = constants, carry
        product = [mul(place, place - a), *constant_taylor(neg(place), order)][: order + 1]
        following = minus(line(a, x, place - 1), taylor_over(product, last))
        is_left = ge(place, like(x, 1))
        kept = [select(is_left, f, g) for f, g in zip(following, last, strict=True)]
        return gt(place, like(x, 1)), [place - 1, *kept]

    _, *last = repeat_while(step, [a, x], [count, *line(a, x, count)], FRACTION_STEPS)
    return taylor_over(constant_taylor(like(x, 1), order), last)


def _halves(a: Value, x: Value) -> tuple[Value, Value, Value]:
    """Where the fraction is used, where it or the series, where nothing is."""
    zero, infinite = like(x, 0), like(x, math.inf)
    is_nan = bit_or(ne(a, a), ne(x, x))
    outside = bit_or(bit_or(lt(x, zero), lt(a, zero)), is_nan)
    outside = bit_or(outside, bit_and(eq(a, x), bit_or(eq(a, zero), eq(a, infinite))))
    is_edge = bit_or(bit_or(eq(x, zero), eq(a, zero)), bit_or(eq(x, infinite), eq(a, infinite)))
    inside = bit_not(bit_or(outside, is_edge))
    use_upper = bit_and(ge(x, like(x, 1)), gt(x, a))
    return use_upper, inside, outside


def _igamma_parts(a: Value, x: Value) -> tuple[Value, Value, Value, Value, Value]:
    use_upper, inside, outside = _halves(a, x)
    weight = exp(_log_weight(a, x))
    inside = bit_and(inside, gt(weight, like(x, 0)))
    lower = mul(weight, _lower(a, x, bit_and(inside, bit_not(use_upper)), 0)[0])
    upper = mul(mul(weight, a), upper_fraction(a, x, bit_and(inside, use_upper), 0)[0])
    zero = like(x, 0)
    lower, upper = select(inside, lower, zero), select(inside, upper, zero)
    return lower, upper, use_upper, outside, inside


def _igamma_expansion(a: Value, x: Value) -> Value:
    lower, upper, use_upper, outside, inside = _igamma_parts(a, x)
    result = select(use_upper, 1 - upper, lower)
    is_one = bit_and(bit_not(inside), bit_or(eq(a, like(a, 0)), eq(x, like(x, math.inf))))
    result = select(is_one, like(x, 1), result)
    return select(outside, like(x, math.nan), result)


def _upper_near_zero(a: Value, x: Value) -> Value:
    """igammac for 0 < a <= 1 / 2 and 0 < x <= 1, as a sum of two positive numbers.

    x ** a / gamma(a + 1) less than 1, and a times the rest of the series of exp(-t) * t ** (a - 1).
    """
    total, power = like(x, 0), like(x, -1)
    for k in range(1, 20 if is_double(x) else 11):
        power = mul(mul(power, x), -1 / k)
        total = total + power / (a + k)
    exponent = mul(a, log(x)) - lgamma_above_one(a)
    return mul(mul(exp(exponent), a), total) - expm1(exponent)


def _igammac_expansion(a: Value, x: Value) -> Value:
    lower, upper, use_upper, outside, inside = _igamma_parts(a, x)
    is_low = bit_and(le(a, like(a, 0.5)), le(x, like(x, 1)))
    is_low = bit_and(is_low, inside)
    near_zero = _upper_near_zero(*(select(is_low, v, like(v, 0.5)) for v in (a, x)))
    result = select(use_upper, upper, select(is_low, near_zero, 1 - lower))
    is_zero = bit_and(bit_not(inside), bit_or(eq(a, like(a, 0)), eq(x, like(x, math.inf))))
    result = select(is_zero, like(x, 0), result)
    return select(outside, like(x, math.nan), result)


def density(a: Value, x: Value) -> Value:
    """The slope of igamma in x, x ** (a - 1) * exp(-x) / gamma(a)."""
    return exp(xlogy(a - 1, x) - x - lgamma(a))


_EDGES = ([1, 3, 0, -1, 0], [0, math.inf, 1, 1, 0])


def _short(*rows: Sequence[float]) -> tuple[np.ndarray, ...]:
    """Arrays of float32, where the audit takes no slopes."""
    return tuple(np.array(row, "float32") for row in rows)


igamma = composite(
    "igamma",
    _igamma_expansion,
    doc="Regularized lower incomplete gamma function: the gamma(a) distribution up to x.",
    operands=("a", "x"),
    jvp=[
        lambda t, out, a, x: mul(t, igamma_grad_a(a, x)),
        lambda t, out, a, x: mul(t, density(a, x)),
    ],
    samples=[
        dict(args=((3,), (3,)), low=3.0, high=9.0),
        dict(
            args=_short([1, 0.5, 2], [1, 0.5, 5]),
            expect=[1 - math.exp(-1), math.erf(math.sqrt(0.5)), 1 - 6 * math.exp(-5)],
        ),
        dict(args=_short(*_EDGES), expect=[0.0, 1.0, 1.0, math.nan, math.nan]),
    ],
)
igammac = composite(
    "igammac",
    _igammac_expansion,
    doc="Regularized upper incomplete gamma function, 1 - igamma(a, x) without cancellation.",
    operands=("a", "x"),
    jvp=[
        lambda t, out, a, x: mul(neg(t), igamma_grad_a(a, x)),
        lambda t, out, a, x: mul(neg(t), density(a, x)),
    ],
    samples=[
        dict(args=((3,), (3,)), low=3.0, high=9.0),
        dict(
            args=_short([1, 0.5, 2], [30, 4, 5]),
            expect=[math.exp(-30), math.erfc(2.0), 6 * math.exp(-5)],
        ),
        # exp(-t) / t over t from 1 on, times a, for tiny a
        dict(args=_short([1e-20], [1]), expect=[0.21938393439552e-20]),
        dict(args=_short(*_EDGES), expect=[1.0, 0.0, 0.0, math.nan, math.nan]),
    ],
)


# -- derivatives in the parameter -----------------------------------------------------------------


def _slope_parts(a: Value, x: Value, order: int) -> tuple[Value, Value]:
    """A derivative of igamma in a, and where it is so.

    It is divided by x ** a * exp(-x) / gamma(a + 1).
    """
    use_upper, inside, _ = _halves(a, x)
    safe_a, safe_x = (select(inside, v, like(v, 1)) for v in (a, x))
    lower = _lower(safe_a, safe_x, bit_and(inside, bit_not(use_upper)), order)
    upper = upper_fraction(safe_a, safe_x, bit_and(inside, use_upper), order)
    upper = taylor_times_line(upper, safe_a)
    both = [select(use_upper, neg(u), v) for u, v in zip(upper, lower, strict=True)]
    growth = taylor_exp(like(x, 1), _parameter_slopes(safe_a + 1, safe_x, order))
    slope = taylor_times(growth, both)[order]
    return mul(slope, float(math.factorial(order))), inside


def _igamma_grad_a_expansion(a: Value, x: Value, *, order: int) -> Value:
    slope, inside = _slope_parts(a, x, order)
    _, _, outside = _halves(a, x)
    weight = exp(_log_weight(a, x))
    result = select(bit_and(inside, gt(weight, like(x, 0))), mul(weight, slope), like(x, 0))
    is_nan = bit_or(outside, eq(a, like(a, 0)))
    return select(is_nan, like(x, math.nan), result)


@define
def igamma_grad_a(a: Type, x: Type, *, order: int = 1) -> Type:
    """Derivative of igamma(a, x) in a, once or `order` times."""
    check_kind(x, ["float"])
    check_order(order)
    return check_same(a, x)


def _grad_a_by_x(t: Value, out: Value, a: Value, x: Value, *, order: int) -> Value:
    slopes = taylor_exp(density(a, x), _parameter_slopes(a, x, order))
    return mul(t, mul(slopes[order], float(math.factorial(order))))


attach(
    igamma_grad_a,
    _igamma_grad_a_expansion,
    [
        lambda t, out, a, x, *, order: mul(t, igamma_grad_a(a, x, order=order + 1)),
        _grad_a_by_x,
    ],
)
igamma_grad_a.samples((3,), (3,), low=3.0, high=9.0)
# at a = 1 it is -(exp(-x) * (log(x) + 0.57721...) + E1(x))
igamma_grad_a.samples(
    *_short([1, 1, 1, 0], [0, 1, 2, 1]),
    expect=[0.0, -0.4317297106348987, -0.22082542621185950, math.nan],
)


def _random_gamma_grad_expansion(a: Value, x: Value) -> Value:
    slope, inside = _slope_parts(a, x, 1)
    _, _, outside = _halves(a, x)
    result = neg(div(mul(slope, x), a))
    is_nan = bit_or(outside, eq(a, like(a, 0)))
    return select(is_nan, like(x, math.nan), select(inside, result, like(x, 0)))


def _sample_by_a(t: Value, out: Value, a: Value, x: Value) -> Value:
    second = div(igamma_grad_a(a, x, order=2), density(a, x))
    return neg(mul(t, second + mul(out, log(x) - digamma(a))))


def _sample_by_x(t: Value, out: Value, a: Value, x: Value) -> Value:
    return neg(mul(t, log(x) - digamma(a) + mul(out, div(a - 1, x) - 1)))


random_gamma_grad = composite(
    "random_gamma_grad",
    _random_gamma_grad_expansion,
    doc="Derivative in a of a sample x of the gamma(a) distribution, at a fixed probability.",
    operands=("a", "x"),
    jvp=[_sample_by_a, _sample_by_x],
    samples=[
        dict(args=((3,), (3,)), low=3.0, high=9.0),
        # -igamma_grad_a / density
        dict(args=_short([1, 1], [1, 2]), expect=[1.1735630272247269, 1.6316914623497008]),
    ],
)


# -- the incomplete beta function: the beta distribution up to x -----------------------------------


LARGE = 10.0  # from here on differences of lgamma are taken by Stirling's series
STEPS = 10000  # of the continued fraction, at most


def _fraction(p: Value, q: Value, x: Value, enabled: Value) -> Value:
    """The continued fraction https://dlmf.nist.gov/8.17.E22, two terms a step.

    It is evaluated from its end, which is as many terms away as its numbers were seen to need.
    """
    fixed, wide = (28.0, 1.5) if is_double(x) else (8.0, 1.0)
    count = min(floor(mul(sqrt(max(p, q)), wide) + fixed), like(x, STEPS))
    count = select(enabled, count, like(x, 0))

    def step(constants: Any, carry: Any) -> Any:
        (p, q, x), (m, last) = constants, carry
        twice = p + mul(m, 2)
        even = mul(mul(p + m, p + q + m), x) / mul(twice, twice + 1)
        odd = mul(mul(m, q - m), x) / mul(twice - 1, twice)
        following = 1 + odd / (1 - even / last)
        is_left = ge(m, like(m, 1))
        return gt(m, like(m, 1)), [m - 1, select(is_left, following, last)]

    _, last = repeat_while(step, [p, q, x], [count, like(x, 1)], STEPS)
    return 1 / (1 - mul(p + q, x) / (p + 1) / last)


def _betaln_expansion(a: Value, b: Value) -> Value:
    low, high = min(a, b), max(a, b)
    large = max(high, like(high, LARGE))
    difference = select(ge(high, large), growth_of(low, large), lgamma(low + high) - lgamma(high))
    return lgamma(low) - difference


def _beta_weight(p: Value, q: Value, x: Value, log_x: Value, rest: Value, log_rest: Value) -> Value:
    """The logarithm of x ** p * rest ** q / beta(p, q), where rest is 1 - x."""
    direct = mul(log_x, p) + mul(log_rest, q) - betaln(p, q)
    # about the mean of large p and q the terms would cancel
    both = ge(min(p, q), like(p, LARGE))
    p, q = max(p, like(p, LARGE)), max(q, like(q, LARGE))
    total = p + q
    above = mul(x, q) - mul(rest, p)  # x less the mean, times p + q
    by_deviance = mul(log(mul(p / total, q) * (0.5 / math.pi)), 0.5) - mul(
        p, deviance_of(mul(x, total) / p, above / p)
    )
    by_deviance = by_deviance - mul(q, deviance_of(mul(rest, total) / q, neg(above) / q))
    stirling = stirling_rest(total) - stirling_rest(p) - stirling_rest(q)
    return select(both, by_deviance + stirling, direct)


def _betainc_expansion(a: Value, b: Value, x: Value) -> Value:
    zero, one, infinite = like(x, 0), like(x, 1), like(x, math.inf)
    all_low = bit_or(eq(a, zero), eq(b, infinite))  # all of the distribution is at 0
    all_high = bit_or(eq(b, zero), eq(a, infinite))
    is_zero, is_one = eq(x, zero), eq(x, one)
    outside = bit_or(bit_or(lt(a, zero), lt(b, zero)), bit_or(lt(x, zero), gt(x, one)))
    is_nan = bit_or(bit_or(ne(a, a), ne(b, b)), ne(x, x))
    outside = bit_or(bit_or(outside, is_nan), bit_and(all_low, all_high))
    gives_zero = bit_or(is_zero, bit_and(all_high, bit_not(is_one)))
    gives_zero = bit_and(gives_zero, bit_not(bit_and(all_low, bit_not(is_zero))))
    gives_one = bit_or(is_one, bit_and(all_low, bit_not(is_zero)))
    inside = bit_not(bit_or(outside, bit_or(gives_zero, gives_one)))
    a, b, x = (select(inside, v, like(v, 0.5)) for v in (a, b, x))
    # the fraction converges fast below the mean; above it I(a, b, x) = 1 - I(b, a, 1 - x)
    is_direct = lt(x, (a + 1) / (a + b + 2))
    p, q = select(is_direct, a, b), select(is_direct, b, a)
    rest = 1 - x
    y, z = select(is_direct, x, rest), select(is_direct, rest, x)
    log_x, log_rest = log(x), log1p(neg(x))
    log_y, log_z = select(is_direct, log_x, log_rest), select(is_direct, log_rest, log_x)
    weight = exp(_beta_weight(p, q, y, log_y, z, log_z))
    part = mul(weight / p, _fraction(p, q, y, inside))
    result = select(is_direct, part, 1 - part)
    result = select(gives_zero, zero, select(gives_one, one, result))
    return select(outside, like(x, math.nan), result)


def _no_slope(t: Value, out: Value, a: Value, b: Value, x: Value) -> Value:
    raise GradientError(
        "betainc has no derivative in its parameters a and b",
        fix="differentiate in x, or wrap a and b in rlx.stop_gradient",
    )


def _slope(t: Value, out: Value, a: Value, b: Value, x: Value) -> Value:
    """The density of the beta distribution."""
    logarithm = xlogy(a - 1, x) + xlog1py(b - 1, neg(x))
    return mul(t, exp(logarithm - betaln(a, b)))


betaln = composite(
    "betaln",
    _betaln_expansion,
    doc="Logarithm of the size of the beta function gamma(a) * gamma(b) / gamma(a + b).",
    operands=("a", "b"),
    jvp=[
        lambda t, out, a, b: mul(t, digamma(a) - digamma(a + b)),
        lambda t, out, a, b: mul(t, digamma(b) - digamma(a + b)),
    ],
    samples=[
        dict(args=((2, 3), (2, 3)), low=0.3, high=25.0),
        dict(
            args=([1.0, 2.0, 0.5, 2.0], [1.0, 3.0, 0.5, 1e8]),
            expect=[0.0, -math.log(12.0), math.log(math.pi), -math.log(1e8 * (1e8 + 1))],
        ),
    ],
)
_BETA_EDGES = ([2, 2, 0, 2, -1], [3, 3, 3, 0, 1], [0, 1, 0.5, 0.5, 0.5])
betainc = composite(
    "betainc",
    _betainc_expansion,
    doc="Regularized incomplete beta function: the beta(a, b) distribution up to x.",
    operands=("a", "b", "x"),
    jvp=[_no_slope, _no_slope, _slope],
    samples=[
        dict(args=((2, 3), (2, 3), (2, 3)), low=0.05, high=0.95),
        dict(
            args=([2.0, 5.0, 0.5, 20.0], [3.0, 1.0, 0.5, 20.0], [0.5, 0.7, 0.25, 0.5]),
            expect=[0.6875, 0.7**5, 1 / 3, 0.5],
        ),
        dict(
            args=tuple(np.array(v, "float32") for v in _BETA_EDGES),
            expect=[0.0, 1.0, 1.0, 0.0, math.nan],
        ),
    ],
)
