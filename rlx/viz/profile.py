"""`rlx.profile`: the time of each kernel as it ran, with the user's lines.

In the block functions are compiled with timers (on devices that have such; on others whole calls
are timed), and each call is recorded. Code that was compiled before stays as it is, and so does its
speed.
"""

from __future__ import annotations

import itertools
import threading
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from functools import cached_property
from os import PathLike
from time import perf_counter_ns
from typing import Any

import numpy as np

from ..backends.c_like import timers
from ..backends.cpu.runtime import clock
from ..ir.config import config
from ..ir.errors import ArgumentError
from ..ir.files import as_path
from ..ir.record import field, record
from ..ir.source import Source
from ..lower.step_facts import Line, StepFacts
from ..runtime.recording import (
    Recording,
    TimedCall,
    TimedProgram,
    start_recording,
    stop_recording,
)

PROGRAM, NUMBER, BEGIN, END, THREAD, CALLER = range(clock.WORDS)  # of an event, see `clock`


@record
class KernelTime:
    """What one step of a program took in all of its runs.

    program   the function it is a part of
    device    where it ran
    name      its kind and operations
    source    the user's line that most of its work is for, or None
    lines     all of them with their shares
    count     how often it ran
    seconds   in all, less the steps inside of it
    flops     scalar instructions of all runs, counted and not measured
    nbytes    read and written by all runs, counted
    """

    program: str
    device: str
    name: str
    source: Source | None
    lines: tuple[Line, ...]
    count: int
    seconds: float
    flops: float
    nbytes: float

    @property
    def flops_per_second(self) -> float:
        """Instructions in a second."""
        return self.flops / self.seconds if self.seconds else 0.0

    @property
    def bytes_per_second(self) -> float:
        """Bytes read and written in a second."""
        return self.nbytes / self.seconds if self.seconds else 0.0


@record
class LineTime:
    """What a line of the user's took: its shares of the kernels that it is a part of.

    file, line   where it stands
    function     the function around it
    seconds      in all
    flops        scalar instructions
    nbytes       read and written
    kernels      how many kernels have a part of it
    """

    file: str
    line: int
    function: str
    seconds: float
    flops: float
    nbytes: float
    kernels: int


@record(frozen=False, repr=False)
class Profile:
    """What ran in the block of a `profile`.

    Print it, or `show()` it in a terminal; `save()` writes a trace. While the block is open it is
    empty.
    """

    recording: Recording = field(default_factory=Recording)
    events: np.ndarray = field(default_factory=lambda: np.zeros((0, clock.WORDS), np.int64))
    dropped: int = 0  # events that found no room; totals have them all the same
    begin: int = 0  # nanoseconds of `time.perf_counter_ns`
    end: int = 0
    threads: dict[int, str] = field(default_factory=dict)  # names of Python's threads
    devices: dict[int, str] = field(default_factory=dict)  # of those that time their own steps
    _totals: dict[int, np.ndarray] = field(default_factory=dict)

    def __repr__(self) -> str:
        calls = len(self.recording.calls)
        return f"<profile of {calls} call{'s' * (calls != 1)}: {len(self.kernels)} kernels>"

    def __str__(self) -> str:
        from .profile_table import table  # which imports this file

        return table(self)

    @property
    def seconds(self) -> float:
        """How long the block was open."""
        return (self.end - self.begin) / 1e9

    @property
    def calls(self) -> Sequence[TimedCall]:
        """The calls of compiled programs, in the order in which they ended."""
        return self.recording.calls

    @property
    def call_seconds(self) -> float:
        """How long calls took, added up over threads."""
        return sum(c.end - c.begin for c in self.calls) / 1e9

    @property
    def compile_seconds(self) -> float:
        """How long compiles took."""
        return sum(c.end - c.begin for c in self.recording.compiles) / 1e9

    @cached_property
    def programs(self) -> list[TimedProgram]:
        """The programs that ran, in the order of their first calls."""
        return list(dict.fromkeys(call.program for call in self.calls))

    @cached_property
    def kernels(self) -> list[KernelTime]:
        """The kernels that ran, the longest first."""
        found = [row for program in self.programs for row in self._rows(program)]
        return sorted(found, key=lambda row: -row.seconds)

    def _rows(self, program: TimedProgram) -> Iterator[KernelTime]:
        if program.totals is None:
            own = [c for c in self.calls if c.program is program]
            seconds = sum(c.end - c.begin for c in own) / 1e9
            name, device = program.name, program.device
            yield KernelTime(name, device, "call", None, (), len(own), seconds, 0.0, 0.0)
            return
        totals = self.totals_of(program)
        inner: Counter[int] = Counter()
        for facts, (nanoseconds, _) in zip(program.steps, totals, strict=True):
            if facts is not None and facts.parent is not None:
                inner[facts.parent] += int(nanoseconds)
        for number, (facts, (nanoseconds, count)) in enumerate(
            zip(program.steps, totals, strict=True)
        ):
            is_leaf = number not in inner
            own = max(int(nanoseconds) - inner[number], 0)
            if facts is None or not count or not (is_leaf or own):
                continue  # or all of a loop is that of its steps
            yield KernelTime(
                program.name,
                program.device,
                facts.name,
                facts.source,
                facts.lines,
                int(count),
                own / 1e9,
                float(facts.flops * count) if is_leaf else 0.0,
                float(facts.nbytes * count) if is_leaf else 0.0,
            )

    def totals_of(self, program: TimedProgram) -> np.ndarray:
        """Nanoseconds and how often, by the steps of a `program`."""
        return self._totals[id(program)]

    @cached_property
    def lines(self) -> list[LineTime]:
        """The lines of the user's that took time, the longest first."""
        sums: dict[tuple[str, int, str], list[float]] = {}
        for row in self.kernels:
            for line in row.lines:
                source = line.source
                key = source.file, source.line, source.function
                found = sums.setdefault(key, [0.0, 0.0, 0.0, 0.0])
                for place, amount in enumerate((row.seconds, row.flops, row.nbytes)):
                    found[place] += amount * line.share
                found[3] += 1
        made = [
            LineTime(*key, seconds, flops, nbytes, int(kernels))
            for key, (seconds, flops, nbytes, kernels) in sums.items()
        ]
        return sorted(made, key=lambda row: -row.seconds)

    @cached_property
    def memory(self) -> list[tuple[float, int, int]]:
        """Over time: seconds, bytes of arguments and results, bytes of temporaries."""
        changes: list[tuple[int, int, int]] = []
        by_step = {p.address for p in self.programs if p.on_host and p.steps}
        for call in self.calls:
            nbytes, arena = call.program.nbytes, call.program.arena_bytes
            has_own = call.program.on_host and call.program.steps
            own = 0 if has_own else arena  # else its steps tell
            changes += [(call.begin, nbytes, own), (call.end, -nbytes, -own)]
        for facts, event in self.steps:
            if facts.parent is None and facts.live_bytes and event[PROGRAM] in by_step:
                living = facts.live_bytes
                changes += [(event[BEGIN], 0, living), (event[END], 0, -living)]
        found, arrays, temporaries = [], 0, 0
        for time, at_once in itertools.groupby(sorted(changes), key=lambda change: change[0]):
            for _, nbytes, living in at_once:
                arrays, temporaries = arrays + nbytes, temporaries + living
            found.append(((time - self.begin) / 1e9, arrays, temporaries))
        return found

    @cached_property
    def all_events(self) -> list[list[int]]:
        """The events as lists of integers."""
        return self.events.tolist()

    @cached_property
    def steps(self) -> list[tuple[StepFacts, list[int]]]:
        """Each run of a step, as far as there was room for it: its facts and its event."""
        programs = {p.address: p for p in self.programs if p.totals is not None}
        found = []
        for event in self.all_events:
            program = programs.get(event[PROGRAM])
            facts = program.steps[event[NUMBER]] if program else None
            if facts is not None:  # else of a call that began before the block
                found.append((facts, event))
        return found

    def source(self) -> str:
        """The user's source, with what each line took."""
        from .profile_table import annotated

        return annotated(self)

    def show(self) -> None:
        """Print the tables, in colors in a terminal where the package `rich` is."""
        from .profile_table import show

        show(self)

    def save(self, path: str | PathLike[str]) -> None:
        """Write a trace to `path`, for ui.perfetto.dev or chrome://tracing.

        It is JSON of the Trace Event Format. A `FileAccessError` says why it cannot be written.
        """
        from .chrome_trace import write

        write(self, path)

    def close(self, recording: Recording, events: np.ndarray, dropped: int) -> None:
        """Take what was recorded: the `recording`, `events`, and how many were `dropped`."""
        self.end, self.recording = perf_counter_ns(), recording
        self.events, self.dropped = events, dropped
        self.threads = {t.ident: t.name for t in threading.enumerate() if t.ident is not None}
        self.devices = {row: device for device, row in timers.log.rows.items()}
        for program in self.programs:
            if program.totals is not None:
                before = recording.before.get(program, 0)
                self._totals[id(program)] = program.totals - before


@contextmanager
def profile(path: str | PathLike[str] | None = None) -> Iterator[Profile]:
    """Measure in a block what each kernel of compiled functions takes.

    Gives a `Profile`, which is filled when the block ends, and with a `path` writes a trace there.
    Functions are compiled anew in the block, with timers; those that were compiled before keep
    their code, which measures nothing. On `cpu` each step of a program is timed and each thread's
    part of it; on `opencl`, `cuda` and `webgpu` each step by the device's own timers (if a WebGPU
    adapter has timestamps); on other devices each call until its results are there. A second
    `profile` while one is open is an `ArgumentError`. What was made by `f.lower(x).compile()`
    before the block is not seen.

    >>> import rlx, rlx.numpy as rnp
    >>> f = rlx.jit(lambda x: rnp.tanh(x @ x).sum())
    >>> with rlx.profile() as p:
    ...     for _ in range(3):
    ...         y = f(rnp.ones((64, 64)))
    >>> len(p.calls), p.kernels[0].count
    (3, 3)
    """
    path = None if path is None else as_path(path)  # what is no path says so before the block
    recording = start_recording()
    if recording is None:
        raise ArgumentError(
            "rlx.profile: a profile is open already", fix="end its block before the next one begins"
        )
    found = Profile(begin=perf_counter_ns())
    log = clock.log()
    log.start()
    timers.log.start()
    try:
        with config.using(profile=True):
            yield found
    finally:
        stop_recording()
        found.close(recording, *_stopped(log))
    if path is not None:
        found.save(path)


def _stopped(log: clock.Log) -> tuple[np.ndarray, int]:
    """The events of the host and of devices, and how many found no room."""
    events, dropped = log.stop()
    others, others_dropped = timers.log.stop()
    both = [events, np.array(others, np.int64).reshape(-1, clock.WORDS)]
    return np.concatenate(both), dropped + others_dropped


def amount(number: float, units: Sequence[tuple[str, float]]) -> str:
    """A number in the largest unit that it fills, with three digits."""
    unit, size = next((row for row in units if abs(number) >= row[1]), units[-1])
    return f"{number / size:.3g} {unit}"


def seconds_text(seconds: float) -> str:
    """A time in a unit that one can read."""
    return amount(seconds, (("s", 1.0), ("ms", 1e-3), ("us", 1e-6), ("ns", 1e-9)))


def bytes_text(nbytes: float) -> str:
    """Bytes in a unit that one can read."""
    return amount(nbytes, (("GB", 1e9), ("MB", 1e6), ("kB", 1e3), ("B", 1.0)))


def rate_text(rate: float, unit: str) -> str:
    """So many in a second, or nothing where they were not counted."""
    sizes = (("G", 1e9), ("M", 1e6), ("k", 1e3), ("", 1.0))
    return amount(rate, [(f"{prefix}{unit}", size) for prefix, size in sizes]) if rate else ""


def place_text(source: Source | Any) -> str:
    """File and line, as `model.py:12`; empty if unknown."""
    return "" if source is None else f"{source.file.rsplit('/', 1)[-1]}:{source.line}"
