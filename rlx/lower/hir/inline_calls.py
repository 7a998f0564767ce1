"""Inlining of calls, and expansion of composite ops into simpler ones."""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence

from ...ir.body import Call
from ...ir.builder import inline
from ...ir.graph import Graph, Node, Value
from ...ir.rules import Function
from .rebuild import again, rebuild


def inline_calls(graph: Graph, keep_recomputed: bool = True, keep_precise: bool = False) -> Graph:
    """Inline called graphs, in nested graphs too.

    before: `y = call(x, graph=(a) -> sin(a))`; after: `y = sin(x)`. Vanish: ops with the body
    `Call`. A call with the attribute `recompute` stays until `keep_recomputed` is False: its
    nodes must not be merged with those of the first run. One with a precision policy of its own
    stays if `keep_precise`.
    """

    def is_inlined(node: Node) -> bool:
        is_kept = keep_recomputed and node.attrs.get("recompute", False)
        is_kept = is_kept or (keep_precise and bool(node.attrs.get("precision")))
        return isinstance(node.op.rules.body, Call) and not is_kept

    def inner(graph: Graph) -> Graph:
        return inline_calls(graph, keep_recomputed, keep_precise)

    def visit(node: Node, operands: list[Value]) -> Sequence[Value]:
        if is_inlined(node):
            return inline(inner(node.attrs["graph"]), operands)
        return again(node, operands, inner)

    return rebuild(graph, visit) if any(map(is_inlined, graph.walk())) else graph


# -- expansion of composite ops -------------------------------------------------------------------


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
