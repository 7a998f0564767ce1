"""The normal distribution of vectors."""

from __future__ import annotations

import math
from typing import Any

from ... import numpy as rnp
from ...ir.errors import ArgumentError, ShapeError
from ..linalg import solve_triangular
from ..operands import Tensor, floats

LOG_CIRCLE = math.log(2 * math.pi)


def logpdf(x: Tensor, mean: Tensor, cov: Tensor, allow_singular: None = None) -> Any:
    """The logarithm of the density of vectors along the last axis.

    A `cov` without axes is that number times the identity; a `mean` without axes is that of
    numbers, not vectors.
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


def _distance(factor: Any, y: Any) -> Any:
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


def pdf(x: Tensor, mean: Tensor, cov: Tensor) -> Any:
    """The density of vectors along the last axis."""
    return rnp.exp(logpdf(x, mean, cov))
