"""Cut a graph in pieces that are compiled, and what runs between them."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from ...ir.graph import Graph, Node, Value
from ...ir.op import has_effect

Takes = Callable[[Node], bool]


@dataclass(frozen=True)
class Piece:
    """Nodes compiled as one function of `inputs`, which gives `outputs`."""

    nodes: list[Node]
    inputs: list[Value]
    outputs: list[Value]


def cut(graph: Graph, takes: Takes) -> list[Piece | Node]:
    """The steps of a graph in order: pieces, and the nodes between them.

    In pieces are the nodes that a table `takes`: all that can run before the next of the others.
    What is made of nothing is made in each piece that uses it.
    """
    native, alone = defaultdict(list), defaultdict(list)
    for node, depth in _depths(graph, takes).items():
        (native if takes(node) else alone)[depth].append(node)
    users = graph.users()
    steps: list[Piece | Node] = []
    for depth in range(max([*native, *alone], default=-1) + 1):
        piece = _piece(native[depth], set(graph.results), users, takes)
        steps += [piece] if piece.outputs else []
        steps += alone[depth]
    return steps


def _depths(graph: Graph, takes: Takes) -> dict[Node, int]:
    """For each node how many of those between pieces come before it, in a row."""
    depths: dict[Node, int] = {}
    before: dict[Value, int] = dict.fromkeys(graph.params, 0)
    last_effect = 0
    for node in graph.nodes:
        depth = max((before[a] for a in node.args), default=0)
        if has_effect(node):  # in the order they were recorded
            depth = last_effect = max(depth, last_effect)
        depths[node] = depth
        before.update(dict.fromkeys(node.results, depth if takes(node) else depth + 1))
    return depths


def _piece(
    nodes: Sequence[Node],
    results: set[Value],
    users: Mapping[Value, Sequence[Node]],
    takes: Takes,
) -> Piece:
    own = set(nodes)
    free: dict[Node, None] = {}
    inputs: dict[Value, None] = {}
    for arg in (a for node in nodes for a in node.args if a.node not in own):
        if arg.node is not None and _is_free(arg.node, takes):
            free[arg.node] = None
        else:
            inputs[arg] = None

    def is_output(value: Value, maker: Node) -> bool:
        others = [user for user in users.get(value, ()) if user not in own]
        if _is_free(maker, takes):
            others = [user for user in others if not takes(user)]
        return value in results or bool(others)

    outputs = [r for node in nodes for r in node.results if is_output(r, node)]
    return Piece([*free, *nodes], list(inputs), outputs)


def _is_free(node: Node, takes: Takes) -> bool:
    """Whether a row makes the result of nothing."""
    return not node.args and takes(node)
