"""Whole calls as one launch: CUDA graphs."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from ...lower.lir.program import Copy, Program, RepeatStep
from ..c_like.plan import Plan
from .machine import CudaMachine

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

    def __init__(self, machine: CudaMachine, made: Plan) -> None:
        self.machine = machine
        self.count = commands(made)
        self.refusal = _refusal(machine, self.count)
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
