"""The NumPy interpreter as a device."""

from __future__ import annotations

from typing import Any

import numpy as np

from ...ir.graph import Graph
from ...ir.interpret import interpret
from ...ir.text import show
from ...ir.types import type_of
from ...lower.target import Target
from ..backend import Availability, Backend, Executable


class ReferenceBackend(Backend):
    """Runs graphs with the NumPy reference of each op."""

    name = "reference"
    target = Target("reference")

    def availability(self) -> Availability:
        """It needs nothing but NumPy."""
        return Availability(True)

    def compile(self, graph: Graph, array: type, *, check: bool = False) -> Executable:
        """Keep the graph; each call interprets it."""
        miss = object()

        def entry(*arrays: Any) -> Any:
            given = [np.asarray(a) for a in arrays]
            if [type_of(a) for a in given] != list(graph.param_types):
                return miss
            results = tuple(array(r) for r in interpret(graph, given))
            return results[0] if len(results) == 1 else results

        stages = lambda: {"hir": show(graph)}  # noqa: E731
        return Executable(entry, miss, stages, "every op: NumPy reference")
