"""Moments of inputs: sums of the products of two features, over examples."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, final

import numpy as np

from ..ir.builder import build, repeat, rewrite
from ..ir.errors import ArgumentError
from ..ir.graph import Graph, Node, Value
from ..ir.op import live_nodes
from ..ir.ops.arithmetic import sub
from ..ir.ops.contract import dot_general
from ..ir.ops.convert import narrowed
from ..ir.record import record
from ..trace import pytree
from ..trace.make_graph import typeof
from ..transforms.run_graph import run_graph
from .calibration import Example, has_numbers
from .codes import FLOAT32, FloatInputs
from .plan import Plan
from .products import Product, features
from .weights import Layout


@record(eq=False)
class Moments:
    """Sums over examples, each `f64[..., features, features]`.

    `own` are the products of two features, `off` those of how far a feature is from what it is in
    the float function, and a feature. Axes that inputs, weight and result share come first.
    """

    own: np.ndarray
    off: np.ndarray

    def __add__(self, other: Moments) -> Moments:
        return Moments(self.own + other.own, self.off + other.off)


@final
class Inputs:
    """The inputs of products for examples, while weights get few bits in turn.

    Each example is computed once, a piece at a time: what later pieces read is kept in between,
    as it is in the float function and as it is with the weights that have few bits.
    """

    def __init__(self, plan: Plan, leaves: Mapping[str, Any], examples: Sequence[Example]) -> None:
        for number, example in enumerate(examples):
            if not has_numbers(example):
                raise ArgumentError(
                    f"quantize: example {number} of the calibration has specs, no numbers",
                    fix='give arrays, or a scheme that rounds to the nearest: "w4"',
                )
        self._passages = [_Passage(plan, leaves, example) for example in examples]

    def moments(self, name: str, weights: Mapping[str, Any]) -> Moments | None:
        """The moments of inputs of this name, which come after those of the `weights`.

        There are none of inputs of which no axis alone is summed over.
        """
        total: Moments | None = None
        for number, passage in enumerate(self._passages):
            found = passage.moments(name, weights)
            if found is None:
                return None
            if not all(np.isfinite(x).all() for x in (found.own, found.off)):
                raise ArgumentError(
                    f"quantize: example {number} of the calibration makes numbers whose squares "
                    f"are not finite: the inputs of {name}",
                    fix="leave the example out, or skip the layer",
                )
            total = found if total is None else total + found
        return total


@final
class _Passage:
    """How far one example has been computed, in floats and in few bits."""

    def __init__(self, plan: Plan, leaves: Mapping[str, Any], example: Example) -> None:
        recording = plan.source.record(leaves, example, {})
        self._graph, self._products = recording.graph, plan.matched(recording.products)
        self._wanted: dict[str, tuple[Node, Product]] = {}
        for node, product in self._products.items():
            if features(node, product) is not None:
                self._wanted.setdefault(product.inputs, (node, product))
        ends = [_inputs(*pair) for pair in self._wanted.values()]
        self._left = live_nodes(self._graph, ends, with_effects=False)  # not computed yet
        params = dict(zip(self._graph.params, recording.operands, strict=True))
        self._exact: dict[Value, Any] = params
        self._few: dict[Value, Any] = {**params}

    def moments(self, name: str, weights: Mapping[str, Any]) -> Moments | None:
        """The moments of some inputs; goes on to where these are known."""
        if name not in self._wanted:
            return None
        node, product = self._wanted.pop(name)
        value = _inputs(node, product)
        piece = self._piece(value)
        given = [self._products[n].name for n in piece.nodes if n in self._products]
        few = {known: weights[known] for known in given if known in weights}
        arrays, structure = pytree.flatten(few)
        count = len(piece.params)

        def run(*xs: Value) -> list[Value]:
            calculation = FloatInputs(pytree.unflatten(structure, xs[2 * count :]))

            def visit(node: Node, operands: list[Value]) -> Sequence[Value]:
                known = self._products.get(node)
                if known is None or known.name not in few:
                    return repeat(node, operands)
                return [calculation.product(node, known, operands[1 - known.side], None)]

            exact = rewrite(piece, xs[:count], repeat)
            found = rewrite(piece, xs[count : 2 * count], visit)
            return [*_sums(node, product, exact[0], found[0]), *exact, *found]

        both = [table[p] for table in (self._exact, self._few) for p in piece.params]
        types = [p.type for p in piece.params] * 2
        made = build(run, [*types, *map(typeof, arrays)], piece.name)
        own, off, *found = run_graph(made, [*both, *arrays])
        half = len(piece.results)
        self._pass(piece, found[:half], found[half:])
        return Moments(*(np.asarray(x).astype(np.float64) for x in (own, off)))

    def _piece(self, value: Value) -> Graph:
        """What is left to compute for a value: a graph of known ones.

        It gives the value, then all others that are read after it.
        """
        needed, stack = set[Node](), [value]
        while stack:
            each = stack.pop()
            if each not in self._exact and each.node not in needed:
                assert each.node is not None, "parameters are known"
                needed.add(each.node)
                stack += each.node.args
        nodes = [node for node in self._left if node in needed]
        later = {a for node in self._left if node not in needed for a in node.args}
        later |= {_inputs(*pair) for pair in self._wanted.values()}
        made = [r for node in nodes for r in node.results if r in later and r is not value]
        read = dict.fromkeys([*(a for node in nodes for a in node.args), value])
        params = [x for x in read if x in self._exact]
        graph = self._graph
        return Graph(graph.name, params, nodes, [value, *made], graph.lineage, graph.placed)

    def _pass(self, piece: Graph, exact: Sequence[Any], few: Sequence[Any]) -> None:
        """Keep what the rest reads."""
        done = set(piece.nodes)
        self._left = [node for node in self._left if node not in done]
        later = {a for node in self._left for a in node.args}
        later |= {_inputs(*pair) for pair in self._wanted.values()}
        for table, found in ((self._exact, exact), (self._few, few)):
            table.update(zip(piece.results, found, strict=True))
            for value in table.keys() - later:
                del table[value]


def _inputs(node: Node, product: Product) -> Value:
    return node.args[1 - product.side]


def shared_axes(node: Node, product: Product) -> list[tuple[int, int]]:
    """The axes of inputs and weight that are one axis of the result."""
    of_inputs, of_weight = Layout.of(node, 1 - product.side), Layout.of(node, product.side)
    axes = dict(zip(of_inputs.places, of_inputs.kept, strict=True))
    pairs = zip(of_weight.places, of_weight.kept, strict=True)
    return [(axes[place], axis) for place, axis in pairs if place in axes]


def _sums(node: Node, product: Product, exact: Value, few: Value) -> list[Value]:
    axis, batch = features(node, product), tuple(axis for axis, _ in shared_axes(node, product))
    exact, few = narrowed(exact, FLOAT32), narrowed(few, FLOAT32)
    summed = tuple(i for i in range(few.rank) if i != axis and i not in batch)
    return [
        dot_general(x, few, contract=(summed, summed), batch=(batch, batch))
        for x in (few, sub(exact, few))
    ]
