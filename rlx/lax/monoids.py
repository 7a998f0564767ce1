"""Which operation a Python function of two numbers is.

Reductions are told so what to do.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np

from ..ir.errors import RlxError
from ..ir.types import Type, is_bool, is_float, is_integer
from ..trace.array import Array
from ..trace.host import is_python_scalar
from ..trace.make_graph import check_function, trace


class Monoid(NamedTuple):
    """An operation with the names of its ops for whole arrays and for windows."""

    op: str
    whole: str
    windows: str | None


MONOIDS = {
    "add": Monoid("add", "reduce_sum", "reduce_window_sum"),
    "mul": Monoid("mul", "reduce_prod", "reduce_window_prod"),
    "max": Monoid("max", "reduce_max", "reduce_window_max"),
    "min": Monoid("min", "reduce_min", "reduce_window_min"),
    "bit_and": Monoid("bit_and", "reduce_and", None),
    "bit_or": Monoid("bit_or", "reduce_or", None),
}


def monoid_of(computation: Callable[[Any, Any], Any], dtype: np.dtype) -> Monoid | None:
    """The operation that a function applies to two scalars, or None.

    It is None if the function does something else.
    """
    check_function(computation, "the computation of a reduction")
    try:
        graph = trace(computation, (Type(dtype), Type(dtype))).graph
    except (RlxError, TypeError):  # it takes other arguments
        return None
    if len(graph.nodes) != 1 or list(graph.results) != list(graph.nodes[0].results):
        return None
    node = graph.nodes[0]
    return MONOIDS.get(node.op.name) if set(node.args) == set(graph.params) else None


def is_neutral(monoid: Monoid, number: Any, dtype: np.dtype) -> bool:
    """Whether a known number changes nothing, combined with any other."""
    if not is_python_scalar(number) and not isinstance(number, Array | np.ndarray | np.generic):
        return False
    found = np.asarray(number).item()
    return found == neutral(monoid, dtype) and not (found == 0 and math.copysign(1, found.real) < 0)


def neutral(monoid: Monoid, dtype: np.dtype) -> Any:
    """The number that changes nothing, combined with any other."""
    if monoid.op in ("add", "mul"):
        return 0 if monoid.op == "add" else 1
    if is_bool(dtype):
        return monoid.op == "bit_and"
    if is_integer(dtype):
        limits = np.iinfo(dtype)
        bits = {"bit_and": -1 if dtype.kind == "i" else limits.max, "bit_or": 0}
        return {"max": limits.min, "min": limits.max, **bits}[monoid.op]
    assert is_float(dtype), "complex numbers have no order"
    return -math.inf if monoid.op == "max" else math.inf
