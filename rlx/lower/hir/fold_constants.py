"""Constant folding."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from ...ir.bind import sizes_in
from ...ir.body import Fill
from ...ir.builder import repeat
from ...ir.graph import OPS, Graph, Node, Value
from .rebuild import again, rebuild

LARGEST = 256  # elements: more would grow the program, and cost time to compile


def fold_constants(graph: Graph) -> Graph:
    """Evaluate nodes of constants at compile time, if operands and results are small.

    before: `a = constant([1, 2]); b = add(a, a)`; after: `b = constant([2, 4])`.
    """

    if not any(_is_known(node, node.args) for node in graph.walk()):
        return graph

    def visit(node: Node, operands: list[Value]) -> Sequence[Value]:
        if not _is_known(node, operands):
            return again(node, operands, fold_constants)
        results = node.op.run([_array(x) for x in operands], node.attrs)
        if any(map(_is_uniform, results)):
            return repeat(node, operands)
        lift = next(op for op in OPS.values() if op.is_constant).lift
        return [lift(array) for array in results]

    return rebuild(graph, visit)


def _is_uniform(array: np.ndarray) -> bool:
    """Whether an array repeats one number, so that filling it beats reading it."""
    return array.size > 1 and bool((array == array.flat[0]).all())


def _is_known(node: Node, operands: Sequence[Value]) -> bool:
    """Whether a node can be evaluated at compile time."""
    if not operands or node.graphs or not all(map(_is_small, operands)):
        return False
    if node.op.rules.calls_python or node.op.rules.reference is None or sizes_in(node.attrs):
        return False
    return all(r.type.is_static and r.type.size <= LARGEST for r in node.results)


def _is_small(x: Value) -> bool:
    """Whether a value is a small constant."""
    if x.constant is not None:
        return x.constant.size <= LARGEST
    is_fill = x.node is not None and isinstance(x.node.op.rules.body, Fill)
    return is_fill and x.type.is_static and x.type.size <= LARGEST


def _array(x: Value) -> np.ndarray:
    assert x.node is not None
    return x.node.op.run([], x.node.attrs)[0] if x.constant is None else x.constant
