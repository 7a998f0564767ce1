"""Optimizers that find their learning rate: `prodigy()`.

They have the names, the parameters and the defaults of optax.
"""

from __future__ import annotations

from typing import Any, NamedTuple

from .. import numpy as rnp
from ..trace import pytree
from ..trace.arguments import count_of, flag, pair
from ..trace.axes import number
from .line_search import dot
from .loss_scale import choose
from .moments import as_given, moved, moved_square, wide_zeros
from .optimizer import (
    LearningRate,
    Mask,
    Optimizer,
    add_decay,
    chain,
    check_gradients,
    check_numbers,
    first_step,
    global_norm,
    needs_params,
    of_kind,
    on_parameters,
    scale,
    scale_by_learning_rate,
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
    b1, b2 = _checked("prodigy", learning_rate, betas)
    b3 = b2**0.5 if beta3 is None else number("prodigy: beta3", beta3)
    check_numbers(eps=eps, estim_lr0=estim_lr0, coef=estim_lr_coef, weight_decay=weight_decay)
    is_guarded = flag("prodigy: safeguard_warmup", safeguard_warmup)

    def update(grads: Any, state: ProdigyState, params: Any = None) -> tuple[Any, ProdigyState]:
        check_gradients(grads, of_kind(state, ProdigyState).exp_avg)
        g, p = widened(grads), widened(needs_params("prodigy", params))
        last, count = state.estim_lr, state.count + 1
        rate = _rate(learning_rate, last, state.count, (b1, b2))
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

        updates, first = as_given(pytree.map(step, mean, square, p), grads), state.params0
        return updates, ProdigyState(mean, square, total, first, estimate, numerator, count)

    return on_parameters(lambda params: _prodigy_state(params, estim_lr0), update)


def _prodigy_state(params: Any, rate: float) -> ProdigyState:
    # arrays of their own: a step may be given the memory of each
    mean, square, total = (wide_zeros(params) for _ in range(3))
    zero, first, count = zero_beside(params), _copied(params), first_step(params)
    return ProdigyState(mean, square, total, first, zero + rate, zero, count)


class DAdaptAdamWState(NamedTuple):
    """The state of D-Adaptation."""

    exp_avg: Any  # the mean of gradients, times the rates
    exp_avg_sq: Any  # of squared gradients
    grad_sum: Any  # the mean of gradients, times the rates, that forgets more slowly
    estim_lr: Any  # the estimate of the rate, which never falls
    numerator_weighted: Any  # the mean of what gradients say of the way so far
    count: Any  # how many steps were made


def dadapt_adamw(
    learning_rate: LearningRate = 1.0,
    betas: tuple[float, float] = (0.9, 0.999),
    eps: float = 1e-8,
    estim_lr0: float = 1e-6,
    weight_decay: float = 0.0,
) -> Optimizer:
    """D-Adaptation: AdamW that estimates how far the solution is.

    The estimate d begins as `estim_lr0` and is then the greatest yet of `r / ((1 - c) |s|)`, where
    c is the root of the second of `betas`, s a mean of gradients, c of it kept, and r that of
    `<g, s / (sqrt(v) + eps)>`, both weighted by the rate. Steps are those of AdamW, with `betas`,
    `eps` and `weight_decay`, of the rate d `learning_rate`: 1, or a schedule of that size. Defazio
    and Mishchenko, 2023, https://arxiv.org/abs/2301.07733

    >>> from rlx.optim import apply_updates
    >>> optimizer, params = dadapt_adamw(), rnp.array([3.0])
    >>> state = optimizer.init(params)
    >>> for _ in range(100):
    ...     updates, state = optimizer.update(2 * params, state, params)
    ...     params = apply_updates(params, updates)
    >>> bool(abs(params[0]) < 2), bool(state.estim_lr > 0.01)
    (True, True)
    """
    b1, b2 = _checked("dadapt_adamw", learning_rate, betas)
    check_numbers(eps=eps, estim_lr0=estim_lr0, weight_decay=weight_decay)
    keep = b2**0.5

    def init(params: Any) -> DAdaptAdamWState:
        mean, square, total = (wide_zeros(params) for _ in range(3))
        zero, count = zero_beside(params), first_step(params)
        return DAdaptAdamWState(mean, square, total, zero + estim_lr0, zero, count)

    def update(
        grads: Any, state: DAdaptAdamWState, params: Any = None
    ) -> tuple[Any, DAdaptAdamWState]:
        check_gradients(grads, of_kind(state, DAdaptAdamWState).exp_avg)
        g, p = widened(grads), widened(needs_params("dadapt_adamw", params))
        last = state.estim_lr
        rate = _rate(learning_rate, last, state.count, betas)
        divided = pytree.map(lambda s, v: s / (rnp.sqrt(v) + eps), state.grad_sum, state.exp_avg_sq)
        way = rate * dot(g, divided).astype(last.dtype)
        scaled = pytree.map(lambda g: rate.astype(g.dtype) * g, g)
        mean, square = moved(b1, state.exp_avg, scaled), moved_square(b2, state.exp_avg_sq, g)
        total = moved(keep, state.grad_sum, scaled)
        numerator = keep * state.numerator_weighted + (1 - keep) * way
        estimate = _larger(last, numerator / (1 - keep), total)

        def step(m: Any, v: Any, p: Any) -> Any:
            return -weight_decay * rate.astype(v.dtype) * p - m / (rnp.sqrt(v) + eps)

        updates = as_given(pytree.map(step, mean, square, p), grads)
        count = state.count + 1
        return updates, DAdaptAdamWState(mean, square, total, estimate, numerator, count)

    return on_parameters(init, update)


class COCOBState(NamedTuple):
    """The state of COCOB: sums for each parameter by itself."""

    init_particles: Any  # the first parameters
    cumulative_gradients: Any  # the sum of minus the gradients
    scale: Any  # the greatest size of a gradient
    subgradients: Any  # the sum of sizes of gradients
    reward: Any  # what was won


def cocob(
    learning_rate: LearningRate = 1.0,
    alpha: float = 100.0,
    eps: float = 1e-8,
    weight_decay: float = 0.0,
    mask: Mask = None,
) -> Optimizer:
    """COCOB: steps without a learning rate, by betting on the signs of gradients.

    `scale_by_cocob` has the formula with `alpha` and `eps`; gradients are multiplied by the
    `learning_rate` before. `mask` is that of `adamw`.
    Orabona and Tommasi, 2017, https://arxiv.org/abs/1705.07795

    >>> from rlx.optim import apply_updates
    >>> optimizer, params = cocob(), rnp.array([3.0])
    >>> state = optimizer.init(params)
    >>> for _ in range(100):
    ...     updates, state = optimizer.update(2 * params, state, params)
    ...     params = apply_updates(params, updates)
    >>> bool(abs(params[0]) < 0.5)
    True
    """
    return chain(
        add_decay(weight_decay, mask),
        scale_by_learning_rate(learning_rate),
        scale(-1.0),
        scale_by_cocob(alpha, eps),
    )


def scale_by_cocob(alpha: float = 100.0, eps: float = 1e-8) -> Optimizer:
    """Bet a share of what was won on the sign of the next gradient.

    `L = max(L, |g|)`, from `eps` on, `G = G + |g|`, `R = max(R - g (p - p0), 0)`, `C = C - g`; then
    `p = p0 + C (L + R) / (L max(G + L, alpha L))`, where p0 is the first p. Returns a step for
    `chain`.

    >>> step, p = scale_by_cocob(alpha=1.0), rnp.array([1.0])
    >>> step.update(rnp.array([4.0]), step.init(p), p)[0]
    Array([-0.5], dtype=float32)
    """
    check_numbers(alpha=alpha, eps=eps)

    def init(params: Any) -> COCOBState:
        sums, *others = (wide_zeros(params) for _ in range(4))
        scales = pytree.map(lambda z: z + eps, others.pop())
        return COCOBState(_copied(params), sums, scales, *others)

    def update(grads: Any, state: COCOBState, params: Any = None) -> tuple[Any, COCOBState]:
        check_gradients(grads, of_kind(state, COCOBState).scale)
        g, p, first = widened(grads), widened(needs_params("cocob", params)), state.init_particles
        size = pytree.map(lambda s, g: rnp.maximum(s, rnp.abs(g)), state.scale, g)
        total = pytree.map(lambda t, g: t + rnp.abs(g), state.subgradients, g)
        won = pytree.map(
            lambda r, g, p, p0: rnp.maximum(r - g * (p - p0), 0.0), state.reward, g, p, first
        )
        sums = pytree.map(lambda c, g: c - g, state.cumulative_gradients, g)

        def step(p: Any, p0: Any, c: Any, s: Any, t: Any, r: Any) -> Any:
            return p0 + c / (s * rnp.maximum(t + s, alpha * s)) * (s + r) - p

        updates = as_given(pytree.map(step, p, first, sums, size, total, won), grads)
        return updates, COCOBState(first, sums, size, total, won)

    return on_parameters(init, update)


class MechanicState(NamedTuple):
    """The state of Mechanic: numbers for each of the betas."""

    base_optimizer_state: Any  # of the optimizer
    count: Any  # how many steps were made
    r: Any  # what was won
    m: Any  # the greatest products yet, forgotten by and by
    v: Any  # the sum of their squares
    s: Any  # the shares of the scale of updates
    x0: Any  # the first parameters


def mechanize(
    base_optimizer: Optimizer,
    weight_decay: float = 1e-2,
    eps: float = 1e-8,
    s_init: float = 1e-6,
    num_betas: int = 6,
) -> Optimizer:
    """Mechanic: find by how much to multiply the updates of an optimizer.

    The sum u of all updates of `base_optimizer` is multiplied by a scale, so that parameters are
    `x0 + sum(s) u`. The shares s, at first `s_init` together, are of means that keep 0.9, 0.99, ...
    of the past, `num_betas` of them; they rise as gradients agree with u. Give the optimizer the
    rate 1, or a schedule of that size. Gradients have a decay of `weight_decay`, times the scale
    and the ratio of their norms, which the optimizer does not see; `eps` keeps quotients finite.
    Cutkosky et al., 2023, https://arxiv.org/abs/2306.00144

    >>> from rlx.optim import adam, apply_updates
    >>> optimizer, params = mechanize(adam(1.0)), rnp.array([3.0])
    >>> state = optimizer.init(params)
    >>> for _ in range(100):
    ...     updates, state = optimizer.update(2 * params, state, params)
    ...     params = apply_updates(params, updates)
    >>> bool(abs(params[0]) < 2), bool(state.s.sum() > 0.01)
    (True, True)
    """
    check_numbers(weight_decay=weight_decay, eps=eps, s_init=s_init)
    count = count_of("mechanize: num_betas", num_betas, least=1)

    def init(params: Any) -> MechanicState:
        r, m, v, s = (zero_beside(params) + rnp.zeros(count) for _ in range(4))
        inner = base_optimizer.init(params)
        return MechanicState(inner, first_step(params), r, m, v, s + s_init, _copied(params))

    def update(
        grads: Any, state: MechanicState, params: Any = None, **more: Any
    ) -> tuple[Any, MechanicState]:
        given, dtype = of_kind(state, MechanicState).base_optimizer_state, state.s.dtype
        step, inner = base_optimizer.update(grads, given, needs_params("mechanize", params), **more)
        g, p, total = widened(grads), widened(params), rnp.sum(state.s)
        first = choose(state.count == 0, p, state.x0)  # they may have been loaded since `init`
        decay = weight_decay * total * global_norm(g) / (global_norm(p) + eps)
        way = pytree.map(lambda a, b: (a - b) / (total + eps).astype(a.dtype), first, p)
        seen = pytree.map(lambda g, p: g + decay.astype(g.dtype) * p, g, p)
        h = dot(seen, way).astype(dtype)
        betas = rnp.array([1 - 0.1**i for i in range(1, count + 1)], dtype)
        m = rnp.maximum(betas * state.m, rnp.abs(h) + eps)
        v = betas**2 * state.v + h**2
        r = betas * state.r + rnp.clip(h, -state.m, state.m) * state.s
        s = (s_init / count * m + rnp.maximum(r, 0.0)) / (rnp.sqrt(v) + eps)
        factor = rnp.sum(s)

        def moved_by(x: Any, w: Any, u: Any, p: Any) -> Any:
            return x - factor.astype(x.dtype) * (w - u) - p

        updates = as_given(pytree.map(moved_by, first, way, widened(step), p), grads)
        return updates, MechanicState(inner, state.count + 1, r, m, v, s, first)

    return on_parameters(init, update, is_around=True)


# -- what they share -------------------------------------------------------------------------------


def _checked(name: str, learning_rate: LearningRate, betas: Any) -> tuple[float, float]:
    """The two betas; the rate is checked, too."""
    if not callable(learning_rate):
        number(f"{name}: the learning rate", learning_rate)
    b1, b2 = (number(f"{name}: one of the betas", b) for b in pair(f"{name}: betas", betas))
    return b1, b2


def _rate(learning_rate: LearningRate, estimate: Any, count: Any, betas: Any) -> Any:
    """The rate of a step of Adam whose means have no bias."""
    rate = learning_rate(count) if callable(learning_rate) else learning_rate
    (b1, b2), t = betas, (count + 1).astype(estimate.dtype)
    return (estimate * rate * (1 - b2**t) ** 0.5 / (1 - b1**t)).astype(estimate.dtype)


def _copied(params: Any) -> Any:
    """The parameters, halves as float32, in arrays of their own."""
    return pytree.map(lambda p: rnp.array(p, copy=True), widened(params))


def _larger(last: Any, numerator: Any, total: Any) -> Any:
    """The estimate, if it is larger than the last one."""
    size = sum((rnp.sum(rnp.abs(s)) for s in pytree.leaves(total)), start=rnp.zeros_like(last))
    is_zero = size == 0  # no gradient yet
    found = rnp.maximum(last, numerator / rnp.where(is_zero, 1.0, size))
    return rnp.where(is_zero, last, found).astype(last.dtype)
