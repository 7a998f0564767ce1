"""Sharpness-aware minimization: gradients from where the loss is worse."""

from __future__ import annotations

from typing import Any, NamedTuple

from .. import numpy as rnp
from ..ir.errors import ArgumentError
from ..trace import pytree
from ..trace.arguments import callable_of, count_of, flag
from .loss_scale import choose
from .optimizer import (
    Optimizer,
    apply_updates,
    first_step,
    global_norm,
    needs_params,
    of_kind,
    on_parameters,
    stateless,
)


def normalize() -> Optimizer:
    """Divide gradients by their global norm; zeros stay.

    Returns a step for `chain`.

    >>> normalize().update({"w": rnp.array([3.0]), "b": rnp.array([4.0])}, ())[0]["w"].item()
    0.6...
    """

    def divide(grads: Any) -> Any:
        norm = global_norm(grads)
        factor = 1 / rnp.where(norm > 0, norm, 1.0)
        return pytree.map(lambda g: (g * factor).astype(rnp.asarray(g).dtype), grads)

    return stateless(divide)


class SamState(NamedTuple):
    """The states of both optimizers, and where their round began."""

    steps_since_sync: Any  # how many steps up were made
    opt_state: Any  # of the optimizer
    adv_state: Any  # of the one that climbs
    cache: Any  # the parameters where the round began; None in the opaque mode


def sam(
    optimizer: Optimizer,
    adv_optimizer: Optimizer,
    sync_period: int = 2,
    reset_state: bool = True,
    opaque_mode: bool = False,
) -> Optimizer:
    """Sharpness-aware minimization: steps by gradients from where the loss is worse.

    `adv_optimizer` climbs `sync_period - 1` times; then `optimizer` steps from where it began, with
    the gradient found there. In the paper it is `chain(normalize(), sgd(rho))`. `reset_state`
    begins it anew each time. Each call of `update` is one of these steps, so that loss and state of
    modules are those of climbed parameters in between. With `opaque_mode` a call makes all of them,
    and needs `grad_fn=`, a function of the parameters and the number of the climb that gives their
    gradients. Foret et al., 2021, https://arxiv.org/abs/2010.01412

    >>> from rlx.optim import chain, sgd
    >>> optimizer = sam(sgd(0.5), chain(normalize(), sgd(0.25)), opaque_mode=True)
    >>> params = rnp.array([2.0])
    >>> state = optimizer.init(params)
    >>> optimizer.update(2 * params, state, params, grad_fn=lambda p, i: 2 * p)[0].tolist()
    [-2.25]
    """
    rounds = _Rounds(
        optimizer,
        adv_optimizer,
        count_of("sam: sync_period", sync_period, least=1),
        flag("sam: reset_state", reset_state),
    )
    return _opaque(rounds) if flag("sam: opaque_mode", opaque_mode) else _visible(rounds)


class _Rounds(NamedTuple):
    """The arguments of `sam`."""

    optimizer: Optimizer
    climber: Optimizer
    period: int
    is_reset: bool

    def climbed(self, grads: Any, state: Any, params: Any) -> tuple[Any, Any]:
        """A step up."""
        updates, state = self.climber.update(grads, state, params)
        return pytree.map(lambda u: -u, updates), state

    def next(self, state: Any, params: Any) -> Any:
        """The state of the climber for the next round."""
        return self.climber.init(params) if self.is_reset else state


def _visible(rounds: _Rounds) -> Optimizer:
    """A step up or down in each call."""
    period = rounds.period

    def init(params: Any) -> SamState:
        cache = pytree.map(lambda p: rnp.array(p, copy=True), params)
        states = rounds.optimizer.init(params), rounds.climber.init(params)
        return SamState(first_step(params), *states, cache)

    def update(grads: Any, state: SamState, params: Any = None) -> tuple[Any, SamState]:
        state, params = of_kind(state, SamState), needs_params("sam", params)
        is_first, is_last = state.steps_since_sync == 0, state.steps_since_sync == period - 1
        start = choose(is_first, params, state.cache)
        up, climber = rounds.climbed(grads, state.adv_state, params)
        down, opt_state = rounds.optimizer.update(grads, state.opt_state, start)
        down = pytree.map(lambda c, p, u: c - p + u, start, params, down)
        after = SamState(
            (state.steps_since_sync + 1) % period,
            choose(is_last, opt_state, state.opt_state),
            choose(is_last, rounds.next(state.adv_state, params), climber),
            start,
        )
        return choose(is_last, down, up), after

    return on_parameters(init, update)


def _opaque(rounds: _Rounds) -> Optimizer:
    """All steps of a round in each call."""

    def init(params: Any) -> SamState:
        states = rounds.optimizer.init(params), rounds.climber.init(params)
        return SamState(first_step(params), *states, None)

    def update(
        grads: Any, state: SamState, params: Any = None, *, grad_fn: Any = None, **_: Any
    ) -> tuple[Any, SamState]:
        given, there = of_kind(state, SamState), needs_params("sam", params)
        if grad_fn is None:
            raise ArgumentError(
                "sam with opaque_mode needs the function that gives gradients",
                fix="pass update a grad_fn of parameters and a number, such as\n"
                "rlx.grad(lambda p, i: loss(p, batch))",
            )
        climber = given.adv_state
        for i in range(rounds.period - 1):
            up, climber = rounds.climbed(grads, climber, there)
            there = apply_updates(there, up)
            grads = callable_of("sam: grad_fn", grad_fn)(there, i)
        updates, opt_state = rounds.optimizer.update(grads, given.opt_state, params)
        climber = rounds.next(climber, params)
        return updates, SamState(given.steps_since_sync, opt_state, climber, None)

    return Optimizer(init, update)
