"""Named batch axes, and named scopes."""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Any

from ..ir.errors import ArgumentError
from ..ir.source import in_scope
from ..ir.types import Size
from .make_graph import check_function, function_name, titled

_axes: ContextVar[dict[str, Size] | None] = ContextVar("named_axes", default=None)


@contextmanager
def named_axis(name: Any, size: Size) -> Iterator[None]:
    """Name a batch axis of a size for the block; None names nothing."""
    if name is None:
        yield
        return
    token = _axes.set({**(_axes.get() or {}), name: size})
    try:
        yield
    finally:
        _axes.reset(token)


_asked: ContextVar[list[Any] | None] = ContextVar("asked", default=None)


@contextmanager
def asked_axes() -> Iterator[list[Any]]:
    """Collect the names of batch axes that are used in the block.

    What is recorded in the block holds for these axes only.
    """
    around = _axes.get() or {}
    names: list[Any] = []
    token = _asked.set(names)
    try:
        yield names
    finally:
        _asked.reset(token)
        names[:] = [name for name in names if name in around]
        outer = _asked.get()
        if outer is not None:
            outer += names


def size_of_axis(name: Any) -> Size:
    """The number of members of the batch with a name."""
    bound: dict[Any, Size] = dict(_axes.get() or {})
    if not any(type(name) is type(known) and name == known for known in bound):
        raise ArgumentError(
            f"there is no batch named {name!r} around this",
            fix=f"call the function under rlx.vmap(f, axis_name={name!r})"
            + (f"; the names here are {', '.join(map(repr, bound))}" if bound else ""),
        )
    names = _asked.get()
    if names is not None:
        names.append(name)
    return bound[name]


# -- names for parts of a program, which stand beside the lines in graphs and errors ---------------


def named_scope(name: str) -> Any:
    """Name the nodes recorded in a block; names of nested blocks are joined by `/`.

    The result is a context manager, and a decorator of functions. A `name` that is empty or not
    printable is an `ArgumentError`.

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
    """Return a function whose calls are a named scope.

    It computes the same as `fun`; `name` is by default the function's own.

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

    named.__qualname__ = titled("named_call", fun)
    return named
