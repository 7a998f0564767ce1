"""Expand composite ops into simpler ones."""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence

from ...ir.graph import Graph, Node, Value
from ...ir.rules import Function
from .rebuild import again, rebuild


def expand(graph: Graph, wants: Collection[str] | Callable[[Node], bool] = ()) -> Graph:
    """Expand composite ops, except those that the target takes whole.

    before: `y = silu(x)`; after: `a = logistic(x); y = mul(x, a)`. Vanish: ops with an `expand`
    rule whose name is not among `wants` (or which it, called with the node, does not want), in
    nested graphs too.
    """

    def expansion(node: Node) -> Function | None:
        rule = node.op.rules.expand
        if rule is None:
            return None
        is_wanted = wants(node) if callable(wants) else node.op.name in wants
        return None if is_wanted else rule

    def visit(node: Node, operands: list[Value]) -> Sequence[Value]:
        rule = expansion(node)
        if rule is None:
            return again(node, operands, lambda g: expand(g, wants))
        results = rule(*operands, **node.attrs)
        return results if isinstance(results, tuple | list) else (results,)

    while any(expansion(node) for node in graph.walk()):
        graph = rebuild(graph, visit)
    return graph
