"""A graph compiled by XLA, and its calls."""

from __future__ import annotations

import functools
import time
from collections import Counter
from collections.abc import Callable, Sequence
from typing import Any

import jax

from ...ir.graph import Graph
from ..graph_table import EXPANDED, NATIVE, ON_HOST, prepare, report
from .emit import TABLE
from .errors import translated
from .replay import Replay

OPTIONS = {"xla_allow_excess_precision": False}  # what was rounded to a short dtype stays so
QUICK = {"xla_backend_optimization_level": 0, "xla_llvm_disable_expensive_passes": True}

Check = Callable[[str, Graph], None]


class XlaProgram:
    """A graph compiled for a device of JAX."""

    def __init__(
        self, name: str, device: Any, graph: Graph, check: Check | None, tier: str
    ) -> None:
        self.name, self.device, self.tier = name, device, tier
        began = time.perf_counter()
        self.graphs = prepare(
            graph, TABLE.takes, lambda dtype: False, check=check, keep_recomputed=True
        )
        *_, self.graph = self.graphs.values()
        prepared = time.perf_counter()
        self._replay = Replay()
        self._compiled = self._compile()
        self.seconds = {"lower": prepared - began, "xla": time.perf_counter() - prepared}
        self.run = self._run_with_python if self._replay.left else self._run

    def _compile(self) -> Any:
        """What JAX makes of the graph."""

        def replayed(*arrays: jax.Array) -> list[jax.Array]:
            return self._replay.run(self.graph, arrays)

        replayed.__name__ = self.graph.name
        place = jax.sharding.SingleDeviceSharding(self.device)
        specs = [jax.ShapeDtypeStruct(p.shape, p.dtype, sharding=place) for p in self.graph.params]
        is_quick = self.tier == "fast" and self.device.platform == "cpu"
        options: Any = OPTIONS | QUICK if is_quick else OPTIONS
        with (
            translated(self.name, builds=True),
            jax.enable_x64(True),
            jax.default_device(self.device),
        ):
            return jax.jit(replayed).lower(*specs).compile(compiler_options=options)

    def _run(self, arrays: Sequence[jax.Array]) -> Sequence[jax.Array]:
        """The results for arrays of the parameters."""
        try:
            return self._compiled(*arrays)
        except Exception as error:
            with translated(self.name):
                raise error

    def _run_with_python(self, arrays: Sequence[jax.Array]) -> Sequence[jax.Array]:
        """Run to the end; what a Python function raised comes out as it was."""
        raised = self._replay.host.raised
        raised.clear()
        try:
            results = self._compiled(*arrays)
            jax.block_until_ready(results)
            jax.effects_barrier()
        except Exception as error:
            with translated(self.name):
                raise error
        if raised:
            raise raised[0]
        return results

    # -- looking inside ---------------------------------------------------------------------------

    @property
    def report(self) -> str:
        """What became of the ops."""
        hir, *_ = self.graphs.values()
        run = {node.op.name for node in self.graph.walk()}
        nodes = [node for node in self.graph.walk() if not node.op.is_constant]
        ways = Counter((n.op.name, NATIVE if TABLE.takes(n) else ON_HOST) for n in nodes)
        ways |= Counter((n.op.name, EXPANDED) for n in hir.walk() if n.op.name not in run)
        return report(ways)

    @property
    def texts(self) -> dict[str, str]:
        """The text of the program as XLA runs it."""
        return {"hlo": self._compiled.as_text() or ""}

    @functools.cached_property
    def arena_bytes(self) -> int:
        """The memory that a call takes besides arguments and results."""
        return int(getattr(self._compiled.memory_analysis(), "temp_size_in_bytes", 0))

    @functools.cached_property
    def code_bytes(self) -> int:
        """The size of the code."""
        analysis = self._compiled.memory_analysis()
        return int(getattr(analysis, "generated_code_size_in_bytes", 0))
