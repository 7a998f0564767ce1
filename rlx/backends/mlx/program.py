"""A graph as compiled pieces of MLX, with Python between them."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Callable, Mapping, Sequence
from typing import Any, TypeAlias, final

import mlx.core as mx
import numpy as np

from ...ir.body import Branch, Repeat, While
from ...ir.graph import Graph, Node, Value
from ...ir.interpret import evaluate
from ...ir.op import has_effect
from ...ir.ops.control import cut_groups
from ...ir.record import field, record
from ..graph_table import NATIVE, ON_HOST, Table, Ways, walk
from .memory import to_mlx, to_numpy

Arrays: TypeAlias = list[mx.array]
Step: TypeAlias = Callable[[Sequence[mx.array]], Sequence[mx.array]]
ROUNDS = 32  # of a loop that are handed to MLX at a time: what waits is kept in memory


@record
class Maker:
    """Makes programs of pieces of a graph."""

    table: Table
    compiles: bool  # whether MLX compiles pieces, or their ops are called one by one
    ways: Ways = field(default_factory=Counter)  # what became of the ops

    def program(self, graph: Graph) -> Program:
        """The program of a graph."""
        return Program(graph, self)

    def step(self, step: Piece | Node) -> Step:
        """What runs a piece, or a node that no row computes."""
        if isinstance(step, Piece):
            self.ways["pieces", "compiled by MLX" if self.compiles else "op by op in MLX"] += 1
            self.ways.update((n.op.name, NATIVE) for n in step.nodes if not n.op.is_constant)
            return _run_piece(step, self)
        return _alone(step, self)


@final
class Program:
    """Runs a graph: its pieces, and what is between them."""

    def __init__(self, graph: Graph, maker: Maker) -> None:
        self._params, self._results = graph.params, graph.results
        self._steps: list[tuple[Step, Sequence[Value], Sequence[Value]]] = []
        for step in cut(graph, maker.table.takes):
            is_piece = isinstance(step, Piece)
            taken, given = (step.inputs, step.outputs) if is_piece else (step.args, step.results)
            self._steps.append((maker.step(step), taken, given))

    def __call__(self, arrays: Sequence[mx.array]) -> Arrays:
        """The results for arrays of the parameters, perhaps not yet computed."""
        known = dict(zip(self._params, arrays, strict=True))
        for step, operands, results in self._steps:
            known.update(zip(results, step([known[x] for x in operands]), strict=True))
        return [known[r] for r in self._results]

    def finished(self, arrays: Sequence[mx.array]) -> Arrays:
        """The results, computed."""
        results = self(arrays)
        mx.eval(results)
        return results


def _run_piece(piece: Piece, maker: Maker) -> Step:
    def run(arrays: Sequence[mx.array]) -> Arrays:
        known: dict[Value, Any] = dict(zip(piece.inputs, arrays, strict=True))
        walk(piece.nodes, maker.table, known)
        return [known[r] for r in piece.outputs]

    return mx.compile(run) if maker.compiles else run


def _alone(node: Node, maker: Maker) -> Step:
    """A node that no row computes: a loop or a choice by Python, all else on the host."""
    body = node.op.rules.body
    for kind, make in ((Branch, _branch), (While, _while), (Repeat, _repeat)):
        if isinstance(body, kind):
            maker.ways[node.op.name, "by Python, between pieces"] += 1
            return make(node, maker.program)
    maker.ways[node.op.name, ON_HOST] += 1
    return _on_host(node)


def _on_host(node: Node) -> Step:
    def run(arrays: Sequence[mx.array]) -> Arrays:
        mx.eval(arrays)
        given = [to_numpy(x, a.dtype) for x, a in zip(arrays, node.args, strict=True)]
        return [to_mlx(y) for y in evaluate(node, given)]

    return run


# -- control flow ---------------------------------------------------------------------------------

Make: TypeAlias = Callable[[Graph], Program]


def _branch(node: Node, make: Make) -> Step:
    branches = [make(graph) for graph in node.graphs]

    def run(arrays: Sequence[mx.array]) -> Arrays:
        chosen: Any = arrays[0].item()
        index = min(max(int(chosen), 0), len(branches) - 1)
        return branches[index](arrays[1:])

    return run


def _while(node: Node, make: Make) -> Step:
    condition, body = make(node.attrs["condition"]), make(node.attrs["body"])
    counts = node.attrs["n_condition"], node.attrs["n_body"]

    def run(arrays: Sequence[mx.array]) -> Arrays:
        ours, theirs, carry = cut_groups(arrays, *counts)
        while condition([*ours, *carry])[0].item():
            carry = body([*theirs, *carry])
            mx.eval(carry)
        return list(carry)

    return run


def _repeat(node: Node, make: Make) -> Step:
    body, n_carry = make(node.attrs["body"]), node.attrs["n_carry"]
    rounds = range(node.attrs["length"])
    rounds = rounds[::-1] if node.attrs["reverse"] else rounds
    empty = [np.zeros(r.shape, r.dtype) for r in node.results[n_carry:]] if not rounds else []

    def run(arrays: Sequence[mx.array]) -> Arrays:
        constants, carry, rows = cut_groups(arrays, node.attrs["n_constants"], n_carry)
        made: list[Arrays] = [[] for _ in node.results[n_carry:]]
        for count, i in enumerate(rounds, 1):
            results = body([*constants, *carry, *(x[i] for x in rows)])
            carry = results[:n_carry]
            for stack, row in zip(made, results[n_carry:], strict=True):
                stack.append(row)
            if count % ROUNDS == 0:
                mx.eval(carry, [stack[-ROUNDS:] for stack in made])
        if not rounds:
            return [*carry, *map(to_mlx, empty)]
        return [*carry, *(mx.stack(s[::-1] if node.attrs["reverse"] else s) for s in made)]

    return run


# -- cut a graph in pieces that are compiled, and what runs between them ---------------------------


Takes = Callable[[Node], bool]


@record
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
