"""Counts: the distributions poisson, binomial, multinomial.

Small means are counted out, large ones are found by rejection. Hoermann, "The transformed
rejection method for generating Poisson random variables", 1993, and "The generation of binomial
random variates", 1993.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from .. import numpy as rnp
from ..ir.errors import DtypeError, ShapeError
from ..ir.types import as_dtype, is_bool, is_integer
from ..trace.apply import as_tensor
from ..trace.axes import as_shape, broadcast_shapes
from ..trace.control import while_loop
from ..trace.promotion import FLOAT, convert, fit, result_dtype
from ..trace.scan import scan
from .continuous import check_float, uniform
from .keys import split
from .reuse import takes_key

# log(k!) less Stirling's formula, for k from 0 to 9
STIRLING_TAIL = [
    math.lgamma(k + 1) - ((k + 0.5) * math.log(k + 1) - (k + 1) + 0.5 * math.log(2 * math.pi))
    for k in range(10)
]


@takes_key
def poisson(key: Any, lam: Any, shape: Any = None, dtype: Any = None) -> Any:
    """Counts of events that happen `lam` times in the mean.

    The result is -1 where `lam` is NaN or negative.

    >>> from rlx.random import key
    >>> poisson(key(0), 3.0, (5,)).shape
    (5,)
    """
    dtype, lam = as_dtype("int32" if dtype is None else dtype), as_tensor(lam)
    if not is_integer(dtype) or is_bool(dtype):
        raise DtypeError(
            f"poisson: {dtype.name} is not an integer dtype",
            fix="ask for an integer dtype",
        )
    shape = lam.shape if shape is None else as_shape(shape)
    lam = fit(lam, FLOAT, shape)
    is_small = rnp.isnan(lam) | (lam < 10)
    small = _poisson_counted(key, rnp.where(is_small, lam, 0.0), dtype)
    large = _poisson_rejected(key, rnp.where(is_small, 1e5, lam), dtype)
    return rnp.where(lam == 0, 0, rnp.where(is_small, small, large))


def _poisson_counted(key: Any, lam: Any, dtype: np.dtype) -> Any:
    """How many factors a product of uniform numbers needs to fall below exp(-lam)."""

    def step(state: Any) -> Any:
        count, key, log_product = state
        key, part = split(key)
        count = rnp.where(log_product > -lam, count + 1, count)
        return count, key, log_product + rnp.log(uniform(part, lam.shape))

    start = (rnp.zeros(lam.shape, dtype), key, rnp.zeros_like(lam))
    count, _, _ = while_loop(lambda state: rnp.any(state[2] > -lam), step, start)
    return count - 1


def _poisson_rejected(key: Any, lam: Any, dtype: np.dtype) -> Any:
    b = 0.931 + 2.53 * rnp.sqrt(lam)
    a = -0.059 + 0.02483 * b
    inverse_alpha = 1.1239 + 1.1328 / (b - 3.4)
    sure = 0.9277 - 3.6224 / (b - 2)
    log_lam = rnp.log(lam)

    def draw(u: Any, v: Any) -> tuple[Any, Any]:
        edge = 0.5 - rnp.abs(u)
        k = rnp.floor((2 * a / edge + b) * u + lam + 0.43)
        height = rnp.log(v * inverse_alpha / (a / (edge * edge) + b))
        is_below = height <= -lam + k * log_lam - _log_factorial(k)
        is_out = (k < 0) | ((edge < 0.013) & (v > edge))
        return k, ((edge >= 0.07) & (v <= sure)) | (~is_out & is_below)

    return _first_accepted(key, draw, lam).astype(dtype)


def _first_accepted(key: Any, draw: Any, like: Any) -> Any:
    """Draw `(k, is_accepted)` from uniform u in -0.5 to 0.5 and v until all are accepted."""

    def step(state: Any) -> Any:
        kept, done, key = state
        key, key_u, key_v = split(key, 3)
        u = uniform(key_u, like.shape, like.dtype) - 0.5
        k, is_accepted = draw(u, uniform(key_v, like.shape, like.dtype))
        # a later k may replace an accepted one: so does JAX, and both have the distribution
        return rnp.where(is_accepted, k, kept), done | is_accepted, key

    start = (rnp.full_like(like, -1), rnp.zeros(like.shape, bool), key)
    return while_loop(lambda state: ~rnp.all(state[1]), step, start)[0]


@takes_key
def binomial(key: Any, n: Any, p: Any, shape: Any = None, dtype: Any = None) -> Any:
    """Counts of successes among `n` trials with chance `p`.

    They are NaN where those have no meaning.
    """
    dtype, n, p = check_float("binomial", dtype), as_tensor(n), as_tensor(p)
    shape = broadcast_shapes("binomial", n.shape, p.shape) if shape is None else as_shape(shape)
    wide = result_dtype(p, inexact=True)
    n, p = fit(n, wide, shape), fit(p, wide, shape)
    is_rare = p < 0.5
    q = rnp.where(is_rare, p, 1.0 - p)
    no_count = rnp.isnan(n) | (n < 0)
    no_chance = rnp.isnan(q) | (q < 0)
    safe = rnp.where(no_chance, 0.01, q)
    is_small = no_count | (n * safe <= 10)
    whole = rnp.floor(n)
    small = _binomial_counted(key, rnp.where(is_small, whole, 0.0), safe)
    big = rnp.where(is_small, 1e4, whole), rnp.where(is_small, 0.5, safe)
    count = rnp.where(is_small, small, _binomial_rejected(key, *big)).astype(dtype)
    count = rnp.where(no_chance | no_count, math.nan, count)
    has_end = ~rnp.isinf(n)
    count = rnp.where(has_end | no_chance | no_count, count, math.inf)
    is_mirrored = ~(is_rare | no_count | rnp.isnan(q)) & has_end
    return rnp.where(is_mirrored, whole.astype(dtype) - count, count)


def _binomial_counted(key: Any, n: Any, p: Any) -> Any:
    """How many waiting times for a success fit into n trials."""
    log_failure = rnp.log1p(-p)

    def step(state: Any) -> Any:
        count, total, key = state
        part, key = split(key)
        count = rnp.where(total <= n, count + 1, count)
        waited = rnp.ceil(rnp.log(uniform(part, p.shape, p.dtype)) / log_failure)
        return count, total + waited, key

    start = (rnp.zeros_like(p), rnp.zeros_like(p), key)
    return while_loop(lambda state: rnp.any(state[1] <= n), step, start)[0] - 1


def _binomial_rejected(key: Any, n: Any, p: Any) -> Any:
    deviation = rnp.sqrt(n * p * (1 - p))
    b = 1.15 + 2.53 * deviation
    a = -0.0873 + 0.0248 * b + 0.01 * p
    sure = 0.92 - 4.2 / b
    odds = p / (1 - p)
    alpha = (2.83 + 5.1 / b) * deviation
    mode = rnp.floor((n + 1) * p)
    at_mode = (mode + 0.5) * rnp.log((mode + 1) / (odds * (n - mode + 1)))
    tails = _stirling_tail(mode) + _stirling_tail(n - mode)

    def draw(u: Any, v: Any) -> tuple[Any, Any]:
        edge = 0.5 - rnp.abs(u)
        k = rnp.floor((2 * a / edge + b) * u + n * p + 0.5)
        height = rnp.log(v * alpha / (a / (edge * edge) + b))
        bound = (
            at_mode
            + (n + 1) * rnp.log((n - mode + 1) / (n - k + 1))
            + (k + 0.5) * rnp.log(odds * (n - k + 1) / (k + 1))
            + (tails - _stirling_tail(k) - _stirling_tail(n - k))
        )
        is_out = (k < 0) | (k > n)
        return k, ((edge >= 0.07) & (v <= sure)) | (~is_out & (height <= bound))

    return _first_accepted(key, draw, p)


@takes_key
def multinomial(
    key: Any, n: Any, p: Any, *, shape: Any = None, dtype: Any = None, unroll: int | bool = 1
) -> Any:
    """Counts of each outcome of `n` trials.

    The chances lie along the last axis of `p`. `shape` is that of the result, which has that axis
    too.
    """
    dtype, n, p = check_float("multinomial", dtype), as_tensor(n), as_tensor(p)
    if not p.ndim:
        raise ShapeError(
            "multinomial: p has no axes",
            fix="give the chance of each outcome along the last axis",
        )
    wide = result_dtype(n, p, inexact=True)
    shape = p.shape if shape is None else as_shape(shape)
    n, p = fit(n, wide, shape[:-1]), fit(p, wide, shape)
    chances = rnp.moveaxis(p, -1, 0)
    left = rnp.flip(rnp.cumsum(rnp.flip(chances, 0), 0), 0)
    shares = rnp.clip(chances / rnp.where(left == 0, 1.0, left), 0, 1)

    def draw(left: Any, row: Any) -> tuple[Any, Any]:
        share, key = row
        count = binomial(key, left, share, dtype=wide)
        return left - count, count

    _, counts = scan(draw, n, (shares, split(key, shares.shape[0])), unroll=unroll)
    return convert(rnp.moveaxis(counts, 0, -1), dtype)


def _log_factorial(k: Any) -> Any:
    half_log = 0.5 * math.log(2 * math.pi)
    return (k + 0.5) * rnp.log(k + 1) - (k + 1) + half_log + _stirling_tail(k)


def _stirling_tail(k: Any) -> Any:
    """log(k!) less Stirling's formula: by a table, then by a series."""
    place = rnp.floor(rnp.clip(k, 0.0, 9.0)).astype("int32")
    table = as_tensor(np.array(STIRLING_TAIL)).astype(k.dtype)
    square = (k + 1) * (k + 1)
    series = (1 / 12 - (1 / 360 - 1 / 1260 / square) / square) / (k + 1)
    return rnp.where(k <= 9, rnp.take(table, place), series)
