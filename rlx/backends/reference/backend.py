"""The NumPy interpreter as a device."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import Any

import numpy as np

from ...ir.bind import bind_sizes, concretize, is_symbolic
from ...ir.errors import DeviceMemoryError, SymbolicSizeError
from ...ir.graph import Graph
from ...ir.interpret import interpret
from ...ir.text import show
from ...ir.types import type_of
from ...lower.target import NATIVE, Target
from ..backend import Availability, Backend, Executable


class ReferenceBackend(Backend):
    """Runs graphs with the NumPy reference of each op."""

    name = "reference"
    target = Target("reference")

    def availability(self) -> Availability:
        """It needs nothing but NumPy."""
        return Availability(True)

    def description(self) -> str:
        """NumPy's version."""
        return f"NumPy {np.__version__}"

    def examine(self, graph: Graph) -> dict[str, Counter[str]]:
        """All ops are NumPy's, which is what runs here."""
        return {NATIVE: Counter(n.op.name for n in graph.walk() if not n.op.is_constant)}

    def compile(
        self,
        graph: Graph,
        array: type,
        *,
        check: bool = False,
        target: Target | None = None,
        fixed: int = 0,
    ) -> Executable:
        """Keep the graph; each call interprets it."""
        miss = object()
        types = graph.param_types
        names = [str(i) for i in range(len(types))]

        def sized(given: list[np.ndarray]) -> Graph:
            """The graph with the sizes of the arguments."""
            if not is_symbolic(types):
                return graph
            return concretize(graph, bind_sizes(types, [a.shape for a in given], names))

        def entry(*arrays: Any) -> Any:
            given = [np.asarray(a) for a in arrays]
            if len(given) != len(types):
                return miss
            try:
                known = sized(given)
            except SymbolicSizeError:
                return miss
            if [type_of(a) for a in given] != list(known.param_types):
                return miss
            try:
                results = tuple(array(_apart(r, given)) for r in interpret(known, given))
            except MemoryError as error:
                raise DeviceMemoryError(
                    f"reference has not enough memory: {error}",
                    fix="use smaller arrays, or drop arrays that are no longer needed",
                ) from None
            return results[0] if len(results) == 1 else results

        stages = lambda: {"hir": show(graph)}  # noqa: E731
        return Executable(
            entry, miss, make_stages=stages, make_report=lambda: "every op: NumPy reference"
        )


def _apart(result: np.ndarray, given: Sequence[np.ndarray]) -> np.ndarray:
    """A result in memory of its own: that of an argument may be written to later."""
    return result.copy() if any(np.may_share_memory(result, a) for a in given) else result
