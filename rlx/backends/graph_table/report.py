"""What became of the user's ops."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable

from ...ir.graph import Graph, Node


def report(
    hir: Graph, mir: Graph, library: str, elsewhere: Callable[[Node], str | None]
) -> str:
    """What became of the ops of a graph: rows of a library, ops that run elsewhere.

    `elsewhere(node)` says where and why a node runs that no row computes.
    """
    given = Counter(n.op.name for n in hir.walk() if not n.op.is_constant)
    places = [(n, elsewhere(n)) for n in mir.walk() if not n.op.is_constant]
    native = sum(place is None for _, place in places)
    left = {n.op.name for n in mir.walk()}
    whole = sorted(name for name in given if name in left)
    gone = sorted(name for name in given if name not in left)
    lines = [f"{sum(given.values())} ops became {native} of {library}"]
    lines += [f"native: {', '.join(whole)}"] if whole else []
    lines += [f"expanded: {', '.join(gone)}"] if gone else []
    for (name, place), count in Counter((n.op.name, p) for n, p in places if p).items():
        lines.append(f"{name}: {place}" + (f", {count} times" if count > 1 else ""))
    return "\n".join(lines)
