"""A step that lowers the learning rate when a metric no longer improves."""

from __future__ import annotations

import math
from typing import Any, NamedTuple

from .. import numpy as rnp
from ..ir.errors import AttributeValueError
from ..trace import pytree
from ..trace.arguments import count_of
from .loss_scale import choose
from .optimizer import (
    Optimizer,
    check_numbers,
    first_step,
    needs_value,
    of_kind,
    on_parameters,
    zero_beside,
)


class ReduceLROnPlateauState(NamedTuple):
    """The factor of updates, and how long a metric has not improved."""

    scale: Any  # the factor
    best_value: Any  # the least metric yet
    plateau_count: Any  # how many metrics were no better
    cooldown_count: Any  # how many more are not looked at
    count: Any  # how many values the mean is of
    avg_value: Any  # the mean of the last values


def reduce_on_plateau(
    factor: float = 0.1,
    patience: int = 10,
    rtol: float = 1e-4,
    atol: float = 0.0,
    cooldown: int = 0,
    accumulation_size: int = 1,
    min_scale: float = 0.0,
) -> Optimizer:
    """Multiply updates by a `factor` each time a metric stops improving.

    A step for the end of a `chain`; `update` needs `value=`, the loss or a metric that falls, else
    it is an `ArgumentError`. Of `accumulation_size` values the mean counts: it improves if it is
    below `(1 - rtol) best - atol`. After `patience` that do not, the factor of updates, at first 1,
    is multiplied by `factor`, down to `min_scale`, and the next `cooldown` means do not count.
    Numbers out of their range are an `AttributeValueError`.

    >>> from rlx.optim import chain, sgd
    >>> optimizer, params = chain(sgd(1.0), reduce_on_plateau(0.5, patience=2)), rnp.zeros(1)
    >>> state = optimizer.init(params)
    >>> for loss in (3.0, 3.0, 3.0):
    ...     updates, state = optimizer.update(rnp.array([8.0]), state, params, value=loss)
    ...     print(updates)
    [-8.]
    [-8.]
    [-4.]
    """
    _check_ranges(factor, rtol, atol, min_scale)
    patience = count_of("reduce_on_plateau: patience", patience, least=1)
    cooldown = count_of("reduce_on_plateau: cooldown", cooldown)
    size = count_of("reduce_on_plateau: accumulation_size", accumulation_size, least=1)

    def update(
        grads: Any,
        state: ReduceLROnPlateauState,
        params: Any = None,
        *,
        value: Any = None,
        **_: Any,
    ) -> tuple[Any, ReduceLROnPlateauState]:
        value = rnp.asarray(needs_value("reduce_on_plateau", value))
        best, count = of_kind(state, ReduceLROnPlateauState).best_value, state.count + 1
        total = state.count * state.avg_value + value.astype(best.dtype)
        mean = (total / count).astype(best.dtype)
        is_better = mean < (1 - rtol) * best - atol
        waited = rnp.where(is_better, 0, state.plateau_count + 1)
        cools = state.cooldown_count > 0
        is_over = ~cools & (waited == patience)
        looked = ReduceLROnPlateauState(
            rnp.where(is_over, rnp.maximum(state.scale * factor, min_scale), state.scale),
            rnp.where(is_better, mean, best),
            rnp.where(cools | is_over, 0, waited),
            rnp.where(cools, state.cooldown_count - 1, rnp.where(is_over, cooldown, 0)),
            rnp.zeros_like(count),
            rnp.zeros_like(mean),
        )
        after = choose(count == size, looked, state._replace(avg_value=mean, count=count))
        return pytree.map(lambda g: g * after.scale.astype(g.dtype), grads), after

    return on_parameters(_begun, update, is_around=True)


def _check_ranges(factor: float, rtol: float, atol: float, min_scale: float) -> None:
    check_numbers(factor=factor, rtol=rtol, atol=atol, min_scale=min_scale)
    if not (0 < factor < 1 and 0 <= rtol <= 1 and atol >= 0 and rtol + atol > 0):
        raise AttributeValueError(
            f"reduce_on_plateau: factor is {factor}, rtol {rtol}, atol {atol}",
            fix="use a factor between 0 and 1, rtol from 0 to 1, and one of both above 0",
        )
    if not 0 <= min_scale <= 1:
        raise AttributeValueError(
            f"reduce_on_plateau: min_scale is {min_scale}", fix="use a number from 0 to 1"
        )


def _begun(params: Any) -> ReduceLROnPlateauState:
    zero = zero_beside(params)
    waited, left, count = (first_step(params) for _ in range(3))
    return ReduceLROnPlateauState(zero + 1.0, zero + math.inf, waited, left, count, zero)
