"""Write composites in simpler ops."""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence

from ...ir.graph import Graph, Node, Value
from .rebuild import again, rebuild


def expand(graph: Graph, wants: Collection[str] | Callable[[Node], bool] = ()) -> Graph:
    """Write composites in simpler ops, except those the target wants whole.

    before: `y = silu(x)`; after: `a = logistic(x); y = mul(x, a)`. Vanish: ops with an `expand`
    rule whose name is not among `wants` (or which it, called with the node, does not want), in
    nested graphs too.
    """

    def is_composite(node: Node) -> bool:
        if "expand" not in node.op.rules:
            return False
        return not (wants(node) if callable(wants) else node.op.name in wants)

    def visit(node: Node, operands: list[Value]) -> Sequence[Value]:
        if not is_composite(node):
            return again(node, operands, lambda g: expand(g, wants))
        results = node.op.rules["expand"](*operands, **node.attrs)
        return results if isinstance(results, tuple | list) else (results,)

    while any(is_composite(node) for node in graph.walk()):
        graph = rebuild(graph, visit)
    return graph
