"""Numbers of optimizers as arrays of their state, to change between steps."""

from __future__ import annotations

import functools
import inspect
from collections import OrderedDict
from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

from .. import numpy as rnp
from ..ir.errors import ArgumentError
from ..trace.arguments import callable_of, names_of
from ..trace.array import Array
from .optimizer import Optimizer, first_step, of_kind, on_parameters, zero_beside


class InjectHyperparamsState(NamedTuple):
    """The hyperparameters of an optimizer, and its state."""

    count: Any  # how many steps were made
    hyperparams: Any  # {name: f32[]}
    inner_state: Any  # of the optimizer


def inject_hyperparams(
    inner_factory: Callable[..., Optimizer], static_args: str | tuple[str, ...] = ()
) -> Callable[..., Optimizer]:
    """Have an optimizer's numbers in its state, to change between steps.

    Returns a function with the parameters of `inner_factory`, such as `optim.adamw`. Of its
    arguments, those left out too, floats and arrays are `state.hyperparams[name]`; schedules are,
    too, and the step sets them. A change compiles nothing anew. Those of `static_args`, bools,
    and integers that are counts stay what they are; a name that is no argument is an
    `ArgumentError`.

    >>> from rlx.optim import sgd
    >>> optimizer, params = inject_hyperparams(sgd)(learning_rate=0.5), rnp.array([1.0])
    >>> state = optimizer.init(params)
    >>> state.hyperparams["learning_rate"] = 0.25
    >>> optimizer.update(rnp.array([8.0]), state, params)[0]
    Array([-2.], dtype=float32)
    """
    callable_of("inject_hyperparams: inner_factory", inner_factory)
    static = names_of("inject_hyperparams: static_args", static_args)
    signature = inspect.signature(inner_factory)
    unknown = [name for name in static if name not in signature.parameters]
    if unknown:
        raise ArgumentError(
            f"inject_hyperparams: {inner_factory.__name__} has no argument {unknown[0]!r}",
            fix=f"its arguments are {', '.join(signature.parameters)}",
        )
    fixed = {*static, *(n for n, p in signature.parameters.items() if p.annotation in ("int", int))}

    @functools.wraps(inner_factory)
    def made(*args: Any, **keywords: Any) -> Optimizer:
        bound = signature.bind(*args, **keywords)
        bound.apply_defaults()
        inner_factory(*bound.args, **bound.kwargs)  # raises for arguments that mean nothing
        free = {name: x for name, x in bound.arguments.items() if name not in fixed}
        schedules = {name: x for name, x in free.items() if callable(x)}
        numbers = {name: x for name, x in free.items() if _is_number(x)}
        return _injected(inner_factory, bound, numbers, schedules)

    return made


def _is_number(x: Any) -> bool:
    if isinstance(x, bool):
        return False
    return isinstance(x, int | float) or (isinstance(x, Array) and x.shape == ())


def _injected(
    factory: Callable[..., Optimizer],
    bound: inspect.BoundArguments,
    numbers: Mapping[str, Any],
    schedules: Mapping[str, Callable[[Any], Any]],
) -> Optimizer:
    """The optimizer, made anew of its numbers at each step."""

    def values(given: Mapping[str, Any], count: Any, like: Any) -> dict[str, Any]:
        dtype = zero_beside(like).dtype
        now = {**given, **{name: schedule(count) for name, schedule in schedules.items()}}
        return {name: rnp.array(x, dtype) for name, x in now.items()}

    def inner(hyperparams: Mapping[str, Any]) -> Optimizer:
        arguments = OrderedDict({**bound.arguments, **hyperparams})
        whole = inspect.BoundArguments(bound.signature, arguments)
        return factory(*whole.args, **whole.kwargs)

    def init(params: Any) -> InjectHyperparamsState:
        count = first_step(params)
        hyperparams = values(numbers, count, params)
        return InjectHyperparamsState(count, hyperparams, inner(hyperparams).init(params))

    def update(
        grads: Any, state: InjectHyperparamsState, params: Any = None, **more: Any
    ) -> tuple[Any, InjectHyperparamsState]:
        count, given, inner_state = of_kind(state, InjectHyperparamsState)
        hyperparams = values(given, count, grads)
        updates, after = inner(hyperparams).update(grads, inner_state, params, **more)
        return updates, InjectHyperparamsState(count + 1, hyperparams, after)

    update.__qualname__ = f"inject_hyperparams({getattr(factory, '__name__', 'factory')})"
    return on_parameters(init, update, is_around=True)
