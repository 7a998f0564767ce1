"""The device `ane`: Apple's neural engine, through Core ML."""

from __future__ import annotations

import functools
import sys
from collections import Counter
from importlib.util import find_spec
from typing import Any

import numpy as np

from ...ir.graph import Graph
from ...ir.text import show
from ...ir.types import type_of
from ...lower.target import Target
from ..backend import MISS, Availability, Backend, Executable

INSTALL = 'pip install "rlx[ane]"'


class AneBackend(Backend):
    """Runs graphs as Core ML programs, in float32 or what the graph says."""

    name = "ane"
    target = Target("ane", has_symbolic_sizes=False)
    can_split = False

    def availability(self) -> Availability:
        """Whether coremltools is installed, and this is a Mac."""
        return self._availability

    @functools.cached_property
    def _availability(self) -> Availability:
        if find_spec("coremltools") is None:
            return Availability(False, "coremltools is not installed", INSTALL)
        if sys.platform != "darwin":
            fix = "write a package here, rlx.export_coreml(f, *specs, path=...), and run it there"
            return Availability(False, "Core ML runs on macOS only", fix)
        return Availability(True)

    def description(self) -> str:
        """The version of coremltools."""
        from importlib.metadata import version

        return f"Core ML, coremltools {version('coremltools')}"

    def compile(
        self,
        graph: Graph,
        array: type,
        *,
        check: bool = False,
        target: Target | None = None,
        fixed: int = 0,
    ) -> Executable:
        """Write the graph as a program of Core ML, and load that."""
        import coremltools as ct

        from .program import package, prepared

        stages = prepared(graph, check)
        mir = list(stages.values())[-1]
        names = [f"x{i}" for i in range(len(graph.params))]
        results = [f"y{i}" for i in range(len(graph.results))]
        written = package(mir, names, results, is_half=False)
        model = ct.models.MLModel(written.get_spec(), weights_dir=written.weights_dir)
        types = list(graph.param_types)

        def entry(*arrays: Any) -> Any:
            given = [np.asarray(a) for a in arrays]
            if [type_of(a) for a in given] != types:
                return MISS
            made = model.predict({n: _outside(x) for n, x in zip(names, given, strict=True)})
            found = tuple(
                array(np.asarray(made[n]).astype(t.dtype).reshape(t.shape))
                for n, t in zip(results, graph.result_types, strict=True)
            )
            return found[0] if len(found) == 1 else found

        make_stages = lambda: {name: show(g) for name, g in stages.items()}  # noqa: E731
        return Executable(
            entry, MISS, make_stages=make_stages, make_report=lambda: "every op: Core ML"
        )

    def examine(self, graph: Graph) -> dict[str, Counter[str]]:
        """What would become of the ops of a graph."""
        from ..graph_table import ways_of
        from .emit import table
        from .program import prepared

        return ways_of(graph, list(prepared(graph).values())[-1], table().takes)


def _outside(x: np.ndarray) -> np.ndarray:
    """An argument as Core ML takes it: no bools, and one element for a scalar."""
    x = x.astype(np.int32) if x.dtype == np.bool_ else x
    return np.atleast_1d(x)
