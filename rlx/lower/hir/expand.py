"""Write composites in simpler ops."""

from __future__ import annotations

from collections.abc import Collection, Sequence

from ...ir.graph import Graph, Node, Value
from .rebuild import again, rebuild


def expand(graph: Graph, wants: Collection[str] = ()) -> Graph:
    """Write composites in simpler ops, except those the target wants whole.

    before: `y = silu(x)`; after: `a = logistic(x); y = mul(x, a)`. Vanish: ops with an `expand`
    rule whose name is not among `wants`, in nested graphs too.
    """

    def is_composite(node: Node) -> bool:
        return "expand" in node.op.rules and node.op.name not in wants

    def visit(node: Node, operands: list[Value]) -> Sequence[Value]:
        if not is_composite(node):
            return again(node, operands, lambda g: expand(g, wants))
        results = node.op.rules["expand"](*operands, **node.attrs)
        return results if isinstance(results, tuple | list) else (results,)

    while any(is_composite(node) for node in graph.walk()):
        graph = rebuild(graph, visit)
    return graph
