"""Distributions of real numbers."""

from __future__ import annotations

import math
from typing import Any

from ... import numpy as rnp
from ...trace.array import Array
from ..operands import log1mexp
from ..special import (
    betainc,
    betaln,
    expit,
    gammainc,
    gammaincc,
    gammaln,
    i0e,
    log_ndtr,
    logit,
    ndtr,
    ndtri,
    xlog1py,
    xlogy,
)
from .distribution import Distribution, exp_of, formula, log_of, where_chance


class norm(Distribution, of="the normal distribution"):
    """The normal distribution."""

    @formula
    def logpdf(x: Any, loc: Any = 0, scale: Any = 1) -> Array:
        return -0.5 * (rnp.log(2 * math.pi * scale * scale) + rnp.square((x - loc) / scale))

    pdf = exp_of(logpdf)
    cdf = formula(lambda x, loc=0, scale=1: ndtr((x - loc) / scale))
    logcdf = formula(lambda x, loc=0, scale=1: log_ndtr((x - loc) / scale))
    sf = formula(lambda x, loc=0, scale=1: ndtr((loc - x) / scale))
    logsf = formula(lambda x, loc=0, scale=1: log_ndtr((loc - x) / scale))
    ppf = formula(lambda q, loc=0, scale=1: ndtri(q) * scale + loc)
    isf = formula(lambda q, loc=0, scale=1: loc - ndtri(q) * scale)


class truncnorm(Distribution, of="the truncated normal distribution"):
    """The normal distribution truncated to [a, b], in units of `scale`."""

    @formula
    def logpdf(x: Any, a: Any, b: Any, loc: Any = 0, scale: Any = 1) -> Array:
        z = (x - loc) / scale
        result = norm.logpdf(x, loc, scale) - _log_mass(a, b)
        result = rnp.where((z < a) | (z > b), -math.inf, result)
        return rnp.where(a >= b, math.nan, result)

    pdf = exp_of(logpdf)
    logcdf = formula(lambda x, a, b, loc=0, scale=1: _log_share((x - loc) / scale, a, b))
    cdf = exp_of(logcdf)
    logsf = formula(lambda x, a, b, loc=0, scale=1: _log_share((loc - x) / scale, -b, -a))
    sf = exp_of(logsf)


def _log_share(z: Any, a: Any, b: Any) -> Array:
    """The logarithm of the share of what lies between a and b that is up to z."""
    inside = rnp.clip(z, a, b)
    whole = _log_mass(a, b)
    below, above = _log_mass(a, inside) - whole, _log_mass(inside, b) - whole
    # near 1 the part above has the digits
    result = rnp.where(below > -0.1, rnp.log1p(-rnp.exp(rnp.minimum(above, -1e-3))), below)
    result = rnp.where(z >= b, 0.0, rnp.where(z <= a, -math.inf, result))
    return rnp.where((a >= b) | rnp.isnan(z), math.nan, result)


def _log_mass(a: Any, b: Any) -> Array:
    """The logarithm of how much of the normal distribution is from a to b."""
    is_right = a > 0
    is_central = (a <= 0) & (b > 0)
    low, high = rnp.where(is_right, -b, a), rnp.where(is_right, -a, b)
    most, least = log_ndtr(high), log_ndtr(low)
    tail = most + log1mexp(rnp.maximum(most - least, 0))
    central = rnp.log1p(-ndtr(a) - ndtr(-b))
    return rnp.where(is_central, central, tail)


class t(Distribution, of="Student's t distribution"):
    """Student's t distribution with `df` degrees of freedom."""

    @formula
    def logpdf(x: Any, df: Any, loc: Any = 0, scale: Any = 1) -> Array:
        half = df / 2
        size = gammaln(half) + 0.5 * rnp.log(math.pi * df * scale * scale) - gammaln(half + 0.5)
        return -size - (half + 0.5) * rnp.log1p(rnp.square((x - loc) / scale) / df)

    pdf = exp_of(logpdf)


class cauchy(Distribution, of="the Cauchy distribution"):
    """The Cauchy distribution."""

    @formula
    def logpdf(x: Any, loc: Any = 0, scale: Any = 1) -> Array:
        return -rnp.log(math.pi * scale) - rnp.log1p(rnp.square((x - loc) / scale))

    pdf = exp_of(logpdf)
    cdf = formula(lambda x, loc=0, scale=1: 0.5 + rnp.arctan((x - loc) / scale) / math.pi)
    logcdf = log_of(cdf)
    sf = formula(lambda x, loc=0, scale=1: 0.5 + rnp.arctan((loc - x) / scale) / math.pi)
    logsf = log_of(sf)
    ppf = formula(lambda q, loc=0, scale=1: loc + scale * rnp.tan(math.pi * q - math.pi / 2))
    isf = formula(lambda q, loc=0, scale=1: loc + scale * rnp.tan(math.pi / 2 - math.pi * q))


class logistic(Distribution, of="the logistic distribution"):
    """The logistic distribution."""

    @formula
    def logpdf(x: Any, loc: Any = 0, scale: Any = 1) -> Array:
        half = (x - loc) / scale / 2
        return -2 * rnp.logaddexp(half, -half) - rnp.log(scale)

    pdf = exp_of(logpdf)
    cdf = formula(lambda x, loc=0, scale=1: expit((x - loc) / scale))
    sf = formula(lambda x, loc=0, scale=1: expit((loc - x) / scale))
    ppf = formula(lambda x, loc=0, scale=1: loc + scale * logit(x))
    isf = formula(lambda x, loc=0, scale=1: loc - scale * logit(x))


class laplace(Distribution, of="the Laplace distribution"):
    """The Laplace distribution."""

    logpdf = formula(lambda x, loc=0, scale=1: -rnp.abs(x - loc) / scale - rnp.log(2 * scale))
    pdf = exp_of(logpdf)

    @formula
    def cdf(x: Any, loc: Any = 0, scale: Any = 1) -> Array:
        z = (x - loc) / scale
        tail = 0.5 * rnp.exp(-rnp.abs(z))
        return rnp.where(z <= 0, tail, 1 - tail)


class gennorm(Distribution, of="the generalized normal distribution"):
    """The generalized normal distribution, proportional to exp(-|x| ** beta)."""

    logpdf = formula(lambda x, beta: rnp.log(0.5 * beta) - gammaln(1 / beta) - rnp.abs(x) ** beta)
    pdf = exp_of(logpdf)
    cdf = formula(lambda x, beta: 0.5 + 0.5 * rnp.sign(x) * gammainc(1 / beta, rnp.abs(x) ** beta))


class gumbel_l(Distribution, of="the left Gumbel distribution"):
    """The left-skewed Gumbel distribution, of minima."""

    @formula
    def logpdf(x: Any, loc: Any = 0, scale: Any = 1) -> Array:
        z = (x - loc) / scale
        return rnp.where(scale > 0, z - rnp.exp(z) - rnp.log(scale), math.nan)

    pdf = exp_of(logpdf)

    @formula
    def logcdf(x: Any, loc: Any = 0, scale: Any = 1) -> Array:
        return rnp.where(scale > 0, log1mexp(rnp.exp((x - loc) / scale)), math.nan)

    cdf = exp_of(logcdf)

    @formula
    def ppf(p: Any, loc: Any = 0, scale: Any = 1) -> Array:
        is_chance = (p > 0) & (p < 1)
        return rnp.where(is_chance, loc + scale * rnp.log(-rnp.log1p(-p)), math.nan)

    @formula
    def logsf(x: Any, loc: Any = 0, scale: Any = 1) -> Array:
        return rnp.where(scale > 0, -rnp.exp((x - loc) / scale), math.nan)

    sf = exp_of(logsf)


class gumbel_r(Distribution, of="the right Gumbel distribution"):
    """The right-skewed Gumbel distribution, of maxima."""

    @formula
    def logpdf(x: Any, loc: Any = 0, scale: Any = 1) -> Array:
        z = (x - loc) / scale
        return rnp.where(scale > 0, -rnp.log(scale) - z - rnp.exp(-z), math.nan)

    pdf = exp_of(logpdf)

    @formula
    def logcdf(x: Any, loc: Any = 0, scale: Any = 1) -> Array:
        return rnp.where(scale > 0, -rnp.exp((loc - x) / scale), math.nan)

    cdf = exp_of(logcdf)

    @formula
    def ppf(p: Any, loc: Any = 0, scale: Any = 1) -> Array:
        is_chance = (p > 0) & (p < 1)
        return rnp.where(is_chance, loc - scale * rnp.log(-rnp.log(p)), math.nan)

    @formula
    def sf(x: Any, loc: Any = 0, scale: Any = 1) -> Array:
        return rnp.where(scale > 0, -rnp.expm1(-rnp.exp((loc - x) / scale)), math.nan)

    @formula
    def logsf(x: Any, loc: Any = 0, scale: Any = 1) -> Array:
        return rnp.where(scale > 0, log1mexp(rnp.exp((loc - x) / scale)), math.nan)


class expon(Distribution, of="the exponential distribution"):
    """The exponential distribution."""

    @formula
    def logpdf(x: Any, loc: Any = 0, scale: Any = 1) -> Array:
        return rnp.where(x < loc, -math.inf, (loc - x) / scale - rnp.log(scale))

    pdf = exp_of(logpdf)
    cdf = formula(lambda x, loc=0, scale=1: -rnp.expm1(rnp.minimum((loc - x) / scale, 0)))
    logcdf = log_of(cdf)
    logsf = formula(lambda x, loc=0, scale=1: rnp.minimum((loc - x) / scale, 0))
    sf = exp_of(logsf)
    ppf = formula(lambda q, loc=0, scale=1: where_chance(q, loc - scale * rnp.log1p(-q)))


class gamma(Distribution, of="the gamma distribution"):
    """The gamma distribution."""

    @formula
    def logpdf(x: Any, a: Any, loc: Any = 0, scale: Any = 1) -> Array:
        is_inside = x >= loc
        y = rnp.where(is_inside, (x - loc) / scale, 1.0)
        result = xlogy(a - 1, y) - y - gammaln(a) - rnp.log(scale)
        return rnp.where(is_inside, result, -math.inf)

    pdf = exp_of(logpdf)
    cdf = formula(lambda x, a, loc=0, scale=1: gammainc(a, rnp.maximum((x - loc) / scale, 0)))
    logcdf = log_of(cdf)
    sf = formula(lambda x, a, loc=0, scale=1: gammaincc(a, rnp.maximum((x - loc) / scale, 0)))
    logsf = log_of(sf)


class chi2(Distribution, of="the chi-squared distribution"):
    """The chi-squared distribution with `df` degrees of freedom."""

    @formula
    def logpdf(x: Any, df: Any, loc: Any = 0, scale: Any = 1) -> Array:
        is_inside = ~(x < loc)
        y = rnp.where(is_inside, (x - loc) / scale, 1.0)
        kernel = (df / 2 - 1) * rnp.log(y) - y / 2
        result = kernel - gammaln(df / 2) - df / 2 * math.log(2) - rnp.log(scale)
        return rnp.where(is_inside, result, -math.inf)

    pdf = exp_of(logpdf)

    @formula
    def cdf(x: Any, df: Any, loc: Any = 0, scale: Any = 1) -> Array:
        return gammainc(df / 2, rnp.maximum((x - loc) / (2 * scale), 0))

    logcdf = log_of(cdf)

    @formula
    def sf(x: Any, df: Any, loc: Any = 0, scale: Any = 1) -> Array:
        return gammaincc(df / 2, rnp.maximum((x - loc) / (2 * scale), 0))

    logsf = log_of(sf)


class beta(Distribution, of="the beta distribution"):
    """The beta distribution."""

    @formula
    def logpdf(x: Any, a: Any, b: Any, loc: Any = 0, scale: Any = 1) -> Array:
        y = (x - loc) / scale
        is_inside = (x >= loc) & (x <= loc + scale)
        y = rnp.where(is_inside, y, 0.5)
        result = xlogy(a - 1, y) + xlog1py(b - 1, -y) - betaln(a, b) - rnp.log(scale)
        result = rnp.where(is_inside | rnp.isnan(x), result, -math.inf)
        return rnp.where((a <= 0) | (b <= 0) | (scale <= 0) | rnp.isnan(x), math.nan, result)

    pdf = exp_of(logpdf)
    cdf = formula(lambda x, a, b, loc=0, scale=1: betainc(a, b, rnp.clip((x - loc) / scale, 0, 1)))
    logcdf = log_of(cdf)

    @formula
    def sf(x: Any, a: Any, b: Any, loc: Any = 0, scale: Any = 1) -> Array:
        return betainc(b, a, 1 - rnp.clip((x - loc) / scale, 0, 1))

    logsf = log_of(sf)


class uniform(Distribution, of="the uniform distribution"):
    """The uniform distribution on [loc, loc + scale]."""

    @formula
    def logpdf(x: Any, loc: Any = 0, scale: Any = 1) -> Array:
        return rnp.where((x < loc) | (x > loc + scale), -math.inf, -rnp.log(scale) + 0 * x)

    pdf = exp_of(logpdf)

    @formula
    def cdf(x: Any, loc: Any = 0, scale: Any = 1) -> Array:
        result = rnp.where(x > loc + scale, 1.0, (x - loc) / scale)
        return rnp.where(x < loc, 0.0, result)

    ppf = formula(lambda q, loc=0, scale=1: where_chance(q, loc + scale * q))


class pareto(Distribution, of="the Pareto distribution"):
    """The Pareto distribution."""

    @formula
    def logpdf(x: Any, b: Any, loc: Any = 0, scale: Any = 1) -> Array:
        logarithm, is_inside = _scaled(x, loc, scale)
        result = rnp.log(b) - rnp.log(scale) - (b + 1) * logarithm
        return rnp.where(is_inside, result, -math.inf)

    pdf = exp_of(logpdf)

    @formula
    def cdf(x: Any, b: Any, loc: Any = 0, scale: Any = 1) -> Array:
        logarithm, _ = _scaled(x, loc, scale)
        return -rnp.expm1(-b * logarithm)

    logcdf = log_of(cdf)

    @formula
    def logsf(x: Any, b: Any, loc: Any = 0, scale: Any = 1) -> Array:
        logarithm, _ = _scaled(x, loc, scale)
        return -b * logarithm

    sf = exp_of(logsf)

    @formula
    def ppf(q: Any, b: Any, loc: Any = 0, scale: Any = 1) -> Array:
        return where_chance(q, loc + scale * rnp.power(1 - q, -1 / b))


def _scaled(x: Any, loc: Any, scale: Any) -> Any:
    """The logarithm of x in units of `scale`, 0 below the support, and whether it is inside."""
    is_inside = ~(x < loc + scale)
    return rnp.log(rnp.where(is_inside, (x - loc) / scale, 1.0)), is_inside


class vonmises(Distribution, of="the von Mises distribution"):
    """The von Mises distribution of angles with mean 0."""

    @formula
    def logpdf(x: Any, kappa: Any) -> Array:
        result = kappa * (rnp.cos(x) - 1) - rnp.log(2 * math.pi * i0e(kappa))
        return rnp.where(kappa > 0, result, math.nan)

    pdf = exp_of(logpdf)


class wrapcauchy(Distribution, of="the wrapped Cauchy distribution"):
    """The wrapped Cauchy distribution on [0, 2 * pi]."""

    @formula
    def logpdf(x: Any, c: Any) -> Array:
        result = rnp.log((1 - c * c) / (2 * math.pi)) - rnp.log(1 + c * c - 2 * c * rnp.cos(x))
        is_inside = (x >= 0) & (x <= 2 * math.pi)
        return rnp.where((c > 0) & (c < 1), rnp.where(is_inside, result, -math.inf), math.nan)

    pdf = exp_of(logpdf)
