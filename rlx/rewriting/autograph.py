"""`rlx.autograph`: a function whose `if` and loops may depend on traced values."""

from __future__ import annotations

import functools
import inspect
import types
from collections.abc import Callable
from typing import Any, TypeVar

from ..ir.errors import ArgumentError
from . import statements
from .rewrite import rewritten

Function = TypeVar("Function", bound=Callable[..., Any])
HELPERS = "_rlx_"  # the name of `statements` in rewritten functions


def autograph(fn: Function) -> Function:
    """Let `if`, `while` and `for` in a function depend on traced values; a decorator.

    The source of `fn` is rewritten: where a condition is traced, `if` becomes `rlx.cond`, `while`
    a `rlx.while_loop`; `for` over a traced array a `rlx.scan`, over a `range` of traced numbers a
    `rlx.while_loop`. So do `a if c else b`, `and`, `or`, `not` and `0 < x < 1`. Where nothing is
    traced all is Python's. Variables that a traced branch or loop sets must keep their types and
    shapes, and must be set on every path if they are used later. Loops with `break`, `continue` or
    `return` stay Python's, and so do the functions that `fn` calls. Lines in errors are yours.

    Put it below `@rlx.jit`. A function without source, of lambdas say, with `global` or `nonlocal`,
    or a generator is an `ArgumentError`. Returns a function like `fn`.

    >>> import rlx
    >>> @rlx.jit
    ... @rlx.autograph
    ... def collatz(n):
    ...     steps = 0
    ...     while n != 1:
    ...         if n % 2 == 0:
    ...             n = n // 2
    ...         else:
    ...             n = 3 * n + 1
    ...         steps += 1
    ...     return steps
    >>> int(collatz(27))
    111
    """
    if not inspect.isfunction(fn):
        raise ArgumentError(
            f"rlx.autograph takes a Python function, not a {type(fn).__name__}",
            fix="put it below the other decorators: @rlx.jit, then @rlx.autograph, then def",
        )
    code = rewritten(fn, HELPERS)
    cells = dict(zip(fn.__code__.co_freevars, fn.__closure__ or (), strict=True))
    cells[HELPERS] = types.CellType(statements)
    closure = tuple(cells[name] for name in code.co_freevars)
    made = types.FunctionType(code, fn.__globals__, fn.__name__, fn.__defaults__, closure)
    made.__kwdefaults__ = fn.__kwdefaults__
    return functools.update_wrapper(made, fn)  # type: ignore[return-value]
