"""The device of XLA: a CPU, a GPU or a TPU, as JAX offers them."""

from __future__ import annotations

import functools
from collections import Counter
from collections.abc import Sequence
from importlib.util import find_spec
from typing import Any

from ...ir.graph import Graph
from ...ir.memory import Memory
from ...ir.record import replace
from ...ir.sharding import Shardings
from ...ir.text import show
from ...lower.target import Target
from ..backend import Availability, Backend, Executable
from ..entries import device_executable

INSTALL = {"gpu": 'pip install "jax[cuda13]"', "tpu": 'pip install "jax[tpu]"'}
NAMES = "write xla, xla:cpu, xla:gpu or xla:gpu:1"


class XlaBackend(Backend):
    """Compiles graphs by JAX and XLA.

    It runs on one of JAX's platforms, `xla:gpu`, perhaps on one of several devices there,
    `xla:gpu:1`; without a name on what JAX thinks best.
    """

    has_shardings = True

    def __init__(self, which: str = "") -> None:
        self.platform, _, self._number = which.partition(":")
        self.name = f"xla:{which}" if which else "xla"
        self.target = Target(self.name, has_symbolic_sizes=False)

    def availability(self) -> Availability:
        """Whether JAX is here and has the platform."""
        return self._availability

    @functools.cached_property
    def _availability(self) -> Availability:
        install = INSTALL.get(self.platform, "pip install jax")
        if find_spec("jax") is None:
            return Availability(False, "JAX is not installed", install)
        if not (self._number or "0").isdecimal():
            reason = f"{self._number!r} is no number of a device"
            return Availability(False, reason, NAMES)
        try:
            import jax

            count = len(jax.local_devices(backend=self.platform or None))
        except (ImportError, RuntimeError) as error:
            fix = NAMES if self.platform not in ("", *INSTALL) else install
            return Availability(False, f"JAX says: {error}".partition("\n")[0], fix)
        if int(self._number or 0) >= count:
            return Availability(False, f"JAX has {count} of these devices", "pick a lesser number")
        return Availability(True)

    @functools.cached_property
    def device(self) -> Any:
        """The device of JAX."""
        import jax

        return jax.local_devices(backend=self.platform or None)[int(self._number or 0)]

    @functools.cached_property
    def memory(self) -> Memory:  # type: ignore[override]
        """The memory of the device."""
        from .memory import XlaMemory

        return XlaMemory(self.name, self.device)

    def shortest_name(self) -> str:
        """`xla` for what JAX thinks best; no number for the first of a platform."""
        import jax

        if self.device == jax.local_devices()[0]:
            return "xla"
        number = int(self._number or 0)
        return f"xla:{self.device.platform}{f':{number}' if number else ''}"

    def description(self) -> str:
        """The device as JAX calls it, and the version of JAX."""
        import jax

        return f"{self.device.device_kind} ({self.device.platform}), jax {jax.__version__}"

    def compile(
        self,
        graph: Graph,
        array: type,
        *,
        check: bool = False,
        target: Target | None = None,
        fixed: int = 0,
        shardings: Shardings | None = None,
    ) -> Executable:
        """Replay the graph in JAX, and compile what that records."""
        from .program import XlaProgram

        program = XlaProgram(
            self.name,
            self.device,
            graph,
            check=check,
            target=target or self.target,
            shardings=shardings,
        )
        made = device_executable(graph, array, self.memory, program.run)
        if shardings is not None:
            made.prepare = self._prepared_for(program, len(graph.params), array)
        made.make_donating = functools.cache(
            lambda params: replace(
                made,
                entry=device_executable(graph, array, self.memory, program.donating(params)).entry,
            )
        )
        made.make_stages = lambda: {n: show(g) for n, g in program.graphs.items()} | program.texts
        made.make_report = lambda: program.report
        made.seconds = program.seconds
        made.arena_bytes, made.constant_bytes = program.arena_bytes, program.code_bytes
        return made

    def examine(self, graph: Graph) -> dict[str, Counter[str]]:
        """What would become of the ops of a graph."""
        from ..graph_table import prepare, ways_of
        from .emit import TABLE

        graphs = prepare(graph, TABLE.takes, keep_recomputed=True)
        return ways_of(graph, list(graphs.values())[-1], TABLE.takes)

    def _prepared_for(self, program: Any, count: int, array: type) -> Any:
        """What puts arrays of the last parameters where these lie."""
        memory: Any = self.memory

        def prepare(arrays: Sequence[Any]) -> Sequence[Any]:
            first = count - len(arrays)
            data = [x._data if isinstance(x, array) else memory.from_host(x) for x in arrays]
            return [array(program.place(x, first + i), memory) for i, x in enumerate(data)]

        return prepare
