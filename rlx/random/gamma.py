"""The gamma distribution, and those made from it.

Marsaglia and Tsang, "A simple method for generating gamma variables", ACM TOMS 26, 2000.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from .. import numpy as rnp
from ..ir.errors import AttributeValueError, ShapeError
from ..trace.apply import apply, as_tensor
from ..trace.array import Array
from ..trace.axes import as_shape, integer, number
from ..trace.control import while_loop
from ..trace.host import is_python_scalar
from .continuous import (
    between,
    check_float,
    exponential,
    normal,
    normal_of,
    with_parameters,
    word_of,
)
from .discrete import rademacher
from .keys import bits_of_each, split, split_each, takes_key


@takes_key
def gamma(key: Any, a: Any, shape: Any = None, dtype: Any = None) -> Array:
    """Gamma distribution with shape parameter `a` and scale 1.

    >>> from rlx.random import key
    >>> gamma(key(0), 2.0).shape
    ()
    """
    shape, (a,) = with_parameters("gamma", shape, dtype, a)
    return _draw(key, a, is_log=False)


@takes_key
def loggamma(key: Any, a: Any, shape: Any = None, dtype: Any = None) -> Array:
    """The logarithm of a gamma variable of shape parameter `a`, accurate near 0."""
    shape, (a,) = with_parameters("loggamma", shape, dtype, a)
    return _draw(key, a, is_log=True)


@takes_key
def beta(key: Any, a: Any, b: Any, shape: Any = None, dtype: Any = None) -> Array:
    """Beta distribution on [0, 1] with shape parameters `a` and `b`."""
    shape, (a, b) = with_parameters("beta", shape, dtype, a, b)
    key_a, key_b = split(key)
    logs = _draw(key_a, a, is_log=True), _draw(key_b, b, is_log=True)
    greater = rnp.maximum(*logs)
    x, y = (rnp.exp(log - greater) for log in logs)
    return x / (x + y)


@takes_key
def dirichlet(key: Any, alpha: Any, shape: Any = None, dtype: Any = None) -> Array:
    """Dirichlet distribution: positive vectors along the last axis whose sum is 1.

    `alpha` is f32[..., n], the concentrations; without an axis it is a `ShapeError`.
    """
    dtype = check_float("dirichlet", dtype)
    alpha = as_tensor(alpha)
    if not alpha.ndim:
        raise ShapeError(
            "dirichlet: alpha has no axes",
            fix="give one parameter for each number of a line",
        )
    batch = alpha.shape[:-1] if shape is None else as_shape(shape)
    logs = loggamma(key, alpha, (*batch, alpha.shape[-1]), dtype)
    return apply("softmax", logs, axes=(logs.ndim - 1,))


@takes_key
def chisquare(key: Any, df: Any, shape: Any = None, dtype: Any = None) -> Array:
    """Chi-squared distribution with `df` degrees of freedom."""
    shape, (df,) = with_parameters("chisquare", shape, dtype, df)
    return rnp.exp(_draw(key, df / 2, is_log=True)) * 2


@takes_key
def t(key: Any, df: Any, shape: Any = None, dtype: Any = None) -> Array:
    """Student's t distribution with `df` degrees of freedom."""
    shape, (df,) = with_parameters("t", shape, dtype, df)
    key_normal, key_gamma = split(key)
    half = df / 2
    numbers = normal(key_normal, shape, dtype)
    return numbers * rnp.sqrt(half / _draw(key_gamma, half, is_log=False))


@takes_key
def f(key: Any, dfnum: Any, dfden: Any, shape: Any = None, dtype: Any = None) -> Array:
    """F distribution with `dfnum` and `dfden` degrees of freedom."""
    shape, (dfnum, dfden) = with_parameters("f", shape, dtype, dfnum, dfden)
    key_below, key_above = split(key)
    above = chisquare(key_above, dfnum, shape, dtype) / dfnum
    return above / (chisquare(key_below, dfden, shape, dtype) / dfden)


@takes_key
def generalized_normal(key: Any, p: Any, shape: Any = (), dtype: Any = None) -> Array:
    """Generalized normal distribution with density proportional to exp(-|x| ** p).

    `p` = 2 is normal, `p` = 1 Laplace.
    """
    dtype, shape = check_float("generalized_normal", dtype), as_shape(shape)
    p = _power("generalized_normal", p, dtype)
    key_size, key_sign = split(key)
    size = gamma(key_size, 1 / p, shape, dtype)
    return rademacher(key_sign, shape, dtype) * size ** (1 / p)


@takes_key
def ball(key: Any, d: int, p: Any = 2, shape: Any = (), dtype: Any = None) -> Array:
    """Uniform distribution on the unit ball of the p-norm in `d` dimensions.

    Returns the shape `shape` + (d,). `p` is the power of the norm, above 0.
    """
    dtype, shape = check_float("ball", dtype), as_shape(shape)
    p = _power("ball", p, dtype)
    key_direction, key_radius = split(key)
    direction = generalized_normal(key_direction, p, (*shape, integer("ball: d", d)), dtype)
    total = rnp.sum(rnp.abs(direction) ** p, -1) + exponential(key_radius, shape, dtype)
    return direction / (total ** (1 / p))[..., None]


def _power(name: str, p: Any, dtype: np.dtype) -> Any:
    p = number(f"{name}: p", p)
    if is_python_scalar(p) and not p > 0:
        raise AttributeValueError(f"{name}: p is {p}", fix="use a power above 0")
    return p if is_python_scalar(p) else as_tensor(p).astype(dtype)


# -- the algorithm ---------------------------------------------------------------------------------


def _draw(key: Any, a: Any, *, is_log: bool) -> Array:
    """A number for each parameter, each from a key of its own."""
    fixed = apply("stop_gradient", a)
    x = _marsaglia_tsang(split(key, a.size), fixed.reshape(-1), is_log)
    return apply("gamma_sample", x.reshape(a.shape), a, is_log=is_log)


def _marsaglia_tsang(keys: Any, a: Any, is_log: bool) -> Array:
    """Cubes of normal numbers, accepted so that what stays is gamma distributed.

    It is for parameters from 1; below, a number of a + 1 times u ** (1 / a) has parameter a.
    """
    is_large = a >= 1
    d = rnp.where(is_large, a, a + 1) - 1 / 3
    c = (1 / 3) / rnp.sqrt(d)
    word = word_of(a.dtype)

    def is_rejected(state: Any) -> Any:
        _, square, cube, u = state
        unsure = u >= 1 - 0.0331 * (square * square)
        return unsure & (rnp.log(u) >= square * 0.5 + d * (1 - cube + rnp.log(cube)))

    def draw(state: Any) -> Any:
        following, normal_keys, uniform_keys = split_each(state[0], 3)
        x, v = _positive_root(normal_keys, c)
        u = between(bits_of_each(uniform_keys, word), a.dtype, 0.0, 1.0)
        return _where_each(is_rejected(state), (following, x * x, v * v * v, u), state)

    keys, boost_keys = split_each(keys, 2)
    zero = rnp.zeros_like(a)
    start = (keys, zero, zero + 1, zero + 2)
    cube = while_loop(lambda state: rnp.any(is_rejected(state)), draw, start)[2]
    u = between(bits_of_each(boost_keys, word), a.dtype, 0.0, 1.0)
    if not is_log:
        return d * cube * rnp.where(is_large, 1.0, (1 - u) ** (1 / a))
    log = rnp.log1p(-u)
    boost = rnp.where(is_large | (log == 0), 0.0, log * (1 / a))
    return rnp.log(d) + rnp.log(cube) + boost


def _positive_root(keys: Any, c: Any) -> tuple[Array, Array]:
    """Normal numbers x with 1 + c x above 0, and that."""

    def draw(state: Any) -> Any:
        following, part = split_each(state[0], 2)
        x = normal_of(bits_of_each(part, word_of(c.dtype)), c.dtype)
        return _where_each(state[2] <= 0, (following, x, 1 + x * c), state)

    zero = rnp.zeros_like(c)
    return while_loop(lambda state: rnp.any(state[2] <= 0), draw, (keys, zero, zero - 1))[1:]


def _where_each(test: Any, new: tuple, old: tuple) -> tuple:
    """Keys and numbers, new where the test holds."""
    keys = rnp.where(test[:, None], new[0], old[0])
    return (keys, *(rnp.where(test, x, y) for x, y in zip(new[1:], old[1:], strict=True)))
