"""What losses share: dtypes, reductions, checks of numbers."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from ... import numpy as rnp
from ...ir.errors import ArgumentError, ShapeError
from ...trace.apply import as_tensor
from ...trace.arguments import choice
from ...trace.array import Array
from ...trace.array_arguments import known_real
from ...trace.promotion import promote_operands, rounded_once

REDUCTIONS = {"mean": rnp.mean, "sum": rnp.sum, "none": as_tensor}


def of_both(
    loss: Callable[[Any, Any], Any], predictions: Any, targets: Any, reduction: str
) -> Array:
    """The loss of predictions and targets, as `of_all`.

    One of them has the shape of the losses: (n, 1) and (n,) would make n² of them.
    """
    shapes = rnp.shape(predictions), rnp.shape(targets)
    if rnp.broadcast_shapes(*shapes) not in shapes:
        raise ShapeError(
            f"the predictions have the shape {shapes[0]}, the targets {shapes[1]}",
            fix="give both one shape: targets.reshape(predictions.shape)",
        )
    return of_all(loss, (predictions, targets), reduction)


def of_all(loss: Callable[..., Any], operands: Sequence[Any], reduction: str) -> Array:
    """The loss of each example, reduced; half-size floats are rounded once."""
    given = promote_operands(*operands, inexact=True)
    return rounded_once(lambda *xs: reduced(loss(*map(as_tensor, xs)), reduction), *given)


def reduced(losses: Any, reduction: str) -> Array:
    """The losses of examples as `reduction` says."""
    return REDUCTIONS[choice("reduction", reduction, REDUCTIONS)](losses)


def positive(what: str, given: Any) -> float:
    """Check for a number above 0 that is known."""
    found = known_real(what, given)
    if found > 0:
        return found
    raise ArgumentError(f"{what} is {found}", fix="give a number above 0")


def share_of(what: str, given: Any) -> float:
    """Check for a number from 0 to 1 that is known."""
    found = known_real(what, given)
    if 0 <= found <= 1:
        return found
    raise ArgumentError(f"{what} is {found}", fix="give a number from 0 to 1")
