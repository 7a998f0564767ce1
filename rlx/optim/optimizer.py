"""Optimizers, and the transformations of gradients that they are made of.

    optimizer = rlx.optim.adam(1e-3)
    state = optimizer.init(params)
    updates, state = optimizer.update(grads, state, params)
    params = rlx.optim.apply_updates(params, updates)

Parameters, gradients, updates and states are pytrees; nothing is changed in place.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any, NamedTuple

from .. import numpy as rnp
from ..ir.errors import ArgumentError, StructureError
from ..ir.types import is_float
from ..trace import pytree
from ..trace.apply import as_tensor
from ..trace.arguments import shown, wrong
from ..trace.axes import number

Schedule = Callable[[Any], Any]
LearningRate = float | Schedule


class Optimizer(NamedTuple):
    """An optimizer: a function that makes a state, and one that gives updates.

    They are `init(params) -> state` and `update(grads, state, params) -> (updates, state)`. An
    update is added to a parameter. A step of a chain, such as clipping, is an optimizer too.
    """

    init: Callable[[Any], Any]
    update: Callable[..., tuple[Any, Any]]


def of_kind(state: Any, kind: type) -> Any:
    """Give back a state; raise unless it is one that this optimizer made."""
    if isinstance(state, kind):
        return state
    raise StructureError(
        f"update: the state is {shown(state)}, where the optimizer has a {kind.__name__}",
        fix="pass what init(params) or the last update gave",
    )


def check_gradients(grads: Any, like: Any) -> None:
    """Raise unless gradients have the structure of the parameters that a state is for."""
    wanted, given = pytree.structure(like), pytree.structure(grads)
    if wanted != given:
        place = pytree.difference(wanted, given, "", ("the state", "the gradients"))
        raise StructureError(
            f"update: the gradients have another structure than the state: {place}",
            fix="pass gradients of the parameters that init(params) was given",
        )


def apply_updates(params: Any, updates: Any) -> Any:
    """Add the updates to the parameters, which keep their dtypes.

    State of modules stays as it is.

    >>> apply_updates({"w": rnp.array([1.0, 2.0])}, {"w": rnp.array([0.5, 0.0])})
    {'w': Array([1.5, 2. ], dtype=float32)}
    """

    def add(p: Any, u: Any) -> Any:
        return rnp.asarray(rnp.add(p, u), rnp.asarray(p).dtype)

    trained = pytree.map(add, pytree.without_state(params), pytree.without_state(updates))
    return pytree.restore_state(trained, params)


def on_parameters(optimizer: Optimizer) -> Optimizer:
    """The optimizer, which sees no state: None is there in its trees.

    State of modules is what `nn.field(state=True)` says; its updates are its gradients, zeros.
    """

    def init(params: Any) -> Any:
        return optimizer.init(pytree.without_state(params))

    def update(grads: Any, state: Any, params: Any = None) -> tuple[Any, Any]:
        trained = pytree.without_state(grads)
        updates, state = optimizer.update(trained, state, pytree.without_state(params))
        return pytree.restore_state(updates, grads), state

    return Optimizer(init, update)


def _step(init: Callable[[Any], Any], update: Callable[..., tuple[Any, Any]]) -> Optimizer:
    return on_parameters(Optimizer(init, update))


def chain(*optimizers: Optimizer) -> Optimizer:
    """Chain optimizers: gradients pass from left to right."""

    def init(params: Any) -> tuple:
        return tuple(optimizer.init(params) for optimizer in optimizers)

    def update(grads: Any, states: tuple, params: Any = None) -> tuple[Any, tuple]:
        after = []
        if not isinstance(states, tuple) or len(states) != len(optimizers):
            raise wrong(
                "update: the state", states, "of this optimizer", "pass what init(params) gave"
            )
        for optimizer, state in zip(optimizers, states, strict=True):
            grads, state = optimizer.update(grads, state, params)
            after.append(state)
        return grads, tuple(after)

    return Optimizer(init, update)


def stateless(change: Callable[[Any], Any]) -> Optimizer:
    """An optimizer without state, made of a function of the gradients."""
    return _step(lambda params: (), lambda grads, state, params=None: (change(grads), state))


class CountState(NamedTuple):
    """How many steps have been made."""

    count: Any


def scale(factor: float) -> Optimizer:
    """Multiply by a number."""
    number("scale: the factor", factor)

    def scaled(gradient: Any) -> Any:
        return (gradient if isinstance(gradient, int | float) else as_tensor(gradient)) * factor

    return stateless(lambda grads: pytree.map(scaled, grads))


def scale_by_learning_rate(learning_rate: LearningRate) -> Optimizer:
    """Multiply by minus the learning rate: a number, or a function of the step."""
    if not callable(learning_rate):
        return scale(-number("the learning rate", learning_rate))
    schedule = learning_rate

    def init(params: Any) -> CountState:
        return CountState(first_step(params))

    def update(grads: Any, state: CountState, params: Any = None) -> tuple[Any, CountState]:
        rate = rnp.asarray(schedule(of_kind(state, CountState).count))
        updates = pytree.map(lambda g: g * -rate.astype(g.dtype), grads)
        return updates, CountState(state.count + 1)

    return _step(init, update)


def first_step(params: Any = None) -> Any:
    """The counter of steps at its beginning, beside the parameters.

    It is an int32 array, so that no step compiles anew.
    """
    for leaf in pytree.leaves(params):
        return rnp.zeros_like(leaf, "int32", ())
    return rnp.zeros((), "int32")


def zeros_like(params: Any) -> Any:
    """A tree of zeros like the parameters."""
    return pytree.map(rnp.zeros_like, params)


def widened(tree: Any) -> Any:
    """A tree with half-size floats as float32.

    A square of theirs, or a number such as 1e-8, would be zero.
    """

    def wide(x: Any) -> Any:
        x = rnp.asarray(x)
        return x.astype("float32") if is_float(x.dtype) and x.dtype.itemsize < 4 else x

    return pytree.map(wide, tree)


def needs_params(name: str, params: Any) -> Any:
    """Give the parameters; raise if `update` was called without them."""
    if params is None:
        raise ArgumentError(
            f"{name} needs the parameters",
            fix="call optimizer.update(grads, state, params)",
        )
    return params


# -- the optimizers, which are chains of steps -----------------------------------------------------


Mask = Callable[[Any], Any] | Any  # a tree of bools like the parameters, or a function giving one


def sgd(
    learning_rate: LearningRate, momentum: float | None = None, nesterov: bool = False
) -> Optimizer:
    """Stochastic gradient descent, with momentum if given."""
    rate = scale_by_learning_rate(learning_rate)
    return rate if momentum is None else chain(add_momentum(momentum, nesterov), rate)


def adam(
    learning_rate: LearningRate, b1: float = 0.9, b2: float = 0.999, eps: float = 1e-8
) -> Optimizer:
    """Adam: steps of about the learning rate, independent of the gradient's size.

    This holds for each parameter by itself. Kingma and Ba, 2014, https://arxiv.org/abs/1412.6980
    """
    return chain(scale_by_adam(b1, b2, eps), scale_by_learning_rate(learning_rate))


def adamw(
    learning_rate: LearningRate,
    b1: float = 0.9,
    b2: float = 0.999,
    eps: float = 1e-8,
    weight_decay: float = 1e-4,
    mask: Mask = None,
) -> Optimizer:
    """AdamW: Adam with decoupled weight decay.

    They shrink by `weight_decay` times the learning rate. `mask`, a tree of bools like the
    parameters or a function of them that gives one, tells which do; state of modules never does.
    Loshchilov and Hutter, 2017, https://arxiv.org/abs/1711.05101
    """
    return chain(
        scale_by_adam(b1, b2, eps),
        add_decay(weight_decay, mask),
        scale_by_learning_rate(learning_rate),
    )


def rmsprop(
    learning_rate: LearningRate,
    decay: float = 0.9,
    eps: float = 1e-8,
    momentum: float | None = None,
) -> Optimizer:
    """RMSProp: gradients divided by the root of the running mean of their squares."""
    steps = [scale_by_rms(decay, eps), scale_by_learning_rate(learning_rate)]
    return chain(*steps, *([] if momentum is None else [add_momentum(momentum)]))


# -- the steps ----------------------------------------------------------------------------------


class MomentumState(NamedTuple):
    """The running sum of gradients."""

    velocity: Any


def add_momentum(decay: float, nesterov: bool = False) -> Optimizer:
    """Momentum: add the running sum of past gradients; `nesterov` looks ahead."""

    _check_numbers(momentum=decay)

    def update(grads: Any, state: MomentumState, params: Any = None) -> tuple[Any, MomentumState]:
        check_gradients(grads, of_kind(state, MomentumState).velocity)
        velocity = pytree.map(lambda g, v: g + decay * v, grads, state.velocity)
        ahead = pytree.map(lambda g, v: g + decay * v, grads, velocity) if nesterov else velocity
        return ahead, MomentumState(velocity)

    return _step(lambda params: MomentumState(zeros_like(params)), update)


class AdamState(NamedTuple):
    """The number of steps, and running means of gradients and of their squares."""

    count: Any
    mean: Any
    square: Any


def scale_by_adam(b1: float = 0.9, b2: float = 0.999, eps: float = 1e-8) -> Optimizer:
    """Give the mean of gradients divided by the root of the mean of their squares.

    Both are running means.
    """

    _check_numbers(b1=b1, b2=b2, eps=eps)

    def init(params: Any) -> AdamState:
        # two trees of zeros, not one twice: a step may be given the memory of both
        return AdamState(
            first_step(params), widened(zeros_like(params)), widened(zeros_like(params))
        )

    def update(grads: Any, state: AdamState, params: Any = None) -> tuple[Any, AdamState]:
        check_gradients(grads, of_kind(state, AdamState).mean)
        count, wide = state.count + 1, widened(grads)
        mean = pytree.map(lambda g, m: b1 * m + (1 - b1) * g, wide, state.mean)
        square = pytree.map(lambda g, s: b2 * s + (1 - b2) * g * g, wide, state.square)

        @functools.cache  # recorded once, not for each parameter
        def begun(decay: float, dtype: Any) -> Any:
            """What a running mean has besides the zero it began with."""
            return 1 - decay ** count.astype(dtype)

        def step(g: Any, m: Any, s: Any) -> Any:
            change = m / begun(b1, m.dtype) / (rnp.sqrt(s / begun(b2, s.dtype)) + eps)
            return change.astype(g.dtype)

        return pytree.map(step, grads, mean, square), AdamState(count, mean, square)

    return _step(init, update)


class RmsState(NamedTuple):
    """The running mean of squared gradients."""

    square: Any


def scale_by_rms(decay: float = 0.9, eps: float = 1e-8) -> Optimizer:
    """Divide by the root of the running mean of squared gradients."""

    _check_numbers(decay=decay, eps=eps)

    def update(grads: Any, state: RmsState, params: Any = None) -> tuple[Any, RmsState]:
        check_gradients(grads, of_kind(state, RmsState).square)
        wide = widened(grads)
        square = pytree.map(lambda g, s: decay * s + (1 - decay) * g * g, wide, state.square)

        def step(g: Any, w: Any, s: Any) -> Any:
            return (w / rnp.sqrt(s + eps)).astype(g.dtype)

        return pytree.map(step, grads, wide, square), RmsState(square)

    return _step(lambda params: RmsState(widened(zeros_like(params))), update)


def add_decay(weight_decay: float, mask: Mask = None) -> Optimizer:
    """Weight decay: add `weight_decay` times the parameters, where the mask is true."""

    _check_numbers(weight_decay=weight_decay)

    def update(grads: Any, state: Any, params: Any = None) -> tuple[Any, Any]:
        params = needs_params("weight decay", params)
        # a tree may be a module with bools in its fields, which can be called as well
        is_function = callable(mask) and pytree.structure(mask).is_leaf()
        wanted = mask(params) if is_function else mask
        if wanted is None:
            wanted = pytree.map(lambda p: True, params)
        wanted = pytree.without_state(wanted)

        def decayed(g: Any, p: Any, is_wanted: bool) -> Any:
            return g + weight_decay * p if is_wanted else g

        return pytree.map(decayed, grads, params, wanted), state

    return _step(lambda params: (), update)


def _check_numbers(**given: Any) -> None:
    for name, value in given.items():
        number(name, value)


# -- limits on gradients ---------------------------------------------------------------------------


def global_norm(tree: Any) -> Any:
    """The global norm: that of all leaves but state together, as one vector."""
    squares = (rnp.sum(x * x) for x in pytree.leaves(widened(pytree.without_state(tree))))
    return rnp.sqrt(sum(squares, start=rnp.zeros(())))


def clip_by_global_norm(limit: float) -> Optimizer:
    """Clip gradients so that their global norm is at most `limit`."""

    number("clip_by_global_norm: the limit", limit)

    def clip(grads: Any) -> Any:
        # no gradient is divided by a length of zero
        factor = limit / rnp.maximum(global_norm(grads), limit)
        return pytree.map(lambda g: g * factor.astype(g.dtype), grads)

    return stateless(clip)


def clip_by_value(limit: float) -> Optimizer:
    """Clip each gradient to the range from `-limit` to `limit`."""
    number("clip_by_value: the limit", limit)
    return stateless(lambda grads: pytree.map(lambda g: rnp.clip(g, -limit, limit), grads))
