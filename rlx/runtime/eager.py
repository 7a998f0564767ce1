"""Eager ops on devices: each is a program on the device of its operands.

On the host the reference runs, or compiled code where `eager_host.py` says so.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from ..ir.builder import build
from ..ir.graph import Graph, Value, graphs_in
from ..ir.memory import Memory
from ..ir.op import Op
from ..ir.ops.movement import broadcast
from ..trace import short_ways
from ..trace.apply import evaluate_with_reference, set_evaluator
from ..trace.array import Array
from .devices import default_device
from .eager_host import AS_IT_IS, run_large
from .options import is_invariant
from .session import default_session


def evaluate_on_device(
    op: Op, arrays: Sequence[Array], attrs: dict[str, Any], memory: Memory | None
) -> Sequence[Array]:
    """Run an op where its operands lie."""
    if memory is None and not any(map(is_invariant, graphs_in(attrs.values()))):
        results = run_large(op, arrays, attrs) if short_ways.is_open else None
        return evaluate_with_reference(op, arrays, attrs, None) if results is None else results
    given = [_number_in(x) if x._device is None else x for x in arrays]

    def record(*values: Value) -> Sequence[Value]:
        rows = zip(values, arrays, strict=True)
        whole = [v if v.type == x.type else broadcast(v, shape=x.shape, axes=()) for v, x in rows]
        return op.apply(whole, attrs)

    graph = build(record, [x.type for x in given], op.name)
    return run_on_device(graph, given, memory)


def _number_in(filled: Array) -> Array:
    """The number that fills an array."""
    return Array(filled.host()[(0,) * filled.ndim])


def run_on_device(graph: Graph, arrays: Sequence[Any], memory: Memory | None) -> Sequence[Array]:
    """Compile a graph for the device of a memory, unless it is compiled, and run it."""
    device = default_device() if memory is None else memory.name
    results = default_session(device).compile(graph, options=AS_IT_IS)(*arrays)
    return results if isinstance(results, tuple) else (results,)


set_evaluator(evaluate_on_device)
