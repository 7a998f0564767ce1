"""Run a graph with the NumPy reference of each op: the meaning of everything."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from .graph import Graph, Node


def interpret(graph: Graph, arrays: Sequence[Any]) -> list[np.ndarray]:
    """Evaluate a graph on arrays, one for each parameter."""
    assert len(arrays) == len(graph.params), f"{graph.name} takes {len(graph.params)} arrays"
    table: dict[Any, np.ndarray] = {}
    for param, array in zip(graph.params, arrays, strict=True):
        table[param] = np.asarray(array)
    for node in graph.nodes:
        table.update(zip(node.results, evaluate(node, [table[a] for a in node.args]), strict=True))
    return [table[r] for r in graph.results]


def evaluate(node: Node, arrays: Sequence[np.ndarray]) -> tuple[np.ndarray, ...]:
    """Evaluate one node with its reference."""
    return node.op.run(arrays, node.attrs)
