"""Find the operation that made the first NaN."""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from ..ir.builder import user_source
from ..ir.errors import ArgumentError, NanError
from ..ir.graph import Node
from ..ir.interpret import interpret, watched
from ..ir.types import type_of
from ..trace import pytree
from ..trace.array import Array
from ..trace.make_graph import trace
from ..trace.tensor import TracedTensor
from .compiled import prepare


def nan_check(fn: Callable[..., Any], *, infinities: bool = False) -> Callable[..., Any]:
    """Give a function that runs `fn` op by op and raises where a NaN first appears.

    The error names the op, the line and the place in the array. With `infinities` an infinity
    raises, too. It may be a jitted or differentiated function; the numbers are those of the
    `reference` device.

    >>> import numpy as np, rlx.numpy as rnp
    >>> nan_check(lambda x: rnp.log(x) * 2.0)(np.array([1.0, -1.0], "float32"))
    Traceback (most recent call last):
    ...
    rlx.NanError: log gives nan at [1] of f32[2]
      where  <doctest ...
             operand 0: f32[2], -1.0 at [1]
      fix    keep the operands where log is defined; a `where` after it hides the NaN, ...
    """
    bad = (lambda x: ~np.isfinite(x)) if infinities else np.isnan

    @functools.wraps(fn)
    def checked(*args: Any, **kwargs: Any) -> Any:
        leaves = pytree.leaves((args, kwargs))
        if any(isinstance(x, TracedTensor) for x in leaves):
            raise ArgumentError(
                "nan_check needs numbers, its function is being traced",
                where=str(user_source()),
                fix="check the transformed function: rlx.nan_check(rlx.grad(f)), without jit",
            )
        traced = trace(fn, args, kwargs)
        given = [*leaves, *traced.captures]
        arrays = prepare(traced.graph.params, given, traced.graph.name)
        for param, array in zip(traced.graph.params, arrays, strict=True):
            place = _first(array, bad)
            if place is not None:
                raise NanError(
                    f"{param.origin} is {array[place]} at {list(place)} of {param.type}",
                    where=str(user_source()),
                    fix="look where the argument comes from",
                )
        with watched(lambda node, xs, ys: _check(node, xs, ys, bad)):
            results = interpret(traced.graph, arrays)
        return pytree.unflatten(traced.out_tree, list(map(Array, results)))

    return checked


def _check(
    node: Node,
    operands: Sequence[np.ndarray],
    results: Sequence[np.ndarray],
    bad: Callable[[Any], Any],
) -> None:
    """Raise if a result is bad though no operand is.

    Numbers written by the user are as meant.
    """
    if not operands or any(_first(x, bad) is not None for x in operands):
        return
    for result in results:
        place = _first(result, bad)
        if place is None:
            continue
        name = node.op.name
        raise NanError(
            f"{name} gives {result[place]}{_at(place)} of {type_of(result)}",
            where=str(node.source),
            notes=[_operand(i, x, result.shape, place) for i, x in enumerate(operands)],
            fix=f"keep the operands where {name} is defined; a `where` after it hides the NaN, but "
            "not from the derivative",
        )


def _first(array: np.ndarray, bad: Callable[[Any], Any]) -> tuple[int, ...] | None:
    """The place of the first bad number."""
    if np.dtype(array.dtype).kind in "biu":
        return None
    places = np.argwhere(bad(array))
    return tuple(map(int, places[0])) if len(places) else None


def _operand(i: int, array: np.ndarray, shape: tuple[int, ...], place: tuple[int, ...]) -> str:
    text = f"operand {i}: {type_of(array)}"
    return f"{text}, {array[place]}{_at(place)}" if array.shape == shape else text


def _at(place: tuple[int, ...]) -> str:
    return f" at {list(place)}" if place else ""
