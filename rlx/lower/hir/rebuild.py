"""How every pass makes its new graph."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from ...ir.builder import build, repeat, rewrite
from ...ir.graph import Graph, Node, Value
from ...ir.op import has_effect

Visit = Callable[[Node, list[Value]], Sequence[Value]]


def rebuild(graph: Graph, visit: Visit) -> Graph:
    """Record a graph anew, as `visit` says for each node.

    `visit(node, operands)` gives the values for the node's results. What nobody needs then is left
    out.
    """
    origins = [p.origin for p in graph.params]
    made = build(lambda *xs: rewrite(graph, xs, visit), graph.param_types, graph.name, origins)
    made.nodes = live_nodes(made)
    return made


def live_nodes(graph: Graph) -> list[Node]:
    """The nodes whose results are needed, and those with an effect."""
    needed = set(graph.results)
    live: list[Node] = []
    for node in reversed(graph.nodes):
        if has_effect(node) or not needed.isdisjoint(node.results):
            live.append(node)
            needed.update(node.args)
    return live[::-1]


def again(node: Node, operands: list[Value], change: Callable[[Graph], Graph]) -> Sequence[Value]:
    """Record a node on new operands of equal types, with each nested graph changed."""
    if not node.graphs:
        return repeat(node, operands)
    attrs = {name: _changed(attr, change) for name, attr in node.attrs.items()}
    return node.op.apply(operands, attrs)


def _changed(attr: Any, change: Callable[[Graph], Graph]) -> Any:
    if isinstance(attr, Graph):
        return change(attr)
    if isinstance(attr, tuple) and any(isinstance(a, Graph) for a in attr):
        return tuple(_changed(a, change) for a in attr)
    return attr
