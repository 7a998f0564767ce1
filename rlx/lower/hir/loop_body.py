"""Loops of a graph in parts that a pass can change and put together again."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from ...ir.body import Repeat, While
from ...ir.builder import build, repeat
from ...ir.graph import Graph, Node, Value
from ...ir.op import has_effect
from ...ir.source import at


def is_loop(node: Node) -> bool:
    """Whether a node runs graphs again and again."""
    return isinstance(node.op.rules.body, Repeat | While)


def is_repeat(node: Node) -> bool:
    """Whether a node runs a graph a known number of times."""
    return isinstance(node.op.rules.body, Repeat)


def has_loops(graph: Graph) -> bool:
    """Whether there is any loop in a graph."""
    return any(map(is_loop, graph.walk()))


def is_pure(node: Node) -> bool:
    """Whether a node may run at another time, or once in place of many times."""
    if node.op.rules.calls_python or node.attrs.get("recompute", False):
        return False
    return not has_effect(node)


def reached(graph: Graph, starts: Sequence[Value]) -> set[Value]:
    """The values that are made of some parameters, and these."""
    found = set(starts)
    for node in graph.nodes:
        if any(a in found for a in node.args):
            found.update(node.results)
    return found


def needed_nodes(graph: Graph, results: Sequence[Value], given: set[Value]) -> list[Node]:
    """The nodes that make results out of given values, the last ones first.

    Those with an effect are among them.
    """
    wanted, live = set(results), []
    for node in reversed(graph.nodes):
        if has_effect(node) or any(r in wanted and r not in given for r in node.results):
            live.append(node)
            wanted.update(node.args)
    return live


def read_by(graph: Graph, results: Sequence[Value]) -> set[Value]:
    """All values that results are made of, these included."""
    live = needed_nodes(graph, results, set())
    return set(results).union(*(node.args for node in live))


def record(node: Node, table: dict[Value, Value]) -> None:
    """Record a node on what a table has for its operands; its results go there."""
    with at(node.source):
        results = repeat(node, [table[a] for a in node.args])
    table.update(zip(node.results, results, strict=True))


@dataclass
class Repeated:
    """A loop of a known number of rounds: its operands, and its body.

    The operands are values of the current graph. The body's results are the carried values, then
    what is stacked.
    """

    node: Node
    body: Graph
    constants: list[Value]
    carry: list[Value]
    rows: list[Value]

    @classmethod
    def of(cls, node: Node, operands: Sequence[Value], body: Graph) -> Repeated:
        """The parts of a node on these operands, with another body."""
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
        """Record the loop; gives what was carried last, then what was stacked."""
        counts = {"n_constants": len(self.constants), "n_carry": len(self.carry)}
        attrs = self.node.attrs | counts | {"body": self.body}
        return list(self.node.op.apply([*self.constants, *self.carry, *self.rows], attrs))


def rebuilt(
    body: Graph,
    params: Sequence[Value],
    results: Sequence[Value],
) -> Graph:
    """The body as a graph of other parameters and results, which are values of it.

    A value among the parameters is no longer computed. What is not needed is left out.
    """
    live = needed_nodes(body, results, set(params))

    def run(*xs: Value) -> list[Value]:
        table = dict(zip(params, xs, strict=True))
        for node in reversed(live):
            known = {r: table[r] for r in node.results if r in table}
            record(node, table)
            table.update(known)
        return [table[r] for r in results]

    return build(run, [p.type for p in params], body.name)
