"""Memory for time: graphs computed again in reverse mode, names for what is kept.

A `policy` of a checkpoint tells for each node whether its results are kept:
`policy(op, *operand_types, **attrs) -> bool`.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from ..body import Pointwise
from ..builder import build, inline, rewrite
from ..graph import Graph, Node, Value
from ..op import ALIGNED, define
from ..source import at
from ..types import Type, as_dtype
from .control import call, call_family, check_operands, pick, weave
from .custom import Rule
from .trigonometric import sin


@define
def checkpoint(
    *operands: Type,
    graph: Graph,
    recompute: bool = False,
    policy: Rule | None = None,
    prevent_cse: bool = True,
) -> Any:
    """Run a nested graph whose intermediate values are computed again in reverse mode.

    Those that `policy` picks are kept instead. `recompute` marks the second run, which must not
    be merged with the first; without `prevent_cse` it may.
    """
    check_operands(operands, graph, "the checkpointed graph")
    return graph.result_types


call_family(checkpoint)


@checkpoint.split
def checkpoint_split(split_graph, args, known, *, graph, recompute, policy, prevent_cse):
    attrs = {"policy": policy, "prevent_cse": prevent_cse}
    parts = split_graph(_flat(graph), known)
    count = sum(parts.out_known)
    early, residuals = parts.known, parts.known.results[count:]
    saved, read = _frontier(early, residuals, policy)
    first: Sequence[Value] = ()
    if count or saved:
        kept = _part(early, early.params, [*early.results[:count], *saved])
        first = checkpoint(*pick(args, known), graph=kept, recompute=recompute, **attrs)
    again = _part(early, [*read, *saved], residuals)
    n = len(again.params)
    rest = build(
        lambda *xs: inline(parts.unknown, [*inline(again, xs[:n]), *xs[n:]]),
        [*again.param_types, *parts.unknown.param_types[len(residuals) :]],
        graph.name,
    )
    operand = dict(zip(early.params, pick(args, known), strict=True))
    given = [*(operand[p] for p in read), *first[count:], *pick(args, known, False)]
    late = checkpoint(*given, graph=rest, recompute=prevent_cse, **attrs)
    return weave(parts.out_known, first[:count], late)


def _flat(graph: Graph) -> Graph:
    """The graph with called graphs in the places of their calls: a policy sees their nodes."""

    def visit(node: Node, operands: list[Value]) -> Sequence[Value]:
        if node.op is call:
            return inline(_flat(node.attrs["graph"]), operands)
        return node.op.apply(operands, node.attrs)

    return build(lambda *xs: rewrite(graph, xs, visit), graph.param_types, graph.name)


def _frontier(
    graph: Graph, results: Sequence[Value], policy: Rule | None
) -> tuple[list[Value], list[Value]]:
    """What is kept, and the parameters that are read, to compute results again."""
    saved, read, seen, stack = set(), set(), set(results), list(results)
    while stack:
        x = stack.pop()
        if x.node is None:
            read.add(x)
        elif policy and x.node.args and _is_kept(x.node, policy):
            saved.add(x)
        else:
            fresh = [a for a in x.node.args if a not in seen]
            seen.update(fresh)
            stack += dict.fromkeys(fresh)
    made = [r for node in graph.nodes for r in node.results]
    return [r for r in made if r in saved], [p for p in graph.params if p in read]


def _is_kept(node: Node, policy: Rule) -> bool:
    return bool(policy.fn(node.op, *(a.type for a in node.args), **node.attrs))


def _part(graph: Graph, inputs: Sequence[Value], results: Sequence[Value]) -> Graph:
    """What computes some values of a graph from others."""
    wanted, nodes, given = set(results), [], set(inputs)
    for node in reversed(graph.nodes):
        if any(r in wanted and r not in given for r in node.results):
            nodes.append(node)
            wanted.update(node.args)

    def run(*xs: Value) -> list[Value]:
        table = dict(zip(inputs, xs, strict=True))
        for node in reversed(nodes):
            with at(node.source):
                made = node.op.apply([table[a] for a in node.args], node.attrs)
            for old, new in zip(node.results, made, strict=True):
                table.setdefault(old, new)
        return [table[r] for r in results]

    return build(run, [x.type for x in inputs], graph.name)


# -- names --------------------------------------------------------------------------------------


@define
def checkpoint_name(x: Type, *, name: str) -> Type:
    """The operand itself, under a name that a checkpoint's policy can ask for."""
    return x


checkpoint_name.reference(lambda x, *, name: x)
checkpoint_name.body(Pointwise("convert"))
checkpoint_name.jvp([lambda t, out, x, *, name: t])
checkpoint_name.batch(ALIGNED)
checkpoint_name.fold(lambda x, *, name: x)
checkpoint_name.samples((2, 3), name="h")
checkpoint_name.samples([1.0, -2.0], name="h", expect=[1.0, -2.0])


_LINE = Type(as_dtype("float64"), (3,))
_GRAPH = build(lambda x, y: [sin(x) * y, x + y], [_LINE] * 2, "sample")
checkpoint.samples((3,), (3,), graph=_GRAPH)
