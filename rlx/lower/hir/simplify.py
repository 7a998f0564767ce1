"""Apply the fold rules of the rooms."""

from __future__ import annotations

from collections.abc import Sequence

from ...ir.graph import Graph, Node, Value
from .rebuild import again, rebuild

ROUNDS = 4  # a fold may open another one; more rounds than this have not been seen to help


def simplify(graph: Graph) -> Graph:
    """Apply the fold rules of the rooms until nothing changes.

    before: `a = transpose(x, axes=(1, 0)); b = transpose(a, axes=(1, 0)); c = mul(b, 1)`;
    after: `x`.
    """
    for _ in range(ROUNDS):
        graph, changed = _sweep(graph)
        if not changed:
            break
    return graph


def _sweep(graph: Graph) -> tuple[Graph, bool]:
    changed = False

    def visit(node: Node, operands: list[Value]) -> Sequence[Value]:
        nonlocal changed
        fold = node.op.rules.get("fold")
        found = fold(*operands, **node.attrs) if fold else None
        if found is None:
            return again(node, operands, simplify)
        changed = True
        results = found if isinstance(found, tuple | list) else (found,)
        for result, old in zip(results, node.results, strict=True):
            assert result.type == old.type, f"{node.op.name}.fold: {old.type} became {result.type}"
        return results

    return rebuild(graph, visit), changed
