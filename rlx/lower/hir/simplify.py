"""Algebraic simplification by the fold rules of ops, and constant folding."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from ...ir.bind import sizes_in
from ...ir.body import Fill
from ...ir.builder import repeat
from ...ir.graph import OPS, Graph, Node, Value
from .rebuild import again, rebuild

ROUNDS = 4  # a fold may open another one; more rounds than this have not been seen to help


def simplify(graph: Graph) -> Graph:
    """Algebraic simplification: apply the fold rules of ops until nothing changes.

    before: `a = transpose(x, axes=(1, 0)); b = transpose(a, axes=(1, 0)); c = mul(b, 1)`;
    after: `x`.
    """
    tried: set[Node] = set()
    for _ in range(ROUNDS):
        before, graph = graph, _sweep(graph, tried)
        if graph is before:
            break
    return graph


def _sweep(graph: Graph, tried: set[Node]) -> Graph:
    """Apply fold rules once to each node, except those `tried` with the same operands."""

    def visit(node: Node, operands: list[Value]) -> Sequence[Value]:
        is_tried = node in tried and tuple(operands) == node.args
        fold = None if is_tried else node.op.rules.fold
        found = fold(*operands, **node.attrs) if fold else None
        if found is None:
            results = again(node, operands, simplify)
            if not node.graphs:
                tried.update(r.node for r in results if r.node is not None)
            return results
        results = found if isinstance(found, tuple | list) else (found,)
        for result, old in zip(results, node.results, strict=True):
            assert result.type == old.type, f"{node.op.name}.fold: {old.type} became {result.type}"
        return results

    return rebuild(graph, visit)


# -- constant folding -----------------------------------------------------------------------------

LARGEST = 256  # elements: more would grow the program, and cost time to compile


def fold_constants(graph: Graph) -> Graph:
    """Constant folding: evaluate nodes of small constants at compile time.

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
        lift = OPS["constant"].lift
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
