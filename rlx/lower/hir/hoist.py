"""Compute what is the same in every round of a loop once, before it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from ...ir.body import Fill, Move, Pointwise, View, While
from ...ir.dims import likely
from ...ir.graph import Graph, Node, Value
from ..lir.expr import INSTRUCTIONS
from .loop_body import has_loops, is_loop, is_pure, rebuilt, record
from .rebuild import again, rebuild

LOAD = 4  # additions that cost as much as to load a number that would else be computed


def hoist(graph: Graph) -> Graph:
    """Compute what is the same in every round of a loop once, before it.

    before: `scan(w, c, xs, body=(w, c, x) -> dot(c, transpose(w)) + x)`; after: `t =
    transpose(w); scan(t, c, xs, body=(t, c, x) -> dot(c, t) + x)`. What costs no more than to load
    it stays where it is.
    """
    if not has_loops(graph):
        return graph

    def visit(node: Node, operands: list[Value]) -> Sequence[Value]:
        if not is_loop(node):
            return again(node, operands, hoist)
        return _hoisted(node, operands)

    return rebuild(graph, visit)


def _hoisted(node: Node, operands: list[Value]) -> Sequence[Value]:
    """Record a loop with less to do."""
    attrs = dict(node.attrs)
    groups = [("body", "n_constants")]
    if isinstance(node.op.rules.body, While):
        groups = [("condition", "n_condition"), ("body", "n_body")]
    constants: list[Value] = []
    start = 0
    for graph_name, count_name in groups:
        count = attrs[count_name]
        moved = _Invariants(hoist(attrs[graph_name]), operands[start : start + count])
        attrs[graph_name], ours = moved.split()
        attrs[count_name] = len(ours)
        constants += ours
        start += count
    return node.op.apply([*constants, *operands[start:]], attrs)


@dataclass
class _Invariants:
    """What a graph computes from constants of its loop alone."""

    graph: Graph
    operands: list[Value]
    nodes: list[Node] = field(default_factory=list)
    costs: dict[Value, tuple[float, frozenset[Value]]] = field(default_factory=dict)

    def split(self) -> tuple[Graph, list[Value]]:
        """The graph without them, and the constants that it takes instead."""
        self._find()
        params = self.graph.params[: len(self.operands)]
        given = self._given()
        table = dict(zip(params, self.operands, strict=True))
        for node in self.nodes if given else ():
            record(node, table)
        others = self.graph.params[len(params) :]
        body = rebuilt(self.graph, [*params, *given, *others], self.graph.results)
        return body, [table[x] for x in (*params, *given)]

    def _find(self) -> None:
        """Find the nodes, and what each of their results would cost in the loop.

        That is the cost of an element, about, and the constants of the loop that it is made of.
        """
        params = self.graph.params[: len(self.operands)]
        self.costs = {param: (0.0, frozenset([param])) for param in params}
        for node in self.graph.nodes:
            if all(a in self.costs for a in node.args) and is_pure(node):
                self.nodes.append(node)
                cost = self._cost(node)
                self.costs.update((result, cost) for result in node.results)

    def _cost(self, node: Node) -> tuple[float, frozenset[Value]]:
        body = node.op.rules.body
        if isinstance(body, Fill) or node.op.is_constant:
            return 0.0, frozenset()
        own = 0.0 if isinstance(body, View) else 1.0 if isinstance(body, Move) else LOAD + 1.0
        if isinstance(body, Pointwise):
            own = float(INSTRUCTIONS[body.instruction][0])
        inner = [self.costs[a] for a in node.args]
        sources = frozenset(x for _, origins in inner for x in origins)
        return own + sum(cost for cost, _ in inner), sources

    def _given(self) -> list[Value]:
        """The values to compute before the loop: those read inside which are worth it."""
        early = set(self.nodes)
        late = [node for node in self.graph.nodes if node not in early]
        read = {a for node in late for a in node.args} | set(self.graph.results)
        given = []
        for node in reversed(self.nodes):
            found = [r for r in node.results if r in read and self._is_worth(r)]
            given += found
            if any(r in read for r in node.results if r not in found):
                read.update(node.args)
        return given

    def _is_worth(self, value: Value) -> bool:
        """Whether to load a value is cheaper than to compute it from the loop's constants."""
        cost, sources = self.costs[value]
        node = value.node
        assert node is not None, "what a loop is given is not computed in it"
        least = min(sum(likely(x.type.size) for x in made_of) for made_of in (sources, node.args))
        return cost > LOAD or (cost > 0 and 0 < likely(value.type.size) <= least)
