"""Forward mode: from a graph to that of its values and tangents.

`jvp_graph` walks the nodes once and asks each op for its rule; it names no op.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from ..ir.builder import build, rewrite
from ..ir.errors import GradientError
from ..ir.graph import OPS, Graph, Node, Value
from ..ir.op import EXPANSION
from ..ir.ops.control import filled, pick

Tangent = Value | None  # None is a zero that is not written down


def jvp_graph(
    graph: Graph, active: Sequence[bool], out_active: Sequence[bool] | None = None
) -> tuple[Graph, list[bool]]:
    """Make the graph of values and tangents.

    It takes the parameters, then a tangent for each active one; it gives the results, then a
    tangent for each result that has one (or, if given, for those of `out_active`).
    """
    has_tangent: list[bool] = []

    def run(*xs: Value) -> list[Value]:
        primals, given = xs[: len(active)], iter(xs[len(active) :])
        tangents = [next(given) if is_active else None for is_active in active]
        results, pushed = push(graph, primals, tangents)
        has_tangent[:] = [t is not None for t in pushed] if out_active is None else out_active
        return [*results, *pick(filled_where(pushed, results, has_tangent), has_tangent)]

    types = [*graph.param_types, *pick(graph.param_types, active)]
    return build(run, types, graph.name, [p.origin for p in graph.params]), has_tangent


def filled_where(
    tangents: Sequence[Tangent], values: Sequence[Value], wanted: Sequence[bool]
) -> list[Tangent]:
    """Materialize zeros for wanted tangents that are None."""
    return [
        filled([t], [x])[0] if is_wanted else None
        for t, x, is_wanted in zip(tangents, values, wanted, strict=True)
    ]


def push(
    graph: Graph, primals: Sequence[Value], tangents: Sequence[Tangent]
) -> tuple[list[Value], list[Tangent]]:
    """Record the values and tangents of a graph in the current one."""
    pairs = rewrite(graph, list(zip(primals, tangents, strict=True)), _visit)
    return [x for x, _ in pairs], [t for _, t in pairs]


def _visit(node: Node, pairs: list[tuple[Value, Tangent]]) -> list[tuple[Value, Tangent]]:
    primals = [x for x, _ in pairs]
    tangents = [t if x.type.is_inexact else None for x, t in pairs]
    results, pushed = node_jvp(node, primals, tangents)
    return [(x, t if x.type.is_inexact else None) for x, t in zip(results, pushed, strict=True)]


def node_jvp(
    node: Node, primals: list[Value], tangents: list[Tangent]
) -> tuple[Sequence[Value], Sequence[Tangent]]:
    """Apply the JVP rule of a node, and give results and tangents."""
    op, attrs, rules = node.op, node.attrs, node.op.rules
    if all(t is None for t in tangents) or rules.nondifferentiable is not None:
        results = op.apply(primals, attrs)
        return results, [None] * len(results)
    rule = rules.jvp
    if rule == EXPANSION:
        return push(expanded(node), primals, tangents)
    if isinstance(rule, list):
        (result,) = op.apply(primals, attrs)
        terms = [
            each(t, result, *primals, **attrs)
            for each, t in zip(rule, tangents, strict=True)
            if t is not None and each is not None
        ]
        return [result], [add_all(terms)]
    if rule is not None:
        engine = (jvp_graph,) if node.graphs else ()
        results, found = rule(*engine, primals, tangents, **attrs)
        return _as_list(results), _as_list(found)
    if rules.transpose is not None:  # linear: the op is its own tangent map
        results = op.apply(primals, attrs)
        return results, op.apply(filled(tangents, primals), attrs)
    if rules.expand is not None:
        return push(expanded(node), primals, tangents)
    raise GradientError(f"{op.name} has no derivative", where=str(node.source), fix=no_rule_fix(op))


def no_rule_fix(op: Any) -> str:
    """The fix for the error that an op has no derivative."""
    return f"give {op.name} a jvp rule in its room, or wrap the call in rlx.stop_gradient"


def expanded(node: Node) -> Graph:
    """The expansion of a composite op, as a graph."""
    rule = node.op.rules.expand
    assert rule is not None, f"{node.op.name} is no composite"
    return build(lambda *xs: rule(*xs, **node.attrs), [a.type for a in node.args], node.op.name)


def add_all(terms: Sequence[Tangent]) -> Tangent:
    """The sum of tangents; None if all are zero."""
    total: Tangent = None
    for term in terms:
        if term is not None:
            total = term if total is None else OPS["add"](total, term)
    return total


def _as_list(given: Any) -> list[Any]:
    return list(given) if isinstance(given, list | tuple) else [given]
