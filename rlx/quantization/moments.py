"""Moments of inputs: sums of the products of two features, over examples."""

from __future__ import annotations

import functools
from collections.abc import Collection, Mapping, Sequence
from typing import Any

import numpy as np

from ..ir.builder import build, rewrite
from ..ir.errors import ArgumentError
from ..ir.graph import Graph, Node, Value
from ..ir.op import live_nodes
from ..ir.ops.contract import dot_general
from ..ir.ops.convert import narrowed
from ..trace import pytree
from ..trace.make_graph import typeof
from ..transforms.jit.jit import jit
from ..transforms.run_graph import run_graph
from .calibration import Example, has_numbers
from .codes import FLOAT32, FloatInputs
from .plan import Plan, Recording
from .products import Product, features
from .weights import Layout


def moments(
    plan: Plan,
    names: Collection[str],
    leaves: Mapping[str, Any],
    weights: Mapping[str, Any],
    examples: Sequence[Example],
) -> dict[str, np.ndarray]:
    """The moments of inputs by their names: `f64[..., features, features]`.

    Products with `weights` are computed with these in few bits, as they will be. Axes that inputs,
    weight and result share come first. Inputs are left out of which no axis alone is summed over.
    """
    run = jit(functools.partial(_moments, plan, frozenset(names)))
    totals: dict[str, np.ndarray] = {}
    for number, example in enumerate(examples):
        if not has_numbers(example):
            raise ArgumentError(
                f"quantize: example {number} of the calibration has specs, no numbers",
                fix='give arrays, or a scheme that rounds to the nearest: "w4"',
            )
        for name, x in run(leaves, weights, example).items():
            found = np.asarray(x).astype(np.float64)
            if not np.isfinite(found).all():
                raise ArgumentError(
                    f"quantize: example {number} of the calibration makes numbers whose squares "
                    f"are not finite: the inputs of {name}",
                    fix="leave the example out, or skip the layer",
                )
            totals[name] = totals.get(name, 0) + found
    return totals


def shared_axes(node: Node, product: Product) -> list[tuple[int, int]]:
    """The axes of inputs and weight that are one axis of the result."""
    of_inputs, of_weight = Layout.of(node, 1 - product.side), Layout.of(node, product.side)
    axes = dict(zip(of_inputs.places, of_inputs.kept, strict=True))
    pairs = zip(of_weight.places, of_weight.kept, strict=True)
    return [(axes[place], axis) for place, axis in pairs if place in axes]


def _moments(
    plan: Plan, names: Collection[str], leaves: Any, weights: Mapping[str, Any], args: Any
) -> dict[str, Any]:
    recording = plan.source.record(leaves, args, {})
    products = plan.matched(recording.products)
    wanted: dict[str, tuple[Node, Product]] = {}
    for node, product in products.items():
        if product.inputs in names and features(node, product) is not None:
            wanted.setdefault(product.inputs, (node, product))
    graph = _part(recording, [node.args[1 - product.side] for node, product in wanted.values()])
    arrays, structure = pytree.flatten(weights)
    count = len(graph.params)

    def run(*xs: Value) -> list[Value]:
        given = pytree.unflatten(structure, xs[count:])
        calculation = FloatInputs(given)

        def visit(node: Node, operands: list[Value]) -> Sequence[Value]:
            product = products.get(node)
            if product is None or product.name not in given:
                return node.op.apply(operands, node.attrs)
            return [calculation.product(node, product, operands[1 - product.side], None)]

        found = rewrite(graph, xs[:count], visit)
        return [_moment(*pair, x) for pair, x in zip(wanted.values(), found, strict=True)]

    made = build(run, [*graph.param_types, *map(typeof, arrays)], graph.name)
    found = run_graph(made, [*recording.operands, *arrays])
    return dict(zip(wanted, found, strict=True))


def _part(recording: Recording, results: Sequence[Value]) -> Graph:
    graph = recording.graph
    nodes = live_nodes(graph, results, with_effects=False)
    return Graph(graph.name, graph.params, nodes, list(results), graph.lineage, graph.placed)


def _moment(node: Node, product: Product, x: Value) -> Value:
    axis, batch = features(node, product), tuple(axis for axis, _ in shared_axes(node, product))
    x = narrowed(x, FLOAT32)
    summed = tuple(i for i in range(x.rank) if i != axis and i not in batch)
    return dot_general(x, x, contract=(summed, summed), batch=(batch, batch))
