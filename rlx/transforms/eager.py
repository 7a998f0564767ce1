"""`eager`: functions outside of `jit` that are compiled once they run often.

Outside of `jit` a function of several ops runs op by op at first. Of each kind of calls (the dtypes
and shapes of arrays, the values of all other arguments) the work is counted: twice the numbers of
its arrays, or as many as NumPy reads in the time that some ops take in Python. With the call that
brings it to `ENOUGH` the function is compiled for the kind. The rule counts no seconds, so that a
program that runs again gives the same bits.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from typing import Any, TypeVar

import numpy as np

from ..ir.errors import RlxError
from ..ir.graph import Graph
from ..ir.policy import AS_WRITTEN
from ..ir.types import DTYPES
from ..runtime import MISS, Device
from ..runtime.eager import is_exact
from ..runtime.session import CompileOptions
from ..trace import short_ways
from ..trace.array import Array
from ..trace.index import aliasing
from ..trace.make_graph import trace
from ..trace.promotion import ScalarType

FEW = 20_000  # numbers that NumPy reads and writes in the time that some ops take in Python
AS_IT_IS = CompileOptions(precision=AS_WRITTEN)  # policies are for what the user compiles
_CONSTANTS = frozenset((int, bool, str, type(None), type, ScalarType))
_KNOWN = frozenset(DTYPES.values())
Function = TypeVar("Function", bound=Callable[..., Any])


class _Kind:
    """Calls with arguments of one kind: their work so far, and the compiled code."""

    __slots__ = ("done", "run", "stays", "takes_all")

    def __init__(self) -> None:
        self.done, self.run, self.stays = 0.0, _missed, False
        self.takes_all = False  # the code has a parameter for each argument


def _missed(*arrays: Any) -> Any:
    return MISS


def eager(function: Function) -> Function:
    """Compile a function for calls on known arrays once these have been frequent.

    It must give arrays that depend on nothing but its arguments, and look at no elements. Arguments
    that are neither arrays nor constants (traced values, lists, functions) leave it as it is.
    """
    kinds: short_ways.Kinds[_Kind] = short_ways.Kinds()

    @functools.wraps(function)
    def quick(*args: Any, **kwargs: Any) -> Any:
        if not short_ways.is_open or aliasing.open_traces:
            return function(*args, **kwargs)
        latest = kinds.latest
        if latest is not None and not kwargs:
            result = latest(*args)
            if result is not MISS:
                return result
        parts, arrays = [], []
        for x in (*args, *kwargs.values()) if kwargs else args:
            kind = type(x)
            if kind is Array and x._device is None:
                data = x._data
                parts += (data.dtype, data.shape)
                arrays.append(x)
            elif kind in _CONSTANTS:
                parts += (kind, x)
            elif kind is np.ndarray:
                parts += (x.dtype, x.shape)
                arrays.append(x)
            elif kind is float:
                parts.append(repr(x))  # 0.0 == -0.0
            elif isinstance(x, np.dtype) or (kind is tuple and all(type(i) is int for i in x)):
                parts.append(x)
            else:
                return function(*args, **kwargs)
        if kwargs:
            parts += kwargs
        key = tuple(parts)
        known = kinds.get(key)
        if known is not None:
            result = known.run(*arrays)
            if result is not MISS:
                if latest is not None and known.takes_all:
                    kinds.latest = known.run
                return result
        elif not arrays:
            return function(*args, **kwargs)
        known = known or kinds.keep(key, _Kind())
        if known.stays or not _is_due(known, arrays):
            return function(*args, **kwargs)
        result = _compiled(known, function, arrays, args, kwargs)
        if known.takes_all:
            kinds.latest = known.run
        return result

    return quick  # type: ignore[return-value]


def _is_due(kind: _Kind, arrays: Sequence[Any]) -> bool:
    """Count one more call, and return whether calls of this kind are to be compiled."""
    kind.done += max(FEW, 2 * sum(x.size for x in arrays))
    return kind.done >= short_ways.ENOUGH


def _compiled(
    kind: _Kind,
    function: Callable[..., Any],
    arrays: Sequence[Any],
    args: tuple[Any, ...],
    kwargs: dict[str, Any],
) -> Any:
    """Compile a kind of calls and run it, or go on as before if that fails."""

    kind.stays = True
    code = _code(function, arrays, args, kwargs) if all(x.dtype in _KNOWN for x in arrays) else None
    if code is None:
        return function(*args, **kwargs)
    kind.run, kind.takes_all = code, len(arrays) == len(args) and not kwargs
    result = code(*arrays)
    return function(*args, **kwargs) if result is MISS else result


def _code(
    function: Callable[..., Any],
    arrays: Sequence[Any],
    args: tuple[Any, ...],
    kwargs: dict[str, Any],
    accepts: Callable[[Graph], bool] = lambda graph: True,
) -> Callable[..., Any] | None:
    """Compile for the arrays among arguments; None if the graph cannot be compiled."""
    from .jit.compiled import Lowered  # with `jit`, which not every program uses
    from .jit.paths import Arguments

    @functools.wraps(function)
    def call(*values: Any) -> Any:
        left = iter(values)
        given = [next(left) if isinstance(x, Array | np.ndarray) else x for x in args]
        named = {
            name: next(left) if isinstance(x, Array | np.ndarray) else x
            for name, x in kwargs.items()
        }
        return function(*given, **named)

    try:
        traced = trace(call, tuple(arrays), {})
        if not accepts(traced.graph):
            return None
        compiled = Lowered(traced, Device("cpu"), AS_IT_IS)
        pair: Any = tuple(arrays), {}
        return compiled.compile().path(Arguments(pair, pair))
    except RlxError:  # what is wrong the function itself says
        return None


def _exact_code(function: Callable[..., Any], args: tuple[Any, ...]) -> Callable[..., Any] | None:
    return _code(function, [x for x in args if type(x) is Array], args, {}, is_exact)


short_ways.set_exact_code(_exact_code)
