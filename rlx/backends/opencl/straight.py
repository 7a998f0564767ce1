"""Programs without loops and branches, whose launches are prepared once."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from ...lower.lir.access import reads, writes
from ...lower.lir.program import (
    BranchStep,
    Buffer,
    LibraryCall,
    RepeatStep,
    Step,
    WhileStep,
)
from ..c_like.plan import Launch, Plan
from ..c_like.runner import Place, Places
from .machine import Queued

DRIVEN = (BranchStep, WhileStep, RepeatStep, LibraryCall)  # by the host


def is_straight(plan: Plan) -> bool:
    """Whether nothing of a program waits for the host."""
    return not any(isinstance(step, DRIVEN) for step in plan.program.steps)


@dataclass
class Prepared:
    """A launch whose arguments are set, but for those arrays that each call brings.

    `changes` are numbers of arguments, and of arrays among the inputs and outputs.
    """

    kernel: Any
    threads: tuple[int, int, int]
    group: tuple[int, int, int]
    changes: tuple[tuple[int, int], ...]


@dataclass(frozen=True)
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
        machine = self.queued.machine
        enqueue = machine.enqueue
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
