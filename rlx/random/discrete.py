"""Discrete distributions; choices and permutations.

Poisson and binomial draws count events for small means, and use rejection for large ones: Hörmann,
"The transformed rejection method for generating Poisson random variables", 1993, and "The
generation of binomial random variates", 1993.
"""

from __future__ import annotations

import math
from typing import Any

import ml_dtypes
import numpy as np

from .. import numpy as rnp
from ..ir.dims import Dim, compare
from ..ir.errors import ArgumentError, DtypeError, ShapeError
from ..ir.types import as_dtype, is_bool, is_float, is_integer
from ..trace.apply import apply, as_tensor
from ..trace.arguments import flag
from ..trace.array import Array
from ..trace.axes import as_shape, broadcast_shapes, one_axis
from ..trace.control import cond, while_loop
from ..trace.promotion import FLOAT, broadcast_to, convert, fit, promote_operands, result_dtype
from ..trace.scan import scan
from .continuous import UNSIGNED, check_float, gumbel, is_high, uniform
from .keys import bits, split, takes_key

# -- distributions of integers and bools -----------------------------------------------------------


@takes_key
def randint(key: Any, shape: Any, minval: Any, maxval: Any, dtype: Any = None) -> Array:
    """Uniform integers on [`minval`, `maxval`).

    `dtype` is int32 if not given. Where arrays of bounds leave no integer the result is `minval`;
    Python numbers raise `ArgumentError`.

    >>> from rlx.random import key
    >>> randint(key(0), (5,), 0, 10)
    Array([9, 0, 2, 3, 1], dtype=int32)
    """
    dtype, shape = as_dtype("int32" if dtype is None else dtype), as_shape(shape)
    fix = "ask for an integer dtype, or use rlx.random.uniform or bernoulli"
    _check_integer("randint", dtype, fix)
    _check_bounds(minval, maxval, dtype)
    low, high, limit, wide = _integers(minval), _integers(maxval), np.iinfo(dtype), dtype
    if dtype.itemsize < 4:
        # in 32 bits, where the bias of the remainder is small
        wide = np.dtype("int32")
        low = _clip(low, limit.min, limit.max).astype(wide)
        high = _clip(high, limit.min, int(limit.max) + 1).astype(wide)
        limit = np.iinfo(wide)
    # an end above the dtype's range is clipped to its last number, which is then included
    is_open = high > _nearest(int(limit.max), high.dtype)
    low, high = (_clip(x, limit.min, limit.max).astype(wide) for x in (low, high))
    unsigned = UNSIGNED[wide.itemsize]
    span = rnp.where(high > low, (high - low).astype(unsigned) + is_open.astype(unsigned), 1)
    span = broadcast_to(span.astype(unsigned), shape)
    # a number of twice the bits, to keep the bias small: (high bits * 2**n + low bits) % span
    first, second = (bits(k, shape, unsigned) for k in split(key))
    half = rnp.full(shape, 2 ** (4 * wide.itemsize), unsigned)
    factor = _remainder(half, span)
    factor = _remainder(factor * factor, span)
    offset = _remainder(_remainder(first, span) * factor + _remainder(second, span), span)
    return (low + offset.astype(wide)).astype(dtype)


def _check_integer(name: str, dtype: np.dtype, fix: str) -> None:
    if not is_integer(dtype) or is_bool(dtype):
        raise DtypeError(f"{name}: {dtype.name} is not an integer dtype", fix=fix)


def _check_bounds(low: Any, high: Any, dtype: np.dtype) -> None:
    limit = np.iinfo(dtype)
    known = [n for n in (low, high) if isinstance(n, int)]
    if any(not limit.min <= n <= int(limit.max) + 1 for n in known):
        raise ArgumentError(
            f"randint: the bounds {low} and {high} do not fit {dtype.name}",
            fix=f"use bounds from {limit.min} to {int(limit.max) + 1}, or a wider dtype",
        )
    if len(known) == 2 and low >= high:
        raise ArgumentError(
            f"randint: there is no integer from {low} up to but without {high}",
            fix="give the lower bound first, and an upper one above it",
        )


@takes_key
def bernoulli(key: Any, p: Any = 0.5, shape: Any = None, mode: str = "low") -> Array:
    """Bernoulli distribution: true with probability `p`.

    A `p` that is no float is a `DtypeError`. The `mode` "high" uses twice the bits, for a `p` near
    0.
    """
    p = as_tensor(p)
    if not is_float(p.dtype):
        raise DtypeError(f"bernoulli: the probability is {p.type}", fix="give a float, such as 0.5")
    shape = p.shape if shape is None else as_shape(shape)
    if is_high("bernoulli", mode):
        high, low = uniform(key, (2, *shape), p.dtype)
        return low * 2.0 ** -ml_dtypes.finfo(p.dtype).nmant < p - high
    return uniform(key, shape, p.dtype) < p


@takes_key
def rademacher(key: Any, shape: Any = (), dtype: Any = None) -> Array:
    """Rademacher distribution: 1 or -1 with equal probability."""
    signs = 2 * bernoulli(key, 0.5, shape).astype("int32") - 1
    return signs if dtype is None else signs.astype(dtype)


@takes_key
def geometric(key: Any, p: Any, shape: Any = None, dtype: Any = None) -> Array:
    """Geometric distribution: the number of trials of probability `p` up to a success."""
    p = as_tensor(p)
    u = uniform(key, p.shape if shape is None else shape, p.dtype)
    u = rnp.where(u == 0, 1.0, u)
    return (rnp.floor(rnp.log(u) / rnp.log1p(-p)) + 1).astype("int32" if dtype is None else dtype)


@takes_key
def categorical(
    key: Any,
    logits: Any,
    axis: int = -1,
    shape: Any = None,
    replace: bool = True,
    mode: str | None = None,
) -> Array:
    """Categorical distribution: indices with probabilities `softmax(logits)`.

    The classes are along `axis`. `shape` is a batch of draws, then the shape of `logits` without
    the axis; any other is a `ShapeError`. Without `replace` the draws are distinct. `mode` is that
    of `gumbel`. Returns int32.
    """
    replace = flag("categorical: replace", replace)
    logits = as_tensor(logits)
    axis = one_axis("categorical", axis, logits.ndim)
    batch = logits.shape[:axis] + logits.shape[axis + 1 :]
    shape = batch if shape is None else as_shape(shape)
    draws = shape[: len(shape) - len(batch)]
    if shape[len(draws) :] != batch:
        raise ShapeError(
            f"categorical: the shape {shape} does not end in that of the logits",
            notes=[f"logits: {logits.type}, drawn along axis {axis}"],
            fix=f"give a shape that ends in {batch}",
        )
    if replace:
        noise = gumbel(key, draws + logits.shape, logits.dtype, mode)
        return rnp.argmax(noise + logits, axis=len(draws) + axis)
    noisy = logits + gumbel(key, logits.shape, logits.dtype, mode)
    _, index = apply("top_k", rnp.moveaxis(noisy, axis, -1), k=int(np.prod(draws)))
    return rnp.moveaxis(index, -1, 0).reshape(shape)


def _remainder(x: Any, span: Any) -> Array:
    return apply("rem", x, span)


def _integers(x: Any) -> Array:
    """Bounds as an integer array; a Python int gets the least dtype that holds it."""
    if isinstance(x, int) and not isinstance(x, bool):
        wide = "int32" if -(2**31) <= x < 2**31 else "int64" if x < 2**63 else "uint64"
        return as_tensor(np.array(x, wide))
    x = as_tensor(x)
    return x if is_integer(x.dtype) else x.astype("int32")


def _nearest(number: int, dtype: np.dtype) -> int:
    """The integer of a dtype that is nearest to a number."""
    limit = np.iinfo(dtype)
    return max(int(limit.min), min(number, int(limit.max)))


def _clip(x: Any, low: int, high: int) -> Array:
    return rnp.clip(x, _nearest(int(low), x.dtype), _nearest(int(high), x.dtype))


# log(k!) less Stirling's formula, for k from 0 to 9
STIRLING_TAIL = [
    math.lgamma(k + 1) - ((k + 0.5) * math.log(k + 1) - (k + 1) + 0.5 * math.log(2 * math.pi))
    for k in range(10)
]


@takes_key
def poisson(key: Any, lam: Any, shape: Any = None, dtype: Any = None) -> Array:
    """Poisson distribution with mean `lam`; -1 where `lam` is NaN or negative.

    >>> from rlx.random import key
    >>> poisson(key(0), 3.0, (5,)).shape
    (5,)
    """
    dtype, lam = as_dtype("int32" if dtype is None else dtype), as_tensor(lam)
    _check_integer("poisson", dtype, "ask for an integer dtype")
    shape = lam.shape if shape is None else as_shape(shape)
    lam = fit(lam, FLOAT, shape)
    is_small = rnp.isnan(lam) | (lam < 10)
    small = _poisson_counted(key, rnp.where(is_small, lam, 0.0), dtype)
    large = _poisson_rejected(key, rnp.where(is_small, 1e5, lam), dtype)
    return rnp.where(lam == 0, 0, rnp.where(is_small, small, large))


def _poisson_counted(key: Any, lam: Any, dtype: np.dtype) -> Array:
    """How many factors a product of uniform numbers needs to fall below exp(-lam)."""

    def step(state: Any) -> Any:
        count, key, log_product = state
        key, part = split(key)
        count = rnp.where(log_product > -lam, count + 1, count)
        return count, key, log_product + rnp.log(uniform(part, lam.shape))

    start = (rnp.zeros(lam.shape, dtype), key, rnp.zeros_like(lam))
    count, _, _ = while_loop(lambda state: rnp.any(state[2] > -lam), step, start)
    return count - 1


def _poisson_rejected(key: Any, lam: Any, dtype: np.dtype) -> Array:
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


def _first_accepted(key: Any, draw: Any, like: Any) -> Array:
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
def binomial(key: Any, n: Any, p: Any, shape: Any = None, dtype: Any = None) -> Array:
    """Binomial distribution: the number of successes in `n` trials of probability `p`.

    The result is NaN where the parameters are invalid.
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


def _binomial_counted(key: Any, n: Any, p: Any) -> Array:
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


def _binomial_rejected(key: Any, n: Any, p: Any) -> Array:
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
) -> Array:
    """Multinomial distribution: the counts of each outcome in `n` trials.

    The probabilities are along the last axis of `p`, the counts along the last axis of the result,
    which has shape `shape`. A `p` without axes is a `ShapeError`. `unroll` is that of the `scan`
    over outcomes.
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


def _log_factorial(k: Any) -> Array:
    half_log = 0.5 * math.log(2 * math.pi)
    return (k + 0.5) * rnp.log(k + 1) - (k + 1) + half_log + _stirling_tail(k)


def _stirling_tail(k: Any) -> Array:
    """log(k!) less Stirling's formula: by a table, then by a series."""
    place = rnp.floor(rnp.clip(k, 0.0, 9.0)).astype("int32")
    table = as_tensor(np.array(STIRLING_TAIL)).astype(k.dtype)
    square = (k + 1) * (k + 1)
    series = (1 / 12 - (1 / 360 - 1 / 1260 / square) / square) / (k + 1)
    return rnp.where(k <= 9, rnp.take(table, place), series)


# -- picking from arrays, and putting them in random order -----------------------------------------


@takes_key
def permutation(key: Any, x: Any, axis: int = 0, independent: bool = False) -> Array:
    """Permute the rows of `x`, or the integers below `x`, at random.

    Returns the shape of `x`; rows are along `axis`. With `independent` each line along the axis
    gets its own permutation.

    >>> from rlx.random import key
    >>> permutation(key(0), 5)
    Array([0, 1, 4, 3, 2], dtype=int32)
    """
    independent = flag("permutation: independent", independent)
    count = _known_count(x)
    if count is not None:
        return _shuffle(key, rnp.arange(count), 0)
    x = as_tensor(x)
    axis = one_axis("permutation", axis, x.ndim)
    if independent or x.ndim == 1:
        return _shuffle(key, x, axis)
    return rnp.take(x, _shuffle(key, rnp.arange(x.shape[axis]), 0), axis)


@takes_key
def choice(
    key: Any,
    a: Any,
    shape: Any = (),
    replace: bool = True,
    p: Any = None,
    axis: int = 0,
    mode: str | None = None,
) -> Array:
    """Sample from the rows of an array, or from the integers below `a`.

    Returns `shape` rows, which are along `axis`. `p` are the probabilities. Without `replace` the
    samples are distinct; `mode` is then that of `gumbel`.
    """
    number = _known_count(a)
    rows = as_tensor(a) if number is None else None
    axis = 0 if rows is None else one_axis("choice", axis, rows.ndim)
    count: Any = number if rows is None else rows.shape[axis]
    shape = as_shape(shape)
    draws = math.prod(shape)
    _check_choice(count, draws, replace)
    if p is not None:
        index = _weighted(key, p, count, shape, replace, mode)
    elif replace:
        index = randint(key, shape, 0, count)
    else:
        mixed = permutation(key, count if rows is None else rows, axis)
        picked = mixed[(slice(None),) * axis + (slice(draws),)]
        before, after = mixed.shape[:axis], mixed.shape[axis + 1 :]
        return picked.reshape((*before, *shape, *after))
    return index.reshape(shape) if rows is None else rnp.take(rows, index.reshape(shape), axis)


def _weighted(key: Any, p: Any, count: int, shape: Any, replace: bool, mode: str | None) -> Array:
    (weights,) = promote_operands(p, inexact=True)
    weights = as_tensor(weights)
    if weights.shape != (count,):
        raise ShapeError(
            f"choice: there are {count} rows, but the probabilities are {weights.type}",
            fix="give one probability for each row",
        )
    if not replace:
        noisy = gumbel(key, (count,), weights.dtype, mode) + rnp.log(weights)
        return apply("top_k", noisy, k=math.prod(shape))[1]
    total = rnp.cumsum(weights)
    place = total[-1] * (1 - uniform(key, shape, total.dtype))
    return rnp.searchsorted(total, place).astype("int32")


def _check_choice(count: int, draws: int, replace: bool) -> None:
    if draws and count <= 0:
        raise ArgumentError(
            "choice: there is nothing to pick from",
            fix="give an array with rows, or an integer above 0",
        )
    if not replace and draws > count:
        raise ArgumentError(
            f"choice: {draws} rows cannot be picked from {count} without picking one twice",
            fix="pick fewer, or pass replace=True",
        )


# the most numbers that need 0, 1 and 2 rounds: n cubed is at most 1, WORD_MASK, WORD_MASK squared
LIMITS = (1, 1625, 2642245)


def _shuffle(key: Any, x: Any, axis: int) -> Array:
    """Sort by random bits, so often that equal ones among them do not matter."""

    def sort_once(key: Any, x: Any) -> tuple[Any, Any]:
        key, part = split(key)
        return key, apply("sort", bits(part, x.shape), x, axis=axis, n_keys=1)[1]

    for limit in LIMITS:
        is_more = compare(x.size, limit + 1)
        if is_more is None:  # that depends on the symbolic sizes
            is_more = as_tensor(x.size) > limit
            key, x = cond(is_more, sort_once, lambda key, x: (key, x), key, x)
        elif is_more:
            key, x = sort_once(key, x)
    return x


def _known_count(x: Any) -> Any:
    """The number that x is, or None if it is an array with axes."""
    if isinstance(x, int | Dim):
        return x
    x = as_tensor(x)
    return int(x) if not x.ndim and is_integer(x.dtype) else None
