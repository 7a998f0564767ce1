"""What became of each op of a graph."""

from __future__ import annotations

from collections import Counter

NATIVE, EXPANDED, ON_HOST = "native", "expanded", "library: on the host"
Ways = Counter[tuple[str, str]]  # (name of an op, what became of it) -> how often


def report(ways: Ways) -> str:
    """A line for each op, by their names: how it runs, and how often it is there."""
    lines = [
        f"{name}: {way}" + (f" ({count})" if count > 1 else "")
        for (name, way), count in sorted(ways.items())
    ]
    return "\n".join(lines)
