"""Steps without running means of squares: signs, noise, sums by axis."""

from __future__ import annotations

import functools
from typing import Any, NamedTuple

from .. import numpy as rnp, random
from ..trace import pytree
from ..trace.arguments import choice
from .moments import as_given, moved, wide_zeros
from .optimizer import (
    Optimizer,
    check_gradients,
    check_numbers,
    first_step,
    global_norm,
    needs_value,
    of_kind,
    on_parameters,
    square_of,
    stateless,
    widened,
)


def set_to_zero() -> Optimizer:
    """Updates of zero: freezes the parameters that have this optimizer.

    It is for groups of `partition`.

    >>> set_to_zero().update(rnp.array([4.0]), ())[0]
    Array([0.], dtype=float32)
    """
    return stateless(lambda grads: pytree.map(rnp.zeros_like, grads))


def scale_by_sign() -> Optimizer:
    """The sign of each gradient: -1, 0 or 1.

    >>> scale_by_sign().update(rnp.array([4.0, -0.5]), ())[0]
    Array([ 1., -1.], dtype=float32)
    """
    return stateless(lambda grads: pytree.map(rnp.sign, grads))


class RpropState(NamedTuple):
    """The state of Rprop."""

    step_sizes: Any  # a tree like the parameters
    last: Any  # the last steps


def scale_by_rprop(
    learning_rate: float,
    eta_minus: float = 0.5,
    eta_plus: float = 1.2,
    min_step_size: float = 1e-6,
    max_step_size: float = 50.0,
) -> Optimizer:
    """Give steps by the sign of gradients alone; their sizes grow while signs stay.

    A size begins as `learning_rate` and stays from `min_step_size` to `max_step_size`. It is
    multiplied by `eta_plus` where the gradient has the sign of the last step, by `eta_minus` where
    it has the other one; then no step is made.

    >>> step = scale_by_rprop(0.5, eta_plus=2.0)
    >>> state = step.init(rnp.zeros(1))
    >>> for _ in range(2):
    ...     updates, state = step.update(rnp.array([3.0]), state)
    >>> updates
    Array([1.], dtype=float32)
    """
    check_numbers(learning_rate=learning_rate, eta_minus=eta_minus, eta_plus=eta_plus)
    check_numbers(min_step_size=min_step_size, max_step_size=max_step_size)

    def init(params: Any) -> RpropState:
        sizes = pytree.map(lambda z: z + learning_rate, wide_zeros(params))
        return RpropState(sizes, wide_zeros(params))

    def update(grads: Any, state: RpropState, params: Any = None) -> tuple[Any, RpropState]:
        check_gradients(grads, of_kind(state, RpropState).last)
        wide = widened(grads)

        def resized(g: Any, last: Any, size: Any) -> Any:
            turn = g * last
            changed = rnp.where(turn > 0, size * eta_plus, size * eta_minus)
            return rnp.where(turn == 0, size, rnp.clip(changed, min_step_size, max_step_size))

        def step(g: Any, last: Any, size: Any) -> Any:
            return rnp.where(g * last < 0, 0.0, size * rnp.sign(g))

        sizes = pytree.map(resized, wide, state.last, state.step_sizes)
        steps = pytree.map(step, wide, state.last, sizes)
        return as_given(steps, grads), RpropState(sizes, steps)

    return on_parameters(init, update)


class OptimisticState(NamedTuple):
    """The state of optimistic gradients."""

    count: Any  # how many steps were made
    last: Any  # the last gradients


def scale_by_optimistic_gradient(alpha: float = 1.0, beta: float = 1.0) -> Optimizer:
    """Add what has changed since the last gradient.

    Returns a step for `chain`. The update is `(alpha + beta) g - beta last`, where the last
    gradient is at first the same.

    >>> step = scale_by_optimistic_gradient()
    >>> state = step.init(rnp.zeros(1))
    >>> for gradient in (3.0, 4.0):
    ...     updates, state = step.update(rnp.array([gradient]), state)
    >>> updates
    Array([5.], dtype=float32)
    """
    check_numbers(alpha=alpha, beta=beta)

    def init(params: Any) -> OptimisticState:
        return OptimisticState(first_step(params), wide_zeros(params))

    def update(grads: Any, state: OptimisticState, params: Any = None) -> tuple[Any, Any]:
        check_gradients(grads, of_kind(state, OptimisticState).last)
        wide = widened(grads)

        def step(g: Any, last: Any) -> Any:
            return (alpha + beta) * g - beta * rnp.where(state.count == 0, g, last)

        updates = as_given(pytree.map(step, wide, state.last), grads)
        return updates, OptimisticState(state.count + 1, wide)

    return on_parameters(init, update)


class NoiseState(NamedTuple):
    """The state of `add_noise`."""

    count: Any  # how many steps were made
    key: Any  # of the next noise


def add_noise(eta: float, gamma: float, key: Any) -> Optimizer:
    """Add normal noise of the variance `eta / t^gamma`.

    Returns a step for `chain`. Noise is drawn from `key`, one of `rlx.random`. Neelakantan et al.,
    2015, https://arxiv.org/abs/1511.06807

    >>> step = add_noise(0.01, 0.55, random.key(0))
    >>> updates, _ = step.update(rnp.zeros(1000), step.init(rnp.zeros(1000)))
    >>> round(updates.std().item(), 2)
    0.1
    """
    check_numbers(eta=eta, gamma=gamma)
    random.split(key)  # raises unless it is a key

    def update(grads: Any, state: NoiseState, params: Any = None) -> tuple[Any, NoiseState]:
        count = of_kind(state, NoiseState).count + 1
        after, drawn = random.split(state.key)
        leaves, spec = pytree.flatten(grads)
        keys = random.split(drawn, len(leaves)) if leaves else ()

        def noisy(g: Any, key: Any) -> Any:
            wide = widened(g)
            deviation = rnp.sqrt(eta / count.astype(wide.dtype) ** gamma)
            return (wide + deviation * random.normal(key, wide.shape, wide.dtype)).astype(g.dtype)

        updates = [noisy(g, k) for g, k in zip(map(rnp.asarray, leaves), keys, strict=True)]
        return pytree.unflatten(spec, updates), NoiseState(count, after)

    return on_parameters(lambda params: NoiseState(first_step(params), key), update)


class Sm3State(NamedTuple):
    """The state of SM3."""

    sums: Any  # of squares, the greatest along each axis
    mean: Any  # of updates


def scale_by_sm3(b1: float = 0.9, b2: float = 1.0, eps: float = 1e-8) -> Optimizer:
    """Divide by the root of sums of squares by axis, then take a running mean.

    Returns a step for `chain`. The sum s of a number is the least of those of its row, column and
    so on, plus `g²`; then each axis keeps the greatest of its numbers. The update is a running
    mean, by `b1`, of `g / sqrt(s + eps)`. With `b2` below 1 the sums are running means.

    >>> step = scale_by_sm3(0.0)
    >>> updates, state = step.update(rnp.array([3.0]), step.init(rnp.zeros(1)))
    >>> updates
    Array([1.], dtype=float32)
    """
    check_numbers(b1=b1, b2=b2, eps=eps)
    share = 1.0 if b2 == 1 else 1 - b2

    def of_axes(z: Any) -> Any:
        # a number has one sum, as a vector has one for each of its numbers
        return tuple(rnp.zeros_like(z, shape=_along(z.shape, i)) for i in range(max(1, z.ndim)))

    def init(params: Any) -> Sm3State:
        return Sm3State(pytree.map(of_axes, wide_zeros(params)), wide_zeros(params))

    def update(grads: Any, state: Sm3State, params: Any = None) -> tuple[Any, Sm3State]:
        check_gradients(grads, of_kind(state, Sm3State).mean)
        wide = widened(grads)

        def added(g: Any, sums: Any) -> Any:
            return share * square_of(g) + b2 * functools.reduce(rnp.minimum, sums)

        def greatest(s: Any) -> Any:
            axes = [tuple(j for j in range(s.ndim) if j != i) for i in range(max(1, s.ndim))]
            return tuple(rnp.max(s, axis, keepdims=True, initial=0.0) for axis in axes)

        squares = pytree.map(added, wide, state.sums)

        def step(g: Any, s: Any) -> Any:
            return rnp.where(s > 0, g / rnp.sqrt(rnp.where(s > 0, s, 1.0) + eps), 0.0)

        mean = moved(b1, state.mean, pytree.map(step, wide, squares))
        return as_given(mean, grads), Sm3State(pytree.map(greatest, squares), mean)

    return on_parameters(init, update)


def _along(shape: tuple[int, ...], axis: int) -> tuple[int, ...]:
    return tuple(n if i == axis else 1 for i, n in enumerate(shape))


def scale_by_polyak(
    f_min: float = 0.0, max_learning_rate: float = 1.0, eps: float = 0.0, variant: str = "sps"
) -> Optimizer:
    """Multiply by the step that reaches the least value of a linear function.

    It is `(value - f_min) / (|g|² + eps)`, at most `max_learning_rate`, and 0 without a gradient;
    `update` needs `value=`, else it is an `ArgumentError`. The `variant` "sps+" takes a value below
    `f_min` for `f_min`; the other is "sps". Returns a step for `chain`.

    >>> step = scale_by_polyak(max_learning_rate=9.0)
    >>> step.update(rnp.array([2.0]), (), value=6.0)[0]
    Array([3.], dtype=float32)
    """
    check_numbers(f_min=f_min, max_learning_rate=max_learning_rate, eps=eps)
    choice("scale_by_polyak: variant", variant, ("sps", "sps+"))

    def update(
        grads: Any, state: Any, params: Any = None, *, value: Any = None, **_: Any
    ) -> tuple[Any, Any]:
        trained = pytree.without_state(grads)
        square = rnp.square(global_norm(trained)) + eps
        gap = rnp.asarray(needs_value("scale_by_polyak", value)).astype(square.dtype) - f_min
        gap = rnp.maximum(gap, 0.0) if variant == "sps+" else gap
        is_flat = square <= float(rnp.finfo(square.dtype).eps)
        rate = rnp.minimum(gap / rnp.where(is_flat, 1.0, square), max_learning_rate)
        rate = rnp.where(is_flat, 0.0, rate)
        changed = pytree.map(lambda g: g * rate.astype(rnp.asarray(g).dtype), trained)
        return pytree.restore_state(changed, grads), state

    return Optimizer(lambda params: (), update)
