"""`from_jax`: a function of JAX arrays becomes one of rlx arrays."""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable, Sequence
from typing import Any, NoReturn, final

from ..ir.tracebacks import boundary
from ..trace.arguments import members, names_of
from ..trace.axes import integer
from ..trace.make_graph import check_function, function_name
from .containers import know_containers_of_jax


def from_jax(
    fun: Callable[..., Any],
    *,
    static_argnums: int | Sequence[int] = (),
    static_argnames: str | Sequence[str] = (),
) -> Callable[..., Any]:
    """Convert a function of JAX arrays to a function of rlx arrays.

    JAX records `fun` once for the shapes it is called with, and rlx replays the record with
    functions of its own: so it can be jitted, differentiated and batched by rlx, on any device.
    Arguments and results are pytrees, as JAX knows them. Arguments of `static_argnums`, and those
    passed by a name of `static_argnames`, reach the function as they are.

    >>> import jax.numpy as jnp
    >>> import rlx
    >>> f = rlx.from_jax(lambda x: jnp.sum(jnp.tanh(x) ** 2))
    >>> rlx.jit(rlx.grad(f))(rlx.numpy.array([0.0, 1.0]))
    Array([0.       , 0.6397...], dtype=float32)
    """
    check_function(fun, "what from_jax converts")
    numbers = (static_argnums,) if isinstance(static_argnums, int) else static_argnums
    numbers = tuple(
        integer("static_argnums", n) for n in members("from_jax: static_argnums", numbers)
    )
    know_containers_of_jax()
    names = names_of("from_jax: static_argnames", static_argnames)
    return _Converted(fun, numbers, names)


@final
class _Converted:
    """A function of JAX arrays, called with rlx arrays."""

    def __init__(
        self, fun: Callable[..., Any], numbers: tuple[int, ...], names: tuple[str, ...]
    ) -> None:
        functools.update_wrapper(self, fun)
        self.__name__ = function_name(fun)
        self._jax_function = fun
        self._jax_static_numbers = numbers
        self._jax_static_names = frozenset({*names, *_names_at(fun, numbers)})

    def __repr__(self) -> str:
        return f"<from_jax({self.__name__})>"

    @property
    def identity_parts(self) -> NoReturn:
        """There are none: what JAX records depends on more than rlx can see through."""
        raise LookupError("it is a function of JAX")

    @boundary
    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        from .recording import converted  # which imports JAX

        fixed = {n % len(args) for n in self._jax_static_numbers if -len(args) <= n < len(args)}
        free = tuple(x for i, x in enumerate(args) if i not in fixed)
        named = {name: x for name, x in kwargs.items() if name not in self._jax_static_names}
        static = {name: x for name, x in kwargs.items() if name in self._jax_static_names}

        def of_free(*given: Any, **named: Any) -> Any:
            rest = iter(given)
            whole = [x if i in fixed else next(rest) for i, x in enumerate(args)]
            return self._jax_function(*whole, **named, **static)

        return converted(of_free, free, named)


def _names_at(fun: Callable[..., Any], numbers: Sequence[int]) -> list[str]:
    """The names of the arguments at some places, by which they may be passed as well."""
    try:
        parameters = list(inspect.signature(fun).parameters.values())
    except (TypeError, ValueError):
        return []
    named = [p.name for p in parameters if p.kind is p.POSITIONAL_OR_KEYWORD]
    return [named[n] for n in numbers if -len(named) <= n < len(named)]
