"""Losses: how far predictions are from what is wanted.

Enters: predictions and targets. Leaves: their mean; the sum with `reduction="sum"`, one loss
for each example with `reduction="none"`.
"""

from __future__ import annotations

from typing import Any

from .. import numpy as rnp
from ..ir.builder import user_source
from ..ir.errors import AttributeValueError
from ..trace.apply import apply, as_tensor
from ..trace.promotion import promote_operands
from .functional import softplus

REDUCTIONS = {"mean": rnp.mean, "sum": rnp.sum, "none": as_tensor}


def cross_entropy(logits: Any, labels: Any, *, reduction: str = "mean") -> Any:
    """Minus the log of the softmax of the logits at the label.

    `f32[..., C], i32[...] → f32[]`.

    >>> round(float(cross_entropy([[0.0, 0.0]], [1])), 3)
    0.693
    """
    (logits,) = promote_operands(logits, inexact=True)
    return _reduced(apply("cross_entropy", as_tensor(logits), as_tensor(labels)), reduction)


def binary_cross_entropy(logits: Any, targets: Any, *, reduction: str = "mean") -> Any:
    """Minus the log of the chance of what happened.

    The chance of a 1 is sigmoid(logits). Targets are 0, 1, or chances between.
    """
    logits, targets = _both(logits, targets)
    return _reduced(softplus(logits) - logits * targets, reduction)


def mean_squared_error(predictions: Any, targets: Any, *, reduction: str = "mean") -> Any:
    """The square of the difference."""
    predictions, targets = _both(predictions, targets)
    difference = predictions - targets
    return _reduced(difference * difference, reduction)


def mean_absolute_error(predictions: Any, targets: Any, *, reduction: str = "mean") -> Any:
    """The size of the difference."""
    predictions, targets = _both(predictions, targets)
    return _reduced(rnp.abs(predictions - targets), reduction)


def huber(predictions: Any, targets: Any, *, delta: float = 1.0, reduction: str = "mean") -> Any:
    """Half the square of a difference up to `delta`, beyond it a straight line."""
    predictions, targets = _both(predictions, targets)
    distance = rnp.abs(predictions - targets)
    near = rnp.minimum(distance, delta)
    return _reduced(0.5 * near * near + delta * (distance - near), reduction)


def _both(predictions: Any, targets: Any) -> tuple[Any, Any]:
    predictions, targets = promote_operands(predictions, targets, inexact=True)
    return as_tensor(predictions), as_tensor(targets)


def _reduced(losses: Any, reduction: str) -> Any:
    if reduction not in REDUCTIONS:
        raise AttributeValueError(
            f"the reduction {reduction!r} does not exist",
            where=str(user_source()),
            fix=f"use one of {', '.join(REDUCTIONS)}",
        )
    return REDUCTIONS[reduction](losses)
