"""The OpenCL device as the runtime sees it."""

from __future__ import annotations

import itertools
import time
from collections.abc import Sequence
from dataclasses import replace

from ...ir.errors import RlxError
from ...ir.graph import Graph
from ...ir.types import DTYPES
from ...lower.cost import work
from ...lower.pipeline import lower
from ...lower.target import FLOATS, NUMBERS, Target
from ..backend import Availability, Backend, Executable
from ..c_like.opencl_c import OpenClC
from ..c_like.plan import Plan, plan
from ..c_like.report import report
from ..c_like.runner import Place, Places, Runner
from ..device_entry import device_executable
from .machine import ClArray, ClMachine, Queued
from .platforms import DRIVERS, find
from .straight import Straight, is_straight

MOST_RANKED = 64
DOUBLES = frozenset(("float64", "complex128"))


class OpenClBackend(Backend):
    """Compiles graphs for one OpenCL device, named by a part of its name."""

    def __init__(self, which: str = "") -> None:
        self.which = which
        self.name = f"opencl:{which}" if which else "opencl"
        self.target = Target(self.name)
        self._found: Availability | None = None

    def availability(self) -> Availability:
        """Whether there is such a device; it is opened when it is asked for first."""
        if self._found is None:
            device, found = find(self.which)
            if found.is_available:
                try:
                    self.machine = self.memory = ClMachine(self.name, device)
                    self.target = target_of(self.machine)
                except RlxError as error:
                    found = Availability(False, error.what, DRIVERS)
            self._found = found
        return self._found

    def description(self) -> str:
        """The device, its platform and their versions."""
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
        times = [time.perf_counter()]
        lowered = lower(graph, target or self.target, check)
        times.append(time.perf_counter())
        made = plan(lowered.program, OpenClC(self.machine.limits))
        times.append(time.perf_counter())
        loaded = Loaded(self.machine, made)
        loaded.ready()
        times.append(time.perf_counter())
        spans = [after - before for before, after in itertools.pairwise(times)]
        made_entry = device_executable(graph, array, self.machine, loaded.run)
        return replace(
            made_entry,
            make_stages=lambda: {**lowered.stages, "opencl": made.text},
            make_report=lambda: report(lowered, made),
            arena_bytes=made.arena_bytes,
            constant_bytes=sum(b.nbytes for p in made.program.programs for b in p.constants),
            program=made.program,
            seconds=dict(zip(("lower", "write", "build"), spans, strict=True)),
            work=lambda: work(made.program),
        )


def target_of(machine: ClMachine) -> Target:
    """What lowering must know of a device."""
    missing = frozenset() if machine.has_doubles else DOUBLES
    return Target(
        machine.name,
        stored=frozenset(DTYPES) - missing,
        native=frozenset((*NUMBERS, *FLOATS)) - missing,
        contracted=frozenset((*FLOATS, "int32", "int64", "uint32", "uint64")) - missing,
        most_ranked=MOST_RANKED,
        has_sort=True,
        has_symbolic_sizes=False,
    )


class Loaded:
    """A plan on a machine: built kernels, constants in the device's memory."""

    def __init__(self, machine: ClMachine, made: Plan) -> None:
        self.machine, self.plan, self.session = machine, made, -1

    def ready(self) -> None:
        """Build kernels and copy constants, again if the device was opened anew."""
        if self.session == self.machine.session:
            return
        with self.machine.doing("building kernels"):
            queued = Queued(self.machine, self.machine.build(self.plan.text))
            constants: Places = {}
            for program in self.plan.program.programs:
                for buffer in program.constants:
                    assert buffer.array is not None, "constants are known"
                    constants[buffer] = Place(self.machine.from_host(buffer.array).buffer)
            self.runner = Runner(self.plan, queued, constants, {})
            self.straight = (
                Straight(self.plan, queued, constants) if is_straight(self.plan) else None
            )
            self.session = self.machine.session

    def run(self, datas: Sequence[ClArray]) -> list[ClArray]:
        """Put all of a call into the queue; the results are there when it is done."""
        machine = self.machine
        for data in datas:
            machine.check(data)
        self.ready()
        program = self.plan.program
        with machine.doing(f"running {program.name}"):
            results = [machine.empty(b.type.shape, b.dtype) for b in program.outputs]  # type: ignore
            arena = machine.arena(self.plan.arena_bytes)
            arrays = [data.buffer for data in (*datas, *results)]
            if self.straight is not None:
                self.straight.run(arrays, arena)
            else:
                places = [Place(array) for array in arrays]
                self.runner.run(places[: len(datas)], places[len(datas) :], arena)
            machine.queue.flush()
        return results
