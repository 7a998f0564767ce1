"""Limits on gradients."""

from __future__ import annotations

from typing import Any

from .. import numpy as rnp
from ..trace import pytree
from ..trace.axes import number
from .optimizer import Optimizer, stateless, widened


def global_norm(tree: Any) -> Any:
    """The length of all leaves together, as one vector."""
    squares = (rnp.sum(x * x) for x in pytree.leaves(widened(tree)))
    return rnp.sqrt(sum(squares, start=rnp.zeros(())))


def clip_by_global_norm(limit: float) -> Optimizer:
    """Shorten all gradients together so that their length is at most `limit`."""

    number("clip_by_global_norm: the limit", limit)

    def clip(grads: Any) -> Any:
        # no gradient is divided by a length of zero
        factor = limit / rnp.maximum(global_norm(grads), limit)
        return pytree.map(lambda g: g * factor.astype(g.dtype), grads)

    return stateless(clip)


def clip_by_value(limit: float) -> Optimizer:
    """Limit each number to the range from `-limit` to `limit`."""
    number("clip_by_value: the limit", limit)
    return stateless(lambda grads: pytree.map(lambda g: rnp.clip(g, -limit, limit), grads))
