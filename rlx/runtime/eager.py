"""Ops on arrays that lie on a device run there, each as a program of its own."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from ..ir.builder import build
from ..ir.graph import Graph, Value
from ..ir.memory import Memory
from ..ir.op import Op
from ..ir.ops.movement import broadcast
from ..ir.policy import AS_WRITTEN
from ..trace.apply import evaluate_with_reference, set_evaluator
from ..trace.array import Array
from .session import CompileOptions, default_session

AS_IT_IS = CompileOptions(precision=AS_WRITTEN)  # policies are for what the user compiles


def evaluate_on_device(
    op: Op, arrays: Sequence[Array], attrs: dict[str, Any], memory: Memory | None
) -> Sequence[Array]:
    """Run an op where its operands lie: on the host by its reference, else compiled."""
    if memory is None:
        return evaluate_with_reference(op, arrays, attrs, None)
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


def run_on_device(graph: Graph, arrays: Sequence[Any], memory: Memory) -> Sequence[Array]:
    """Compile a graph for the device of a memory, unless it is compiled, and run it."""
    results = default_session(memory.name).compile(graph, options=AS_IT_IS)(*arrays)
    return results if isinstance(results, tuple) else (results,)


set_evaluator(evaluate_on_device)
