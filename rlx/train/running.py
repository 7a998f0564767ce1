"""Values that a training loop carries: a running mean, and whether to stop."""

from __future__ import annotations

import math
from typing import Any, final

from .. import nn, numpy as rnp
from ..ir.errors import AttributeValueError
from ..trace.apply import as_tensor
from ..trace.arguments import choice, count_of
from ..trace.array import Array
from ..trace.array_arguments import known_real


def _zero() -> Any:
    return rnp.zeros((), "float32")


@final
class Mean(nn.Module):
    """A running mean: `add` gives another one, `value` is the mean so far.

    That of nothing is NaN. It is a pytree, so it can be carried by `scan`, returned by compiled
    functions and saved. The sum is kept with what its rounding lost, so the mean of millions is
    right to the last digits: "Further Remarks on Reducing Truncation Errors", Kahan, 1965.

    >>> loss = Mean().add(1.0).add([2.0, 6.0])
    >>> loss.value
    Array(3., dtype=float32)
    >>> loss.add(0.0, 3).value  # a mean that stands for three numbers
    Array(1.5, dtype=float32)
    """

    total: Array = nn.field(default_factory=_zero)  # the sum, f32[]
    lost: Array = nn.field(default_factory=_zero)  # what its rounding lost
    weight: Array = nn.field(default_factory=_zero)  # how much was added
    lost_weight: Array = nn.field(default_factory=_zero)  # what the rounding of that lost

    def add(self, values: Any, weight: Any = 1.0) -> Mean:
        """The mean with these numbers, all of an array, counted `weight` times each.

        `values` and `weight` are `f32[...]` and broadcast; those of weight 0, as of padding, may be
        NaN.
        """
        values, weight = rnp.broadcast_arrays(as_tensor(values), as_tensor(weight))
        weighed = rnp.where(weight != 0, values * weight, 0.0)
        x = rnp.sum(weighed, dtype=rnp.result_type(weighed, self.total))
        more = rnp.sum(weight, dtype=self.weight.dtype)
        return Mean(*_added(self.total, self.lost, x), *_added(self.weight, self.lost_weight, more))

    @property
    def value(self) -> Any:
        """The mean of all that was added, f32[]."""
        return (self.total + self.lost) / (self.weight + self.lost_weight)


def _added(total: Any, lost: Any, x: Any) -> tuple[Any, Any]:
    """A sum with one number more, and what its rounding has lost."""
    x = x + lost
    new = total + x
    rest = rnp.where(rnp.abs(total) >= rnp.abs(x), (total - new) + x, (x - new) + total)
    return new, rnp.where(rnp.isfinite(new), rest, 0.0)


@final
class EarlyStopping(nn.Module):
    """Whether to stop because a metric no longer improves: `update` gives another one.

    `should_stop` is true once `patience` updates one after the other have brought no improvement.
    One is a metric less than the best so far by more than `min_delta`, or with `mode="max"` greater
    by that; NaN is none. `has_improved` says it of the last update, which is when to save the
    best model. `best` and `waited` are leaves, so checkpoints keep them. From "Early Stopping -
    But When?", Prechelt, 1998. A negative `min_delta` is an `AttributeValueError`.

    >>> stopping = EarlyStopping(patience=2)
    >>> for loss in (3.0, 1.0, 2.0, 1.5):
    ...     stopping = stopping.update(loss)
    ...     print(stopping.best, stopping.has_improved, stopping.should_stop)
    3.0 True False
    1.0 True False
    1.0 False False
    1.0 False True
    """

    best: Any
    waited: int
    patience: int = nn.field(static=True)
    min_delta: float = nn.field(static=True)
    mode: str = nn.field(static=True)

    def __init__(self, patience: int, min_delta: float = 0.0, mode: str = "min") -> None:
        self.patience = count_of("EarlyStopping: patience", patience, 1)
        self.min_delta = known_real("EarlyStopping: min_delta", min_delta)
        if not 0 <= self.min_delta < math.inf:
            raise AttributeValueError(
                f"EarlyStopping: min_delta is {self.min_delta}",
                fix="use 0 or more: by how much a metric must be better",
            )
        self.mode = choice("EarlyStopping: mode", mode, ("min", "max"))
        self.best, self.waited = math.inf if mode == "min" else -math.inf, 0

    def update(self, metric: Any) -> EarlyStopping:
        """The value after an evaluation that gave a `metric`, a number that is known."""
        metric = known_real("EarlyStopping.update: metric", metric)
        gain = self.best - metric if self.mode == "min" else metric - self.best
        if gain > self.min_delta:
            return self.replace(best=metric, waited=0)
        return self.replace(waited=self.waited + 1)

    @property
    def has_improved(self) -> bool:
        """Whether the last update was the best; true before the first one."""
        return self.waited == 0

    @property
    def should_stop(self) -> bool:
        """Whether `patience` updates have passed without an improvement."""
        return self.waited >= self.patience
