"""Algebraic simplification by the fold rules of ops."""

from __future__ import annotations

from collections.abc import Sequence

from ...ir.graph import Graph, Node, Value
from .rebuild import again, rebuild

ROUNDS = 4  # a fold may open another one; more rounds than this have not been seen to help


def simplify(graph: Graph) -> Graph:
    """Apply the fold rules of ops until nothing changes.

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
