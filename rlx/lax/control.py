"""Control flow, under the names and keywords of `jax.lax`."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, TypeVar

from ..ir.errors import ArgumentError
from ..trace import control, pytree, scan as loops
from ..trace.apply import apply
from ..trace.arguments import callable_of
from ..trace.array import Array, ArrayLike
from ..trace.array_arguments import with_axes
from ..trace.axes import integer
from ..transforms import loops as repeated_loops
from ..transforms.vmap import vmap

Carry = TypeVar("Carry")
Y = TypeVar("Y")


def cond(
    pred: ArrayLike, true_fun: Callable[..., Y], false_fun: Callable[..., Y], *operands: Any
) -> Y:
    """Return `true_fun(*operands)` if `pred` holds, else `false_fun(*operands)`."""
    return control.cond(pred, true_fun, false_fun, *operands)


def switch(index: ArrayLike, branches: Sequence[Callable[..., Y]], *operands: Any) -> Y:
    """Return `branches[index](*operands)`, the index clamped to the branches."""
    return control.switch(index, branches, *operands)


def while_loop(
    cond_fun: Callable[[Carry], ArrayLike], body_fun: Callable[[Carry], Carry], init_val: Carry
) -> Carry:
    """Call `val = body_fun(val)` while `cond_fun(val)` holds; return the final value.

    The value begins as `init_val`. Only forward-mode derivatives are possible; `rlx.while_loop`
    with `max_steps` has both modes.
    """
    return repeated_loops.while_loop(cond_fun, body_fun, init_val)


def fori_loop(
    lower: ArrayLike,
    upper: ArrayLike,
    body_fun: Callable[[Array, Carry], Carry],
    init_val: Carry,
    *,
    unroll: int | bool | None = None,
) -> Carry:
    """Call `val = body_fun(i, val)` for i from `lower` up to `upper`, excluded.

    The value begins as `init_val`. Returns the final value. `unroll` has no effect.
    """
    return repeated_loops.fori_loop(lower, upper, body_fun, init_val)


def map(f: Callable[[Any], Y], xs: Any, *, batch_size: int | None = None) -> Y:
    """Apply `f` to each element of `xs` along axis 0 and stack the results.

    With `batch_size` that many elements are computed at once by `vmap`.
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


def optimization_barrier(operand: Y, /) -> Y:
    """Return the operand: rlx makes no optimization that would change numbers."""
    return operand


def platform_dependent(
    *args: Any, default: Callable[..., Any] | None = None, **per_platform: Callable[..., Any]
) -> Any:
    """Call the function for the platform `cpu`, or `default` if there is none.

    Returns its result. The functions are `per_platform`, by keyword, and are called with `args`.
    Without one for it it is an `ArgumentError`.
    """
    chosen = per_platform.get("cpu", default)
    if chosen is None:
        raise ArgumentError(
            "platform_dependent: there is no function for cpu",
            fix="give one as cpu=, or a default",
        )
    return callable_of("platform_dependent: the function", chosen)(*args)
