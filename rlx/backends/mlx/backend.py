"""The devices `mlx` and `metal`: graphs computed by MLX."""

from __future__ import annotations

import functools
import shutil
import sys
import time
from collections import Counter
from importlib.util import find_spec
from typing import Any

from ...ir.graph import Graph
from ...ir.memory import Memory
from ...ir.text import show
from ...lower.legalize import legalize
from ...lower.target import Target
from ..backend import Availability, Backend, Executable
from ..entries import device_executable
from ..graph_table import prepare, report, ways_of

INSTALL = 'pip install "rlx[mlx]"'
NO_DOUBLE = frozenset({"float64", "complex128"})  # what Apple's GPU lacks


class MlxBackend(Backend):
    """Runs graphs as functions that MLX compiles.

    Each op is a call of MLX. `mx.compile` fuses them on GPUs; for the processor it calls a C++
    compiler, which takes a second for each fused loop, so there `jit(tier="max")` asks for it.

    `mlx` is the device that MLX thinks best: Apple's GPU on a Mac, the processor elsewhere;
    `mlx:cpu` and `mlx:gpu` choose. `metal` is Apple's GPU.
    """

    def __init__(self, name: str = "mlx", which: str = "") -> None:
        self._kind, self._which = name, which
        self.name = f"{name}:{which}" if which else name

    @functools.cached_property
    def target(self) -> Target:  # type: ignore[override]
        """The target, with the dtypes that the device's memory can hold."""
        plain = Target(self.name, has_symbolic_sizes=False)
        if not self.is_gpu:
            return plain
        return Target(self.name, stored=plain.stored - NO_DOUBLE, has_symbolic_sizes=False)

    @functools.cached_property
    def device(self) -> Any:
        """The device of MLX."""
        import mlx.core as mx

        if self._kind == "metal":
            return mx.Device(mx.gpu)
        kinds = {"cpu": mx.cpu, "gpu": mx.gpu}
        return mx.Device(kinds[self._which]) if self._which else _best()

    @property
    def is_gpu(self) -> bool:
        """Whether it is a GPU."""
        import mlx.core as mx

        return self.device.type == mx.gpu

    @functools.cached_property
    def memory(self) -> Memory:  # type: ignore[override]
        """The memory of the device."""
        from .memory import MlxMemory

        return MlxMemory(self.name, self.device)

    def availability(self) -> Availability:
        """Whether MLX is installed, and has the device."""
        return self._availability

    @functools.cached_property
    def _availability(self) -> Availability:
        if self._which not in ("", "cpu", "gpu"):
            fix = "write mlx, mlx:cpu or mlx:gpu"
            return Availability(False, f"MLX has no device {self._which!r}", fix)
        if self._kind == "metal" and sys.platform != "darwin":
            fix = "use mlx, which runs on the processor here, or a Mac with Apple silicon"
            return Availability(False, "Metal is on Macs only", fix)
        if find_spec("mlx") is None:
            return Availability(False, "MLX is not installed", INSTALL)
        try:
            import mlx.core as mx

            is_here = mx.is_available(self.device)
        except (ImportError, RuntimeError, ValueError) as error:
            return Availability(False, f"MLX says: {error}".partition("\n")[0], INSTALL)
        if not is_here:
            return Availability(False, "MLX has no GPU here", "use mlx:cpu")
        return Availability(True)

    def shortest_name(self) -> str:
        """`mlx` for the device that MLX thinks best."""
        return "mlx" if self.device == _best() else self.name

    def description(self) -> str:
        """MLX's version, its device, and whether it can compile for the processor."""
        from importlib.metadata import version

        kind = "gpu" if self.is_gpu else "cpu"
        # MLX goes on without a word, op by op
        lack = "" if self.is_gpu or shutil.which("g++") else '; tier="max" lacks g++ to fuse ops'
        return f"{kind}, mlx {version('mlx')}{lack}"

    def compile(
        self,
        graph: Graph,
        array: type,
        *,
        check: bool = False,
        target: Target | None = None,
        fixed: int = 0,
    ) -> Executable:
        """Cut the graph in pieces, which MLX computes."""
        from .emit import table_of
        from .memory import MlxData, check_size, computing, largest
        from .program import Maker

        began = time.perf_counter()
        table = table_of(self.name, self.is_gpu)
        target = target or self.target
        stages = prepare(graph, table.takes, check=check, folds=target.folds)
        mir = legalize(list(stages.values())[-1], self.target)
        maker = Maker(table, bool(target.fuses) and (self.is_gpu or target.tier == "max"))
        program = maker.program(mir)
        dtypes = [t.dtype for t in graph.result_types]
        huge = largest(mir)

        def run(given: list[Any]) -> list[MlxData]:
            check_size(huge, self.name)
            with computing(self.device, self.name):
                results = program.finished([data.array for data in given])
            return [MlxData(y, dtype) for y, dtype in zip(results, dtypes, strict=True)]

        made = device_executable(graph, array, self.memory, run)
        made.make_stages = lambda: {name: show(g) for name, g in stages.items()}
        made.make_report = lambda: report(maker.ways)
        made.seconds = {"lower": time.perf_counter() - began}
        return made

    def examine(self, graph: Graph) -> dict[str, Counter[str]]:
        """What would become of the ops of a graph."""
        from .emit import table_of

        takes = table_of(self.name, self.is_gpu).takes
        graphs = prepare(graph, takes)
        return ways_of(graph, legalize(list(graphs.values())[-1], self.target), takes)


@functools.cache
def _best() -> Any:
    """The device that MLX thinks best when it is asked first."""
    import mlx.core as mx

    return mx.default_device()
