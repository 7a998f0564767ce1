"""What became of each op of a graph."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable

from ...ir.graph import Graph, Node
from ...lower.target import EXPANDED, LIBRARY, NATIVE

ON_HOST = f"{LIBRARY}: on the host"
Ways = Counter[tuple[str, str]]  # (name of an op, what became of it) -> how often


def ways_of(hir: Graph, mir: Graph, takes: Callable[[Node], bool]) -> dict[str, Counter[str]]:
    """The ops of a graph by what becomes of them, as `Backend.examine` tells."""
    nodes = [node for node in mir.walk() if not node.op.is_constant]
    left = {node.op.name for node in nodes}
    found = {NATIVE: Counter[str](), EXPANDED: Counter[str](), LIBRARY: Counter[str]()}
    found[NATIVE].update(n.op.name for n in nodes if takes(n) or n.graphs)
    found[LIBRARY].update(n.op.name for n in nodes if not takes(n) and not n.graphs)
    gone = (n for n in hir.walk() if n.op.name not in left and not n.op.is_constant)
    found[EXPANDED].update(n.op.name for n in gone if n.op.rules.expand is not None)
    return found


def report(ways: Ways) -> str:
    """A line for each op, by their names: how it runs, and how often it is there."""
    lines = [
        f"{name}: {way}" + (f" ({count})" if count > 1 else "")
        for (name, way), count in sorted(ways.items())
    ]
    return "\n".join(lines)
