"""What devices of kernels share: what lowering knows of one, and how it compiles."""

from __future__ import annotations

import itertools
import time
from collections.abc import Callable, Sequence
from typing import Any, Protocol

from ...ir.graph import Graph
from ...ir.memory import Memory
from ...ir.record import replace
from ...ir.types import DTYPES
from ...lower.cost import work
from ...lower.lir.program import LibraryCall, Program
from ...lower.pipeline import Lowered, lower
from ...lower.target import FLOATS, NUMBERS, Target
from ..backend import Executable
from ..entries import device_executable
from .dialect import Limits
from .plan import Plan
from .products import TILE
from .timers import StepTimers

MOST_RANKED = 64
CONTRACTED = frozenset((*FLOATS, "int32", "int64", "uint32", "uint64"))
PHASES = ("lower", "write", "build")


class Loaded(Protocol):
    """A plan on a device."""

    @property
    def arena_bytes(self) -> int:
        """The bytes of all temporaries of a call."""
        ...

    def run(self, datas: list[Any], /) -> Sequence[Any]:
        """Run it on the device's arrays; gives such arrays."""
        ...

    def report_lines(self) -> Sequence[str]:
        """What `report()` tells of the device's own."""
        ...


def kernel_target(
    name: str, missing: frozenset[str] = frozenset(), most_uses: int = TILE
) -> Target:
    """What lowering must know of a device that lacks some dtypes."""
    return Target(
        name,
        stored=frozenset(DTYPES) - missing,
        native=frozenset((*NUMBERS, *FLOATS)) - missing,
        contracted=CONTRACTED - missing,
        most_ranked=MOST_RANKED,
        has_sort=True,
        has_symbolic_sizes=False,
        most_uses=most_uses,
    )


def limits_for(target: Target, limits: Limits) -> Limits:
    """The limits of a device for a target, which may want sums in one order."""
    return replace(limits, batch_invariant=target.batch_invariant)


def kernel_executable(
    graph: Graph,
    array: type,
    memory: Memory,
    target: Target,
    *,
    write: Callable[[Program], Plan],
    load: Callable[[Plan, StepTimers | None], Loaded],
    show: Callable[[Plan], dict[str, str]],
    check: bool = False,
) -> Executable:
    """Lower a graph, `write` its kernels, `load` them, and note how that went.

    `show` gives the stages of a plan. A device that builds kernels when they first run has a short
    time for "build" in `seconds`. For a `Target.timed` what is loaded gets timers.
    """
    times = [time.perf_counter()]
    lowered = lower(graph, target, check)
    times.append(time.perf_counter())
    made = write(lowered.program)
    times.append(time.perf_counter())
    timers = StepTimers(made.program, target.name) if target.timed else None
    loaded = load(made, timers)
    times.append(time.perf_counter())
    spans = [after - before for before, after in itertools.pairwise(times)]
    return replace(
        device_executable(graph, array, memory, loaded.run),
        make_stages=lambda: {**lowered.stages, **show(made)},
        make_report=lambda: report(lowered, made, *loaded.report_lines()),
        arena_bytes=loaded.arena_bytes,
        constant_bytes=sum(b.nbytes for p in made.program.programs for b in p.constants),
        program=made.program,
        seconds=dict(zip(PHASES, spans, strict=True)),
        work=lambda: work(made.program),
        timers=timers and (tuple(timers.steps), timers.totals),
    )


# -- what became of the ops of a program that runs as kernels --------------------------------------


def report(lowered: Lowered, made: Plan, *more: str) -> str:
    """A line for each op, the number of kernels, and what runs on the host."""
    lines = [lowered.report, f"kernels: {len(made.kernels)}"]
    for program in made.program.programs:
        for step in program.steps:
            if isinstance(step, LibraryCall):
                lines.append(f"{step.op.name}: library: on the host, with copies to and fro")
    return "\n".join([*lines, *more])
