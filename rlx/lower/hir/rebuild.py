"""How every pass makes its new graph."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from ...ir.builder import build, repeat, rewrite
from ...ir.graph import Graph, Node, Value

Visit = Callable[[Node, list[Value]], Sequence[Value]]


def rebuild(graph: Graph, visit: Visit) -> Graph:
    """Record a graph anew, as `visit` says for each node.

    `visit(node, operands)` gives the values for the node's results.
    """
    origins = [p.origin for p in graph.params]
    return build(lambda *xs: rewrite(graph, xs, visit), graph.param_types, graph.name, origins)


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
