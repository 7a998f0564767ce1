"""What the steps of a plan take, by the device's own timers.

A machine that is timed gives a mark for all that it is handed: an event of the queue, a pair of
events of the stream, a pair of timestamps. When a call is done it says for each mark when that
began and ended, in nanoseconds of the device's clock. They are added to the totals of the steps,
and while somebody records, kept as events, by the clock of the host (see `cpu/runtime/clock.py`).
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from time import perf_counter_ns
from typing import Any

import numpy as np

from ...ir.record import field, record, replace
from ...lower.lir.program import Program, Step, nested_programs
from ...lower.step_facts import StepFacts, facts_of

MOST_EVENTS = 1 << 20
LAST_ROW = 2**31 - 1
Spans = Callable[[list[Any]], Sequence[tuple[int, int]]]


@record(frozen=False)
class DeviceLog:
    """The events of devices in this process, and their rows of a trace."""

    is_open: bool = False
    events: list[tuple[int, ...]] = field(default_factory=list)
    dropped: int = 0
    rows: dict[str, int] = field(default_factory=dict)  # of devices, by name

    def start(self) -> None:
        """Begin to record, without the events there were."""
        self.events, self.dropped, self.is_open = [], 0, True

    def stop(self) -> tuple[list[tuple[int, ...]], int]:
        """Record no more; gives the events, and how many found no room."""
        self.is_open = False
        return self.events, self.dropped

    def add(self, event: tuple[int, ...]) -> None:
        """Keep an event, if somebody records and there is room."""
        if not self.is_open:
            return
        if len(self.events) < MOST_EVENTS:
            self.events.append(event)
        else:
            self.dropped += 1

    def row(self, device: str) -> int:
        """The row of a device; no thread has its number."""
        return self.rows.setdefault(device, LAST_ROW - len(self.rows))


log = DeviceLog()


class StepTimers:
    """The steps of a program and its nested ones by number, with their totals.

    The program was lowered for a `Target.timed`.
    """

    def __init__(self, program: Program, device: str) -> None:
        self.device = device
        self.steps: list[StepFacts] = []
        self.numbers: dict[Step, int] = {}
        self._number(program, None)
        self.totals = np.zeros((len(self.steps), 2), np.int64)  # nanoseconds, and how often

    def _number(self, program: Program, parent: int | None) -> None:
        facts = facts_of(program)
        for step in program.steps:
            number = self.numbers[step] = len(self.steps)
            self.steps.append(replace(facts[step], parent=parent))
            for nested in nested_programs(step):
                self._number(nested, number)

    def add(self, number: int, begin: int, end: int, row: int) -> None:
        """Note what a step took, which those around it took, too."""
        caller = threading.get_ident()
        log.add((self.totals.ctypes.data, number, begin, end, row, caller))
        around: int | None = number
        while around is not None:
            self.totals[around, 0] += end - begin
            around = self.steps[around].parent


class CallTimer:
    """What a call hands to the device, by step, until it is done."""

    def __init__(self, timers: StepTimers) -> None:
        self._timers, self._began = timers, perf_counter_ns()
        self._open: list[int] = []
        self._marks: list[tuple[int, Any]] = []

    @contextmanager
    def step(self, step: Step) -> Iterator[None]:
        """A step, to which all marks in the block belong."""
        number = self._timers.numbers[step]
        self._timers.totals[number, 1] += 1
        self._open.append(number)
        yield
        self._open.pop()

    def add(self, mark: Any) -> None:
        """What the machine gave for something that it was handed."""
        self._marks.append((self._open[-1], mark))

    @contextmanager
    def on_host(self) -> Iterator[None]:
        """A block that computes on the host, for the step."""
        begin = perf_counter_ns()
        yield
        self._timers.add(self._open[-1], begin, perf_counter_ns(), threading.get_ident())

    def finish(self, spans: Spans) -> None:
        """Ask the device when all began and ended; it waits until that is so."""
        found = spans([mark for _, mark in self._marks])
        if not found:
            return
        # clocks differ: the last one ended just now, and none began before the call
        shift = perf_counter_ns() - max(end for _, end in found)
        shift = max(shift, self._began - min(begin for begin, _ in found))
        row = log.row(self._timers.device)
        for (number, _), (begin, end) in zip(self._marks, found, strict=True):
            self._timers.add(number, begin + shift, end + shift, row)
