"""Lower a graph to ops that a table has rows for."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from ...ir.graph import Graph, Node
from ...ir.verify import verify
from ...lower.hir import (
    dedupe,
    expand,
    fold_constants,
    inline_calls,
    lighten_loops,
    simplify,
    split_complex,
)


def prepare(
    graph: Graph,
    takes: Callable[[Node], bool],
    *,
    check: bool = False,
    keep_recomputed: bool = False,
) -> dict[str, Graph]:
    """Lower a traced graph; gives each stage by its name, the last one is to be run.

    Ops that a table `takes` stay whole; others are written in simpler ops where their rooms say
    how, and of these complex ones as their parts. With `check` each stage is verified, with
    `keep_recomputed` calls that compute again stay.
    """
    graphs: dict[str, Graph] = {}

    def after(name: str, graph: Graph) -> Graph:
        if check:
            verify(graph)
        graphs[name] = graph
        return graph

    graph = after("hir", graph)
    graph = after("inlined", inline_calls(graph, keep_recomputed))
    graph = after("simplified", simplify(dedupe(graph)))
    graph = after("folded", fold_constants(graph))
    graph = after("expanded", expand(graph, takes))
    graph = after("split", expand(split_complex(graph, _never, takes), takes))
    graph = after("lightened", lighten_loops(graph))
    # folds and batched loops may bring composites back
    graph = after("simplified again", expand(simplify(fold_constants(graph)), takes))
    after("mir", dedupe(graph))
    return graphs


def _never(dtype: np.dtype) -> bool:
    return False
