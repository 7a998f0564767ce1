"""Distributions of real numbers, vectors and matrices.

Most are made from uniform bits by the inverse of the distribution function.
"""

from __future__ import annotations

import math
from typing import Any

import ml_dtypes
import numpy as np

from .. import numpy as rnp
from ..ir.errors import DtypeError, ShapeError
from ..ir.types import as_dtype, is_complex, is_float, is_inexact
from ..numpy import linalg
from ..trace.apply import apply, as_tensor
from ..trace.arguments import choice
from ..trace.array import Array
from ..trace.axes import as_shape, broadcast_shapes, integer
from ..trace.host import is_python_scalar, scalar_to_numpy
from ..trace.promotion import FLOAT, fit, promote_operands
from .keys import bits, split, takes_key

UNSIGNED = {size: np.dtype(f"uint{8 * size}") for size in (1, 2, 4, 8)}


@takes_key
def uniform(
    key: Any, shape: Any = (), dtype: Any = None, minval: Any = 0.0, maxval: Any = 1.0
) -> Array:
    """Uniform distribution on [`minval`, `maxval`).

    >>> from rlx.random import key
    >>> uniform(key(0), (2,))
    Array([0.947667 , 0.9785799], dtype=float32)
    """
    shape, dtype = as_shape(shape), check_float("uniform", dtype)
    random = bits(key, shape, word_of(dtype))
    if is_python_scalar(minval) and is_python_scalar(maxval):
        return between(random, dtype, minval, maxval)
    low, high = (fit(as_tensor(x), dtype, shape) for x in (minval, maxval))
    return between(random, dtype, low, high)


def word_of(dtype: np.dtype) -> np.dtype:
    """The unsigned dtype of the random bits that make a float."""
    info = ml_dtypes.finfo(dtype)
    return UNSIGNED[1 if info.nmant < 8 else info.bits // 8]


def between(random: Any, dtype: np.dtype, low: Any, high: Any) -> Array:
    """Convert random bits to floats in [low, high)."""
    # random fraction bits under the exponent of 1: numbers from 1 up to 2
    word = UNSIGNED[dtype.itemsize]
    one = int(np.array(1.0, dtype).view(word))
    unused = 8 * word_of(dtype).itemsize - ml_dtypes.finfo(dtype).nmant
    pattern = rnp.right_shift(random.astype(word), unused) | one
    fraction = apply("bitcast", pattern, dtype=dtype) - 1.0
    if is_python_scalar(low):  # numbers stay numbers, in the graph too: no arrays from outside
        low, high = (scalar_to_numpy(x, dtype) for x in (low, high))
        low, span = low.item(), (high - low).item()
    else:
        span = high - low
    return rnp.maximum(low, fraction * span + low)


@takes_key
def normal(key: Any, shape: Any = (), dtype: Any = None) -> Array:
    """Standard normal distribution.

    For a complex dtype the real and imaginary parts have variance 1/2.
    """
    dtype = FLOAT if dtype is None else as_dtype(dtype)
    if is_complex(dtype):
        part = np.dtype(f"float{4 * dtype.itemsize}")
        real, imaginary = (normal(k, shape, part) for k in split(key))
        return apply("complex", real, imaginary) / math.sqrt(2)
    dtype = check_float("normal", dtype)
    return normal_of(bits(key, shape, word_of(dtype)), dtype)


def normal_of(random: Any, dtype: np.dtype) -> Array:
    """Convert random bits to standard normal numbers."""
    # -1 itself would give -inf
    low = float(np.nextafter(dtype.type(-1), dtype.type(0)))
    return _times_sqrt2(apply("erf_inv", between(random, dtype, low, 1.0)))


@takes_key
def truncated_normal(
    key: Any, lower: Any, upper: Any, shape: Any = None, dtype: Any = None
) -> Array:
    """Standard normal distribution truncated to the interval from `lower` to `upper`."""
    dtype = check_float("truncated_normal", dtype)
    low, high = (as_tensor(x).astype(dtype) for x in (lower, upper))
    if shape is None:
        shape = broadcast_shapes("truncated_normal", low.shape, high.shape)
    root = dtype.type(math.sqrt(2))
    edges = [apply("erf", bound / root) for bound in (low, high)]
    out = _times_sqrt2(apply("erf_inv", uniform(key, shape, dtype, *edges)))
    inside = rnp.nextafter(low, dtype.type(math.inf)), rnp.nextafter(high, dtype.type(-math.inf))
    return rnp.clip(out, *inside)


@takes_key
def lognormal(key: Any, sigma: Any = 1.0, shape: Any = None, dtype: Any = None) -> Array:
    """Log-normal distribution: exp of a normal variable with deviation `sigma`."""
    shape, (sigma,) = with_parameters("lognormal", shape, dtype, sigma)
    return rnp.exp(normal(key, shape, dtype) * sigma)


@takes_key
def exponential(key: Any, shape: Any = (), dtype: Any = None) -> Array:
    """Exponential distribution with mean 1."""
    return -rnp.log1p(-uniform(key, shape, check_float("exponential", dtype)))


@takes_key
def gumbel(key: Any, shape: Any = (), dtype: Any = None, mode: str | None = None) -> Array:
    """Standard Gumbel distribution.

    The `mode` "high" uses twice the bits, for rarer values than the default "low" can give.
    """
    dtype = check_float("gumbel", dtype)
    if is_high("gumbel", mode):
        info = ml_dtypes.finfo(dtype)
        high, low = uniform(key, (2, *as_shape(shape)), dtype)
        fine = high + 2.0**-info.nmant * low + float(info.tiny)
        return -rnp.log(-rnp.log1p(-rnp.where(high >= 0.5, high, fine)))
    return -rnp.log(-rnp.log(uniform(key, shape, dtype, minval=_tiny(dtype))))


@takes_key
def laplace(key: Any, shape: Any = (), dtype: Any = None) -> Array:
    """Standard Laplace distribution."""
    dtype = check_float("laplace", dtype)
    above = float(ml_dtypes.finfo(dtype).epsneg) - 1.0
    u = uniform(key, shape, dtype, minval=above)
    return rnp.sign(u) * rnp.log1p(-rnp.abs(u))


@takes_key
def logistic(key: Any, shape: Any = (), dtype: Any = None) -> Array:
    """Standard logistic distribution."""
    dtype = check_float("logistic", dtype)
    u = uniform(key, shape, dtype, minval=_tiny(dtype))
    return rnp.log(u) - rnp.log1p(-u)


@takes_key
def cauchy(key: Any, shape: Any = (), dtype: Any = None) -> Array:
    """Standard Cauchy distribution."""
    dtype = check_float("cauchy", dtype)
    u = uniform(key, shape, dtype, minval=float(ml_dtypes.finfo(dtype).eps))
    return rnp.tan(math.pi * (u - 0.5))


@takes_key
def pareto(key: Any, b: Any, shape: Any = None, dtype: Any = None) -> Array:
    """Pareto distribution on [1, inf) with shape parameter `b`."""
    shape, (b,) = with_parameters("pareto", shape, dtype, b)
    return rnp.exp(exponential(key, shape, dtype) / b)


@takes_key
def rayleigh(key: Any, scale: Any, shape: Any = None, dtype: Any = None) -> Array:
    """Rayleigh distribution with the given `scale`."""
    shape, (scale,) = with_parameters("rayleigh", shape, dtype, scale)
    return scale * rnp.sqrt(rnp.log(uniform(key, shape, dtype)) * -2.0)


@takes_key
def maxwell(key: Any, shape: Any = (), dtype: Any = None) -> Array:
    """Standard Maxwell distribution: the norm of a normal vector in 3 dimensions."""
    x = normal(key, (*as_shape(shape), 3), check_float("maxwell", dtype))
    return rnp.sqrt(rnp.sum(x * x, -1))


@takes_key
def double_sided_maxwell(
    key: Any, loc: Any, scale: Any, shape: Any = (), dtype: Any = None
) -> Array:
    """Double-sided Maxwell distribution: `loc` plus or minus `scale` * `maxwell`.

    The result has shape `shape` + the shape of the parameters.
    """
    dtype = check_float("double_sided_maxwell", dtype)
    inner, _ = with_parameters("double_sided_maxwell", None, dtype, loc, scale)
    shape = (*as_shape(shape), *inner)
    loc, scale = (fit(as_tensor(x), dtype, shape) for x in (loc, scale))
    key_size, key_sign = split(key)
    sign = 2 * (uniform(key_sign, shape) < 0.5).astype(dtype) - 1
    return sign * maxwell(key_size, shape, dtype) * scale + loc


@takes_key
def wald(key: Any, mean: Any, shape: Any = None, dtype: Any = None) -> Array:
    """Wald (inverse Gaussian) distribution with mean `mean` and scale 1.

    Michael, Schucany and Haas, "Generating random variates using transformations with multiple
    roots", The American Statistician 30, 1976.
    """
    shape, (mean,) = with_parameters("wald", shape, dtype, mean)
    key_normal, key_uniform = split(key)
    v = normal(key_normal, shape, dtype)
    y, square = v * v, mean * mean
    root = rnp.sqrt(4 * mean * y + square * (y * y))
    x = mean + square * y / 2 - mean / 2 * root
    is_less = uniform(key_uniform, shape, dtype) <= mean / (mean + x)
    return rnp.where(is_less, x, square / x)


@takes_key
def weibull_min(
    key: Any, scale: Any, concentration: Any, shape: Any = (), dtype: Any = None
) -> Array:
    """Weibull distribution with the given `scale` and `concentration`.

    The latter is the shape parameter. `shape` is that of the uniform draws, which broadcast with
    the parameters.
    """
    dtype = check_float("weibull_min", dtype)
    scale, concentration = (as_tensor(x).astype(dtype) for x in (scale, concentration))
    return rnp.power(-rnp.log1p(-uniform(key, shape, dtype)), 1.0 / concentration) * scale


@takes_key
def triangular(
    key: Any, left: Any, mode: Any, right: Any, shape: Any = None, dtype: Any = None
) -> Array:
    """Triangular distribution on [`left`, `right`] with the given `mode`."""
    parameters = with_parameters("triangular", shape, dtype, left, mode, right)
    shape, (left, mode, right) = parameters
    u = uniform(key, shape, dtype)
    rising = left + rnp.sqrt(u * (right - left) * (mode - left))
    falling = right - rnp.sqrt((1 - u) * (right - left) * (right - mode))
    return rnp.where(u < (mode - left) / (right - left), rising, falling)


def is_high(name: str, mode: str | None) -> bool:
    """Whether the mode is "high", which uses twice the bits."""
    choice(f"{name}: mode", mode, (None, "low", "high"))
    return mode == "high"


def check_float(name: str, dtype: Any) -> np.dtype:
    """The dtype, by default float32; one that is no float raises `DtypeError`."""
    dtype = FLOAT if dtype is None else as_dtype(dtype)
    if not is_float(dtype):
        raise DtypeError(
            f"{name}: {dtype.name} numbers have no fractions",
            fix="ask for a float dtype; rlx.random.randint gives integers",
        )
    return dtype


def with_parameters(name: str, shape: Any, dtype: Any, *parameters: Any) -> tuple[Any, list[Any]]:
    """The shape, by default that of the broadcast parameters, which become floats."""
    dtype = check_float(name, dtype)
    given = [as_tensor(x).astype(dtype) for x in parameters]
    together = broadcast_shapes(name, *(x.shape for x in given))
    shape = together if shape is None else as_shape(shape)
    return shape, [fit(x, dtype, shape) for x in given]


def _times_sqrt2(x: Any) -> Array:
    return x * math.sqrt(2)


def _tiny(dtype: np.dtype) -> float:
    """The least normal number, where a distribution excludes 0."""
    return float(ml_dtypes.finfo(dtype).tiny)


# -- random vectors and matrices that take linear algebra ------------------------------------------


METHODS = ("cholesky", "eigh", "svd")


@takes_key
def multivariate_normal(
    key: Any, mean: Any, cov: Any, shape: Any = None, dtype: Any = None, method: str = "cholesky"
) -> Array:
    """Multivariate normal distribution: means `f[..., n]`, covariances `f[..., n, n]`.

    They are `mean` and `cov`; shapes that do not fit are a `ShapeError`. `method` factors the
    covariance: "cholesky", or "eigh" or "svd", which allow a singular one.

    >>> from rlx.random import key
    >>> multivariate_normal(key(0), [0.0, 1.0], [[2.0, 1.0], [1.0, 2.0]], (3,)).shape
    (3, 2)
    """
    mean, cov = (as_tensor(x) for x in promote_operands(mean, cov, inexact=True))
    dtype = check_float("multivariate_normal", mean.dtype if dtype is None else dtype)
    if mean.ndim < 1 or cov.shape[-2:] != 2 * mean.shape[-1:]:
        raise ShapeError(
            f"multivariate_normal: the mean is {mean.type} and the covariance {cov.type}",
            fix="give a mean with a last axis n and a covariance with last axes (n, n)",
        )
    together = broadcast_shapes("multivariate_normal", mean.shape[:-1], cov.shape[:-2])
    batch = together if shape is None else as_shape(shape)
    numbers = normal(key, (*batch, mean.shape[-1]), dtype)
    return mean + rnp.matvec(_root(cov, method), numbers)


def _root(cov: Any, method: str) -> Array:
    """A matrix whose product with its transpose is the covariance."""
    choice("multivariate_normal: method", method, METHODS)
    if method == "cholesky":
        return linalg.cholesky(cov)
    if method == "eigh":
        values, vectors = linalg.eigh(cov)
        return vectors * rnp.sqrt(values[..., None, :])
    vectors, values, _ = linalg.svd(cov)
    return vectors * rnp.sqrt(values[..., None, :])


@takes_key
def orthogonal(key: Any, n: int, shape: Any = (), dtype: Any = None, m: int | None = None) -> Array:
    """Random orthogonal matrices of size `n`, unitary for a complex dtype.

    Returns the shape `shape` + (n, n). They are uniform (Haar) distributed. With `m` they are n x
    m, with orthonormal rows or columns, whichever are fewer. A `dtype` that is not float or complex
    is a `DtypeError`. Mezzadri, "How to generate random matrices from the classical compact
    groups", 2007.
    """
    dtype, rows = as_dtype("float32" if dtype is None else dtype), integer("orthogonal: n", n)
    if not is_inexact(dtype):
        raise DtypeError(
            f"orthogonal: {dtype.name} numbers have no fractions",
            fix="ask for a float or complex dtype",
        )
    columns = rows if m is None else integer("orthogonal: m", m)
    size = (*as_shape(shape), max(rows, columns), min(rows, columns))
    q, r = linalg.qr(normal(key, size, dtype))
    q = q * rnp.sign(rnp.diagonal(r, axis1=-2, axis2=-1))[..., None, :]
    return rnp.matrix_transpose(q) if rows < columns else q
