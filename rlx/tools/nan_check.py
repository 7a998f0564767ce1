"""`nan_check`: run a function op by op to find what made the first NaN."""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from ..ir.errors import ArgumentError, NanError
from ..ir.graph import Node
from ..ir.interpret import interpret, watched
from ..ir.number_check import check_results, is_bad, place_of
from ..ir.tracebacks import boundary
from ..runtime.arrays import prepare
from ..trace import pytree
from ..trace.arguments import flag
from ..trace.array import Array
from ..trace.make_graph import titled, trace
from ..trace.tensor import TracedTensor


def nan_check(fn: Callable[..., Any], *, infinities: bool = False) -> Callable[..., Any]:
    """Return a function that runs `fn` op by op and raises at the first NaN.

    The `NanError` names the op, the line and the place in the array. With `infinities` an infinity
    raises, too. `fn` may be a jitted or differentiated function; within a function that is recorded
    it is an `ArgumentError`. The numbers are those of the `reference` device. The setting
    `debug_nans` does the same inside of compiled code.

    >>> import numpy as np, rlx.numpy as rnp
    >>> nan_check(lambda x: rnp.log(x) * 2.0)(np.array([1.0, -1.0], "float32"))
    Traceback (most recent call last):
    ...
    rlx.NanError: log gives nan at [1] of f32[2]
      where  <doctest ...
             operand 0: f32[2], -1.0 at [1], from -1.0 to 1.0
      fix    keep the operands where log is defined; choose them by `where` before it, ...
    """
    bad = is_bad(True, flag("nan_check: infinities", infinities)) or np.isnan

    @boundary
    @functools.wraps(fn)
    def checked(*args: Any, **kwargs: Any) -> Any:
        leaves = pytree.leaves((args, kwargs))
        if any(isinstance(x, TracedTensor) for x in leaves):
            raise ArgumentError(
                "nan_check needs numbers, its function is being traced",
                fix="check the transformed function: rlx.nan_check(rlx.grad(f)), without jit",
            )
        traced = trace(fn, args, kwargs)
        given = [*leaves, *traced.captures]
        arrays = prepare(traced.graph.params, given, traced.graph.name)
        for param, array in zip(traced.graph.params, arrays, strict=True):
            place = place_of(array, bad)
            if place is not None:
                raise NanError(
                    f"{param.origin} is {array[place]!s} at {list(place)} of {param.type}",
                    fix="look where the argument comes from",
                )

        def check(node: Node, operands: Sequence[Any], results: Sequence[Any]) -> None:
            check_results(node.op.name, lambda: node.source, operands, results, bad)

        with watched(check):
            results = interpret(traced.graph, arrays)
        return pytree.unflatten(traced.out_tree, list(map(Array, results)))

    checked.__qualname__ = titled("nan_check", fn)
    return checked
