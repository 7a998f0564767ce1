"""Runs a plan: launches and copies, with the host driving loops."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager, nullcontext
from typing import Any, NamedTuple, Protocol

import numpy as np

from ...ir.dims import quotient
from ...ir.record import record
from ...lower.lir.program import (
    BranchStep,
    Buffer,
    Carry,
    Contraction,
    Copy,
    LibraryCall,
    Program,
    RepeatStep,
    Step,
    WhileStep,
)
from .plan import Launch, Plan, Product
from .timers import CallTimer


class Place(NamedTuple):
    """Where an array lies: the device's memory, and how many numbers lie before it."""

    memory: Any
    start: int = 0


class Machine(Protocol):
    """What a device does for a runner; all of it in order.

    If it is timed, launches and copies give marks, of which it knows the times when they are done.
    """

    name: str

    def launch(self, launch: Launch, places: Sequence[Place]) -> Any:
        """Run a kernel, its arrays at these places."""

    def copy(self, origin: Place, target: Place, dtype: np.dtype, count: int) -> Any:
        """Copy so many numbers of a dtype."""

    def read(self, place: Place, dtype: np.dtype, count: int) -> np.ndarray:
        """Copy numbers to the host, when all before is done."""
        ...

    def write(self, place: Place, array: np.ndarray) -> None:
        """Copy a flat array to the device; it may change afterwards."""

    def let_go(self) -> AbstractContextManager[None]:
        """Let other threads have the device for a block; raises if it was lost meanwhile."""
        ...


Places = dict[Buffer, Place]


@record(frozen=False)
class Runner:
    """Runs the programs of a plan on a machine."""

    plan: Plan
    machine: Machine
    constants: Places
    owned: Places  # of temporaries that have memory of their own
    # calls the library for products that it takes
    multiply: Callable[[Product, Sequence[Place]], Any] | None = None

    def run(
        self,
        inputs: Sequence[Place],
        outputs: Sequence[Place],
        arena: Any,
        timer: CallTimer | None = None,
    ) -> None:
        """Run the program, with an arena for its temporaries.

        A `timer` is for a machine that is timed.
        """
        program = self.plan.program
        bound = dict(zip((*program.inputs, *program.outputs), (*inputs, *outputs), strict=True))
        _Frame(self, bound, arena, 0, timer).run(program)


@record(frozen=False)
class _Frame:
    """A program while it runs: where its buffers lie."""

    runner: Runner
    bound: Places
    arena: Any
    base: int  # in bytes
    timer: CallTimer | None

    def place(self, buffer: Buffer) -> Place:
        """Where a buffer lies."""
        if buffer in self.bound:
            return self.bound[buffer]
        if buffer.kind == "constant":
            return self.runner.constants[buffer]
        if buffer in self.runner.owned:
            return self.runner.owned[buffer]
        assert isinstance(buffer.offset, int), f"{buffer} has no place"
        # more memory for one step lies behind the arena of the whole program
        base = 0 if buffer in self.runner.plan.spares else self.base
        return Place(self.arena, (base + buffer.offset) // buffer.number_dtype.itemsize)

    def run(self, program: Program) -> None:
        """Run all steps of a program."""
        for step in program.steps:
            if self.timer is None:
                self.step(step)
            else:
                with self.timer.step(step):
                    self.step(step)

    def note(self, mark: Any) -> None:
        """Keep the mark of what the machine was handed."""
        if self.timer is not None:
            self.timer.add(mark)

    def step(self, step: Step) -> None:
        """Run one step."""
        machine, launches = self.runner.machine, self.runner.plan.launches[step]
        if isinstance(step, Contraction) and step in self.runner.plan.products:
            self.multiply(self.runner.plan.products[step])
        if launches:
            for launch in launches:
                self.note(machine.launch(launch, [self.place(b) for b in launch.buffers]))
        elif isinstance(step, LibraryCall):
            self.library(step)
        elif isinstance(step, Copy):
            self.copy(self.place(step.origin), self.place(step.target), step.target)
        elif isinstance(step, BranchStep):
            chosen = self.number(step.selector)
            program = step.programs[min(max(chosen, 0), len(step.programs) - 1)]
            inputs = [self.place(b) for b in step.inputs]
            self.nested(program, inputs, [self.place(b) for b in step.outputs], step.scratch)
        elif isinstance(step, WhileStep):
            self.while_step(step)
        elif isinstance(step, RepeatStep):
            self.repeat(step)

    def multiply(self, product: Product) -> None:
        """Call the library of the device."""
        assert self.runner.multiply is not None, "who claims products computes them"
        self.note(self.runner.multiply(product, [self.place(b) for b in product.buffers]))

    def nested(
        self,
        program: Program,
        inputs: Sequence[Place],
        outputs: Sequence[Place],
        scratch: Buffer | None,
    ) -> None:
        """Run a nested program."""
        bound = dict(zip((*program.inputs, *program.outputs), (*inputs, *outputs), strict=True))
        offset = scratch.offset if scratch is not None and scratch.offset else 0
        # no size is symbolic on these devices
        base = self.base + offset  # type: ignore[operator]
        _Frame(self.runner, bound, self.arena, base, self.timer).run(program)  # type: ignore[arg-type]

    def number(self, buffer: Buffer) -> int:
        """The only number of a buffer."""
        return int(self.runner.machine.read(self.place(buffer), buffer.dtype, 1)[0])

    def copy(self, origin: Place, target: Place, like: Buffer) -> None:
        """Copy what a buffer holds."""
        if like.count:
            self.note(self.runner.machine.copy(origin, target, like.number_dtype, like.count))

    def library(self, step: LibraryCall) -> None:
        """Compute an op with NumPy on the host; `report()` says so."""
        machine = self.runner.machine
        given = []
        for buffer, type in zip(step.inputs, step.input_types, strict=True):
            flat = machine.read(self.place(buffer), buffer.number_dtype, buffer.count)
            given.append(flat.view(type.dtype).reshape(type.shape))  # type: ignore[arg-type]
        # a user's function may wait for a thread that needs the device
        with machine.let_go(), self.timer.on_host() if self.timer else nullcontext():
            results = step.op.run(given, step.attrs, machine.name, source=step.source)
        for buffer, result in zip(step.outputs, results, strict=True):
            flat = np.ascontiguousarray(result).reshape(-1).view(buffer.number_dtype)
            if flat.size:
                machine.write(self.place(buffer), flat)

    # -- loops -----------------------------------------------------------------------------------

    def while_step(self, step: WhileStep) -> None:
        """Run rounds as long as the condition says so."""
        now = [self.place(c.initial) for c in step.carries]
        tests = [self.place(b) for b in step.condition_constants]
        constants = [self.place(b) for b in step.body_constants]
        turn = 0
        while True:
            self.nested(step.condition, [*tests, *now], [self.place(step.flag)], step.scratch)
            if not self.number(step.flag):
                break
            new = [self.place(_target(c, turn % 2 == 0)) for c in step.carries]
            self.nested(step.body, [*constants, *now], new, step.scratch)
            now, turn = new, turn + 1
        self.settle(step.carries, now)

    def repeat(self, step: RepeatStep) -> None:
        """Run a round for each row of the slices and stacks."""
        assert step.parts == 1, "loops are divided among threads of the host only"
        length = step.length
        assert isinstance(length, int), "sizes are numbers here"
        now = [self.place(c.initial) for c in step.carries]
        constants = [self.place(b) for b in step.constants]

        def cut(buffers: Sequence[Buffer]) -> list[tuple[Place, int]]:
            """Where arrays lie, and how many numbers a row of them has."""
            rounds = max(length, 1)  # of no rounds nothing is read
            return [(self.place(b), quotient(b.count, rounds)) for b in buffers]  # type: ignore

        def rows(arrays: Sequence[tuple[Place, int]], k: int) -> list[Place]:
            return [Place(whole.memory, whole.start + k * count) for whole, count in arrays]

        slices, stacks = cut(step.slices), cut(step.stacks)
        for turn in range(length):
            k = length - 1 - turn if step.reverse else turn
            is_last = (length - 1 - turn) % 2 == 0
            new = [self.place(_target(c, is_last)) for c in step.carries]
            inputs = [*constants, *now, *rows(slices, k)]
            outputs = [*new, *rows(stacks, k)]
            self.nested(step.body, inputs, outputs, step.scratch)
            now = new
        self.settle(step.carries, now)

    def settle(self, carries: Sequence[Carry], now: Sequence[Place]) -> None:
        """Copy what was carried last into the results, unless it lies there."""
        for carry, last in zip(carries, now, strict=True):
            target = self.place(carry.result)
            if last != target:
                self.copy(last, target, carry.result)


def _target(carry: Carry, is_result: bool) -> Buffer:
    """Where a round leaves a carried array."""
    return carry.result if is_result or carry.spare is None else carry.spare
