"""NumPy's functions of rlx arrays: `numpy.sin(x)` is `rlx.numpy.sin(x)`.

NumPy asks an array of another library what a function of its own is to do with it, by the methods
`__array_ufunc__` and `__array_function__`. Where `rlx.numpy` has the function, that is called. Else
known arrays are handed to NumPy, and traced ones are an error.
"""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from ..ir.errors import ArgumentError, ImmutableError
from ..trace import pytree
from ..trace.array import Array
from ..trace.operators import FUNCTIONS, Operators
from ..trace.tensor import TracedTensor

MODULES = {"numpy.linalg": "linalg", "numpy.fft": "fft"}
# these write to their first argument, which those of rlx.numpy of the same name do not
IN_PLACE = {"copyto", "fill_diagonal", "place", "put", "put_along_axis", "putmask"}
OTHER_NAMES = {"a_min": "min", "a_max": "max"}  # arguments that rlx.numpy calls otherwise


def __array_ufunc__(ufunc: np.ufunc, method: str, args: tuple, keywords: dict[str, Any]) -> Array:
    """What a ufunc of NumPy, or a method of one, gives for rlx arrays."""
    if method == "at":  # NumPy's writes to the array, that of rlx.numpy gives another one
        _check_written(_ufunc_name(ufunc, method), args[0])
        return _called(None, _ufunc_name(ufunc, method), ufunc, method, args, keywords)
    for given in keywords.get("out", ()):
        _check_written(_ufunc_name(ufunc, method), given)
    own = _own_ufunc(ufunc, method)
    if own is not None and not keywords:
        return own(*args)
    return _called(own, _ufunc_name(ufunc, method), ufunc, method, args, keywords)


def __array_function__(
    function: Callable[..., Any], types: Sequence[type], args: tuple, keywords: dict[str, Any]
) -> Any:
    """What a function of NumPy gives for rlx arrays."""
    if not all(issubclass(t, (Operators, np.ndarray)) for t in types):
        return NotImplemented
    if function.__name__ in IN_PLACE and args:
        _check_written(_name(function), args[0])
    own = _own_function(function)
    if own is not None and len(args) == 1 and not keywords:
        return own(*args)
    return _called(own, _name(function), function, "__call__", args, keywords)


def _check_written(name: str, target: Any) -> None:
    """Raise if a function of NumPy would write to an array of rlx."""
    if isinstance(target, Operators):
        raise ImmutableError(
            f"{name} writes to an array, and those of rlx are immutable",
            notes=[f"it is {target.type}"],
            fix="write x = x.at[i].set(v), or pass a copy of NumPy's: numpy.array(x)",
        )


def _called(
    own: Any, name: str, theirs: Any, method: str, args: tuple, keywords: dict[str, Any]
) -> Any:
    renamed = {OTHER_NAMES.get(key, key): x for key, x in keywords.items()}
    lacking = _lacking(own, args, renamed) if own is not None else ""
    if own is not None and not lacking:
        return own(*args, **renamed)
    leaves = pytree.leaves((args, keywords))
    traced = next((x for x in leaves if isinstance(x, TracedTensor) and x.concrete is None), None)
    if traced is None:
        return getattr(theirs, method)(*_on_host(args, name), **_on_host(keywords, name))
    if own is None:
        fix = f"rlx has no {name}: use other functions of rlx.numpy, or rlx.pure_callback"
        raise traced.no_value(name, fix)
    raise ArgumentError(
        f"{name}: of traced arrays it takes no {lacking}",
        notes=[f"rlx.{name}({', '.join(_signature(own).parameters)})"],
        fix="leave it out: convert (x.astype), choose (rlx.numpy.where) or assign (y[...] = x) "
        "in a step of its own",
    )


@functools.cache
def _own_ufunc(ufunc: np.ufunc, method: str) -> Any:
    known = getattr(np, ufunc.__name__, None) is ufunc
    if not known or not hasattr(_module(), ufunc.__name__):
        return None
    if method == "__call__":
        return FUNCTIONS[ufunc.__name__]
    return getattr(getattr(_module(), ufunc.__name__), method, None)


def _module() -> Any:
    return FUNCTIONS["__array_namespace__"](None)


def _ufunc_name(ufunc: np.ufunc, method: str) -> str:
    known = getattr(np, ufunc.__name__, None) is ufunc
    name = f"numpy.{ufunc.__name__}" if known else ufunc.__name__
    return name if method == "__call__" else f"{name}.{method}"


@functools.cache
def _own_function(function: Callable[..., Any]) -> Any:
    if function.__name__ in IN_PLACE:
        return None
    name, home = function.__name__, function.__module__
    if home == "numpy":
        return FUNCTIONS[name] if hasattr(_module(), name) else None
    return getattr(getattr(_module(), MODULES[home]), name, None) if home in MODULES else None


def _name(function: Callable[..., Any]) -> str:
    return f"{function.__module__}.{function.__name__}"


@functools.cache
def _signature(own: Callable[..., Any]) -> inspect.Signature:
    return inspect.signature(own)


def _lacking(own: Callable[..., Any], args: tuple, keywords: Mapping[str, Any]) -> str:
    """Which argument a function of rlx does not take as NumPy's does; empty if it takes all."""
    signature = _signature(own)
    unknown = [key for key in keywords if key not in signature.parameters]
    if keywords.get("out") is not None and "out" not in unknown:
        unknown.append("out")
    if unknown:
        return " and ".join(f"`{key}`" for key in unknown)
    try:
        signature.bind(*args, **keywords)
    except TypeError:
        return f"{len(args)} arguments by position"
    return ""


def _on_host(tree: Any, name: str) -> Any:
    """Arguments with NumPy arrays in the places of rlx arrays."""
    if isinstance(tree, Array):
        return tree.host()
    if isinstance(tree, TracedTensor):
        return np.asarray(tree)  # known, in a trace that runs on known arrays
    if type(tree) in (list, tuple):
        return type(tree)(_on_host(x, name) for x in tree)
    if type(tree) is dict:
        return {key: _on_host(x, name) for key, x in tree.items()}
    return tree
