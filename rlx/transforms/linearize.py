"""Partial evaluation: split a graph into a known and an unknown part.

Linearization is the jvp graph split between values (known) and tangents (unknown). An op without
nested graphs belongs to one side; one with nested graphs is split itself by its `split` rule.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence

from ..ir.body import Move, Pointwise, View
from ..ir.builder import build, heed, recording, rewrite
from ..ir.dims import likely
from ..ir.graph import Graph, Node, Value
from ..ir.op import live_nodes
from ..ir.ops.control import Split, pick
from ..ir.source import at

CHEAP = [Pointwise(word) for word in ("add", "sub", "mul", "neg")]  # than to keep the result
DEEPEST = 4  # cheap nodes one after another


def split_graph(
    graph: Graph, known: Sequence[bool], out_known: Sequence[bool] | None = None
) -> Split:
    """Split a graph in a known and an unknown part; `known` has a bool per parameter.

    With `out_known`, results that it marks false are returned by the unknown part even if they are
    known.
    """
    mixed, is_known = _separate(graph, known)
    if out_known is None:
        out_known = [is_known[r] for r in mixed.results]
    results = pick(mixed.results, out_known)
    late = pick(mixed.results, out_known, False)
    late_nodes = [n for n in live_nodes(mixed, late) if not _all_known(n, is_known)]
    residuals, remade = _residuals(late_nodes, late, is_known)
    wanted = {*late_nodes, *remade}
    late_nodes = [n for n in mixed.nodes if n in wanted]
    inputs, early = pick(mixed.params, known), [*results, *residuals]
    early_nodes = [n for n in live_nodes(mixed, early) if _all_known(n, is_known)]
    known_graph = _rebuild(mixed, inputs, early_nodes, early)
    inputs = [*residuals, *pick(mixed.params, known, False)]
    unknown_graph = _rebuild(mixed, inputs, late_nodes, late)
    return Split(known_graph, unknown_graph, tuple(out_known))


def _all_known(node: Node, is_known: dict[Value, bool]) -> bool:
    return all(is_known[a] for a in node.args)


def _separate(graph: Graph, known: Sequence[bool]) -> tuple[Graph, dict[Value, bool]]:
    """Rebuild the graph with each nested node on one side, and find known values."""
    is_known: dict[Value, bool] = {}

    with recording(graph.name) as builder:
        new = builder.graph
        for param, flag in zip(graph.params, known, strict=True):
            is_known[new.add_param(param.type, param.origin)] = flag

        def visit(node: Node, args: list[Value]) -> Sequence[Value]:
            flags = [is_known[a] for a in args]
            rule = node.op.rules.split
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


def _residuals(
    nodes: Sequence[Node], results: Sequence[Value], is_known: dict[Value, bool]
) -> tuple[list[Value], set[Node]]:
    """Residuals, each once, and the nodes that the unknown side recomputes instead.

    Values without operands are recomputed, and so are those that movement and cheap nodes make of
    other residuals, or of smaller ones.
    """
    read = [a for node in nodes for a in node.args] + list(results)
    found = dict.fromkeys(x for x in read if is_known[x] and not _from_nothing(x))
    remade: set[Node] = set()
    for x in list(found):
        cone: set[Node] = set()
        sources = dict.fromkeys(_sources(x, found.keys() - {x}, DEEPEST, cone))
        size = sum(likely(y.type.size) for y in sources)
        is_given = all(y.node is None for y in sources)
        if cone and size <= likely(x.type.size) - (not is_given):
            remade |= cone
            del found[x]
            found |= sources
    return list(found), remade


def _sources(x: Value, given: Collection[Value], depth: int, cone: set[Node]) -> Iterator[Value]:
    """The values that cheap nodes, added to the cone, compute a value from.

    Given values and those without operands do not count.
    """
    if x in given or _from_nothing(x):
        return
    body = x.node.op.rules.body if x.node else None
    if x.node is None or not depth or not (body in CHEAP or isinstance(body, Move | View)):
        yield x
        return
    cone.add(x.node)
    for arg in x.node.args:
        yield from _sources(arg, given, depth - 1, cone)


def _from_nothing(x: Value) -> bool:
    return x.node is not None and not x.node.args


def _rebuild(
    graph: Graph,
    inputs: Sequence[Value],
    nodes: Sequence[Node],
    results: Sequence[Value],
) -> Graph:
    """Make a graph of some nodes of another, with the inputs as parameters."""

    def run(*xs: Value) -> list[Value]:
        heed(graph)
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

    return build(run, [x.type for x in inputs], graph.name)
