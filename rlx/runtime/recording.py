"""Records of calls while somebody profiles: which program, when, on which thread.

Programs that are compiled under the setting `profile` have entries that look whether there is an
open `Recording`. Those of devices with timers have such for their steps besides.
"""

from __future__ import annotations

import threading
import weakref
from collections.abc import Callable
from time import perf_counter_ns
from typing import Any

import numpy as np

from ..backends.backend import Executable
from ..ir.dims import likely
from ..ir.graph import Graph
from ..ir.record import field, record, replace
from ..lower.step_facts import StepFacts


@record(eq=False)
class TimedProgram:
    """A compiled program that is timed."""

    name: str
    device: str
    nbytes: int  # of arguments and results
    arena_bytes: int
    on_host: bool  # else its steps are timed by the device, and in memory of it
    steps: tuple[StepFacts | None, ...]  # by number; none on devices that time whole calls
    totals: np.ndarray | None  # nanoseconds and how often, by step

    @property
    def address(self) -> int:
        """By which events name it."""
        return 0 if self.totals is None else self.totals.ctypes.data


@record
class TimedCall:
    """One call of a program, in nanoseconds of `time.perf_counter_ns`."""

    program: TimedProgram
    begin: int
    end: int
    thread: int


@record
class TimedCompile:
    """One compile."""

    name: str
    device: str
    begin: int
    end: int
    thread: int


@record(frozen=False)
class Recording:
    """What is recorded; threads append to it."""

    calls: list[TimedCall] = field(default_factory=list)
    compiles: list[TimedCompile] = field(default_factory=list)
    # totals as it began; that keeps the programs, for others would get their addresses
    before: dict[TimedProgram, np.ndarray] = field(default_factory=dict)


_programs: weakref.WeakSet[TimedProgram] = weakref.WeakSet()
_open: list[Recording] = []  # at most one


def start_recording() -> Recording | None:
    """Begin to record; None if somebody records already."""
    if _open:
        return None
    totals = {p: p.totals.copy() for p in list(_programs) if p.totals is not None}
    _open.append(Recording(before=totals))
    return _open[0]


def stop_recording() -> None:
    """Record no more."""
    _open.clear()


def record_compile(name: str, device: str, begin: int) -> None:
    """Record a compile that began at a moment and ends now."""
    for each in _open:
        now, thread = perf_counter_ns(), threading.get_ident()
        each.compiles.append(TimedCompile(name, device, begin, now, thread))


def timed(executable: Executable, name: str, graph: Graph, device: str) -> Executable:
    """The executable, whose calls are recorded while somebody profiles."""
    steps, totals = executable.timers or ((), None)
    values = (*graph.params, *graph.results)
    nbytes = sum(likely(v.type.nbytes) for v in values)
    waits, miss = executable.memory is not None, executable.miss
    arena = executable.arena_bytes
    program = TimedProgram(name, device, nbytes, arena, not waits, steps, totals)
    _programs.add(program)

    def recorded(entry: Callable[..., Any]) -> Callable[..., Any]:
        def run(*arrays: Any) -> Any:
            if not _open:
                return entry(*arrays)
            begin = perf_counter_ns()
            result = entry(*arrays)
            if result is miss:
                return result
            if waits:
                for each in result if isinstance(result, tuple) else (result,):
                    each.block_until_ready()
            call = TimedCall(program, begin, perf_counter_ns(), threading.get_ident())
            for recording in _open:
                recording.calls.append(call)
            return result

        return run

    make_into, make_filling = executable.make_entry_into, executable.make_entry_filling
    make_donating = executable.make_donating
    return replace(
        executable,
        entry=recorded(executable.entry),
        native=None,  # a sequence makes its calls one by one, which are recorded
        make_entry_into=make_into and (lambda: recorded(make_into())),
        make_entry_filling=lambda: recorded(make_filling()),
        make_donating=make_donating
        and (lambda given: timed(make_donating(given), name, graph, device)),
        make_tier_up=None,
    )
