"""Schedule-free learning: means of parameters in place of a rate that falls."""

from __future__ import annotations

from typing import Any, NamedTuple

from .. import numpy as rnp
from ..trace import pytree
from ..trace.arguments import wrong
from ..trace.axes import number
from . import schedules
from .adaptive import adamw
from .algorithms import sgd
from .optimizer import (
    LearningRate,
    Optimizer,
    Tree,
    add_decay,
    apply_updates,
    chain,
    first_step,
    needs_params,
    of_kind,
    on_parameters,
    zero_beside,
)


class ScheduleFreeState(NamedTuple):
    """The state of schedule-free learning."""

    b1: Any  # the share of the mean in the parameters that are trained
    weight_sum: Any  # of all weights of the mean
    step_count: Any  # the number of the next step, from 1
    max_lr: Any  # the largest learning rate yet
    base_optimizer_state: Any  # of the optimizer
    z: Any  # the parameters that the optimizer moves


def schedule_free(
    base_optimizer: Optimizer,
    learning_rate: LearningRate,
    b1: float = 0.9,
    weight_lr_power: float = 2.0,
) -> Optimizer:
    """Schedule-free learning: means of parameters in place of a rate that falls.

    `base_optimizer` moves z by gradients at `y = b1 x + (1 - b1) z`, the parameters that are
    trained; `x = (1 - c) x + c z`, the mean of z, is what `schedule_free_eval_params` gives for
    use. Its weights are powers, `weight_lr_power`, of the largest rate yet. The optimizer has no
    momentum of its own, and the rate too: `schedule_free(adamw(1e-3, b1=0.0), 1e-3)`. Defazio et
    al., 2024, https://arxiv.org/abs/2405.15682

    >>> from rlx.optim import apply_updates, sgd
    >>> optimizer, params = schedule_free(sgd(0.5), 0.5), rnp.array([4.0])
    >>> state = optimizer.init(params)
    >>> for _ in range(3):
    ...     updates, state = optimizer.update(2 * params, state, params)
    ...     params = apply_updates(params, updates)
    >>> schedule_free_eval_params(state, params).round(3).tolist()
    [0.0]
    """
    if not callable(learning_rate):
        number("schedule_free: the learning rate", learning_rate)
    number("schedule_free: weight_lr_power", weight_lr_power)
    if not 0 < number("schedule_free: b1", b1) <= 1:
        raise wrong("schedule_free: b1", b1, "above 0 and at most 1", "use 0.9, the default")

    def init(params: Any) -> ScheduleFreeState:
        zero = zero_beside(params)
        z = pytree.map(lambda p: rnp.array(p, copy=True), params)
        inner = base_optimizer.init(params)
        # arrays of their own: a step may be given the memory of both zeros
        return ScheduleFreeState(zero + b1, zero, first_step(params) + 1, zero + 0, inner, z)

    def update(
        grads: Any, state: ScheduleFreeState, params: Any = None, **more: Any
    ) -> tuple[Any, ScheduleFreeState]:
        state, params = of_kind(state, ScheduleFreeState), needs_params("schedule_free", params)
        dtype, rate = state.max_lr.dtype, learning_rate
        if callable(rate):
            rate = rnp.asarray(rate(state.step_count)).astype(dtype)
        largest = rnp.maximum(state.max_lr, rate)
        weight = largest**weight_lr_power
        total = state.weight_sum + weight
        part = rnp.where(total == 0, 0.0, weight / rnp.where(total == 0, 1.0, total))
        updates, inner = base_optimizer.update(grads, state.base_optimizer_state, params, **more)
        z = apply_updates(state.z, updates)

        def moved(before: Any, z: Any, y: Any) -> Any:
            c = part.astype(z.dtype)
            x = (1 - c) * ((y - (1 - b1) * before) / b1) + c * z
            return b1 * x + (1 - b1) * z - y

        changes = pytree.map(moved, state.z, z, params)
        steps = state.step_count + 1
        return changes, ScheduleFreeState(state.b1, total, steps, largest, inner, z)

    return on_parameters(init, update, is_around=True)


def schedule_free_eval_params(state: ScheduleFreeState, params: Tree) -> Tree:
    """The parameters for use, the mean x, of those that `schedule_free` trains.

    `state` is that of the optimizer.

    >>> from rlx.optim import sgd
    >>> params = {"w": rnp.array([4.0])}
    >>> state = schedule_free(sgd(0.5), 0.5).init(params)
    >>> schedule_free_eval_params(state, params)["w"].tolist()
    [4.0]
    """
    state = of_kind(state, ScheduleFreeState)

    def mean(z: Any, y: Any) -> Any:
        b1 = state.b1.astype(z.dtype)
        return (y - (1 - b1) * z) / b1

    found = pytree.map(mean, state.z, pytree.without_state(params))
    return pytree.restore_state(found, params)


def schedule_free_sgd(
    learning_rate: float = 1.0,
    warmup_steps: int | None = None,
    b1: float = 0.9,
    weight_decay: float = 0.0,
    weight_lr_power: float = 2.0,
) -> Optimizer:
    """Gradient descent without a schedule: `schedule_free` of `sgd`.

    The rate rises from 0 for `warmup_steps`, if given. `b1` and `weight_lr_power` are those of
    `schedule_free`. Defazio et al., 2024, https://arxiv.org/abs/2405.15682

    >>> optimizer, params = schedule_free_sgd(0.5), rnp.array([4.0])
    >>> updates, state = optimizer.update(2 * params, optimizer.init(params), params)
    >>> updates
    Array([-4.], dtype=float32)
    """
    rate = _warmed(learning_rate, warmup_steps)
    steps = chain(add_decay(weight_decay), sgd(rate))
    return schedule_free(steps, rate, b1, weight_lr_power)


def schedule_free_adamw(
    learning_rate: float = 0.0025,
    warmup_steps: int | None = None,
    b1: float = 0.9,
    b2: float = 0.999,
    eps: float = 1e-8,
    weight_decay: float = 0.0,
    weight_lr_power: float = 2.0,
) -> Optimizer:
    """AdamW without a schedule: `schedule_free` of `adamw` without momentum.

    The rate rises from 0 for `warmup_steps`, if given. `b1` and `weight_lr_power` are those of
    `schedule_free`. Defazio et al., 2024, https://arxiv.org/abs/2405.15682

    >>> optimizer, params = schedule_free_adamw(0.5), rnp.array([4.0])
    >>> updates, state = optimizer.update(2 * params, optimizer.init(params), params)
    >>> updates.round(4)
    Array([-0.5], dtype=float32)
    """
    rate = _warmed(learning_rate, warmup_steps)
    steps = adamw(rate, 0.0, b2, eps, weight_decay=weight_decay)
    return schedule_free(steps, rate, b1, weight_lr_power)


def _warmed(learning_rate: float, steps: int | None) -> LearningRate:
    return learning_rate if steps is None else schedules.linear(0.0, learning_rate, steps)
