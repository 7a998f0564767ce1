"""The devices `mlx` and `metal`: graphs computed by MLX."""

from __future__ import annotations

from collections import Counter
from importlib.util import find_spec
from typing import Any

import numpy as np

from ...ir.graph import Graph
from ...ir.text import show
from ...ir.types import is_complex, type_of
from ...ir.verify import verify
from ...lower.target import Target
from ..backend import MISS, Availability, Backend, Executable
from ..graph_table import prepare, report

INSTALL = 'pip install "rlx[mlx]"'


class MlxBackend(Backend):
    """Runs graphs as functions that MLX compiles, on its processor or on Apple's GPU."""

    def __init__(self, name: str = "mlx") -> None:
        self.name = name
        self.target = Target(name, has_symbolic_sizes=False)

    def availability(self) -> Availability:
        """Whether MLX is installed, and has the device."""
        if find_spec("mlx") is None:
            return Availability(False, "MLX is not installed", INSTALL)
        return Availability(True)

    def compile(
        self,
        graph: Graph,
        array: type,
        *,
        check: bool = False,
        target: Target | None = None,
        fixed: int = 0,
    ) -> Executable:
        """Cut the graph in pieces; MLX compiles each when it runs first."""
        from ..graph_table import Table
        from . import emit, memory, program

        table = Table(self.name, emit.ROWS, memory.to_mlx)
        stages = prepare(
            graph, table.takes, lambda dtype: not is_complex(dtype), _checked if check else None
        )
        ways: Counter[tuple[str, str]] = Counter()
        run = program.Program(list(stages.values())[-1], table, ways)
        types = list(graph.param_types)

        def entry(*arrays: Any) -> Any:
            given = [np.asarray(a) for a in arrays]
            if [type_of(a) for a in given] != types:
                return MISS
            made = run([memory.to_mlx(a) for a in given])
            results = tuple(
                array(memory.to_numpy(y, t.dtype))
                for y, t in zip(made, graph.result_types, strict=True)
            )
            return results[0] if len(results) == 1 else results

        return Executable(
            entry, MISS, lambda: {n: show(g) for n, g in stages.items()}, lambda: report(ways)
        )


def _checked(name: str, graph: Graph) -> None:
    verify(graph)
