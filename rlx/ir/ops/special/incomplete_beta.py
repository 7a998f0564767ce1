"""The incomplete beta function: the beta distribution up to x."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from ...errors import GradientError
from ...graph import Value
from ..arithmetic import floor, mul, neg
from ..compare import bit_and, bit_not, bit_or, eq, ge, gt, lt, max, min, ne, select
from ..constant import like
from ..exponential import exp, log, log1p, sqrt
from .entropy import xlog1py, xlogy
from .family import composite, is_double, repeat_while
from .gamma import deviance_of, digamma, growth_of, lgamma, stirling_rest

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


def _log_weight(p: Value, q: Value, x: Value, log_x: Value, rest: Value, log_rest: Value) -> Value:
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
    weight = exp(_log_weight(p, q, y, log_y, z, log_z))
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
_EDGES = ([2, 2, 0, 2, -1], [3, 3, 3, 0, 1], [0, 1, 0.5, 0.5, 0.5])
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
            args=tuple(np.array(v, "float32") for v in _EDGES),
            expect=[0.0, 1.0, 1.0, 0.0, math.nan],
        ),
    ],
)
