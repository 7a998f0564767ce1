"""Names for parts of a program, which stand beside the lines in graphs and errors."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

from ..ir.errors import ArgumentError
from ..ir.source import in_scope
from .make_graph import check_function, function_name


def named_scope(name: str) -> Any:
    """Name what is recorded in a block; names of blocks in blocks are joined by `/`.

    What it gives is for `with`, or a decorator of functions.

    >>> import rlx
    >>> @rlx.jit
    ... def f(x):
    ...     with rlx.named_scope("scaled"):
    ...         return x * 2
    >>> print(f.lower(rlx.numpy.ones(3)).graph)
    graph f(%0: f32[3] "argument 0 of f, x") -> f32[3] {
      %1: f32[3] = full {shape=(3,), value=2.0, dtype=f32}  # ... in f [scaled]
      %2: f32[3] = mul %0, %1  # ... in f [scaled]
      return %2
    }
    """
    if not isinstance(name, str) or not name or not name.isprintable():
        raise ArgumentError(
            f"the name of a scope is {name!r}",
            fix='give a text in a line, as "attention"',
        )
    return in_scope(name)


def named_call(fun: Callable[..., Any], *, name: str | None = None) -> Callable[..., Any]:
    """Give a function whose calls are a named scope, by default its own name.

    >>> import rlx
    >>> double = rlx.named_call(lambda x: x + x, name="double")
    >>> print(rlx.make_graph(double)(1.0))
    graph "<lambda>"(%0: f32[] "argument 0 of <lambda>, x") -> f32[] {
      %1: f32[] = add %0, %0  # ... in <lambda> [double]
      return %1
    }
    """
    check_function(fun, "what named_call names")
    scope = function_name(fun) if name is None else name

    @functools.wraps(fun)
    def named(*args: Any, **kwargs: Any) -> Any:
        with named_scope(scope):
            return fun(*args, **kwargs)

    return named
