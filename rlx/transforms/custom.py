"""User-given derivatives and memory for time: custom_jvp, custom_vjp, checkpoint, stop_gradient."""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from typing import Any

from ..ir.errors import GradientError
from ..ir.graph import OPS, Value
from ..ir.ops.custom import Rule
from ..trace import pytree
from ..trace.apply import apply, as_operand
from ..trace.make_graph import Traced, from_values, function_name, to_values, trace


def _call(op: str, traced: Traced, args: Any, **attrs: Any) -> Any:
    """Apply an op with a nested graph to the leaves of arguments and the captures."""
    leaves, _ = pytree.flatten(args)
    operands = [*leaves, *from_values(traced.captures)]
    results = apply(op, *operands, graph=traced.graph, **attrs)
    results = results if isinstance(results, tuple | list) else (results,)
    return pytree.unflatten(traced.out_tree, results)


class custom_jvp:
    """A function whose derivative the user gives.

    >>> import rlx
    >>> @rlx.custom_jvp
    ... def f(x):
    ...     return x * x
    >>> @f.defjvp
    ... def f_jvp(primals, tangents):
    ...     return f(*primals), 10.0 * tangents[0]
    >>> float(rlx.grad(f)(3.0))
    10.0
    """

    def __init__(self, fn: Callable[..., Any]) -> None:
        functools.update_wrapper(self, fn)
        self._fn = fn
        self._rule: Callable[..., Any] | None = None

    def defjvp(self, rule: Callable[..., Any]) -> Callable[..., Any]:
        """Set the derivative: `rule(primals, tangents)` gives (value, tangent)."""
        self._rule = rule
        return rule

    def __call__(self, *args: Any) -> Any:
        if self._rule is None:
            raise _no_rule(self._fn, "defjvp")
        traced = trace(self._fn, args)
        n, tree, user_rule = traced.n_args, traced.in_tree, self._rule

        def rule(primals: Sequence[Value], tangents: Sequence[Value]) -> list[list[Value]]:
            given, _ = pytree.unflatten(tree, from_values(primals[:n]))
            moving, _ = pytree.unflatten(tree, from_values(tangents[:n]))
            value, slope = user_rule(tuple(given), tuple(moving))
            return [to_values(value)[0], to_values(slope)[0]]

        return _call("custom_jvp_call", traced, (args, {}), rule=Rule(rule, (user_rule, tree)))


class custom_vjp:
    """A function whose reverse-mode derivative the user gives as two functions.

    >>> import rlx
    >>> @rlx.custom_vjp
    ... def f(x):
    ...     return x * x
    >>> f.defvjp(lambda x: (f(x), x), lambda x, ct: (7.0 * ct,))
    >>> float(rlx.grad(f)(3.0))
    7.0
    """

    def __init__(self, fn: Callable[..., Any]) -> None:
        functools.update_wrapper(self, fn)
        self._fn = fn
        self._rules: tuple[Callable[..., Any], Callable[..., Any]] | None = None

    def defvjp(self, forward: Callable[..., Any], backward: Callable[..., Any]) -> None:
        """Set the rules.

        `forward(*args)` gives (value, residuals); `backward(residuals, cotangent)` gives a tuple
        with a cotangent for each argument.
        """
        self._rules = forward, backward

    def __call__(self, *args: Any) -> Any:
        if self._rules is None:
            raise _no_rule(self._fn, "defvjp")
        traced = trace(self._fn, args)
        n, tree = traced.n_args, traced.in_tree
        forward_rule, backward_rule = self._rules
        held: dict[str, Any] = {}

        def forward(primals: Sequence[Value]) -> list[list[Value]]:
            given, _ = pytree.unflatten(tree, from_values(primals[:n]))
            value, residuals = forward_rule(*given)
            values, held["tree"] = to_values(residuals)
            return [to_values(value)[0], values]

        def backward(residuals: Sequence[Value], cts: Sequence[Value]) -> list[list[Value]]:
            kept = pytree.unflatten(held["tree"], from_values(residuals))
            ct = pytree.unflatten(traced.out_tree, from_values(cts))
            pulled = tuple(backward_rule(kept, ct))
            values = to_values(pulled)[0]
            extra = traced.graph.params[n:]
            zeros = [OPS["full"](shape=p.shape, value=0, dtype=p.dtype) for p in extra]
            return [[*values, *zeros]]

        key = (self._rules, tree)
        return _call(
            "custom_vjp_call",
            traced,
            (args, {}),
            forward=Rule(forward, ("forward", key)),
            backward=Rule(backward, ("backward", id(held))),
        )


def _no_rule(fn: Any, what: str) -> GradientError:
    name = function_name(fn)
    return GradientError(
        f"{name} has no derivative yet", fix=f"give it one with {name}.{what}(...)"
    )


def checkpoint(fn: Callable[..., Any]) -> Callable[..., Any]:
    """Give a function that computes its intermediate values again in reverse mode.

    >>> import rlx
    >>> float(rlx.grad(rlx.checkpoint(lambda x: x**3))(2.0))
    12.0
    """

    @functools.wraps(fn, assigned=("__module__", "__name__", "__qualname__", "__doc__"))
    def wrapped(*args: Any, **kwargs: Any) -> Any:
        return _call("checkpoint", trace(fn, args, kwargs), (args, kwargs))

    return wrapped


def stop_gradient(tree: Any) -> Any:
    """Give the same arrays with a zero derivative.

    >>> import rlx
    >>> float(rlx.grad(lambda x: x * rlx.stop_gradient(x))(3.0))
    3.0
    """
    return pytree.map(lambda x: apply("stop_gradient", as_operand(x)), tree)
