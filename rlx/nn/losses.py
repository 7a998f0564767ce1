"""Loss functions.

They take predictions and targets, and give the mean loss; the sum with `reduction="sum"`, one
loss for each example with `reduction="none"`.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from .. import numpy as rnp
from ..ir.lazy import listed
from ..trace.apply import apply, as_tensor
from ..trace.arguments import choice
from ..trace.promotion import promote_operands, rounded_once
from .functional import softplus

__dir__ = listed(__name__)

REDUCTIONS = {"mean": rnp.mean, "sum": rnp.sum, "none": as_tensor}


def cross_entropy(logits: Any, labels: Any, *, reduction: str = "mean") -> Any:
    """Cross-entropy loss of logits and integer class labels.

    `f32[..., C], i32[...] → f32[]`.

    >>> round(float(cross_entropy([[0.0, 0.0]], [1])), 3)
    0.693
    """
    (logits,) = promote_operands(logits, inexact=True)
    labels = as_tensor(labels)
    return rounded_once(
        lambda x: _reduced(apply("cross_entropy", as_tensor(x), labels), reduction), logits
    )


def binary_cross_entropy(logits: Any, targets: Any, *, reduction: str = "mean") -> Any:
    """Binary cross-entropy loss of logits and targets from 0 to 1.

    The chance of a 1 is sigmoid(logits). Targets are 0, 1, or chances between.
    """
    return _of_both(lambda x, y: softplus(x) - x * y, logits, targets, reduction)


def mean_squared_error(predictions: Any, targets: Any, *, reduction: str = "mean") -> Any:
    """Mean squared error: the square of the difference."""
    return _of_both(lambda x, y: rnp.square(x - y), predictions, targets, reduction)


def mean_absolute_error(predictions: Any, targets: Any, *, reduction: str = "mean") -> Any:
    """Mean absolute error: the size of the difference."""
    return _of_both(lambda x, y: rnp.abs(x - y), predictions, targets, reduction)


def huber(predictions: Any, targets: Any, *, delta: float = 1.0, reduction: str = "mean") -> Any:
    """Huber loss: half the squared difference up to `delta`, a line beyond it."""

    def loss(x: Any, y: Any) -> Any:
        distance = rnp.abs(x - y)
        near = rnp.minimum(distance, delta)
        return 0.5 * near * near + delta * (distance - near)

    return _of_both(loss, predictions, targets, reduction)


def _of_both(
    loss: Callable[[Any, Any], Any], predictions: Any, targets: Any, reduction: str
) -> Any:
    """The loss of each example, reduced; half-size floats are rounded once."""
    given = promote_operands(predictions, targets, inexact=True)
    return rounded_once(lambda x, y: _reduced(loss(as_tensor(x), as_tensor(y)), reduction), *given)


def _reduced(losses: Any, reduction: str) -> Any:
    return REDUCTIONS[choice("reduction", reduction, REDUCTIONS)](losses)
