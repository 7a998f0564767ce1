"""Callbacks: Python functions called by compiled programs."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from ..ir.errors import ArgumentError, CheckError
from ..ir.ops.custom import Rule
from ..ir.source import user_source
from ..ir.types import Type, as_dtype
from . import pytree
from .apply import apply, as_operand, as_tensor
from .arguments import choice, flag
from .axes import as_shape
from .host import is_python_scalar
from .make_graph import check_function

VMAP_METHODS = ("sequential", "expand_dims", "broadcast_all")


def pure_callback(
    callback: Callable[..., Any],
    result_shape_dtypes: Any,
    *args: Any,
    vmap_method: str = "sequential",
    **kwargs: Any,
) -> Any:
    """Call a Python function of NumPy arrays from a compiled program.

    `callback(*args, **kwargs)` must only compute: it may be called again, or not at all if its
    results are not used. `result_shape_dtypes` is a tree of `rlx.spec`s or arrays like its results,
    which this returns. Under vmap, by `vmap_method`, it is called for each member ("sequential"),
    or once with whole batches, arguments all members share having an axis of size 1 ("expand_dims")
    or the batch's ("broadcast_all").

    >>> import numpy as np, rlx
    >>> f = rlx.jit(lambda x: pure_callback(np.sort, rlx.spec((3,)), x))
    >>> f(rlx.array([3.0, 1.0, 2.0])).tolist()
    [1.0, 2.0, 3.0]
    """
    choice("pure_callback: vmap_method", vmap_method, VMAP_METHODS)
    attrs = {"vmap_method": vmap_method}
    return _call("pure_callback", callback, result_shape_dtypes, args, kwargs, attrs)


def io_callback(
    callback: Callable[..., Any],
    result_shape_dtypes: Any,
    *args: Any,
    ordered: bool = False,
    **kwargs: Any,
) -> Any:
    """Call a Python function of NumPy arrays that has side effects.

    `callback(*args, **kwargs)` is called exactly once each time the program comes by, in the
    program's order, whether its results are used or not. `result_shape_dtypes` is as for
    `pure_callback`; None is no result. `ordered` is accepted: calls keep their order without it,
    too. Returns the results.
    """
    flag("io_callback: ordered", ordered)
    return _call("io_callback", callback, result_shape_dtypes, args, kwargs, {})


def debug_callback(callback: Callable[..., Any], *args: Any, **kwargs: Any) -> None:
    """Call a Python function of NumPy arrays for debugging.

    Derivatives pass it by.
    """
    check_function(callback, "debug_callback: the function")
    _show(callback, callback, args, kwargs)


def debug_print(text: str, *args: Any, **kwargs: Any) -> None:
    """Print a text with numbers of a running program, `debug_print("x is {}", x)`.

    The text is that of `str.format`.
    """
    if not isinstance(text, str):
        raise ArgumentError(
            f"debug.print: the text is of type {type(text).__name__}",
            fix='give a text first: rlx.debug.print("x is {}", x)',
        )
    _show(lambda *xs, **named: print(text.format(*xs, **named)), text, args, kwargs)


def check(condition: Any, message: str, *args: Any, **kwargs: Any) -> None:
    """Raise a `CheckError` where a condition does not hold, from compiled code too.

    All elements of `condition` must be true. The `message` is formatted with the numbers `args` and
    `kwargs`, as `str.format` does; what is no text is an `ArgumentError`. Under vmap it must hold
    for each member; derivatives pass it by.

    >>> import rlx
    >>> @rlx.jit
    ... def root(x):
    ...     check(x >= 0, "no root of {}", x)
    ...     return rlx.numpy.sqrt(x)
    >>> root(-4.0)
    Traceback (most recent call last):
    ...
    rlx.CheckError: no root of -4.0
      where  ...      check(x >= 0, "no root of {}", x)
      fix    look where the numbers come from: the condition is the user's own
    """
    where = str(user_source())
    if not isinstance(message, str):
        raise ArgumentError(
            f"check: the message is of type {type(message).__name__}",
            where=where,
            fix='give a text: rlx.check(x >= 0, "no root of {}", x)',
        )

    def look(found: np.ndarray, *given: Any, **named: Any) -> None:
        if not np.all(found):
            raise CheckError(
                message.format(*given, **named),
                where=where,
                fix="look where the numbers come from: the condition is the user's own",
            )

    _show(look, (message, where), (as_operand(condition), *args), kwargs)


def _show(fn: Callable[..., Any], key: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
    """Call a function for its effect; calls with equal keys are equal ops."""
    leaves, tree = pytree.flatten((args, kwargs))

    def run(*arrays: np.ndarray) -> None:
        given, named = pytree.unflatten(tree, arrays)
        fn(*given, **named)

    apply("debug_callback", *map(as_tensor, leaves), fn=Rule(run, (key, tree)))


def _call(
    name: str,
    callback: Callable[..., Any],
    results: Any,
    args: Any,
    kwargs: Any,
    attrs: dict[str, Any],
) -> Any:
    check_function(callback, f"{name}: the function")
    leaves, tree = pytree.flatten((args, kwargs))
    specs, out_tree = pytree.flatten(results)
    types = tuple(_type_of(name, s) for s in specs)

    def run(*arrays: np.ndarray) -> tuple[Any, ...]:
        given, named = pytree.unflatten(tree, arrays)
        found = pytree.flatten_like(out_tree, callback(*given, **named), name, SIDES)
        pairs = zip(found, types, strict=True)
        dtypes = [t.dtype if is_python_scalar(x) else None for x, t in pairs]
        return tuple(map(np.asarray, found, dtypes))

    rule = Rule(run, (callback, tree, out_tree, types))
    found = apply(name, *map(as_tensor, leaves), fn=rule, results=types, **attrs)
    return pytree.unflatten(out_tree, found)


SIDES = ("result_shape_dtypes", "what the function gave")


def _type_of(name: str, spec: Any) -> Type:
    try:
        return Type(as_dtype(spec.dtype), tuple(as_shape(spec.shape)))
    except AttributeError:
        raise ArgumentError(
            f"{name}: {spec!r} has no shape and dtype",
            fix='describe each result: rlx.spec((3,), "float32")',
        ) from None
