"""Drop nodes whose results nobody needs."""

from __future__ import annotations

from ...ir.graph import Graph
from .rebuild import again, rebuild


def drop_dead(graph: Graph) -> Graph:
    """Drop nodes whose results nobody needs, in nested graphs too.

    before: `a = sin(x); b = cos(x); return b`; after: `b = cos(x); return b`.

    Ops with `effect` stay.
    """
    return rebuild(graph, lambda node, operands: again(node, operands, drop_dead))
