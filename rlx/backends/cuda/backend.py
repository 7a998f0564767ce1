"""The devices of NVIDIA and AMD as the runtime sees them."""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager
from typing import Any

import numpy as np

from ...ir.errors import RlxError
from ...ir.graph import Graph
from ...ir.record import record, replace
from ...lower.lir.program import Copy, Program, RepeatStep
from ...lower.target import Target
from ..backend import Availability, Backend, Executable
from ..c_like.cuda_c import CudaC
from ..c_like.executable import kernel_executable, kernel_target, limits_for
from ..c_like.plan import Launch, Plan, Product, plan
from ..c_like.runner import Place, Places, Runner
from ..c_like.timers import CallTimer, StepTimers
from .machine import DRIVERS, CudaArray, CudaMachine, find, machine_of
from .products import Gemm, Matrices, claim


class CudaBackend(Backend):
    """Compiles graphs for one device, named by its number (the first one without)."""

    has_arena = has_timers = True

    def __init__(self, kind: str = "cuda", which: str = "") -> None:
        self.kind, self.which = kind, which
        self.name = f"{kind}:{which}" if which else kind
        self.target = kernel_target(self.name)
        self.invariant_target = replace(self.target, batch_invariant=True)
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
        machine, target = self.machine, target or self.target
        limits = limits_for(target, machine.limits)
        # how the library sums a row depends on how many there are
        claims = claim if machine.blas and not target.batch_invariant else lambda step: None
        return kernel_executable(
            graph,
            array,
            machine,
            target,
            write=lambda program: plan(program, CudaC(limits, self.kind), claims),
            load=lambda made, timers: Loaded(machine, made, timers),
            show=lambda made: {"cuda": made.text},
            check=check,
        )


class Loaded:
    """A plan on a machine: built kernels, constants in the device's memory."""

    def __init__(self, machine: CudaMachine, made: Plan, timers: StepTimers | None = None) -> None:
        self.machine, self.plan, self.arena_bytes = machine, made, made.arena_bytes
        self.timers = timers
        with machine.doing("building kernels"):
            module: Any = machine.build(made.text) if made.kernels else None
            arrays = {
                buffer: machine.from_host(buffer.array)  # type: ignore[arg-type]
                for program in made.program.programs
                for buffer in program.constants
            }
        self.constants = arrays  # kept as long as their addresses are in use
        places: Places = {buffer: Place(array.address) for buffer, array in arrays.items()}
        self.queued = queued = Queued(machine, module, timers is not None)
        self.runner = Runner(made, queued, places, {}, queued.multiply)
        self.graphs = Graphs(machine, made, timers is not None)

    def report_lines(self) -> Sequence[str]:
        """How many products are the library's, and how many graphs there are."""
        made, graphs = self.plan, self.graphs
        products = [f"products: {len(made.products)} by cuBLAS"] if made.products else []
        graph = f"graph: {f'none, {graphs.refusal}' if graphs.refusal else len(graphs.known)}"
        return [*products, graph]

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
            timer = None if self.timers is None else CallTimer(self.timers)
            run = functools.partial(self.runner.run, inputs, outputs, arena.address, timer)
            self.graphs.run(addresses, run)
            if timer is not None:
                timer.finish(self.queued.spans)
        return results


# -- the launches of a program in the stream of its device ----------------------------------------

# numbers of the library's header, which CuPy does not give names
SUMS_IN_FLOAT32, SUMS_IN_FLOAT64, ANY_WAY = 68, 70, -1
AS_IT_LIES, TURNED = 0, 1
DTYPES = {
    "float16": "CUDA_R_16F",
    "bfloat16": "CUDA_R_16BF",
    "float32": "CUDA_R_32F",
    "float64": "CUDA_R_64F",
}


@record
class _Bound:
    """A kernel with what stays from call to call."""

    function: Any
    groups: tuple[int, int, int]
    threads: tuple[int, int, int]
    sizes: tuple[int, ...]  # bytes of an element of each array
    numbers: tuple[np.int32, ...]


class Queued:
    """A loaded module: launches its kernels in the stream of a device.

    Memories are addresses here.
    """

    def __init__(self, machine: CudaMachine, module: Any, timed: bool = False) -> None:
        self.machine, self.module, self.name = machine, module, machine.name
        self.timed = timed  # whether launches, products and copies give events around them
        self.bound: dict[int, _Bound] = {}  # by a launch's id, for to hash one takes long

    def _between_events(self, put: Callable[[], None]) -> Any:
        """Put something into the stream, between events if it is timed."""
        if not self.timed:
            put()
            return None
        begin, end = self.machine.cupy.cuda.Event(), self.machine.cupy.cuda.Event()
        begin.record(self.machine.stream)
        put()
        end.record(self.machine.stream)
        return begin, end

    def spans(self, marks: Sequence[tuple[Any, Any]]) -> list[tuple[int, int]]:
        """When each began and ended, in nanoseconds since the first; all before is done."""
        self.machine.stream.synchronize()
        elapsed = self.machine.cupy.cuda.get_elapsed_time  # in milliseconds

        def moment(event: Any) -> int:
            return round(elapsed(marks[0][0], event) * 1e6)

        return [(moment(begin), moment(end)) for begin, end in marks]

    def launch(self, launch: Launch, places: Sequence[Place]) -> Any:
        """Run a kernel, its arrays at these places."""
        bound = self.bound.get(id(launch))
        if bound is None:
            bound = self.bound[id(launch)] = self._bind(launch)
        # as numbers of 64 bits, which is what a pointer is
        given = [
            np.uint64(p.memory + p.start * n) for p, n in zip(places, bound.sizes, strict=True)
        ]
        put = functools.partial(
            bound.function,
            bound.groups,
            bound.threads,
            (*given, *bound.numbers),
            stream=self.machine.stream,
        )
        return self._between_events(put)

    def _bind(self, launch: Launch) -> _Bound:
        signature = launch.kernel.signature
        assert not any(p.has_offset for p in signature.parameters), "places are exact here"
        return _Bound(
            self.module.get_function(launch.kernel.name),
            launch.groups,
            signature.threads,
            tuple(p.dtype.itemsize for p in signature.parameters),
            tuple(map(np.int32, launch.numbers)),
        )

    def multiply(self, product: Product, places: Sequence[Place]) -> Any:
        """Call cuBLAS.

        It takes matrices by columns: read so, ours are turned. So the right one comes first, and
        the result is turned back.
        """
        call: Gemm = product.call  # type: ignore[assignment]
        cuda, blas = self.machine.cupy.cuda, self.machine.blas
        kind, total = (getattr(cuda.runtime, DTYPES[d.name]) for d in (call.dtype, call.sums.dtype))
        is_double = call.dtype.itemsize == 8
        one, zero = (np.array(n, np.float64 if is_double else np.float32) for n in (1, 0))

        def at(number: int, matrices: Matrices) -> int:
            place, buffer = places[number], product.buffers[number]
            return place.memory + (place.start + matrices.start) * buffer.number_dtype.itemsize

        left, right, target = call.left, call.right, call.target
        put = functools.partial(
            blas.gemmStridedBatchedEx,
            cuda.device.get_cublas_handle(),
            TURNED if right.turned else AS_IT_LIES,
            TURNED if left.turned else AS_IT_LIES,
            *(call.columns, call.rows, call.depth, one.ctypes.data),
            *(at(1, right), kind, right.pitch, right.step),
            *(at(0, left), kind, left.pitch, left.step),
            zero.ctypes.data,
            *(at(2, target), total, target.pitch, target.step),
            *(call.count, SUMS_IN_FLOAT64 if is_double else SUMS_IN_FLOAT32, ANY_WAY),
        )
        return self._between_events(put)

    def copy(self, origin: Place, target: Place, dtype: np.dtype, count: int) -> Any:
        """Copy so many numbers of a dtype."""
        size = dtype.itemsize
        to, start = (p.memory + p.start * size for p in (target, origin))
        return self._between_events(lambda: self.machine.copy(to, start, count * size))

    def read(self, place: Place, dtype: np.dtype, count: int) -> np.ndarray:
        """Copy numbers to the host, when all before is done."""
        return self.machine.read(place.memory + place.start * dtype.itemsize, (count,), dtype)

    def write(self, place: Place, array: np.ndarray) -> None:
        """Copy a flat array to the device."""
        given = self.machine.from_host(array)
        target = place.memory + place.start * array.dtype.itemsize
        self.machine.copy(target, given.address, given.nbytes)

    def let_go(self) -> AbstractContextManager[None]:
        """Let other threads have the device for a block."""
        return self.machine.lock.let_go()


# -- whole calls as one launch: CUDA graphs -------------------------------------------------------

LEAST, MOST = 3, 4096  # commands of a program for which a graph pays
KEPT = 8  # graphs of a program, and places of arrays that were seen once
Addresses = tuple[int, ...]


def commands(made: Plan) -> int | None:
    """How many launches and copies a call is; None if the host has a part in it."""
    return _commands(made, made.program)


def _commands(made: Plan, program: Program) -> int | None:
    total = 0
    for step in program.steps:
        if isinstance(step, Copy):
            total += 1
        elif isinstance(step, RepeatStep):
            inner = _commands(made, step.body)
            if inner is None:
                return None
            total += (inner + len(step.carries)) * int(step.length)  # type: ignore[arg-type]
        elif step in made.products or not made.launches[step]:
            return None  # CuPy does not record the library, or the host decides
        else:
            total += len(made.launches[step])
    return total


class Graphs:
    """The graphs of a program, one for each set of places that its arrays had twice.

    A graph holds the addresses of arrays. Those of a loop come again and again, for memory that is
    given back is the first to be given out; nothing is copied to keep them the same.
    """

    def __init__(self, machine: CudaMachine, made: Plan, timed: bool = False) -> None:
        self.machine = machine
        self.count = commands(made)
        self.refusal = "its steps are timed" if timed else _refusal(machine, self.count)
        self.known: dict[Addresses, Any] = {}
        self.seen: dict[Addresses, None] = {}

    def run(self, addresses: Addresses, run: Callable[[], None]) -> None:
        """Run a program whose arrays and arena lie at these addresses."""
        if self.refusal:
            run()
        elif addresses in self.known:
            self.known[addresses].launch(self.machine.stream)
        elif addresses in self.seen:
            self._record(addresses, run)
        else:
            _keep(self.seen, addresses, None)
            run()

    def _record(self, addresses: Addresses, run: Callable[[], None]) -> None:
        stream, error = self.machine.stream, self.machine.cupy.cuda.runtime.CUDARuntimeError
        try:
            stream.begin_capture()
            try:
                run()
            finally:
                graph = stream.end_capture()
        except error as refused:
            self.refusal = f"the driver recorded none: {refused}"
            run()
            return
        del self.seen[addresses]
        _keep(self.known, addresses, graph)
        graph.launch(stream)


def _refusal(machine: CudaMachine, count: int | None) -> str:
    """Why a program has no graph; empty if it may have one."""
    if machine.kind != "cuda":
        return "CuPy records none on ROCm"
    if count is None:
        return "a step of the host or a call of the library is between the launches"
    if not LEAST <= count <= MOST:
        return f"it is {count} commands"
    return ""


def _keep(table: dict[Addresses, Any], addresses: Addresses, graph: Any) -> None:
    """Put an entry into a table; the oldest goes if there are too many."""
    table[addresses] = graph
    if len(table) > KEPT:
        del table[next(iter(table))]
