"""Drop nodes whose results nobody needs."""

from __future__ import annotations

from ...ir.graph import Graph
from .rebuild import again, live_nodes, rebuild


def drop_dead(graph: Graph) -> Graph:
    """Drop nodes whose results nobody needs, in nested graphs too.

    before: `a = sin(x); b = cos(x); return b`; after: `b = cos(x); return b`.

    Ops with `effect` stay.
    """
    nested = (g for node in graph.nodes for g in node.graphs)
    if len(live_nodes(graph)) == len(graph.nodes) and all(drop_dead(g) is g for g in nested):
        return graph
    return rebuild(graph, lambda node, operands: again(node, operands, drop_dead))
