"""Compute now what depends on constants alone."""

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
    """Compute now what depends on constants alone, if operands and results are small.

    before: `a = constant([1, 2]); b = add(a, a)`; after: `b = constant([2, 4])`.
    """

    if all(_known(node, node.args) is None for node in graph.walk()):
        return graph

    def visit(node: Node, operands: list[Value]) -> Sequence[Value]:
        arrays = _known(node, operands)
        if arrays is None:
            return again(node, operands, fold_constants)
        results = node.op.run(arrays, node.attrs)
        if any(map(_is_uniform, results)):
            return repeat(node, operands)
        lift = next(op for op in OPS.values() if op.is_constant).lift
        return [lift(array) for array in results]

    return rebuild(graph, visit)


def _is_uniform(array: np.ndarray) -> bool:
    """Whether an array is one number many times.

    Then it is better computed than read from memory.
    """
    return array.size > 1 and bool((array == array.flat[0]).all())


def _known(node: Node, operands: Sequence[Value]) -> list[np.ndarray] | None:
    """The operands' arrays, if the node can be computed from them now."""
    if not operands or node.graphs or "calls_python" in node.op.rules:
        return None
    if "reference" not in node.op.rules or sizes_in(node.attrs):
        return None
    if not all(r.type.is_static and r.type.size <= LARGEST for r in node.results):
        return None
    arrays = [_array(x) for x in operands]
    return None if any(a is None for a in arrays) else arrays  # type: ignore[return-value]


def _array(x: Value) -> np.ndarray | None:
    if x.constant is not None:
        return x.constant if x.constant.size <= LARGEST else None
    is_fill = x.node is not None and isinstance(x.node.op.rules.get("body"), Fill)
    if not is_fill or not x.type.is_static or x.type.size > LARGEST:
        return None
    return x.node.op.run([], x.node.attrs)[0]  # type: ignore[union-attr]
