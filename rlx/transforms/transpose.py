"""Reverse mode's second half: the transpose of a linear graph.

`transpose_graph` walks the nodes backwards and asks each op for its transpose; it names no op.
"""

from __future__ import annotations

from collections.abc import Sequence

from ..ir.builder import build, heed, inline
from ..ir.errors import GradientError
from ..ir.graph import Graph, Node, Value
from ..ir.op import Linear
from ..ir.ops.control import filled, pick
from ..ir.source import at
from .jvp import expanded
from .masks import Masked, Masks, add_masked, keeps_zeros, moved, moves_numbers, passes_numbers
from .split import split_graph

Cotangent = Value | None  # None is a zero that is not written down


def transpose_graph(
    graph: Graph, linear: Sequence[bool], ct_active: Sequence[bool] | None = None
) -> Graph:
    """Transpose a graph in its linear parameters.

    The new graph takes the known parameters, then a cotangent for each (active) result; it gives
    a cotangent for each linear parameter.
    """
    active = [True] * len(graph.results) if ct_active is None else list(ct_active)
    known = [not is_linear for is_linear in linear]
    parts = split_graph(graph, known, [False] * len(graph.results))

    def run(*xs: Value) -> list[Value]:
        early = inline(parts.known, xs[: sum(known)])
        given = iter(xs[sum(known) :])
        cts = [next(given) if is_active else None for is_active in active]
        pulled = pull(parts.unknown, early, cts)
        return filled(pulled, pick(graph.param_types, linear))

    types = [*pick(graph.param_types, known), *pick(graph.result_types, active)]
    return build(run, types, graph.name)


def pull(graph: Graph, known: Sequence[Value], cts: Sequence[Cotangent]) -> list[Cotangent]:
    """Pull cotangents of the results back to the parameters after the known ones.

    All nodes must be linear in the parameters after the known, or made from nothing.
    """
    args = [*known, *(Linear(p.type) for p in graph.params[len(known) :])]
    given = [None if ct is None else Masked(ct) for ct in cts]
    pulled = _pull(graph, args, given, Masks())[len(known) :]
    return [None if ct is None else ct.settled() for ct in pulled]


def _pull(
    graph: Graph, args: Sequence[Value | Linear], cts: Sequence[Masked | None], masks: Masks
) -> list[Masked | None]:
    """The cotangents of a graph's linear arguments; None for the others."""
    heed(graph)
    pairs = list(zip(graph.params, args, strict=True))
    table = {p: a for p, a in pairs if isinstance(a, Value)}
    totals: dict[Value, Masked | None] = {}
    late = _linear_nodes(graph, [p for p, a in pairs if isinstance(a, Linear)], table)
    for result, ct in zip(graph.results, cts, strict=True):
        totals[result] = add_masked(totals.get(result), ct)
    for node in reversed(late):
        node_cts = [totals.pop(r, None) for r in node.results]
        if all(ct is None for ct in node_cts):
            continue
        with at(node.source):
            operands = [table[a] if a in table else Linear(a.type) for a in node.args]
            pulled = _pull_node(node, node_cts, operands, masks)
            for arg, ct in zip(node.args, pulled, strict=True):
                if arg not in table and ct is not None:
                    totals[arg] = add_masked(totals.get(arg), ct)
    return [None if isinstance(a, Value) else totals.get(p) for p, a in pairs]


def _pull_node(
    node: Node, cts: Sequence[Masked | None], args: Sequence[Value | Linear], masks: Masks
) -> Sequence[Masked | None]:
    """The cotangents of a node's arguments, with what is known of their zeros."""
    first = cts[0]
    mask = first.mask if first and len(cts) == 1 else None
    if node.op.rules.transparent and any(ct and ct.mask for ct in cts):
        return _pull(node.attrs["graph"], args, cts, masks)
    if first and mask and passes_numbers(node) and not node.op.rules.choice:
        pulled = node_transpose(node, [first.value], args)
        is_clean = first.is_clean and keeps_zeros(args)
        return [ct and Masked(ct, mask, is_clean) for ct in pulled]
    pulled = node_transpose(node, [ct and ct.settled() for ct in cts], args)
    found = masks.of_choice(node, args, mask)
    if mask and moves_numbers(node, args):
        found = moved(node, mask, lambda ones: node_transpose(node, [ones], args))
    return [ct and Masked(ct, m) for ct, m in zip(pulled, found, strict=True)]


def _linear_nodes(graph: Graph, params: Sequence[Value], table: dict[Value, Value]) -> list[Node]:
    """The nodes that depend on the linear parameters; the others are recorded at once."""
    linear = set(params)
    late = []
    for node in graph.nodes:
        if any(a in linear for a in node.args):
            linear.update(node.results)
            late.append(node)
            continue
        with at(node.source):
            results = node.op.apply([table[a] for a in node.args], node.attrs)
        table.update(zip(node.results, results, strict=True))
    return late


def node_transpose(
    node: Node, cts: Sequence[Cotangent], args: Sequence[Value | Linear]
) -> Sequence[Cotangent]:
    """Apply one node's transpose rule."""
    rule = node.op.rules.transpose
    engine = (transpose_graph,) if node.graphs else ()
    is_many = node.op.is_multiple(node.results)
    pulled = rule(*engine, tuple(cts) if is_many else cts[0], *args, **node.attrs) if rule else None
    if pulled is None and node.op.rules.expand is not None:
        return _pull_expanded(node, cts, args)
    if pulled is None:
        raise _not_linear(node, node.op.name)
    if node.graphs or any(ct is None for ct in cts):  # these may give zeros, a linear op does not
        return pulled
    for i, (arg, ct) in enumerate(zip(args, pulled, strict=True)):
        if isinstance(arg, Linear) and ct is None:
            raise _not_linear(node, f"{node.op.name} in its argument {i}")
    return pulled


def _pull_expanded(
    node: Node, cts: Sequence[Cotangent], args: Sequence[Value | Linear]
) -> Sequence[Cotangent]:
    known = [a for a in args if isinstance(a, Value)]
    linear = [isinstance(a, Linear) for a in args]
    pulled = transpose_graph(expanded(node), linear, [ct is not None for ct in cts])
    given = iter(inline(pulled, [*known, *(ct for ct in cts if ct is not None)]))
    return [next(given) if is_linear else None for is_linear in linear]


def _not_linear(node: Node, what: str) -> GradientError:
    return GradientError(
        f"{what} is not linear, so it has no transpose",
        where=str(node.source),
        fix=f"give {node.op.name} a jvp rule of linear ops, or a transpose rule, in its room",
    )
