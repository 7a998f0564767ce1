"""Let loops do less in each round."""

from __future__ import annotations

from ...ir.graph import Graph
from .batch_products import batch_products
from .hoist import hoist
from .trim_loops import trim_loops


def lighten_loops(graph: Graph) -> Graph:
    """Let loops do less in each round.

    before: `scan(w, c, xs, body=(w, c, x) -> sin(c) + dot(x, transpose(w)))`; after: `ys = dot(xs,
    transpose(w))`, then `scan(c, ys, body=(c, y) -> sin(c) + y)`.
    """
    return trim_loops(batch_products(trim_loops(hoist(graph))))
