"""Picking from arrays and putting them in random order."""

from __future__ import annotations

import math
from typing import Any

from .. import numpy as rnp
from ..ir.builder import user_source
from ..ir.errors import ArgumentError, ShapeError
from ..trace.apply import apply, as_tensor
from ..trace.axes import as_shape, one_axis
from ..trace.promotion import promote_operands
from .continuous import gumbel, uniform
from .discrete import randint
from .keys import WORD_MASK, bits, split
from .reuse import takes_key


@takes_key
def permutation(key: Any, x: Any, axis: int = 0, independent: bool = False) -> Any:
    """The rows of an array, or the integers below x, in random order.

    With `independent` each line along the axis gets an order of its own.

    >>> from rlx.random import key
    >>> permutation(key(0), 5)
    Array([0, 1, 4, 3, 2], dtype=int32)
    """
    if isinstance(x, int):
        return _shuffle(key, rnp.arange(x), 0)
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
    rows = None if isinstance(a, int) else as_tensor(a)
    axis = 0 if rows is None else one_axis("choice", axis, rows.ndim)
    count = a if rows is None else rows.shape[axis]
    shape = as_shape(shape)
    draws = math.prod(shape)
    _check_choice(count, draws, replace)
    if p is not None:
        index = _weighted(key, p, count, shape, replace, mode)
    elif replace:
        index = randint(key, shape, 0, count)
    else:
        mixed = permutation(key, a if rows is None else rows, axis)
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
            where=str(user_source()),
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
            where=str(user_source()),
            fix="give an array with rows, or an integer above 0",
        )
    if not replace and draws > count:
        raise ArgumentError(
            f"choice: {draws} rows cannot be picked from {count} without picking one twice",
            where=str(user_source()),
            fix="pick fewer, or pass replace=True",
        )


def _shuffle(key: Any, x: Any, axis: int) -> Any:
    """Sort by random bits, so often that equal ones among them do not matter."""
    rounds = math.ceil(3 * math.log(max(1, x.size)) / math.log(WORD_MASK))
    for _ in range(rounds):
        key, part = split(key)
        _, x = apply("sort", bits(part, x.shape), x, axis=axis, n_keys=1)
    return x
