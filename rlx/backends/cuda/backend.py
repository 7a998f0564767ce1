"""The devices of NVIDIA and AMD as the runtime sees them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from ...ir.errors import RlxError
from ...ir.graph import Graph
from ...lower.target import Target
from ..backend import Availability, Backend, Executable
from ..c_like.cuda_c import CudaC
from ..c_like.executable import kernel_executable, kernel_target
from ..c_like.plan import Plan, plan
from ..c_like.runner import Place, Places, Runner
from .cards import DRIVERS, find
from .graphs import Graphs
from .machine import CudaArray, CudaMachine, machine_of
from .products import claim
from .queued import Queued


class CudaBackend(Backend):
    """Compiles graphs for one device, named by its number (the first one without)."""

    def __init__(self, kind: str = "cuda", which: str = "") -> None:
        self.kind, self.which = kind, which
        self.name = f"{kind}:{which}" if which else kind
        self.target = kernel_target(self.name)
        self._found: Availability | None = None

    def availability(self) -> Availability:
        """Whether there is such a device; it is opened when it is asked for first."""
        if self._found is None:
            found = find(self.kind, self.which)
            if found.is_available:
                try:
                    self.machine = self.memory = machine_of(self.kind, int(self.which or 0))
                except RlxError as error:
                    found = Availability(False, error.what, DRIVERS[self.kind])
            self._found = found
        return self._found

    def shortest_name(self) -> str:
        """The first device has no number."""
        return self.machine.name

    def description(self) -> str:
        """The device and the versions of what runs it."""
        return self.machine.describe()

    def compiled_for(self) -> object:
        """The device with its driver."""
        return self.machine.describe()

    def compile(
        self,
        graph: Graph,
        array: type,
        *,
        check: bool = False,
        target: Target | None = None,
        fixed: int = 0,
    ) -> Executable:
        """Lower a graph, write its kernels and build them."""
        machine = self.machine
        claims = claim if machine.blas else lambda step: None
        return kernel_executable(
            graph,
            array,
            machine,
            target or self.target,
            write=lambda program: plan(program, CudaC(machine.limits, self.kind), claims),
            load=lambda made: Loaded(machine, made),
            show=lambda made: {"cuda": made.text},
            check=check,
        )


class Loaded:
    """A plan on a machine: built kernels, constants in the device's memory."""

    def __init__(self, machine: CudaMachine, made: Plan) -> None:
        self.machine, self.plan, self.arena_bytes = machine, made, made.arena_bytes
        with machine.doing("building kernels"):
            module: Any = machine.build(made.text) if made.kernels else None
            arrays = {
                buffer: machine.from_host(buffer.array)  # type: ignore[arg-type]
                for program in made.program.programs
                for buffer in program.constants
            }
        self.constants = arrays  # kept as long as their addresses are in use
        places: Places = {buffer: Place(array.address) for buffer, array in arrays.items()}
        queued = Queued(machine, module)
        self.runner = Runner(made, queued, places, {}, queued.multiply)
        self.graphs = Graphs(machine, made)

    def remarks(self) -> Sequence[str]:
        """How many products are the library's, and how many graphs there are."""
        made, graphs = self.plan, self.graphs
        products = [f"products: {len(made.products)} by cuBLAS"] if made.products else []
        told = f"graph: {f'none, {graphs.refusal}' if graphs.refusal else len(graphs.known)}"
        return [*products, told]

    def run(self, datas: Sequence[CudaArray]) -> list[CudaArray]:
        """Put all of a call into the stream; the results are there when it is done."""
        machine, program = self.machine, self.plan.program
        with machine.doing(f"running {program.name}"):
            results = [machine.empty(b.type.shape, b.dtype) for b in program.outputs]  # type: ignore
            take = machine.block if self.plan.calls_host else machine.arena
            arena = take(self.plan.arena_bytes)  # kept until all is in the stream
            inputs = [Place(data.address) for data in datas]
            outputs = [Place(result.address) for result in results]
            addresses = (arena.address, *(p.memory for p in (*inputs, *outputs)))
            self.graphs.run(addresses, lambda: self.runner.run(inputs, outputs, arena.address))
        return results
