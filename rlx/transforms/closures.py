"""Closures over arrays: as pytrees, and converted to functions without any."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, final

from ..ir.errors import ArgumentError, ShapeError
from ..ir.graph import Value
from ..ir.ops.control import pick, weave
from ..ir.types import is_inexact
from ..trace import pytree
from ..trace.apply import as_tensor
from ..trace.make_graph import check_function, from_values, function_name, trace
from .run_graph import plain, run_graph


@final
class Closure:
    """A closure: a function with the arrays it needs, as a pytree.

    A compiled function may return it, and a loop may carry it.
    """

    def __init__(self, fn: Callable[..., Any], arrays: Sequence[Any]) -> None:
        self._fn, self._arrays = fn, list(arrays)

    def __call__(self, *args: Any) -> Any:
        return self._fn(self._arrays, *args)

    def __repr__(self) -> str:
        return f"<{self._fn.__name__} with {len(self._arrays)} arrays>"


pytree.register_class(Closure, lambda held: (held._arrays, held._fn), Closure)


def closure_convert(
    fun: Callable[..., Any], *example_args: Any
) -> tuple[Callable[..., Any], list[Any]]:
    """Convert a closure to a function of its captured arrays, and give these.

    Captured are traced arrays of floats, by which one may differentiate; other things stay in the
    function, which takes the captured arrays after its arguments. `example_args` are arguments as
    `fun` will get. Functions with custom rules use it for functions among their arguments, so that
    derivatives by captured arrays are not lost.

    >>> import rlx
    >>> def twice_of(x):
    ...     f, held = closure_convert(lambda y: x * y, 1.0)
    ...     return f(2.0, *held)
    >>> float(rlx.grad(twice_of)(3.0))
    2.0
    """
    check_function(fun, "closure_convert: the function")
    return opened(fun, example_args, lambda value: is_inexact(value.dtype))


def opened(
    fn: Callable[..., Any], args: Sequence[Any], is_held: Callable[[Value], bool]
) -> tuple[Callable[..., Any], list[Any]]:
    """`closure_convert` for the traced arrays that `is_held` selects."""
    traced = trace(fn, args)
    captures = traced.captures
    moves = [isinstance(c, Value) and is_held(c) for c in captures]
    held, fixed = pick(captures, moves), pick(captures, moves, False)

    def converted(*given: Any) -> Any:
        count = len(args)
        if len(given) != count + len(held):
            raise ArgumentError(
                f"{function_name(fn)}, converted, takes {count} arguments and the {len(held)} it "
                f"held, not {len(given)}",
                fix="call it as f(*args, *held)",
            )
        leaves = pytree.flatten_like(
            traced.in_tree, (tuple(given[:count]), {}), "closure_convert", SIDES
        )
        for x, param in zip(leaves, traced.graph.params, strict=False):
            if as_tensor(x).shape != param.shape:
                raise ShapeError(
                    f"{function_name(fn)}, converted for {param.type}, was given "
                    f"{as_tensor(x).type}",
                    fix="convert it again for arguments of other shapes",
                )
        found = run_graph(traced.graph, [*leaves, *weave(moves, given[count:], fixed)])
        return traced.unflatten([plain(r) for r in found])

    return converted, from_values(held)


SIDES = ("the example", "the arguments")
