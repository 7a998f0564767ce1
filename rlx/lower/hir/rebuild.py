"""The rewriting that all passes share; dead code, common subexpressions."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Sequence
from typing import Any

from ...ir.builder import current, recording, repeat, rewrite
from ...ir.graph import Graph, Node, Value
from ...ir.op import live_nodes

Visit = Callable[[Node, list[Value]], Sequence[Value]]


def rebuild(
    graph: Graph, visit: Visit, close: Callable[[list[Value]], Sequence[Value]] = list
) -> Graph:
    """Rewrite a graph node by node with `visit`.

    `visit(node, operands)` gives the values for the node's results, `close` the graph's results for
    what became of them. Dead code is dropped. Nodes that stay are shared with the old graph, which
    is given back if all of them stay.
    """
    with recording(graph.name) as builder:
        made = builder.graph
        made.params, made.lineage = list(graph.params), graph.lineage
        made.results = [builder.own(r) for r in close(rewrite(graph, made.params, visit))]
    assert not builder.captures, f"{graph.name} captured values of an enclosing graph"
    made.nodes = live_nodes(made)
    is_same = made.nodes == graph.nodes and made.results == graph.results
    return graph if is_same else made


def again(node: Node, operands: list[Value], change: Callable[[Graph], Graph]) -> Sequence[Value]:
    """Record a node on new operands and nested graphs, or keep it if both are old."""
    attrs = node.attrs
    if node.graphs:
        attrs = {name: _changed(attr, change) for name, attr in attrs.items()}
        if attrs != node.attrs:
            return node.op.apply(operands, attrs)
    builder = current()
    is_own = builder is not None and node.results and builder.graph.owns(node.results[0])
    if builder is None or not is_own or tuple(operands) != node.args:
        return repeat(node, operands)
    builder.graph.nodes.append(node)
    return node.results


def _changed(attr: Any, change: Callable[[Graph], Graph]) -> Any:
    if isinstance(attr, Graph):
        return change(attr)
    if isinstance(attr, tuple) and any(isinstance(a, Graph) for a in attr):
        return tuple(_changed(a, change) for a in attr)
    return attr


# -- dead-code elimination ------------------------------------------------------------------------


def drop_dead(graph: Graph) -> Graph:
    """Dead-code elimination, in nested graphs too; nodes with an effect stay.

    before: `a = sin(x); b = cos(x); return b`; after: `b = cos(x); return b`.
    """
    return rebuild(graph, lambda node, operands: again(node, operands, drop_dead))


# -- common subexpression elimination -------------------------------------------------------------


def dedupe(graph: Graph) -> Graph:
    """Common subexpression elimination: nodes of equal op, operands and attributes.

    before: `a = sin(x); b = sin(x); c = add(a, b)`; after: `a = sin(x); c = add(a, a)`. Ops with
    the rule `calls_python` are left alone, and so are calls with the attribute `recompute`.
    """
    seen: dict[Hashable, Sequence[Value]] = {}

    def visit(node: Node, operands: list[Value]) -> Sequence[Value]:
        if node.op.rules.calls_python or node.attrs.get("recompute", False):
            return again(node, operands, dedupe)
        key = (node.op.name, *map(id, operands), *map(_exact, node.attrs.values()))
        if key not in seen:
            seen[key] = again(node, operands, dedupe)
        return seen[key]

    return rebuild(graph, visit)


def _exact(attr: Any) -> Hashable:
    """A key for an attribute: 0, 0.0, -0.0 and False differ, NaN equals itself."""
    if isinstance(attr, tuple):
        return tuple(map(_exact, attr))
    if isinstance(attr, int):
        return type(attr), attr
    if isinstance(attr, float | complex):
        return type(attr), repr(attr)
    return attr
