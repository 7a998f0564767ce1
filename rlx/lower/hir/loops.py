"""Loop passes: invariant code motion, dead carries and stacks, repeated rows."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from ...ir.body import Fill, Move, Pointwise, Repeat, View, While
from ...ir.builder import build, repeat
from ...ir.dims import likely
from ...ir.graph import Graph, Node, Value
from ...ir.op import has_effect, live_nodes
from ...ir.record import field, record, replace
from ...ir.source import at
from ..lir.expr import INSTRUCTIONS
from .rebuild import again, drop_dead, rebuild


def is_loop(node: Node) -> bool:
    """Whether a node is a loop."""
    return isinstance(node.op.rules.body, Repeat | While)


def is_repeat(node: Node) -> bool:
    """Whether a node is a loop with a known number of rounds."""
    return isinstance(node.op.rules.body, Repeat)


def has_loops(graph: Graph) -> bool:
    """Whether there is any loop in a graph."""
    return any(map(is_loop, graph.walk()))


def is_pure(node: Node) -> bool:
    """Whether a node is pure: free of effects, so that it may be moved or merged."""
    if node.op.rules.calls_python or node.attrs.get("recompute", False):
        return False
    return not has_effect(node)


def reached(graph: Graph, starts: Sequence[Value]) -> set[Value]:
    """Some parameters and all values that depend on them."""
    found = set(starts)
    for node in graph.nodes:
        if any(a in found for a in node.args):
            found.update(node.results)
    return found


def read_by(graph: Graph, results: Sequence[Value]) -> set[Value]:
    """All values that results depend on, themselves included."""
    return set(results).union(*(node.args for node in live_nodes(graph, results)))


def frontier(
    graph: Graph, early: Sequence[Node], is_worth: Callable[[Value], bool]
) -> tuple[list[Value], set[Value]]:
    """The results of early nodes that are worth keeping, and all that later ones read.

    What is not worth keeping is computed again, from what the early nodes before it gave.
    """
    first = set(early)
    read = {a for node in graph.nodes if node not in first for a in node.args} | {*graph.results}
    given = []
    for node in reversed(early):
        found = [r for r in node.results if r in read and is_worth(r)]
        given += found
        if any(r in read for r in node.results if r not in found):
            read.update(node.args)
    return given, read


def copy_into(node: Node, table: dict[Value, Value]) -> None:
    """Record a node on operands mapped by a table, and add its results to it."""
    with at(node.source):
        results = repeat(node, [table[a] for a in node.args])
    table.update(zip(node.results, results, strict=True))


@record(frozen=False)
class Repeated:
    """A loop of known trip count; its operands are values of the current graph."""

    node: Node
    body: Graph  # gives the carried values, then a row of each stacked result
    constants: list[Value]
    carry: list[Value]
    rows: list[Value]  # arrays of which each iteration takes a row

    @classmethod
    def of(cls, node: Node, operands: Sequence[Value], body: Graph) -> Repeated:
        """Take a node apart, on these operands and perhaps with another body."""
        first = node.attrs["n_constants"]
        last = first + node.attrs["n_carry"]
        parts = operands[:first], operands[first:last], operands[last:]
        return cls(node, body, *map(list, parts))

    @property
    def carry_params(self) -> list[Value]:
        """The body's parameters for carried values."""
        first = len(self.constants)
        return self.body.params[first : first + len(self.carry)]

    @property
    def row_params(self) -> list[Value]:
        """The body's parameters for rows."""
        return self.body.params[len(self.constants) + len(self.carry) :]

    def record(self) -> list[Value]:
        """Record the loop, and give its last carried values, then its stacks."""
        counts = {"n_constants": len(self.constants), "n_carry": len(self.carry)}
        attrs = self.node.attrs | counts | {"body": self.body}
        return list(self.node.op.apply([*self.constants, *self.carry, *self.rows], attrs))


def rebuilt(
    body: Graph,
    params: Sequence[Value],
    results: Sequence[Value],
) -> Graph:
    """Cut a graph out of the body, between some of its values; dead code is left out."""
    live = live_nodes(body, results, set(params))

    def run(*xs: Value) -> list[Value]:
        table = dict(zip(params, xs, strict=True))
        for node in live:
            known = {r: table[r] for r in node.results if r in table}
            copy_into(node, table)
            table.update(known)
        return [table[r] for r in results]

    return build(run, [p.type for p in params], body.name)


# -- compute what is the same in every round of a loop once, before it -----------------------------


LOAD = 4  # additions that cost as much as to load a number that would else be computed


def hoist(graph: Graph) -> Graph:
    """Loop-invariant code motion: compute invariants once, before the loop.

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
    """Record a loop after its invariants."""
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


@record(frozen=False)
class _Invariants:
    """The loop invariants of a body: values made of loop constants alone."""

    graph: Graph
    operands: list[Value]
    nodes: list[Node] = field(default_factory=list)
    costs: dict[Value, tuple[float, frozenset[Value]]] = field(default_factory=dict)

    def split(self) -> tuple[Graph, list[Value]]:
        """Give the graph without invariants, and the constants it takes instead."""
        self._find()
        params = self.graph.params[: len(self.operands)]
        given, _ = frontier(self.graph, self.nodes, self._is_worth)
        table = dict(zip(params, self.operands, strict=True))
        for node in self.nodes if given else ():
            copy_into(node, table)
        others = self.graph.params[len(params) :]
        body = rebuilt(self.graph, [*params, *given, *others], self.graph.results)
        return body, [table[x] for x in (*params, *given)]

    def _find(self) -> None:
        """Find invariant nodes, and for each result its cost and its loop constants."""
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

    def _is_worth(self, value: Value) -> bool:
        """Whether loading a value is cheaper than computing it from loop constants."""
        cost, sources = self.costs[value]
        node = value.node
        assert node is not None, "what a loop is given is not computed in it"
        least = min(sum(likely(x.type.size) for x in made_of) for made_of in (sources, node.args))
        return cost > LOAD or (cost > 0 and 0 < likely(value.type.size) <= least)


# -- leave out of loops what stays the same, stands twice, or is not needed ------------------------


def trim_loops(graph: Graph) -> Graph:
    """Drop carries and stacks of loops that are constant, equal, or dead.

    before: `_, ts, ys = scan(t, c, xs, body=(t, c, x) -> (c + x, t, sin(c)))`, then `scan(d, ts,
    body=(d, t) -> d * t)`; after: the first loop has no `ts`, the second one takes `t` as it is.
    """
    if not has_loops(graph):
        return graph
    constant_rows: dict[Value, Value] = {}
    shared = drop_dead(_changed(graph, lambda loop: _shared(loop, constant_rows)))
    used = set(shared.results).union(*(node.args for node in shared.nodes))
    return _changed(shared, lambda loop: _trimmed(loop, used))


def _changed(graph: Graph, change: Callable[[Repeated], Sequence[Value]]) -> Graph:
    """Rebuild a graph, with loops of known length recorded by `change`."""

    def visit(node: Node, operands: list[Value]) -> Sequence[Value]:
        if not is_repeat(node):
            return again(node, operands, trim_loops)
        return change(Repeated.of(node, operands, trim_loops(node.attrs["body"])))

    return rebuild(graph, visit)


def _shared(loop: Repeated, constant_rows: dict[Value, Value]) -> list[Value]:
    """Record a loop with constant rows as constants, and equal stacks merged.

    `constant_rows` maps arrays of equal rows to such a row.
    """
    rows = list(zip(loop.row_params, loop.rows, strict=True))
    fixed = [(param, row) for param, row in rows if row in constant_rows]
    moving = [(param, row) for param, row in rows if row not in constant_rows]
    constants = dict(zip(loop.body.params, loop.constants, strict=False))
    constants |= {param: constant_rows[row] for param, row in fixed}
    known = dict(moving)
    body = loop.body
    params = [*constants, *loop.carry_params, *known]
    changed = replace(
        loop,
        body=rebuilt(body, params, body.results),
        constants=[*constants.values()],
        rows=[*known.values()],
    )
    results = changed.record()
    for place in range(len(loop.carry), len(results)):
        inner = body.results[place]
        results[place] = known.setdefault(inner, results[place])
        if inner in constants:
            constant_rows[results[place]] = constants[inner]
    return results


def _trimmed(loop: Repeated, used: set[Value]) -> list[Value]:
    """Dead-code elimination in a loop, with stand-ins for results left out."""
    body, count, olds = loop.body, len(loop.carry), loop.node.results
    stacked = [i for i in range(count, len(olds)) if olds[i] in used]
    kept = [i for i in range(count) if olds[i] in used]
    while True:  # a carried value is needed if what is needed reads it
        needed = read_by(body, [body.results[i] for i in (*kept, *stacked)])
        more = [i for i, p in enumerate(loop.carry_params) if p in needed and i not in kept]
        if not more:
            break
        kept = sorted([*kept, *more])
    pairs = list(zip(body.params, [*loop.constants, *loop.carry, *loop.rows], strict=True))
    first, last = len(loop.constants), len(loop.constants) + count
    constants = [(p, x) for p, x in pairs[:first] if p in needed]
    carry = [pairs[first + i] for i in kept]
    rows = [(p, x) for p, x in pairs[last:] if p in needed]
    places = [*kept, *stacked]
    changed = replace(
        loop,
        body=rebuilt(
            body, [p for p, _ in (*constants, *carry, *rows)], [body.results[i] for i in places]
        ),
        constants=[x for _, x in constants],
        carry=[x for _, x in carry],
        rows=[x for _, x in rows],
    )
    results = dict(zip(places, changed.record(), strict=True))
    return [results.get(i, old) for i, old in enumerate(olds)]
