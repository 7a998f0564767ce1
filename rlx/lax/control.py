"""Control flow, under the names and keywords of `jax.lax`."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from ..ir.errors import ArgumentError
from ..trace import control, pytree
from ..trace import scan as loops
from ..trace.apply import apply
from ..trace.arguments import callable_of
from ..trace.array_arguments import with_axes
from ..trace.axes import integer
from ..trace.scan import associative_scan
from ..transforms import loops as repeated_loops
from ..transforms.custom import stop_gradient
from ..transforms.loops import scan
from ..transforms.solve import custom_linear_solve, custom_root
from ..transforms.vmap import vmap

__all__ = [
    "associative_scan",
    "cond",
    "custom_linear_solve",
    "custom_root",
    "fori_loop",
    "map",
    "scan",
    "stop_gradient",
    "switch",
    "while_loop",
]


def cond(
    pred: Any, true_fun: Callable[..., Any], false_fun: Callable[..., Any], *operands: Any
) -> Any:
    """Call `true_fun(*operands)` if `pred` holds, else `false_fun(*operands)`."""
    return control.cond(pred, true_fun, false_fun, *operands)


def switch(index: Any, branches: Sequence[Callable[..., Any]], *operands: Any) -> Any:
    """Call `branches[index](*operands)`.

    The index is clamped to the branches there are.
    """
    return control.switch(index, branches, *operands)


def while_loop(
    cond_fun: Callable[[Any], Any], body_fun: Callable[[Any], Any], init_val: Any
) -> Any:
    """Call `val = body_fun(val)` while `cond_fun(val)` holds; it gives the last one.

    Only forward mode works through it; `rlx.while_loop` with `max_steps` has both modes.
    """
    return repeated_loops.while_loop(cond_fun, body_fun, init_val)


def fori_loop(
    lower: Any,
    upper: Any,
    body_fun: Callable[[Any, Any], Any],
    init_val: Any,
    *,
    unroll: int | bool | None = None,
) -> Any:
    """Call `val = body_fun(i, val)` for i from `lower` below `upper`.

    It gives the last one. `unroll` is accepted; the loop is compiled as one.
    """
    return repeated_loops.fori_loop(lower, upper, body_fun, init_val)


def map(f: Callable[[Any], Any], xs: Any, *, batch_size: int | None = None) -> Any:
    """Call `f` on each element along axis 0 and stack what it returns.

    With a `batch_size` so many at a time, as `vmap` does.
    """
    if batch_size is None:
        return loops.map(f, xs)
    size = integer("map: batch_size", batch_size)
    if size < 1:
        raise ArgumentError(
            f"map: the batch_size {size} is not positive",
            fix="use 1 or more, or None",
        )
    xs = pytree.map(lambda x: with_axes("map: xs", x, 1), xs)
    leaves = pytree.leaves(xs)
    if not leaves:
        raise ArgumentError("map: xs has no arrays", fix="give an array, or a tree of them")
    count = leaves[0].shape[0]
    whole = count // size * size
    parts = []
    if whole:
        cut = pytree.map(lambda x: x[:whole].reshape((-1, size, *x.shape[1:])), xs)
        made = loops.map(vmap(f), cut)
        parts.append(pytree.map(lambda y: y.reshape((whole, *y.shape[2:])), made))
    if whole < count or not parts:
        parts.append(vmap(f)(pytree.map(lambda x: x[whole:], xs)))
    return pytree.map(lambda *ys: apply("concat", *ys, axis=0), *parts)


def optimization_barrier(operand: Any, /) -> Any:
    """The same tree: nothing is moved that would change numbers."""
    return operand


def platform_dependent(
    *args: Any, default: Callable[..., Any] | None = None, **per_platform: Callable[..., Any]
) -> Any:
    """Call the function for the platform: `cpu`, or `default` where none is for it."""
    chosen = per_platform.get("cpu", default)
    if chosen is None:
        raise ArgumentError(
            "platform_dependent: there is no function for cpu",
            fix="give one as cpu=, or a default",
        )
    return callable_of("platform_dependent: the function", chosen)(*args)
