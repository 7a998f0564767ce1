"""Loops for users; outside of `jit` they keep compiled code for the next call."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

from ..ir.tracebacks import boundary
from ..trace import control, scan as loops
from ..trace.array import Array, ArrayLike
from .repeated import repeated, typed

Carry = TypeVar("Carry")
X = TypeVar("X")
Y = TypeVar("Y")


@boundary
def scan(
    f: Callable[[Carry, X], tuple[Carry, Y]],
    init: Carry,
    xs: X | None = None,
    length: int | None = None,
    reverse: bool = False,
    unroll: int | bool = 1,
) -> tuple[Carry, Y]:
    """Call `carry, y = f(carry, x)` for each x along axis 0 of `xs`.

    The carry begins as `init`, and keeps its structure, shapes and dtypes. Without `xs` there are
    `length` steps. Returns the final carry and all y stacked. `reverse` starts at the end; `unroll`
    steps are recorded as one.

    >>> import rlx
    >>> last, sums = rlx.scan(lambda total, x: (total + x, total + x), 0.0, rlx.array([1.0, 2.0]))
    >>> float(last), sums.tolist()
    (3.0, [1.0, 3.0])
    """

    def plain(init: Any, xs: Any) -> Any:
        return loops.scan(f, init, xs, length, reverse, unroll)

    return repeated(plain, "scan", (f,), (init, xs), {}, typed((length, reverse, unroll)))


@boundary
def while_loop(
    cond_fun: Callable[[Carry], ArrayLike],
    body_fun: Callable[[Carry], Carry],
    init: Carry,
    max_steps: int | None = None,
) -> Carry:
    """Call `carry = body_fun(carry)` while `cond_fun(carry)` holds.

    The carry begins as `init`, and keeps its structure, shapes and dtypes. Returns the final carry.
    Forward mode works; reverse mode needs `max_steps`, an upper bound of the number of steps.

    >>> import rlx
    >>> float(rlx.while_loop(lambda x: x < 100.0, lambda x: x * 2.0, 3.0))
    192.0
    """

    def plain(init: Any) -> Any:
        return control.while_loop(cond_fun, body_fun, init, max_steps)

    return repeated(plain, "while_loop", (cond_fun, body_fun), (init,), {}, typed(max_steps))


@boundary
def fori_loop(
    lower: ArrayLike, upper: ArrayLike, body_fun: Callable[[Array, Carry], Carry], init: Carry
) -> Carry:
    """Call `carry = body_fun(i, carry)` for i from `lower` below `upper`.

    The carry begins as `init`, and keeps its structure, shapes and dtypes. Returns the final carry.
    With Python bounds reverse mode works.

    >>> import rlx
    >>> int(rlx.fori_loop(0, 5, lambda i, total: total + i, 0))
    10
    """
    if not (type(lower) is int and type(upper) is int):
        return control.fori_loop(lower, upper, body_fun, init)

    def plain(init: Any) -> Any:
        return control.fori_loop(lower, upper, body_fun, init)

    return repeated(plain, "fori_loop", (body_fun,), (init,), {}, (lower, upper))
