"""Distributions of integers and bools."""

from __future__ import annotations

from typing import Any

import ml_dtypes
import numpy as np

from .. import numpy as rnp
from ..ir.errors import ArgumentError, DtypeError, ShapeError
from ..ir.types import as_dtype, is_bool, is_float, is_integer
from ..trace.apply import apply, as_tensor
from ..trace.arguments import flag
from ..trace.axes import as_shape, one_axis
from ..trace.promotion import broadcast_to
from .continuous import UNSIGNED, gumbel, is_high, uniform
from .keys import bits, split
from .reuse import takes_key


@takes_key
def randint(key: Any, shape: Any, minval: Any, maxval: Any, dtype: Any = None) -> Any:
    """Integers from `minval` up to but without `maxval`.

    Where arrays of bounds leave no integer the result is `minval`; plain numbers must leave one.

    >>> from rlx.random import key
    >>> randint(key(0), (5,), 0, 10)
    Array([9, 0, 2, 3, 1], dtype=int32)
    """
    dtype, shape = as_dtype("int32" if dtype is None else dtype), as_shape(shape)
    if not is_integer(dtype) or is_bool(dtype):
        raise DtypeError(
            f"randint: {dtype.name} is not an integer dtype",
            fix="ask for an integer dtype, or use rlx.random.uniform or bernoulli",
        )
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
def bernoulli(key: Any, p: Any = 0.5, shape: Any = None, mode: str = "low") -> Any:
    """Bools that are true with probability `p`.

    The mode "high" takes twice the bits, for a `p` near 0.
    """
    p = as_tensor(p)
    if not is_float(p.dtype):
        raise DtypeError(
            f"bernoulli: the probability is {p.type}",
            fix="give a float, such as 0.5",
        )
    shape = p.shape if shape is None else as_shape(shape)
    if is_high("bernoulli", mode):
        high, low = uniform(key, (2, *shape), p.dtype)
        return low * 2.0 ** -ml_dtypes.finfo(p.dtype).nmant < p - high
    return uniform(key, shape, p.dtype) < p


@takes_key
def rademacher(key: Any, shape: Any = (), dtype: Any = None) -> Any:
    """Numbers that are 1 or -1."""
    signs = 2 * bernoulli(key, 0.5, shape).astype("int32") - 1
    return signs if dtype is None else signs.astype(dtype)


@takes_key
def geometric(key: Any, p: Any, shape: Any = None, dtype: Any = None) -> Any:
    """How many trials it takes until one with chance `p` succeeds."""
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
) -> Any:
    """Indices along an axis, drawn with the probabilities softmax(logits).

    `shape` ends in that of the logits without the axis; axes before it are further draws, all
    different without `replace`. `mode` is that of `gumbel`.
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


def _remainder(x: Any, span: Any) -> Any:
    return apply("rem", x, span)


def _integers(x: Any) -> Any:
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


def _clip(x: Any, low: int, high: int) -> Any:
    return rnp.clip(x, _nearest(int(low), x.dtype), _nearest(int(high), x.dtype))
