"""Reverse mode in two halves: fwd_and_bwd, custom_gradient."""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from typing import Any

from ..trace.arguments import flag
from ..trace.make_graph import check_function, titled
from .closures import opened
from .custom import custom_vjp
from .grad import chosen_arguments, vjp
from .jit.jit import jit


def fwd_and_bwd(
    fun: Callable[..., Any],
    argnums: int | Sequence[int],
    has_aux: bool = False,
    jitted: bool = True,
) -> tuple[Callable[..., Any], Callable[..., Any]]:
    """Return the forward and the backward pass of `fun` as two functions.

    The first returns (value, pullback), with `has_aux` (value, pullback, extra); the second maps
    the pullback and a cotangent to those of the arguments `argnums`. Both are compiled, unless
    `jitted` is false.

    >>> import rlx
    >>> forward, backward = fwd_and_bwd(lambda x, y: x * y, argnums=(0, 1))
    >>> value, pull_back = forward(2.0, 5.0)
    >>> [float(ct) for ct in backward(pull_back, 1.0)]
    [5.0, 2.0]
    """
    jitted = flag("fwd_and_bwd: jitted", jitted)
    check_function(fun, "fwd_and_bwd: the function")

    @functools.wraps(fun, assigned=("__name__", "__qualname__"))
    def forward(*args: Any) -> Any:
        chosen = chosen_arguments(fun, argnums, len(args))

        def of_chosen(*picked: Any) -> Any:
            table = dict(zip(chosen, picked, strict=True))
            return fun(*(table.get(i, a) for i, a in enumerate(args)))

        return vjp(of_chosen, *(args[i] for i in chosen), has_aux=has_aux)

    def backward(pull_back: Any, cotangent: Any) -> Any:
        found = pull_back(cotangent)
        return found if isinstance(argnums, Sequence) else found[0]

    forward.__qualname__ = titled("forward", fun)
    backward.__name__ = backward.__qualname__ = titled("backward", fun)
    return (jit(forward), jit(backward)) if jitted else (forward, backward)


def custom_gradient(fun: Callable[..., Any]) -> Callable[..., Any]:
    """Make a differentiable function of one that returns its value and its pullback.

    The pullback that `fun` returns maps the cotangent of the value to that of the argument, or to a
    tuple of those of the arguments.

    >>> import rlx
    >>> @custom_gradient
    ... def f(x):
    ...     return x**2, lambda ct: 10.0 * ct * x
    >>> float(rlx.grad(f)(3.0))
    30.0
    """
    check_function(fun, "custom_gradient: the function")

    @functools.wraps(fun, assigned=("__name__",), updated=())
    def value_of(*args: Any) -> Any:
        return fun(*args)[0]

    def forward(*args: Any) -> Any:
        value, pull_back = fun(*args)
        converted, held = opened(pull_back, (value,), lambda value: True)
        return value, (held, converted)

    def backward(kept: Any, cotangent: Any) -> Any:
        held, converted = kept
        found = converted(cotangent, *held)
        return tuple(found) if isinstance(found, tuple | list) else (found,)

    made = custom_vjp(value_of)
    made.defvjp(forward, backward)
    return functools.wraps(fun)(lambda *args: made(*args))
