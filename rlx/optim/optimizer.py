"""What an optimizer is, and how optimizers are put together.

    optimizer = rlx.optim.adam(1e-3)
    state = optimizer.init(params)
    updates, state = optimizer.update(grads, state, params)
    params = rlx.optim.apply_updates(params, updates)

Parameters, gradients, updates and states are pytrees; nothing is changed in place.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

from .. import numpy as rnp
from ..ir.errors import ArgumentError, StructureError
from ..ir.types import is_float
from ..trace import pytree
from ..trace.apply import as_tensor
from ..trace.arguments import wrong
from ..trace.axes import number

Schedule = Callable[[Any], Any]
LearningRate = float | Schedule


class Optimizer(NamedTuple):
    """Two functions: one makes a state, the other the updates of a step.

    They are `init(params) -> state` and `update(grads, state, params) -> (updates, state)`. An
    update is added to a parameter. A step of a chain, such as clipping, is an optimizer too.
    """

    init: Callable[[Any], Any]
    update: Callable[..., tuple[Any, Any]]


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

    >>> apply_updates({"w": rnp.array([1.0, 2.0])}, {"w": rnp.array([0.5, 0.0])})
    {'w': Array([1.5, 2. ], dtype=float32)}
    """
    return pytree.map(
        lambda p, u: rnp.asarray(rnp.add(p, u), rnp.asarray(p).dtype), params, updates
    )


def chain(*optimizers: Optimizer) -> Optimizer:
    """Pass gradients through optimizers from left to right."""

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
    """An optimizer that changes the gradients without remembering anything."""
    return Optimizer(lambda params: (), lambda grads, state, params=None: (change(grads), state))


class CountState(NamedTuple):
    """How many steps have been made."""

    count: Any


def scale(factor: float) -> Optimizer:
    """Multiply by a number."""
    number("scale: the factor", factor)
    return stateless(lambda grads: pytree.map(lambda g: _array_of(g) * factor, grads))


def _array_of(gradient: Any) -> Any:
    return gradient if isinstance(gradient, int | float) else as_tensor(gradient)


def scale_by_learning_rate(learning_rate: LearningRate) -> Optimizer:
    """Multiply by minus the learning rate: a number, or a function of the step."""
    if not callable(learning_rate):
        return scale(-number("the learning rate", learning_rate))
    schedule = learning_rate

    def init(params: Any) -> CountState:
        return CountState(first_step(params))

    def update(grads: Any, state: CountState, params: Any = None) -> tuple[Any, CountState]:
        rate = rnp.asarray(schedule(state.count))
        updates = pytree.map(lambda g: g * -rate.astype(g.dtype), grads)
        return updates, CountState(state.count + 1)

    return Optimizer(init, update)


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
