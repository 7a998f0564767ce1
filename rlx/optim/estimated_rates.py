"""Optimizers that find their learning rate: `prodigy()`."""

from __future__ import annotations

from typing import Any, NamedTuple

from .. import numpy as rnp
from ..trace import pytree
from ..trace.arguments import flag, pair
from ..trace.axes import number
from .line_search import dot
from .moments import as_given, moved, moved_square, wide_zeros
from .optimizer import (
    LearningRate,
    Optimizer,
    check_gradients,
    check_numbers,
    first_step,
    needs_params,
    of_kind,
    on_parameters,
    widened,
    zero_beside,
)


class ProdigyState(NamedTuple):
    """The state of Prodigy."""

    exp_avg: Any  # the mean of gradients, times the estimates
    exp_avg_sq: Any  # of their squares
    grad_sum: Any  # the weighted sum of gradients
    params0: Any  # the first parameters
    estim_lr: Any  # the estimate of the rate, which never falls
    numerator_weighted: Any  # the weighted sum of what gradients say of the way so far
    count: Any  # how many steps were made


def prodigy(
    learning_rate: LearningRate = 1.0,
    betas: tuple[float, float] = (0.9, 0.999),
    beta3: float | None = None,
    eps: float = 1e-8,
    estim_lr0: float = 1e-6,
    estim_lr_coef: float = 1.0,
    weight_decay: float = 0.0,
    safeguard_warmup: bool = False,
) -> Optimizer:
    """Prodigy: AdamW that finds its rate by how far the parameters have gone.

    The estimate d begins as `estim_lr0` and is then the greatest yet of
    `estim_lr_coef r / |s|`, where r sums `<g, p0 - p>`, and s the gradients, weighted by the rate,
    `beta3` of them kept (the root of the second of `betas` if not given). Steps are those of AdamW,
    with `betas`, `eps` and `weight_decay`, of the rate d `learning_rate`: 1, or a schedule of that
    size. With `safeguard_warmup` that size does not weigh s, for schedules that rise. Mishchenko
    and Defazio, 2023, https://arxiv.org/abs/2306.06101

    >>> from rlx.optim import apply_updates
    >>> optimizer, params = prodigy(), rnp.array([3.0])
    >>> state = optimizer.init(params)
    >>> for _ in range(100):
    ...     updates, state = optimizer.update(2 * params, state, params)
    ...     params = apply_updates(params, updates)
    >>> bool(abs(params[0]) < 1), bool(state.estim_lr > 0.01)
    (True, True)
    """
    b1, b2 = (number("prodigy: one of the betas", b) for b in pair("prodigy: betas", betas))
    b3 = b2**0.5 if beta3 is None else number("prodigy: beta3", beta3)
    check_numbers(eps=eps, estim_lr0=estim_lr0, coef=estim_lr_coef, weight_decay=weight_decay)
    is_guarded = flag("prodigy: safeguard_warmup", safeguard_warmup)
    if not callable(learning_rate):
        number("prodigy: the learning rate", learning_rate)

    def update(grads: Any, state: ProdigyState, params: Any = None) -> tuple[Any, ProdigyState]:
        check_gradients(grads, of_kind(state, ProdigyState).exp_avg)
        g, p = widened(grads), widened(needs_params("prodigy", params))
        last, count = state.estim_lr, state.count + 1
        rate = learning_rate(state.count) if callable(learning_rate) else learning_rate
        t = count.astype(last.dtype)
        rate = (last * rate * (1 - b2**t) ** 0.5 / (1 - b1**t)).astype(last.dtype)
        scaled = pytree.map(lambda g: last.astype(g.dtype) * g, g)
        mean = moved(b1, state.exp_avg, scaled)
        square = moved_square(b2, state.exp_avg_sq, scaled)
        weight = (last if is_guarded else rate) / estim_lr0
        total = pytree.map(lambda s, x: b3 * s + weight.astype(s.dtype) * x, state.grad_sum, scaled)
        way = dot(g, pytree.map(lambda a, b: a - b, state.params0, p)).astype(last.dtype)
        numerator = b3 * state.numerator_weighted + last / estim_lr0 * rate * way
        estimate = _larger(last, estim_lr_coef * numerator, total)

        def step(m: Any, s: Any, p: Any) -> Any:
            r, d = rate.astype(s.dtype), estimate.astype(s.dtype)
            return -weight_decay * r * p - r * m / (rnp.sqrt(s) + d * eps)

        updates = as_given(pytree.map(step, mean, square, p), grads)
        first = state.params0
        return updates, ProdigyState(mean, square, total, first, estimate, numerator, count)

    return on_parameters(lambda params: _begun(params, estim_lr0), update)


def _begun(params: Any, rate: float) -> ProdigyState:
    zero = zero_beside(params)
    start = pytree.map(lambda p: rnp.array(p, copy=True), widened(params))
    # arrays of their own: a step may be given the memory of each
    mean, square, total = (wide_zeros(params) for _ in range(3))
    return ProdigyState(mean, square, total, start, zero + rate, zero, first_step(params))


def _larger(last: Any, numerator: Any, total: Any) -> Any:
    """The estimate, if it is larger than the last one."""
    size = sum((rnp.sum(rnp.abs(s)) for s in pytree.leaves(total)), start=rnp.zeros_like(last))
    is_zero = size == 0  # no gradient yet
    found = rnp.maximum(last, numerator / rnp.where(is_zero, 1.0, size))
    return rnp.where(is_zero, last, found).astype(last.dtype)
