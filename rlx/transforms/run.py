"""Run a transformed graph: recorded where an operand is traced, evaluated at once elsewhere."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from ..ir.builder import inline
from ..ir.graph import Graph, Value
from ..ir.interpret import interpret
from ..trace.apply import as_operand, to_value
from ..trace.array import Array
from ..trace.make_graph import from_values
from ..trace.tensor import TracedTensor


def run_graph(graph: Graph, operands: Sequence[Any]) -> list[Any]:
    """Give the results as tensors of the open trace, or as arrays if nothing is traced.

    Operands are arrays, tensors, numbers, or values of an enclosing graph (captures).
    """
    if any(isinstance(x, TracedTensor | Value) for x in operands):
        values = [x if isinstance(x, Value) else to_value(as_operand(x)) for x in operands]
        return from_values(inline(graph, values))
    arrays = [_host(x, p) for x, p in zip(operands, graph.params, strict=True)]
    return [Array(r) for r in interpret(graph, arrays)]


def _host(x: Any, param: Value) -> Any:
    return x.host() if isinstance(x, Array) else np.asarray(x, dtype=param.dtype)
