"""Drop nodes whose results nobody needs."""

from __future__ import annotations

from collections.abc import Sequence

from ...ir.graph import Graph, Node, Value
from ...ir.op import has_effect
from .rebuild import again, rebuild


def drop_dead(graph: Graph) -> Graph:
    """Drop nodes whose results nobody needs, in nested graphs too.

    before: `a = sin(x); b = cos(x); return b`; after: `b = cos(x); return b`.

    Ops with `effect` stay.
    """
    needed = set(graph.results)
    live: set[Node] = set()
    for node in reversed(graph.nodes):
        if has_effect(node) or any(r in needed for r in node.results):
            live.add(node)
            needed.update(node.args)
    if len(live) == len(graph.nodes) and not any(node.graphs for node in live):
        return graph

    def visit(node: Node, operands: list[Value]) -> Sequence[Value]:
        if node not in live:
            return node.results  # stand-ins that no live node reads
        return again(node, operands, drop_dead)

    return rebuild(graph, visit)
