"""Optimizers made of optimizers: for some parameters, some steps, with averages."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Mapping
from typing import Any, NamedTuple

from .. import numpy as rnp
from ..ir.errors import ArgumentError
from ..trace import pytree
from ..trace.arguments import count_of, wrong
from ..trace.axes import number
from ..trace.control import cond
from .loss_scale import choose
from .optimizer import (
    Mask,
    Optimizer,
    Tree,
    check_gradients,
    first_step,
    needs_params,
    of_kind,
    on_parameters,
    prefix_of,
    widened,
    zeros_like,
)

Labels = (
    Callable[[Any], Any] | Any
)  # a tree of labels like the parameters, or a function giving one


class MaskedState(NamedTuple):
    """The state of the optimizer for the parameters that the mask lets through."""

    inner_state: Any  # of the optimizer `inner`


def masked(inner: Optimizer, mask: Mask) -> Optimizer:
    """An optimizer for some of the parameters; updates of the others stay as they are.

    `inner` is the optimizer. `mask` is a tree of bools like the parameters, which may have one for
    a whole branch, or a function of the parameters that gives one.

    >>> from rlx.optim import add_decay
    >>> params = {"bias": rnp.ones(1), "w": rnp.ones(1)}
    >>> optimizer = masked(add_decay(0.5), {"bias": False, "w": True})
    >>> optimizer.update(params, optimizer.init(params), params)[0]
    {'bias': Array([1.], dtype=float32), 'w': Array([1.5], dtype=float32)}
    """

    def init(params: Any) -> MaskedState:
        return MaskedState(inner.init(_through(params, prefix_of(mask, params))))

    def update(grads: Any, state: MaskedState, params: Any = None, **more: Any) -> tuple[Any, Any]:
        given, wanted = of_kind(state, MaskedState).inner_state, prefix_of(mask, grads)
        if not any(pytree.leaves(wanted)):
            return grads, state
        shown = None if params is None else _through(params, wanted)
        updates, after = inner.update(_through(grads, wanted), given, shown, **more)
        return _merged(updates, grads, wanted), MaskedState(after)

    return on_parameters(init, update, is_around=True)


def _through(tree: Any, wanted: Any) -> Any:
    """The tree with None, which has no leaves, where the mask is false."""
    return pytree.map(lambda x, is_wanted: x if is_wanted else None, tree, wanted)


def _merged(changed: Any, tree: Any, wanted: Any) -> Any:
    """The tree with other leaves where the mask is true."""
    rest = iter(pytree.leaves(changed))
    return pytree.map(lambda x, is_wanted: next(rest) if is_wanted else x, tree, wanted)


class PartitionState(NamedTuple):
    """The state of the optimizer of each group of parameters, by its label."""

    inner_states: Any  # {label: state}


def partition(transforms: Mapping[Any, Optimizer], param_labels: Labels) -> Optimizer:
    """An optimizer for each group of parameters: rates of their own, or other methods.

    `param_labels` is a tree of keys of `transforms` like the parameters, which may have one for a
    whole branch, or a function of the parameters that gives one. Anything but a dict of transforms,
    and a label that it has not, is an `ArgumentError`.

    >>> from rlx.optim import sgd
    >>> params = {"body": rnp.ones(1), "head": rnp.ones(1)}
    >>> groups = {"slow": sgd(0.125), "fast": sgd(0.5)}
    >>> optimizer = partition(groups, {"body": "slow", "head": "fast"})
    >>> optimizer.update(params, optimizer.init(params))[0]
    {'body': Array([-0.125], dtype=float32), 'head': Array([-0.5], dtype=float32)}
    """
    if not isinstance(transforms, Mapping):
        fix = 'give an optimizer for each label: {"slow": sgd(0.01), "fast": sgd(0.1)}'
        raise wrong("partition: transforms", transforms, "a dict", fix)

    def group(label: Hashable, labels: Any) -> Optimizer:
        return masked(transforms[label], pytree.map(lambda found: found == label, labels))

    def labels_of(tree: Any) -> Any:
        labels = prefix_of(param_labels, tree)
        unknown = [label for label in pytree.leaves(labels) if label not in transforms]
        if unknown:
            known = ", ".join(map(repr, transforms))
            raise ArgumentError(
                f"partition: no optimizer has the label {unknown[0]!r}; there are {known}",
                fix="add it to the transforms, or label the parameters otherwise",
            )
        return labels

    def init(params: Any) -> PartitionState:
        labels = labels_of(params)
        return PartitionState({name: group(name, labels).init(params) for name in transforms})

    def update(grads: Any, state: PartitionState, params: Any = None, **more: Any) -> Any:
        labels, after = labels_of(grads), {}
        states = of_kind(state, PartitionState).inner_states
        for name in transforms:
            grads, after[name] = group(name, labels).update(grads, states[name], params, **more)
        return grads, PartitionState(after)

    return on_parameters(init, update, is_around=True)


class MultiStepsState(NamedTuple):
    """The state of gradient accumulation."""

    mini_step: Any  # how many gradients since the last step
    gradient_step: Any  # how many steps were made
    inner_opt_state: Any  # of the optimizer
    acc_grads: Any  # the sum or mean of gradients since the last step


def multi_steps(
    opt: Optimizer, every_k_schedule: int | Callable[[Any], Any], use_grad_mean: bool = True
) -> Optimizer:
    """Gradient accumulation: a step for every k gradients, by their mean or their sum.

    The steps are those of `opt`; the updates between are zero. `every_k_schedule` is k, or a
    function of the number of the steps made that returns it. The sum is taken with
    `use_grad_mean=False`.

    >>> from rlx.optim import sgd
    >>> optimizer = multi_steps(sgd(0.5), 2)
    >>> state = optimizer.init(rnp.ones(1))
    >>> for gradient in (2.0, 4.0):
    ...     updates, state = optimizer.update(rnp.array([gradient]), state)
    ...     print(updates)
    [0.]
    [-1.5]
    """
    k = every_k_schedule
    if not callable(k):
        k = count_of("multi_steps: every_k_schedule", k, least=1)

    def init(params: Any) -> MultiStepsState:
        sums = widened(zeros_like(params))
        return MultiStepsState(first_step(params), first_step(params), opt.init(params), sums)

    def update(
        grads: Any, state: MultiStepsState, params: Any = None, **more: Any
    ) -> tuple[Any, MultiStepsState]:
        check_gradients(grads, of_kind(state, MultiStepsState).acc_grads)
        count = state.mini_step + 1

        def add(total: Any, g: Any) -> Any:
            return total + ((g - total) / count.astype(total.dtype) if use_grad_mean else g)

        sums = pytree.map(add, state.acc_grads, widened(grads))

        def emit(sums: Any, inner: Any) -> tuple[Any, ...]:
            given = pytree.map(lambda s, g: s.astype(g.dtype), sums, grads)
            updates, after = opt.update(given, inner, params, **more)
            return updates, after, zeros_like(sums), rnp.zeros_like(state.mini_step)

        def hold(sums: Any, inner: Any) -> tuple[Any, ...]:
            return zeros_like(grads), inner, sums, count

        is_due = count >= (k(state.gradient_step) if callable(k) else k)
        updates, inner, sums, mini = cond(is_due, emit, hold, sums, state.inner_opt_state)
        steps = state.gradient_step + rnp.where(is_due, 1, 0)
        return updates, MultiStepsState(mini, steps, inner, sums)

    return on_parameters(init, update, is_around=True)


class EmaState(NamedTuple):
    """The running means."""

    count: Any  # how many steps were made
    ema: Any  # a tree like what is averaged


def ema(decay: float, debias: bool = True) -> Optimizer:
    """The exponential moving average of what `update` is given.

    `m = decay m + (1 - decay) x`, which is divided by `1 - decay^t` if `debias`. In a chain it
    averages updates; beside one, parameters.

    >>> average = ema(0.5)
    >>> state = average.init(rnp.zeros(1))
    >>> for weight in (1.0, 4.0):
    ...     mean, state = average.update(rnp.array([weight]), state)
    >>> mean
    Array([3.], dtype=float32)
    """
    number("ema: the decay", decay)

    def init(params: Any) -> EmaState:
        return EmaState(first_step(params), widened(zeros_like(params)))

    def update(given: Any, state: EmaState, params: Any = None) -> tuple[Any, EmaState]:
        check_gradients(given, of_kind(state, EmaState).ema)
        count = state.count + 1
        means = pytree.map(lambda m, x: decay * m + (1 - decay) * x, state.ema, widened(given))

        def shown(m: Any, x: Any) -> Any:
            mean = m / (1 - decay ** count.astype(m.dtype)) if debias else m
            return mean.astype(rnp.asarray(x).dtype)

        return pytree.map(shown, means, given), EmaState(count, means)

    return on_parameters(init, update)


def incremental_update(new_tensors: Tree, old_tensors: Any, step_size: float) -> Tree:
    """Move a tree towards another, as target networks move.

    Returns `step_size * new_tensors + (1 - step_size) * old_tensors`. State of modules is that of
    the new tree.

    >>> incremental_update({"w": rnp.array([4.0])}, {"w": rnp.array([0.0])}, 0.25)
    {'w': Array([1.], dtype=float32)}
    """
    number("incremental_update: step_size", step_size)
    new, old = pytree.without_state(new_tensors), pytree.without_state(old_tensors)
    mixed = pytree.map(lambda x, y: step_size * x + (1 - step_size) * y, new, old)
    return pytree.restore_state(mixed, new_tensors)


class LookaheadParams(NamedTuple):
    """Two sets of parameters."""

    fast: Any  # which gradients are of
    slow: Any  # the result

    @classmethod
    def init_synced(cls, params: Any) -> LookaheadParams:
        """Both, equal to the parameters `params`, in arrays of their own."""
        return cls(params, pytree.map(lambda p: rnp.array(p, copy=True), params))


class LookaheadState(NamedTuple):
    """The state of lookahead."""

    fast_state: Any  # of the fast optimizer
    steps_since_sync: Any  # fast steps since the last slow one


def lookahead(
    fast_optimizer: Optimizer, sync_period: int, slow_step_size: float, reset_state: bool = False
) -> Optimizer:
    """Lookahead: after every few fast steps, slow parameters go a part of the way.

    The steps are those of `fast_optimizer`. Every `sync_period` steps
    `slow = slow + slow_step_size (fast - slow)` and `fast = slow`. The parameters are
    `LookaheadParams`, gradients those of the fast ones. `reset_state` begins the fast optimizer
    anew then. Zhang et al., 2019, https://arxiv.org/abs/1907.08610

    >>> from rlx.optim import apply_updates, sgd
    >>> optimizer = lookahead(sgd(1.0), sync_period=1, slow_step_size=0.5)
    >>> params = LookaheadParams.init_synced(rnp.array([8.0]))
    >>> updates, state = optimizer.update(rnp.array([4.0]), optimizer.init(params), params)
    >>> apply_updates(params, updates).slow
    Array([6.], dtype=float32)
    """
    count_of("lookahead: sync_period", sync_period, least=1)
    number("lookahead: slow_step_size", slow_step_size)

    def init(params: LookaheadParams) -> LookaheadState:
        fast = of_pair(params).fast
        return LookaheadState(fast_optimizer.init(fast), first_step(fast))

    def of_pair(params: Any) -> LookaheadParams:
        if isinstance(needs_params("lookahead", params), LookaheadParams):
            return params
        fix = "pass LookaheadParams.init_synced(params)"
        raise wrong("lookahead: params", params, "LookaheadParams", fix)

    def update(
        grads: Any, state: LookaheadState, params: Any = None, **more: Any
    ) -> tuple[LookaheadParams, LookaheadState]:
        fast, slow = of_pair(params)
        given = of_kind(state, LookaheadState).fast_state
        updates, after = fast_optimizer.update(grads, given, fast, **more)
        is_due = state.steps_since_sync == sync_period - 1

        def on_slow(f: Any, u: Any, s: Any) -> Any:
            return rnp.where(is_due, slow_step_size * (f + u - s), rnp.zeros_like(s))

        def on_fast(f: Any, u: Any, s: Any) -> Any:
            return u - rnp.where(is_due, (1 - slow_step_size) * (f + u - s), rnp.zeros_like(u))

        pair = LookaheadParams(
            pytree.map(on_fast, fast, updates, slow), pytree.map(on_slow, fast, updates, slow)
        )
        if reset_state:
            after = choose(is_due, fast_optimizer.init(fast), after)
        return pair, LookaheadState(after, (state.steps_since_sync + 1) % sync_period)

    return on_parameters(init, update, is_around=True)
