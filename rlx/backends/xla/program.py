"""A graph compiled by XLA, and its calls."""

from __future__ import annotations

import functools
import itertools
import os
import pickle
import sys
import time
import warnings
from collections import Counter
from collections.abc import Callable, Sequence
from importlib.metadata import version
from typing import Any

import jax
import numpy as np
from jax.experimental import serialize_executable
from jax.sharding import SingleDeviceSharding

from ...ir.fingerprint import fingerprint, is_portable
from ...ir.gil import counts_exactly
from ...ir.graph import Graph, Node
from ...ir.record import record
from ...ir.sharding import Shardings
from ...lower.target import Target
from ..disk import DiskCache, disk_cache, hashed, sources, tell
from ..graph_table import EXPANDED, NATIVE, ON_HOST, computed, prepare, refused, report
from ..registry import get
from .emit import TABLE, table_of
from .errors import translated
from .host import HostCalls
from .memory import is_on_one, jax_mesh, jax_sharding, mesh_of, placed, whole_on

OPTIONS = {"xla_allow_excess_precision": False}  # what was rounded to a short dtype stays so
# without the passes that fuse, on processors and on GPUs
FUSING = ("fusion", "cpu-instruction-fusion", "multi_output_fusion", "priority-fusion")
ALONE = {"xla_disable_hlo_passes": ",".join(FUSING)}
QUICK = {"xla_backend_optimization_level": 0, "xla_llvm_disable_expensive_passes": True}

Run = Callable[[list[jax.Array]], Sequence[jax.Array]]


class XlaProgram:
    """A graph compiled for a device of JAX."""

    def __init__(
        self,
        name: str,
        device: Any,
        graph: Graph,
        *,
        check: bool = False,
        target: Target,
        shardings: Shardings | None = None,
    ) -> None:
        self.name, self.device, self.target = name, device, target
        began = time.perf_counter()
        self.graphs = prepare(
            graph, TABLE.takes, check=check, keep_recomputed=True, folds=target.folds
        )
        *_, self.graph = self.graphs.values()
        prepared = time.perf_counter()
        self._host, self._calls_python = HostCalls(), calls_python(self.graph)
        self._numbers = itertools.count()  # of runs
        self._places, results = self._places_of(shardings)
        self._compiled = self._compile(self._places, results)
        self._results = results
        self._elsewhere: dict[Any, Any] = {}  # for arguments that lie on many devices
        self.seconds = {"lower": prepared - began, "xla": time.perf_counter() - prepared}
        self.run = self._run_with_python if self._calls_python else self._run
        self._is_spread = shardings is not None

    def _places_of(self, shardings: Shardings | None) -> tuple[list[Any], list[Any] | None]:
        """Where parameters and results lie: on the device, or as told.

        What is not told of lies whole on all devices of the mesh.
        """
        if shardings is None:
            one = SingleDeviceSharding(self.device)
            return [one] * len(self.graph.params), None
        told = [s for s in (*shardings.inputs, *shardings.outputs) if s is not None]
        whole = whole_on(jax_mesh(told[0].mesh))
        inputs = [jax_sharding(s) if s else whole for s in shardings.inputs]
        outputs = [jax_sharding(s) if s else None for s in shardings.outputs]
        return inputs, outputs if any(outputs) else None

    def place(self, data: jax.Array, i: int) -> jax.Array:
        """An array where parameter i lies."""
        with translated(self.name):
            return placed(data, self._places[i])

    def donating(self, params: tuple[int, ...]) -> Run:
        """What runs the graph and may use up the arrays of some parameters."""
        compiled = self._compile(self._places, self._results, params)

        def run(arrays: list[jax.Array]) -> Sequence[jax.Array]:
            if self._calls_python or not self._is_here(arrays):
                return self.run(arrays)
            for i in params:
                if not _is_alone(arrays, i):
                    with jax.enable_x64(True):
                        arrays[i] = arrays[i].copy()
            with translated(self.name):
                return compiled(*arrays)

        return run

    def _is_here(self, arrays: Sequence[jax.Array]) -> bool:
        """Whether arrays lie where the parameters do."""
        return all(x.sharding == place for x, place in zip(arrays, self._places, strict=True))

    def _compile(
        self,
        places: Sequence[Any],
        results: list[Any] | None,
        donated: tuple[int, ...] = (),
    ) -> Any:
        """What JAX makes of the graph for parameters at these places, or what is kept of that."""
        is_quick = self.target.tier == "fast" and self.device.platform == "cpu"
        options: Any = OPTIONS | QUICK if is_quick else OPTIONS
        if not self.target.fuses:
            options = options | ALONE

        def make() -> Any:
            return self._made(places, results, donated, options)

        is_spread = results is not None or any(
            not isinstance(p, SingleDeviceSharding) for p in places
        )
        if is_spread or self._calls_python:
            return make()
        return kept_or_made(self.graph, self.device, (options, donated), make)

    def _made(
        self,
        places: Sequence[Any],
        results: list[Any] | None,
        donated: tuple[int, ...],
        options: Any,
    ) -> Any:
        """What JAX makes of the graph."""

        def replayed(*arrays: jax.Array) -> list[jax.Array]:
            given = arrays[: len(self.graph.params)]
            number = arrays[-1] if self._calls_python else None
            return Replay(self._host, number).run(self.graph, given)

        replayed.__name__ = self.graph.name
        specs = [
            jax.ShapeDtypeStruct(p.shape, p.dtype, sharding=place)
            for p, place in zip(self.graph.params, places, strict=True)
        ]
        specs += [jax.ShapeDtypeStruct((), np.uint32)] if self._calls_python else []
        keywords: Any = {"donate_argnums": donated}
        keywords |= {} if results is None else {"out_shardings": results}
        with (
            translated(self.name, builds=True),
            jax.enable_x64(True),
            jax.default_device(self.device),
            warnings.catch_warnings(),
        ):
            warnings.filterwarnings("ignore", "Some donated buffers were not usable")
            return jax.jit(replayed, **keywords).lower(*specs).compile(compiler_options=options)

    def _run(self, arrays: Sequence[jax.Array]) -> Sequence[jax.Array]:
        """The results for arrays of the parameters."""
        try:
            return self._call(arrays)
        except Exception as error:
            with translated(self.name):
                raise error

    def _call(self, arrays: Sequence[jax.Array], *number: np.uint32) -> Sequence[jax.Array]:
        if self._is_spread:
            arrays = [self.place(x, i) for i, x in enumerate(arrays)]
        elif any(not is_on_one(x) for x in arrays):
            return self._follow(arrays, *number)
        return self._compiled(*arrays, *number)

    def _follow(self, arrays: Sequence[jax.Array], *number: np.uint32) -> Sequence[jax.Array]:
        """Run on the devices on which arguments lie; what lies on one goes to all of them."""
        whole = whole_on(mesh_of(arrays))
        arrays = [placed(x, whole) if is_on_one(x) else x for x in arrays]
        key = tuple(x.sharding for x in arrays)
        if key not in self._elsewhere:
            self._elsewhere[key] = self._compile(key, None)
        return self._elsewhere[key](*arrays, *number)

    def _run_with_python(self, arrays: Sequence[jax.Array]) -> Sequence[jax.Array]:
        """Run to the end; what a Python function raised comes out as it was."""
        number = np.uint32(next(self._numbers) % 2**32)
        try:
            results = self._call(arrays, number)
            jax.block_until_ready(results)
            jax.effects_barrier()
        except Exception as error:
            with translated(self.name):
                raise error
        finally:
            raised = self._host.raised.pop(int(number), None)
        if raised:
            raise raised
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


def _is_alone(arrays: list[jax.Array], i: int) -> bool:
    """Whether only this list and the argument that was given away refer to an array."""
    return counts_exactly(arrays[i]) and sys.getrefcount(arrays[i]) <= _REFERENCES


_REFERENCES = 1 + next(sys.getrefcount(one[i]) for one in [[object()]] for i in [0])


# -- graphs run op by op in JAX, which records what they do ----------------------------------------


@record(frozen=False)
class Replay:
    """Runs graphs while JAX records."""

    host: HostCalls  # runs nodes without a row
    number: jax.Array | None  # of the run

    def __post_init__(self) -> None:
        self._table = table_of(self.run)

    def run(self, graph: Graph, arrays: Sequence[jax.Array]) -> list[jax.Array]:
        """The results of a graph for arrays of its parameters."""
        known = dict(zip(graph.params, arrays, strict=True))
        for node in graph.nodes:
            results = self._results(node, [known[a] for a in node.args])
            found = [(x.dtype, x.shape) for x in results]
            wanted = [(value.dtype, value.shape) for value in node.results]
            assert found == wanted, f"{node.op.name}: {found}, not {wanted}"
            known.update(zip(node.results, results, strict=True))
        return [known[r] for r in graph.results]

    def _results(self, node: Node, arrays: Sequence[jax.Array]) -> Sequence[jax.Array]:
        if self._table.takes(node):
            return computed(node, self._table, arrays)
        if node.graphs or node.op.rules.reference is None:
            why = f"there is no row {node.op.name!r} in rlx/backends/xla/emit.py"
            raise refused(node, self._table.device, why)
        assert self.number is not None
        return self.host.call(node, arrays, self.number)


def calls_python(graph: Graph) -> bool:
    """Whether some nodes of a graph run on the host."""
    return not all(map(TABLE.takes, graph.walk()))


# -- compiled programs on disk, so that later processes need not compile them again ----------------


def kept_or_made(
    graph: Graph, device: Any, how: tuple[object, ...], make: Callable[[], Any]
) -> Any:
    """What an earlier process compiled for a graph, or else what `make` gives.

    `how` is what compiling depends on besides. The program calls nothing on the host.
    """
    disk = disk_cache()
    key = _key(disk, graph, device, how) if disk and is_portable(graph) else ""
    if disk is None or not key:
        return make()
    known = disk.get(key)
    if known is not None:
        try:
            return serialize_executable.deserialize_and_load(
                *pickle.loads(known), execution_devices=[device]
            )
        except Exception as error:  # whatever JAX does not like, compiling anew is right
            tell(f"a program of XLA could not be loaded: {error}")
            disk.remove(key)
    made = make()
    _keep(disk, key, made)
    return made


def _keep(disk: DiskCache, key: str, made: Any) -> None:
    try:
        content = pickle.dumps(serialize_executable.serialize(made))
    except Exception as error:  # not all of XLA's platforms can do that
        tell(f"a program of XLA is not kept: {error}")
        return
    disk.put(key, content)


def _key(disk: DiskCache, graph: Graph, device: Any, how: tuple[object, ...]) -> str:
    files = sources(disk)
    versions = jax.__version__, version("jaxlib"), device.client.platform_version
    there = device.platform, device.device_kind, device.id, len(device.client.devices())
    machine = get("cpu").compiled_for() if device.platform == "cpu" else ""
    flags = os.environ.get("XLA_FLAGS", ""), jax.config.values
    if not files:
        return ""
    return hashed("xla", files, versions, there, machine, flags, how, fingerprint(graph))
