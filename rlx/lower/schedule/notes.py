"""What is worth knowing about a schedule: library calls and missed fusions."""

from __future__ import annotations

from ...ir.body import Greatest
from ...ir.graph import Graph, Node
from ..target import Target
from .fuse import Fusion


def notes_of(graph: Graph, target: Target, fusion: Fusion) -> list[str]:
    """One line for each library call and each value that was not fused.

    Such a value is stored though it might have been fused.
    """
    notes = []
    results = set(graph.results)
    for node in graph.nodes:
        if node in fusion.library:
            notes.append(f"{node.op.name}: library (NumPy), {_lack(node, target)}{_at(node)}")
        for value in node.results:
            reason = fusion.missed.get(value)
            if reason and value not in results:
                notes.append(f"{node.op.name} {value.type}: stored, {reason}{_at(node)}")
    return notes


def _lack(node: Node, target: Target) -> str:
    for value in (*node.args, *node.results):
        if not target.computes(value.dtype):
            return f"{target.name} has no arithmetic for {value.dtype.name}"
    if isinstance(node.op.rules.body, Greatest):
        return f"more than {target.most_ranked} numbers, or rows of any length"
    return "the op has no loop body"


def _at(node: Node) -> str:
    return f"   {node.source}" if node.source else ""
