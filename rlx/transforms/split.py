"""Cut a graph into what is known early and what must wait.

Linearization is the jvp graph cut between values and tangents. An op without nested graphs belongs
to one side; one with nested graphs is cut itself by its `split` rule.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence

from ..ir.body import Pointwise
from ..ir.builder import at, build, recording, rewrite
from ..ir.graph import Graph, Node, Value
from ..ir.op import has_effect
from ..ir.ops.control import Split, pick

CHEAP = [Pointwise(word) for word in ("add", "sub", "mul", "neg")]  # than to keep the result
DEEPEST = 3  # cheap nodes one after another


def split_graph(
    graph: Graph, known: Sequence[bool], out_known: Sequence[bool] | None = None
) -> Split:
    """Cut a graph; `known` tells for each parameter whether it is known.

    With `out_known`, results it denies are given by the unknown side even if they are known.
    """
    mixed, is_known = _separate(graph, known)
    if out_known is None:
        out_known = [is_known[r] for r in mixed.results]
    results = pick(mixed.results, out_known)
    late = pick(mixed.results, out_known, False)
    late_nodes = [n for n in _needed(mixed, late) if not _all_known(n, is_known)]
    residuals, remade = _residuals(late_nodes, late, is_known)
    late_nodes = [n for n in mixed.nodes if n in {*late_nodes, *remade}]
    inputs, early = pick(mixed.params, known), [*results, *residuals]
    early_nodes = [n for n in _needed(mixed, early) if _all_known(n, is_known)]
    known_graph = _rebuild(graph.name, inputs, early_nodes, early)
    inputs = [*residuals, *pick(mixed.params, known, False)]
    unknown_graph = _rebuild(graph.name, inputs, late_nodes, late)
    return Split(known_graph, unknown_graph, tuple(out_known))


def _all_known(node: Node, is_known: dict[Value, bool]) -> bool:
    return all(is_known[a] for a in node.args)


def _separate(graph: Graph, known: Sequence[bool]) -> tuple[Graph, dict[Value, bool]]:
    """Rebuild the graph with every nested node on one side.

    It tells which values are known.
    """
    is_known: dict[Value, bool] = {}

    with recording(graph.name) as builder:
        new = builder.graph
        for param, flag in zip(graph.params, known, strict=True):
            is_known[new.add_param(param.type, param.origin)] = flag

        def visit(node: Node, args: list[Value]) -> Sequence[Value]:
            flags = [is_known[a] for a in args]
            rule = node.op.rules.get("split")
            start = len(new.nodes)
            if rule is not None and node.graphs and any(flags) and not all(flags):
                results = rule(split_graph, args, flags, **node.attrs)
            else:
                results = node.op.apply(args, node.attrs)
            for made in new.nodes[start:]:
                flag = all(is_known[a] for a in made.args)
                is_known.update((r, flag) for r in made.results)
            return results

        new.results = rewrite(graph, new.params, visit)
    return new, is_known


def _needed(graph: Graph, results: Sequence[Value]) -> list[Node]:
    """The nodes the results need, in order."""
    wanted = set(results)
    nodes = []
    for node in reversed(graph.nodes):
        if has_effect(node) or any(r in wanted for r in node.results):
            nodes.append(node)
            wanted.update(node.args)
    return nodes[::-1]


def _residuals(
    nodes: Sequence[Node], results: Sequence[Value], is_known: dict[Value, bool]
) -> tuple[list[Value], set[Node]]:
    """The known values the unknown side reads, each once, and the nodes it runs again.

    Values made from nothing are made anew there, and so are those that a few cheap nodes make of
    the others.
    """
    read = [a for node in nodes for a in node.args] + list(results)
    found = dict.fromkeys(x for x in read if is_known[x] and not _from_nothing(x))
    remade: set[Node] = set()
    for x in list(found):
        others = found.keys() - {x}
        cheap = _cheap_nodes(x, others, DEEPEST)
        if cheap is not None:
            remade.update(cheap)
            del found[x]
    return list(found), remade


def _cheap_nodes(x: Value, given: Collection[Value], depth: int) -> set[Node] | None:
    """The cheap nodes that make a value of given ones; None where others are needed."""
    node = x.node
    if x in given or _from_nothing(x):
        return set()
    if node is None or not depth or node.op.rules.get("body") not in CHEAP:
        return None
    inner = [_cheap_nodes(a, given, depth - 1) for a in node.args]
    if any(nodes is None for nodes in inner):
        return None
    return {node}.union(*(nodes or () for nodes in inner))


def _from_nothing(x: Value) -> bool:
    return x.node is not None and not x.node.args


def _rebuild(
    name: str,
    inputs: Sequence[Value],
    nodes: Sequence[Node],
    results: Sequence[Value],
) -> Graph:
    """A graph of the given nodes with the inputs as parameters."""

    def run(*xs: Value) -> list[Value]:
        table = dict(zip(inputs, xs, strict=True))

        def find(x: Value) -> Value:
            if x not in table:
                assert x.node is not None and not x.node.args, "a residual was missed"
                with at(x.node.source):
                    table.update(
                        zip(x.node.results, x.node.op.apply([], x.node.attrs), strict=True)
                    )
            return table[x]

        for node in nodes:
            with at(node.source):
                made = node.op.apply([find(a) for a in node.args], node.attrs)
            table.update(zip(node.results, made, strict=True))
        return [find(r) for r in results]

    return build(run, [x.type for x in inputs], name)
