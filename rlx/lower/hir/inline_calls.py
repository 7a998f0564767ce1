"""Put called graphs in the place of their calls."""

from __future__ import annotations

from collections.abc import Sequence

from ...ir.body import Call
from ...ir.builder import inline
from ...ir.graph import Graph, Node, Value
from .rebuild import again, rebuild


def inline_calls(graph: Graph, keep_recomputed: bool = True) -> Graph:
    """Put called graphs in the place of their calls, nested ones too.

    before: `y = call(x, graph=(a) -> sin(a))`; after: `y = sin(x)`. Vanish: ops with the body
    `Call`. A call with the attribute `recompute` stays until `keep_recomputed` is False: its
    nodes must not be merged with those of the first run.
    """

    def is_inlined(node: Node) -> bool:
        is_kept = keep_recomputed and node.attrs.get("recompute", False)
        return isinstance(node.op.rules.get("body"), Call) and not is_kept

    def visit(node: Node, operands: list[Value]) -> Sequence[Value]:
        if is_inlined(node):
            return inline(inline_calls(node.attrs["graph"], keep_recomputed), operands)
        return again(node, operands, lambda g: inline_calls(g, keep_recomputed))

    return rebuild(graph, visit) if any(map(is_inlined, graph.walk())) else graph
