"""Common subexpression elimination."""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from typing import Any

from ...ir.graph import Graph, Node, Value
from .rebuild import again, rebuild


def dedupe(graph: Graph) -> Graph:
    """Merge nodes with the same op, operands and attributes.

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
