"""Steps like Adam's with other means of squares, or other uses of them.

`update` gives what optax gives; half-size floats are accumulated in float32. `adaptive.py` has the
optimizers.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

from .. import numpy as rnp
from ..trace import pytree
from ..trace.arguments import callable_of, flag
from .loss_scale import choose
from .moments import (
    AdamState,
    adam_state,
    ahead,
    as_given,
    like_adam,
    moved,
    moved_square,
    unbiased,
    wide_zeros,
)
from .optimizer import (
    LearningRate,
    Optimizer,
    check_gradients,
    check_numbers,
    first_step,
    of_kind,
    on_parameters,
    square_of,
    widened,
)


def scale_by_belief(
    b1: float = 0.9,
    b2: float = 0.999,
    eps: float = 1e-16,
    eps_root: float = 1e-16,
    *,
    nesterov: bool = False,
) -> Optimizer:
    """Adam's step with the mean of squared surprises, not of squared gradients.

    With the mean m of `scale_by_adam`, `s = b2 s + (1 - b2) (g - m)² + eps_root`; the update is
    `m / (1 - b1^t) / (sqrt(s / (1 - b2^t)) + eps)`.

    >>> step = scale_by_belief()
    >>> updates, state = step.update(rnp.array([3.0]), step.init(rnp.zeros(1)))
    >>> round(updates.item(), 4)
    1.1111
    """
    check_numbers(b1=b1, b2=b2, eps=eps, eps_root=eps_root)
    is_ahead = flag("nesterov", nesterov)

    def move(grads: Any, state: AdamState, count: Any) -> tuple[Any, AdamState]:
        mean = moved(b1, state.mean, grads)
        surprise = pytree.map(lambda g, m: g - m, grads, mean)
        square = pytree.map(lambda s: s + eps_root, moved_square(b2, state.square, surprise))
        hat = ahead(b1, mean, grads, count) if is_ahead else unbiased(b1, mean, count)
        updates = pytree.map(lambda m, s: m / (rnp.sqrt(s) + eps), hat, unbiased(b2, square, count))
        return updates, AdamState(count, mean, square)

    return like_adam(move)


def scale_by_yogi(
    b1: float = 0.9,
    b2: float = 0.999,
    eps: float = 1e-3,
    eps_root: float = 0.0,
    initial_accumulator_value: float = 1e-6,
) -> Optimizer:
    """Adam's step with a mean of squares that falls as slowly as it rises.

    `s = s - (1 - b2) sign(s - g²) g²`; else it is `scale_by_adam`. Both means begin as
    `initial_accumulator_value`. Returns a step for `chain`.

    >>> step = scale_by_yogi()
    >>> updates, state = step.update(rnp.array([3.0]), step.init(rnp.zeros(1)))
    >>> round(updates.item(), 4)
    0.9996
    """
    check_numbers(b1=b1, b2=b2, eps=eps, eps_root=eps_root)
    check_numbers(initial_accumulator_value=initial_accumulator_value)

    def init(params: Any) -> AdamState:
        count, *means = adam_state(params)
        return AdamState(count, *pytree.map(lambda z: z + initial_accumulator_value, tuple(means)))

    def move(grads: Any, state: AdamState, count: Any) -> tuple[Any, AdamState]:
        mean = moved(b1, state.mean, grads)
        square = pytree.map(
            lambda g, s: s - (1 - b2) * rnp.sign(s - square_of(g)) * square_of(g),
            grads,
            state.square,
        )
        updates = pytree.map(
            lambda m, s: m / (rnp.sqrt(s + eps_root) + eps),
            unbiased(b1, mean, count),
            unbiased(b2, square, count),
        )
        return updates, AdamState(count, mean, square)

    return like_adam(move, init)


class AmsgradState(NamedTuple):
    """The running means of AMSGrad."""

    count: Any  # how many steps were made
    mean: Any  # of gradients
    square: Any  # of squared gradients
    greatest: Any  # of the means of squares yet


def scale_by_amsgrad(
    b1: float = 0.9, b2: float = 0.999, eps: float = 1e-8, eps_root: float = 0.0
) -> Optimizer:
    """Adam's step with the greatest mean of squares yet, which never falls.

    With m and s of `scale_by_adam`, `u = max(u, s / (1 - b2^t))`; the update is
    `m / (1 - b1^t) / (sqrt(u + eps_root) + eps)`.

    >>> step = scale_by_amsgrad()
    >>> updates, state = step.update(rnp.array([3.0]), step.init(rnp.zeros(1)))
    >>> round(updates.item(), 4)
    1.0
    """
    check_numbers(b1=b1, b2=b2, eps=eps, eps_root=eps_root)

    def init(params: Any) -> AmsgradState:
        return AmsgradState(*adam_state(params), wide_zeros(params))

    def update(grads: Any, state: AmsgradState, params: Any = None) -> tuple[Any, AmsgradState]:
        check_gradients(grads, of_kind(state, AmsgradState).mean)
        wide, count = widened(grads), state.count + 1
        mean = moved(b1, state.mean, wide)
        square = moved_square(b2, state.square, wide)
        greatest = pytree.map(rnp.maximum, state.greatest, unbiased(b2, square, count))
        updates = pytree.map(
            lambda m, u: m / (rnp.sqrt(u + eps_root) + eps), unbiased(b1, mean, count), greatest
        )
        return as_given(updates, grads), AmsgradState(count, mean, square, greatest)

    return on_parameters(init, update)


class AdanState(NamedTuple):
    """The running means of Adan."""

    count: Any  # how many steps were made
    mean: Any  # of gradients
    difference: Any  # of differences of gradients
    square: Any  # of squares of both together
    last: Any  # the last gradients


def scale_by_adan(
    b1: float = 0.98,
    b2: float = 0.92,
    b3: float = 0.99,
    eps: float = 1e-8,
    eps_root: float = 0.0,
) -> Optimizer:
    """Divide means of gradients and of their differences by the root of mean squares.

    Returns a step for `chain`. With the difference d of the gradient from the last one,
    `m = b1 m + (1 - b1) g`,
    `v = b2 v + (1 - b2) d` and `n = b3 n + (1 - b3) (g + (1 - b2) d)²`; the update is
    `(m + (1 - b2) v) / (sqrt(n + eps_root) + eps)`, with each mean divided by `1 - b^t`.

    >>> step = scale_by_adan()
    >>> updates, state = step.update(rnp.array([3.0]), step.init(rnp.zeros(1)))
    >>> round(updates.item(), 4)
    1.0
    """
    check_numbers(b1=b1, b2=b2, b3=b3, eps=eps, eps_root=eps_root)

    def init(params: Any) -> AdanState:
        return AdanState(first_step(params), *(wide_zeros(params) for _ in range(4)))

    def update(grads: Any, state: AdanState, params: Any = None) -> tuple[Any, AdanState]:
        check_gradients(grads, of_kind(state, AdanState).mean)
        wide, count, is_first = widened(grads), state.count + 1, state.count == 0
        change = pytree.map(lambda g, last: rnp.where(is_first, 0.0, g - last), wide, state.last)
        mean, difference = moved(b1, state.mean, wide), moved(b2, state.difference, change)
        looked = pytree.map(lambda g, d: g + (1 - b2) * d, wide, change)
        square = moved_square(b3, state.square, looked)
        updates = pytree.map(
            lambda m, v, n: (m + (1 - b2) * v) / (rnp.sqrt(n + eps_root) + eps),
            unbiased(b1, mean, count),
            unbiased(b2, difference, count),
            unbiased(b3, square, count),
        )
        return as_given(updates, grads), AdanState(count, mean, difference, square, wide)

    return on_parameters(init, update)


class AdemamixState(NamedTuple):
    """The running means of AdEMAMix."""

    count: Any  # how many steps were made
    mean: Any  # of gradients, which forgets fast
    slow_mean: Any  # of gradients, which forgets slowly
    square: Any  # of squared gradients


def scale_by_ademamix(
    b1: float = 0.9,
    b2: float = 0.999,
    b3: LearningRate = 0.9999,
    alpha: LearningRate = 6.0,
    eps: float = 1e-8,
    eps_root: float = 0.0,
) -> Optimizer:
    """Adam's step with a second mean of gradients, which reaches far back.

    With the means m and s of `scale_by_adam`, `n = b3 n + (1 - b3) g`; the update is
    `(m / (1 - b1^t) + alpha n) / (sqrt(s / (1 - b2^t) + eps_root) + eps)`. `b3` and `alpha` are
    numbers, or functions of the step. Returns a step for `chain`.

    >>> step = scale_by_ademamix(b3=0.5, alpha=2.0)
    >>> updates, state = step.update(rnp.array([3.0]), step.init(rnp.zeros(1)))
    >>> round(updates.item(), 4)
    2.0
    """
    check_numbers(b1=b1, b2=b2, eps=eps, eps_root=eps_root)
    check_numbers(**{n: x for n, x in {"b3": b3, "alpha": alpha}.items() if not callable(x)})

    def init(params: Any) -> AdemamixState:
        return AdemamixState(first_step(params), *(wide_zeros(params) for _ in range(3)))

    def update(grads: Any, state: AdemamixState, params: Any = None) -> tuple[Any, AdemamixState]:
        check_gradients(grads, of_kind(state, AdemamixState).mean)
        wide, count = widened(grads), state.count + 1
        keep, share = (x(state.count) if callable(x) else x for x in (b3, alpha))
        mean, slow = moved(b1, state.mean, wide), moved(keep, state.slow_mean, wide)
        square = moved_square(b2, state.square, wide)
        updates = pytree.map(
            lambda m, n, s: (m + share * n) / (rnp.sqrt(s + eps_root) + eps),
            unbiased(b1, mean, count),
            slow,
            unbiased(b2, square, count),
        )
        return as_given(updates, grads), AdemamixState(count, mean, slow, square)

    return on_parameters(init, update)


def scale_by_adopt(
    b1: float = 0.9,
    b2: float = 0.9999,
    eps: float = 1e-6,
    *,
    nesterov: bool = False,
    use_clipping: bool = True,
    clip_value_fn: Callable[[Any], Any] = lambda count: count**0.25,
) -> Optimizer:
    """Adam's step with the mean of squares before the step, and the mean of quotients.

    `u = g / max(sqrt(s), eps)`, then `m = b1 m + (1 - b1) u` and `s = b2 s + (1 - b2) g²`; the
    update is m, or with `nesterov` `b1 m + (1 - b1) u`. The first step is 0, and s is then g².
    `use_clipping` keeps u between plus and minus `clip_value_fn(t)`, where t counts from 0. Returns
    a step for `chain`.

    >>> step = scale_by_adopt(use_clipping=False)
    >>> state = step.init(rnp.zeros(1))
    >>> for _ in range(2):
    ...     updates, state = step.update(rnp.array([3.0]), state)
    >>> round(updates.item(), 4)
    0.1
    """
    check_numbers(b1=b1, b2=b2, eps=eps)
    is_ahead, clips = flag("nesterov", nesterov), flag("use_clipping", use_clipping)
    callable_of("scale_by_adopt: clip_value_fn", clip_value_fn)

    def move(grads: Any, state: AdamState, count: Any) -> tuple[Any, AdamState]:
        is_first = state.count == 0

        def quotient(g: Any, s: Any) -> Any:
            u = rnp.where(is_first, 0.0, g / rnp.maximum(rnp.sqrt(s), eps))
            if not clips:
                return u
            size = rnp.asarray(clip_value_fn(state.count)).astype(s.dtype)
            return rnp.clip(u, -size, size)

        quotients = pytree.map(quotient, grads, state.square)
        mean = moved(b1, state.mean, quotients)
        begun = pytree.map(square_of, grads)
        square = choose(is_first, begun, moved_square(b2, state.square, grads))
        return moved(b1, mean, quotients) if is_ahead else mean, AdamState(count, mean, square)

    return like_adam(move)


class StddevState(NamedTuple):
    """Two running means."""

    mean: Any  # of gradients
    square: Any  # of squared gradients


def scale_by_stddev(
    decay: float = 0.9, eps: float = 1e-8, initial_scale: float = 0.0, eps_in_sqrt: bool = True
) -> Optimizer:
    """Divide by an estimate of the standard deviation of gradients.

    Returns a step for `chain`. `m = decay m + (1 - decay) g` and `s = decay s + (1 - decay) g²`,
    from `initial_scale` on; the update is `g / sqrt(s - m² + eps)`, or without `eps_in_sqrt`
    `g / (sqrt(s - m²) + eps)`.

    >>> step = scale_by_stddev(0.5)
    >>> updates, state = step.update(rnp.array([3.0]), step.init(rnp.zeros(1)))
    >>> updates
    Array([2.], dtype=float32)
    """
    check_numbers(decay=decay, eps=eps, initial_scale=initial_scale)
    is_inside = flag("eps_in_sqrt", eps_in_sqrt)

    def init(params: Any) -> StddevState:
        squares = pytree.map(lambda z: z + initial_scale, wide_zeros(params))
        return StddevState(wide_zeros(params), squares)

    def update(grads: Any, state: StddevState, params: Any = None) -> tuple[Any, StddevState]:
        check_gradients(grads, of_kind(state, StddevState).mean)
        wide = widened(grads)
        mean, square = moved(decay, state.mean, wide), moved_square(decay, state.square, wide)

        def step(g: Any, m: Any, s: Any) -> Any:
            variance = rnp.maximum(s - square_of(m), 0.0)  # rounding may bring it below zero
            return g / (rnp.sqrt(variance + eps) if is_inside else rnp.sqrt(variance) + eps)

        updates = pytree.map(step, wide, mean, square)
        return as_given(updates, grads), StddevState(mean, square)

    return on_parameters(init, update)
