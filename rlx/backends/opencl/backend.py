"""The OpenCL device as the runtime sees it."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress
from typing import Any

from ...ir.errors import KernelBuildError, RlxError
from ...ir.graph import Graph
from ...ir.record import record, replace
from ...lower.lir.access import reads, writes
from ...lower.lir.program import (
    BranchStep,
    Buffer,
    LibraryCall,
    Program,
    RepeatStep,
    Step,
    WhileStep,
)
from ...lower.target import Target
from ..backend import Availability, Backend, Executable
from ..c_like.dialect import Limits
from ..c_like.executable import kernel_executable, kernel_target, limits_for
from ..c_like.opencl_c import OpenClC
from ..c_like.plan import Kernels, Launch, Plan, plan
from ..c_like.products import TILE
from ..c_like.runner import Place, Places, Runner
from ..c_like.serial_products import MOST_ROWS
from ..c_like.timers import CallTimer, StepTimers
from .machine import DRIVERS, ClArray, ClMachine, Queued, find

DOUBLES = frozenset(("float64", "complex128"))
MOST_USES = 4 * MOST_ROWS  # of a processor: as measured by PoCL, for more it is slower


class OpenClBackend(Backend):
    """Compiles graphs for one OpenCL device, named by a part of its name."""

    has_arena = has_timers = True

    def __init__(self, which: str = "") -> None:
        self.which = which
        self.name = f"opencl:{which}" if which else "opencl"
        self.target = Target(self.name)
        self._found: Availability | None = None
        self._waiting: Together | None = None

    def availability(self) -> Availability:
        """Whether there is such a device; it is opened when it is asked for first."""
        if self._found is None:
            device, found = find(self.which)
            if found.is_available:
                try:
                    self.machine = self.memory = ClMachine(self.name, device)
                    self.target = target_of(self.machine)
                    if self.machine.keeps_order:
                        self.invariant_target = replace(self.target, batch_invariant=True)
                except RlxError as error:
                    found = Availability(False, error.what, DRIVERS)
            self._found = found
        return self._found

    def shortest_name(self) -> str:
        """`opencl` for the first of all devices."""
        return "opencl" if self.machine.device == find("")[0] else self.name

    def description(self) -> str:
        """The device, its platform and their versions."""
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
        """Lower a graph, write its kernels and build them.

        With the tier "fast" they are built when they first run, with all others that wait for that.
        """
        target = target or self.target
        is_joined = target.tier == "fast" and not target.batch_invariant
        together = self._together() if is_joined else None
        limits = limits_for(target, self.machine.limits)
        return kernel_executable(
            graph,
            array,
            self.machine,
            target,
            write=lambda program: self._written(program, limits, together),
            load=lambda made, timers: Loaded(self.machine, made, together, timers),
            show=lambda made: {"opencl": made.text},
            check=check,
        )

    def _together(self) -> Together:
        """The kernels that wait to be built."""
        if self._waiting is None or not self._waiting.is_open:
            self._waiting = Together(self.machine)
        return self._waiting

    def _written(self, program: Program, limits: Limits, together: Together | None) -> Plan:
        if together is None:
            return plan(program, OpenClC(limits))
        with self.machine.lock:  # another thread may be about to build them
            return plan(program, together.kernels.dialect, kernels=together.kernels)


def target_of(machine: ClMachine) -> Target:
    """What lowering must know of a device."""
    missing = frozenset() if machine.has_doubles else DOUBLES
    most_uses = MOST_USES if machine.is_processor else TILE
    return kernel_target(machine.name, missing, most_uses)


class Loaded:
    """A plan on a machine: built kernels, constants in the device's memory.

    Kernels that are built `together` with others wait until they run.
    """

    def __init__(
        self,
        machine: ClMachine,
        made: Plan,
        together: Together | None,
        timers: StepTimers | None = None,
    ) -> None:
        self.machine, self.plan, self.together, self.session = machine, made, together, -1
        self.arena_bytes, self.timers = made.arena_bytes, timers
        if together is None:
            self.ready()

    def report_lines(self) -> Sequence[str]:
        """Nothing beside what is told of all devices."""
        return ()

    def ready(self) -> None:
        """Build kernels and copy constants, again if the device was opened anew."""
        if self.session == self.machine.session:
            return
        with self.machine.doing("building kernels"):
            queued = Queued(self.machine, self._built(), self.timers is not None)
            constants: Places = {}
            for program in self.plan.program.programs:
                for buffer in program.constants:
                    assert buffer.array is not None, "constants are known"
                    constants[buffer] = Place(self.machine.from_host(buffer.array).buffer)
            self.runner = Runner(self.plan, queued, constants, {})
            straight = self.timers is None and is_straight(self.plan)
            self.straight = Straight(self.plan, queued, constants) if straight else None
            self.session = self.machine.session

    def _built(self) -> Any:
        found = None if self.together is None else self.together.built()
        return self.machine.build(self.plan.text) if found is None else found

    def run(self, datas: Sequence[ClArray]) -> list[ClArray]:
        """Put all of a call into the queue; the results are there when it is done."""
        machine, program = self.machine, self.plan.program
        with machine.lock:  # or another thread could open the device anew in between
            for data in datas:
                machine.check(data)
            self.ready()
            with machine.doing(f"running {program.name}"):
                results = [machine.empty(b.type.shape, b.dtype) for b in program.outputs]  # type: ignore
                take = machine.allocate if self.plan.calls_host else machine.arena
                arena = take(self.plan.arena_bytes)
                arrays = [data.buffer for data in (*datas, *results)]
                if self.straight is not None:
                    self.straight.run(arrays, arena)
                else:
                    places = [Place(array) for array in arrays]
                    self._driven(places[: len(datas)], places[len(datas) :], arena)
                machine.queue.flush()
        return results

    def _driven(self, inputs: list[Place], outputs: list[Place], arena: Any) -> None:
        """Run the program step by step; if it is timed, until all is done."""
        if self.timers is None:
            self.runner.run(inputs, outputs, arena)
            return
        queued: Any = self.runner.machine
        self.machine.queue.finish()  # the other queue, where the arguments may be computed
        try:
            timer = CallTimer(self.timers)
            self.runner.run(inputs, outputs, arena, timer)
            timer.finish(queued.spans)
        finally:
            queued.queue.finish()  # before anybody takes the memory


# -- programs without loops and branches, whose launches are prepared once ------------------------

DRIVEN = (BranchStep, WhileStep, RepeatStep, LibraryCall)  # by the host


def is_straight(plan: Plan) -> bool:
    """Whether nothing of a program waits for the host."""
    return not any(isinstance(step, DRIVEN) for step in plan.program.steps)


@record(frozen=False)
class Prepared:
    """A launch whose arguments are set, but for those arrays that each call brings."""

    kernel: Any
    threads: tuple[int, int, int]
    group: tuple[int, int, int]
    changes: tuple[tuple[int, int], ...]  # (argument, array among inputs and outputs)


@record
class Moved:
    """A copy between two buffers."""

    origin: Buffer
    target: Buffer


class Straight:
    """The launches and copies of a program, in order."""

    def __init__(self, plan: Plan, queued: Queued, constants: Places) -> None:
        self.plan, self.queued, self.constants = plan, queued, constants
        program = plan.program
        bound = (*program.inputs, *program.outputs)
        self.numbers = {buffer: number for number, buffer in enumerate(bound)}
        self.arena: Any = None
        self.work: list[Prepared | Moved] = []

    def run(self, arrays: Sequence[Any], arena: Any) -> None:
        """Put all into the queue, for the memory of inputs and outputs."""
        if arena is not self.arena:
            self.prepare(arena)
        enqueue = self.queued.enqueue
        for each in self.work:
            if isinstance(each, Moved):
                origin, target = (self._place(b, arrays) for b in (each.origin, each.target))
                buffer = each.target
                if buffer.count:
                    self.queued.copy(origin, target, buffer.number_dtype, buffer.count)
                continue
            kernel = each.kernel
            for argument, number in each.changes:
                kernel.set_arg(argument, arrays[number])
            enqueue(kernel, each.threads, each.group)

    def prepare(self, arena: Any) -> None:
        """Set all arguments that do not change while the arena stays."""
        self.arena = arena
        self.work = [each for step in self.plan.program.steps for each in self._prepared(step)]

    def _prepared(self, step: Step) -> list[Prepared | Moved]:
        if step not in self.plan.launches or not self.plan.launches[step]:
            (origin,), (target,) = reads(step), writes(step)
            return [Moved(origin, target)]
        return [self._launch(launch) for launch in self.plan.launches[step]]

    def _launch(self, launch: Launch) -> Prepared:
        changes = tuple(
            (n, self.numbers[b]) for n, b in enumerate(launch.buffers) if b in self.numbers
        )
        bound = self.queued.bind(launch)
        bound.set([self._place(b, None) for b in launch.buffers])
        return Prepared(bound.kernel, bound.threads, bound.group, changes)

    def _place(self, buffer: Buffer, arrays: Sequence[Any] | None) -> Place:
        """Where a buffer lies; what each call brings is unknown without its arrays."""
        if buffer in self.numbers:
            return Place(None if arrays is None else arrays[self.numbers[buffer]])
        if buffer.kind == "constant":
            return self.constants[buffer]
        assert isinstance(buffer.offset, int), f"{buffer} has no place"
        return Place(self.arena, buffer.offset // buffer.number_dtype.itemsize)


# -- kernels of several programs that are built at once -------------------------------------------

MOST = 64  # kernels


class Together:
    """Kernels of plans that wait to be built; the first that runs has all built.

    A driver takes its time for each build, whatever is in it: PoCL reads 20,000 lines of headers.
    """

    def __init__(self, machine: ClMachine) -> None:
        self.machine, self.session = machine, -1
        self.kernels = Kernels(OpenClC(machine.limits))
        self.program: Any = None

    @property
    def is_open(self) -> bool:
        """Whether kernels may be added."""
        return self.session < 0 and len(self.kernels.known) < MOST

    def built(self) -> Any:
        """The program of all kernels, built anew if the device was lost.

        None if one of them does not build: each plan's are to be built alone then.
        """
        with self.machine.lock:
            if self.session != self.machine.session:
                self.session, self.program = self.machine.session, None
                with suppress(KernelBuildError):
                    self.program = self.machine.build(self.kernels.text)
            return self.program
