"""The passes before a table runs a graph; simpler ops for what has no row."""

from __future__ import annotations

from collections.abc import Callable, Collection

import numpy as np

from ...ir.graph import Graph, Node
from ...lower.hir import (
    dedupe,
    expand,
    fold_constants,
    inline_calls,
    lighten_loops,
    simplify,
    split_complex,
)

Wants = Collection[str] | Callable[[Node], bool]


def prepare(
    graph: Graph,
    wants: Wants,
    computes: Callable[[np.dtype], bool] | None = None,
    check: Callable[[str, Graph], None] | None = None,
) -> dict[str, Graph]:
    """Simplify a graph, and write in simpler ops what has no row.

    before: `y = silu(x)`; after: `a = logistic(x); y = mul(x, a)`. Vanish: calls, but for those
    that compute again; ops with an `expand` rule that the table does not want; ops on complex
    numbers, where it `computes` them not. Gives each stage's graph by its name, in order; `check`
    gets them as they come.
    """
    graphs: dict[str, Graph] = {}

    def after(name: str, graph: Graph) -> Graph:
        if check:
            check(name, graph)
        graphs[name] = graph
        return graph

    graph = after("hir", graph)
    graph = after("inlined", inline_calls(graph))
    graph = after("deduped", dedupe(graph))
    graph = after("simplified", simplify(graph))
    graph = after("folded", fold_constants(graph))
    graph = after("expanded", expand(graph, wants))
    if computes is not None:
        graph = after("split", expand(split_complex(graph, computes), wants))
    graph = after("lightened", lighten_loops(graph))
    # folds and loops whose products were batched may bring composites back
    graph = after("simplified again", expand(simplify(fold_constants(graph)), wants))
    after("deduped again", dedupe(graph))
    return graphs
