"""A graph compiled by XLA, and its calls."""

from __future__ import annotations

import functools
import time
from collections.abc import Callable, Sequence
from typing import Any

import jax

from ...ir.errors import RlxError
from ...ir.graph import Graph
from ...ir.op import has_effect
from ...ir.text import show
from ..graph_table import prepare
from .emit import TABLE
from .errors import translated
from .replay import Replay

OPTIONS = {
    # a number that was rounded to a short dtype stays so, as the user said
    "xla_allow_excess_precision": False,
}
QUICK = {  # on the CPU alone are compiles so slow that less is worth it
    "xla_backend_optimization_level": 0,
    "xla_llvm_disable_expensive_passes": True,
}


class XlaProgram:
    """A graph compiled for a device of JAX."""

    def __init__(self, name: str, device: jax.Device, graph: Graph, check: Any, tier: str) -> None:
        self.name, self.device, self.tier = name, device, tier
        began = time.perf_counter()
        self.graphs = prepare(
            graph, TABLE.takes, lambda dtype: False, check=check, keep_recomputed=True
        )
        self.graph = list(self.graphs.values())[-1]
        self.replay = Replay()
        prepared = time.perf_counter()
        self._compiled = self._compile()
        self.seconds = {"lower": prepared - began, "xla": time.perf_counter() - prepared}
        self._calls_python = bool(self.replay.left) or any(map(has_effect, self.graph.nodes))

    def _compile(self) -> Any:
        def replayed(*arrays: jax.Array) -> list[jax.Array]:
            return self.replay.run(self.graph, arrays)

        place = jax.sharding.SingleDeviceSharding(self.device)
        specs = [
            jax.ShapeDtypeStruct(p.shape, p.dtype, sharding=place) for p in self.graph.params
        ]
        replayed.__name__ = self.graph.name
        is_quick = self.tier == "fast" and self.device.platform == "cpu"
        options = OPTIONS | QUICK if is_quick else OPTIONS
        with translated(self.name), jax.enable_x64(True), jax.default_device(self.device):
            return jax.jit(replayed).lower(*specs).compile(compiler_options=options)

    def run(self, arrays: Sequence[jax.Array]) -> Sequence[jax.Array]:
        """The results for arrays of the parameters."""
        if self._calls_python:
            return self._run_with_python(arrays)
        try:
            return self._compiled(*arrays)
        except Exception:
            with translated(self.name):
                raise

    def _run_with_python(self, arrays: Sequence[jax.Array]) -> Sequence[jax.Array]:
        """Run to the end; what a Python function raised comes out as it was."""
        raised = self.replay.host.raised
        raised.clear()
        try:
            results = self._compiled(*arrays)
            jax.block_until_ready(results)
            jax.effects_barrier()
        except Exception as error:
            if raised:
                raise raised[0] from None
            with translated(self.name):
                raise error
        return results
