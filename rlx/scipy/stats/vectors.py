"""Multivariate distributions."""

from __future__ import annotations

import math
from typing import Any

from ... import numpy as rnp
from ...ir.errors import ArgumentError, DtypeError, ShapeError
from ...trace.apply import as_tensor
from ...trace.array import Array
from ..linalg import solve_triangular
from ..operands import floats
from ..special import gammaln, xlogy
from .distribution import Distribution, exp_of, formula

SLACK = 1e-6  # how much chances that count as a whole may miss 1
LOG_CIRCLE = math.log(2 * math.pi)


class dirichlet(Distribution, of="the Dirichlet distribution"):
    """The Dirichlet distribution of probability vectors."""

    @formula
    def logpdf(x: Any, alpha: Any) -> Array:
        """The logarithm of the density of probability vectors x along axis 0.

        The last component may be left out.
        """
        if alpha.ndim != 1 or x.ndim == 0 or x.shape[0] not in (alpha.shape[0], alpha.shape[0] - 1):
            raise ShapeError(
                f"dirichlet: x is {x.type}, alpha {alpha.type}",
                fix="give a vector alpha, and an x with as many rows or one less",
            )
        if x.shape[0] != alpha.shape[0]:
            x = rnp.concatenate([x, 1 - rnp.sum(x, 0, keepdims=True)])
        is_simplex = rnp.all(x > 0, axis=0) & (rnp.abs(rnp.sum(x, 0) - 1) < SLACK)
        size = rnp.sum(gammaln(alpha)) - gammaln(rnp.sum(alpha))
        powers = rnp.reshape(alpha - 1, (-1,) + (1,) * (x.ndim - 1))
        return rnp.where(is_simplex, rnp.sum(xlogy(powers, x), axis=0) - size, -math.inf)

    pdf = exp_of(logpdf)


class multivariate_normal(Distribution, of="the multivariate normal distribution"):
    """The multivariate normal distribution."""

    @staticmethod
    def logpdf(x: Any, mean: Any, cov: Any, allow_singular: None = None) -> Array:
        """The logarithm of the density of vectors along the last axis.

        A scalar `cov` is a multiple of the identity; a scalar `mean` is that of scalars, not
        vectors. A singular covariance has no density: `allow_singular` raises `ArgumentError`.
        """
        if allow_singular is not None:
            raise ArgumentError(
                "multivariate_normal: a singular cov has no density",
                fix="leave out allow_singular, and add a little to the diagonal",
            )
        x, mean, cov = floats("multivariate_normal.logpdf", x, mean, cov)
        if mean.ndim == 0:
            return -0.5 * (rnp.square(x - mean) / cov + LOG_CIRCLE + rnp.log(cov))
        y, n = x - mean, mean.shape[-1]
        if cov.ndim == 0:
            square = rnp.sum(rnp.square(y), axis=-1)
            return -0.5 * (square / cov + n * (LOG_CIRCLE + rnp.log(cov)))
        if cov.ndim < 2 or cov.shape[-2:] != (n, n):
            raise ShapeError(
                f"multivariate_normal: the mean is {mean.type}, cov is {cov.type}",
                fix=f"give a cov of shape (..., {n}, {n})",
            )
        factor = rnp.linalg.cholesky(cov)
        half = rnp.sum(rnp.log(rnp.diagonal(factor, axis1=-2, axis2=-1)), axis=-1)
        return -0.5 * (_distance(factor, y) + n * LOG_CIRCLE) - half

    @staticmethod
    def pdf(x: Any, mean: Any, cov: Any) -> Any:
        """The density of vectors along the last axis."""
        return rnp.exp(multivariate_normal.logpdf(x, mean, cov))


def _distance(factor: Any, y: Any) -> Array:
    """The squared length of y in units of a covariance's root."""
    n = y.shape[-1]
    if factor.ndim == 2:  # all vectors are columns of one system
        columns = rnp.reshape(y, (-1, n)).T
        solved = solve_triangular(factor, columns, lower=True)
        return rnp.reshape(rnp.sum(rnp.square(solved), axis=0), y.shape[:-1])
    batch = rnp.broadcast_shapes(factor.shape[:-2], y.shape[:-1])
    factor = rnp.broadcast_to(factor, (*batch, n, n))
    columns = rnp.broadcast_to(y, (*batch, n))[..., None]
    solved = solve_triangular(factor, columns, lower=True)
    return rnp.sum(rnp.square(solved), axis=(-2, -1))


class multinomial(Distribution, of="the multinomial distribution"):
    """The multinomial distribution: counts of n trials with probabilities p."""

    @staticmethod
    def logpmf(x: Any, n: Any, p: Any) -> Array:
        """The log of the probability of counts x, integers along the last axis."""
        x, n = as_tensor(x), as_tensor(n)
        for counts in (x, n):
            if counts.dtype.kind not in "biu":
                raise DtypeError(
                    f"multinomial: the counts are {counts.type}",
                    fix="convert them to an integer dtype",
                )
        (p,) = floats("multinomial.logpmf", p)
        is_all = rnp.sum(x, axis=-1) == n
        x, n = rnp.astype(x, p.dtype), rnp.astype(n, p.dtype)
        result = gammaln(n + 1) + rnp.sum(xlogy(x, p) - gammaln(x + 1), axis=-1)
        return rnp.where(is_all, result, -math.inf)

    @staticmethod
    def pmf(x: Any, n: Any, p: Any) -> Any:
        """The probability of counts x, integers along the last axis."""
        return rnp.exp(multinomial.logpmf(x, n, p))
