"""Picking from arrays and putting them in random order."""

from __future__ import annotations

import math
from typing import Any

from .. import numpy as rnp
from ..ir.dims import Dim, compare
from ..ir.errors import ArgumentError, ShapeError
from ..ir.types import is_integer
from ..trace.apply import apply, as_tensor
from ..trace.arguments import flag
from ..trace.axes import as_shape, one_axis
from ..trace.control import cond
from ..trace.promotion import promote_operands
from .continuous import gumbel, uniform
from .discrete import randint
from .keys import bits, split, takes_key


@takes_key
def permutation(key: Any, x: Any, axis: int = 0, independent: bool = False) -> Any:
    """The rows of an array, or the integers below x, in random order.

    With `independent` each line along the axis gets an order of its own.

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
) -> Any:
    """Picks from an array's rows, or from the integers below `a`.

    `p` holds the probabilities. Without `replace` no row is picked twice; `mode`
    is then that of `gumbel`.
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


def _weighted(key: Any, p: Any, count: int, shape: Any, replace: bool, mode: str | None) -> Any:
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


def _shuffle(key: Any, x: Any, axis: int) -> Any:
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
