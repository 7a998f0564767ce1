"""Steps that scale gradients by running means of them, for chains.

`update` gives what optax gives; half-size floats are accumulated in float32. `adaptive.py` has the
optimizers.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

from .. import numpy as rnp
from ..trace import pytree
from ..trace.arguments import flag
from .optimizer import (
    Optimizer,
    check_gradients,
    check_numbers,
    first_step,
    needs_params,
    of_kind,
    on_parameters,
    square_of,
    widened,
    zeros_like,
)


class AdamState(NamedTuple):
    """The state of Adam and its variants: running means."""

    count: Any  # how many steps were made
    mean: Any  # of gradients
    square: Any  # of squared gradients


class RmsState(NamedTuple):
    """The running mean of squared gradients."""

    square: Any  # a tree like the parameters


def moved(decay: float, means: Any, given: Any) -> Any:
    """Running means, moved to what is given."""
    return pytree.map(lambda m, x: decay * m + (1 - decay) * x, means, given)


def moved_square(decay: float, means: Any, given: Any) -> Any:
    """Running means of squares."""
    return pytree.map(lambda m, x: decay * m + (1 - decay) * square_of(x), means, given)


def as_given(updates: Any, grads: Any) -> Any:
    """Updates in the dtypes of the gradients."""
    return pytree.map(lambda u, g: u.astype(rnp.asarray(g).dtype), updates, grads)


def _begun(count: Any) -> Callable[[float, Any], Any]:
    """What a running mean has besides the zero it began with, by decay and dtype."""

    known: dict[Any, Any] = {}  # recorded once, not for each parameter

    def begun(decay: float, dtype: Any) -> Any:
        key = id(decay), dtype  # a decay may be an array
        if key not in known:
            known[key] = 1 - decay ** count.astype(dtype)
        return known[key]

    return begun


def unbiased(decay: float, means: Any, count: Any) -> Any:
    """Running means without what they have of the zero that they began with."""
    begun = _begun(count)
    return pytree.map(lambda m: m / begun(decay, m.dtype), means)


def ahead(b1: float, mean: Any, grads: Any, count: Any) -> Any:
    """The means without their bias, one step ahead, as Nesterov's momentum wants them."""
    now, then = _begun(count), _begun(count + 1)

    def look(m: Any, g: Any) -> Any:
        return b1 * m / then(b1, m.dtype) + (1 - b1) * g / now(b1, m.dtype)

    return pytree.map(look, mean, grads)


def wide_zeros(params: Any) -> Any:
    """Zeros like the parameters, halves as float32."""
    return widened(zeros_like(params))


def adam_state(params: Any) -> AdamState:
    """The state of Adam and of those like it, before the first step."""
    # two trees of zeros, not one twice: a step may be given the memory of both
    return AdamState(first_step(params), wide_zeros(params), wide_zeros(params))


def scale_by_rms(
    decay: float = 0.9, eps: float = 1e-8, initial_scale: float = 0.0, eps_in_sqrt: bool = True
) -> Optimizer:
    """Divide by the root of the running mean of squared gradients.

    `s = decay s + (1 - decay) g²`, from `initial_scale` on; the update is `g / sqrt(s + eps)`, or
    without `eps_in_sqrt`, as in PyTorch, `g / (sqrt(s) + eps)`. Returns a step for `chain`.

    >>> step = scale_by_rms(0.0)
    >>> updates, state = step.update(rnp.array([3.0]), step.init(rnp.zeros(1)))
    >>> updates
    Array([1.], dtype=float32)
    """
    check_numbers(decay=decay, eps=eps, initial_scale=initial_scale)
    is_inside = flag("eps_in_sqrt", eps_in_sqrt)

    def init(params: Any) -> RmsState:
        return RmsState(pytree.map(lambda z: z + initial_scale, wide_zeros(params)))

    def update(grads: Any, state: RmsState, params: Any = None) -> tuple[Any, RmsState]:
        check_gradients(grads, of_kind(state, RmsState).square)
        wide = widened(grads)
        square = moved_square(decay, state.square, wide)

        def step(g: Any, s: Any) -> Any:
            return g / (rnp.sqrt(s + eps) if is_inside else rnp.sqrt(s) + eps)

        return as_given(pytree.map(step, wide, square), grads), RmsState(square)

    return on_parameters(init, update)


def scale_by_rss(initial_accumulator_value: float = 0.1, eps: float = 1e-7) -> Optimizer:
    """Divide by the root of the sum of all squared gradients.

    Returns a step for `chain`. `s = s + g²`, from `initial_accumulator_value` on; the update is
    `g / sqrt(s + eps)`, or 0 where s is 0.

    >>> step = scale_by_rss(0.0)
    >>> updates, state = step.update(rnp.array([3.0]), step.init(rnp.zeros(1)))
    >>> updates
    Array([1.], dtype=float32)
    """
    check_numbers(initial_accumulator_value=initial_accumulator_value, eps=eps)

    def init(params: Any) -> RmsState:
        sums = pytree.map(lambda z: z + initial_accumulator_value, wide_zeros(params))
        return RmsState(sums)

    def update(grads: Any, state: RmsState, params: Any = None) -> tuple[Any, RmsState]:
        check_gradients(grads, of_kind(state, RmsState).square)
        wide = widened(grads)
        sums = pytree.map(lambda g, s: s + square_of(g), wide, state.square)

        def step(g: Any, s: Any) -> Any:
            return rnp.where(s > 0, g / rnp.sqrt(rnp.where(s > 0, s, 1.0) + eps), 0.0)

        return as_given(pytree.map(step, wide, sums), grads), RmsState(sums)

    return on_parameters(init, update)


class AdaDeltaState(NamedTuple):
    """Two running means."""

    square: Any  # of squared gradients
    square_of_updates: Any  # of squared updates


def scale_by_adadelta(rho: float = 0.9, eps: float = 1e-6) -> Optimizer:
    """Gradients in the size of past updates.

    `s = rho s + (1 - rho) g²`; the update is `u = g sqrt(d + eps) / sqrt(s + eps)`, and then
    `d = rho d + (1 - rho) u²`.

    >>> step = scale_by_adadelta()
    >>> updates, state = step.update(rnp.array([3.0]), step.init(rnp.zeros(1)))
    >>> round(updates.item(), 4)
    0.0032
    """
    check_numbers(rho=rho, eps=eps)

    def init(params: Any) -> AdaDeltaState:
        return AdaDeltaState(wide_zeros(params), wide_zeros(params))

    def update(grads: Any, state: AdaDeltaState, params: Any = None) -> tuple[Any, AdaDeltaState]:
        check_gradients(grads, of_kind(state, AdaDeltaState).square)
        wide = widened(grads)
        square = moved_square(rho, state.square, wide)

        def step(g: Any, s: Any, d: Any) -> Any:
            return rnp.sqrt(d + eps) / rnp.sqrt(s + eps) * g

        updates = pytree.map(step, wide, square, state.square_of_updates)
        after = AdaDeltaState(square, moved_square(rho, state.square_of_updates, updates))
        return as_given(updates, grads), after

    return on_parameters(init, update)


def like_adam(
    move: Callable[[Any, AdamState, Any], tuple[Any, AdamState]],
    init: Callable[[Any], AdamState] = adam_state,
) -> Optimizer:
    """A step with Adam's state, made of what gives wide updates and the state after."""

    def update(grads: Any, state: AdamState, params: Any = None) -> tuple[Any, AdamState]:
        check_gradients(grads, of_kind(state, AdamState).mean)
        updates, after = move(widened(grads), state, state.count + 1)
        return as_given(updates, grads), after

    update.__qualname__ = move.__qualname__
    return on_parameters(init, update)


def scale_by_adam(
    b1: float = 0.9,
    b2: float = 0.999,
    eps: float = 1e-8,
    eps_root: float = 0.0,
    *,
    nesterov: bool = False,
) -> Optimizer:
    """The mean of gradients divided by the root of the mean of their squares.

    `m = b1 m + (1 - b1) g` and `s = b2 s + (1 - b2) g²`; the update is
    `m / (1 - b1^t) / (sqrt(s / (1 - b2^t) + eps_root) + eps)`. With `nesterov` the mean is
    `b1 m / (1 - b1^(t + 1)) + (1 - b1) g / (1 - b1^t)`.

    >>> step = scale_by_adam()
    >>> updates, state = step.update(rnp.array([3.0]), step.init(rnp.zeros(1)))
    >>> round(updates.item(), 4)
    1.0
    """
    check_numbers(b1=b1, b2=b2, eps=eps, eps_root=eps_root)
    has_root = not isinstance(eps_root, int | float) or eps_root != 0

    def move(grads: Any, state: AdamState, count: Any) -> tuple[Any, AdamState]:
        mean = moved(b1, state.mean, grads)
        square = moved_square(b2, state.square, grads)
        hat = ahead(b1, mean, grads, count) if nesterov else unbiased(b1, mean, count)

        def step(m: Any, s: Any) -> Any:
            return m / (rnp.sqrt(s + eps_root if has_root else s) + eps)

        updates = pytree.map(step, hat, unbiased(b2, square, count))
        return updates, AdamState(count, mean, square)

    return like_adam(move)


def scale_by_adamax(b1: float = 0.9, b2: float = 0.999, eps: float = 1e-8) -> Optimizer:
    """Divide the running mean of gradients by their greatest size, which decays.

    `m = b1 m + (1 - b1) g` and `u = max(|g| + eps, b2 u)`; the update is `m / (1 - b1^t) / u`.
    Returns a step for `chain`.

    >>> step = scale_by_adamax()
    >>> updates, state = step.update(rnp.array([3.0]), step.init(rnp.zeros(1)))
    >>> round(updates.item(), 4)
    1.0
    """
    check_numbers(b1=b1, b2=b2, eps=eps)

    def move(grads: Any, state: AdamState, count: Any) -> tuple[Any, AdamState]:
        mean = moved(b1, state.mean, grads)
        greatest = pytree.map(
            lambda g, u: rnp.maximum(rnp.abs(g) + eps, b2 * u), grads, state.square
        )
        updates = pytree.map(lambda m, u: m / u, unbiased(b1, mean, count), greatest)
        return updates, AdamState(count, mean, greatest)

    return like_adam(move)


def scale_by_radam(
    b1: float = 0.9,
    b2: float = 0.999,
    eps: float = 1e-8,
    eps_root: float = 0.0,
    threshold: float = 5.0,
    *,
    nesterov: bool = False,
) -> Optimizer:
    """Adam's step, made smaller while the running mean of squares is of few gradients.

    With `r∞ = 2 / (1 - b2) - 1` and `r = r∞ - 2 t b2^t / (1 - b2^t)`, Adam's step is multiplied by
    `sqrt((r - 4)(r - 2) r∞ / ((r∞ - 4)(r∞ - 2) r))` if r is at least the `threshold`; else the mean
    of gradients alone is the update.

    >>> step = scale_by_radam()
    >>> updates, state = step.update(rnp.array([3.0]), step.init(rnp.zeros(1)))
    >>> round(updates.item(), 4)
    3.0
    """
    check_numbers(b1=b1, b2=b2, eps=eps, eps_root=eps_root, threshold=threshold)
    most = 2.0 / (1.0 - b2) - 1.0

    def move(grads: Any, state: AdamState, count: Any) -> tuple[Any, AdamState]:
        mean = moved(b1, state.mean, grads)
        square = moved_square(b2, state.square, grads)
        hat = ahead(b1, mean, grads, count) if nesterov else unbiased(b1, mean, count)

        begun = _begun(count)

        def step(m: Any, s: Any) -> Any:
            past = 1 - begun(b2, s.dtype)
            length = most - 2 * count.astype(s.dtype) * past / (1 - past)
            is_long = length >= threshold
            safe = rnp.where(is_long, length, 5.0)
            ratio = (safe - 4) * (safe - 2) * most / ((most - 4) * (most - 2) * safe)
            root = rnp.sqrt(s / begun(b2, s.dtype) + eps_root) + eps
            return rnp.where(is_long, rnp.sqrt(ratio) * m / root, m)

        return pytree.map(step, hat, square), AdamState(count, mean, square)

    return like_adam(move)


class LionState(NamedTuple):
    """The running mean of Lion."""

    count: Any  # how many steps were made
    mean: Any  # of gradients


def scale_by_lion(b1: float = 0.9, b2: float = 0.99) -> Optimizer:
    """The sign of the running mean of gradients.

    The update is `sign(b1 m + (1 - b1) g)`, and then `m = b2 m + (1 - b2) g`.

    >>> step = scale_by_lion()
    >>> updates, state = step.update(rnp.array([3.0, -0.1]), step.init(rnp.zeros(2)))
    >>> updates
    Array([ 1., -1.], dtype=float32)
    """
    check_numbers(b1=b1, b2=b2)

    def init(params: Any) -> LionState:
        return LionState(first_step(params), wide_zeros(params))

    def update(grads: Any, state: LionState, params: Any = None) -> tuple[Any, LionState]:
        check_gradients(grads, of_kind(state, LionState).mean)
        wide = widened(grads)
        updates = pytree.map(rnp.sign, moved(b1, state.mean, wide))
        after = LionState(state.count + 1, moved(b2, state.mean, wide))
        return as_given(updates, grads), after

    return on_parameters(init, update)


def scale_by_novograd(
    b1: float = 0.9,
    b2: float = 0.25,
    eps: float = 1e-8,
    eps_root: float = 0.0,
    weight_decay: float = 0.0,
) -> Optimizer:
    """Divide each gradient by the running mean of its squared norm, then add momentum.

    `v = b2 v + (1 - b2) |g|²`, which begins with the first `|g|²`; the update is
    `m = b1 m + g / (sqrt(v + eps_root) + eps) + weight_decay p` for each array. Returns a step for
    `chain`.

    >>> step = scale_by_novograd()
    >>> p = rnp.zeros(2)
    >>> updates, state = step.update(rnp.array([3.0, 4.0]), step.init(p), p)
    >>> updates
    Array([0.6, 0.8], dtype=float32)
    """
    check_numbers(b1=b1, b2=b2, eps=eps, eps_root=eps_root, weight_decay=weight_decay)

    def init(params: Any) -> AdamState:
        norms = pytree.map(lambda z: rnp.zeros_like(z, shape=()), wide_zeros(params))
        return AdamState(first_step(params), wide_zeros(params), norms)

    def update(grads: Any, state: AdamState, params: Any = None) -> tuple[Any, AdamState]:
        check_gradients(grads, of_kind(state, AdamState).mean)
        params, wide = widened(needs_params("novograd", params)), widened(grads)

        def norm(g: Any, v: Any) -> Any:
            now = rnp.sum(square_of(g))
            return rnp.where(state.count == 0, now, b2 * v + (1 - b2) * now)

        def step(g: Any, m: Any, v: Any, p: Any) -> Any:
            return b1 * m + g / (rnp.sqrt(v + eps_root) + eps) + weight_decay * p

        norms = pytree.map(norm, wide, state.square)
        mean = pytree.map(step, wide, state.mean, norms, params)
        return as_given(mean, grads), AdamState(state.count + 1, mean, norms)

    return on_parameters(init, update)


def scale_by_trust_ratio(
    min_norm: float = 0.0, trust_coefficient: float = 1.0, eps: float = 0.0
) -> Optimizer:
    """Scale the update of each array to the size of the array.

    `u = u trust_coefficient |p| / (|u| + eps)`, where norms are at least `min_norm`; as it is where
    a norm is 0. Returns a step for `chain`.

    >>> step = scale_by_trust_ratio()
    >>> p = rnp.array([3.0, 4.0])
    >>> step.update(rnp.array([0.0, 2.0]), step.init(p), p)[0]
    Array([0., 5.], dtype=float32)
    """
    check_numbers(min_norm=min_norm, trust_coefficient=trust_coefficient, eps=eps)

    def norm(x: Any) -> Any:
        return rnp.maximum(rnp.sqrt(rnp.sum(square_of(x))), min_norm)

    def step(u: Any, p: Any) -> Any:
        size, length = norm(p), norm(u)
        is_zero = (size == 0) | (length == 0)
        safe = rnp.where(is_zero, 1.0, length + eps)
        return u * rnp.where(is_zero, 1.0, trust_coefficient * size / safe)

    def update(grads: Any, state: Any, params: Any = None) -> tuple[Any, Any]:
        params = needs_params("scale_by_trust_ratio", params)
        return as_given(pytree.map(step, widened(grads), widened(params)), grads), state

    return on_parameters(lambda params: (), update)
