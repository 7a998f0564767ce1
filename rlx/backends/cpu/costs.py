"""How long steps take on one thread, about, and which of them threads can share."""

from __future__ import annotations

import math
from typing import TypeAlias

from ...ir.dims import likely
from ...lower.lir.index import Variable
from ...lower.lir.program import (
    Contraction,
    Greatest,
    Kernel,
    Program,
    RepeatStep,
    Rows,
    Scan,
    Scatter,
    Step,
    nested_programs,
)
from ...lower.schedule.loops import reductions
from .host import Host
from .kernels import all_exprs, estimate

Loops: TypeAlias = Kernel | Rows | Scan | Greatest | Scatter
LOOPS = (Kernel, Rows, Scan, Greatest, Scatter)


def program_cost(program: Program, host: Host) -> float:
    """Rough nanoseconds of a program; of a loop without a known length those of one round."""
    return sum(step_cost(step, host) for step in program.steps)


def step_cost(step: Step, host: Host) -> float:
    """Rough nanoseconds of a step."""
    if isinstance(step, LOOPS):
        return loops_cost(step)
    if isinstance(step, Contraction):
        return contraction_cost(step, host)
    times = likely(step.length) if isinstance(step, RepeatStep) else 1
    return times * sum(program_cost(program, host) for program in nested_programs(step))


def contraction_cost(step: Contraction, host: Host) -> float:
    """Rough nanoseconds of a product in the matrix kernel."""
    extents = (step.row.extent, step.column.extent, step.depth.extent)
    extents += tuple(v.extent for v in step.batch)
    return 2 * math.prod(map(likely, extents)) / (host.vector_bytes / 4 * 2 * 2 * 2.0)


def loops_cost(step: Loops) -> float:
    """Rough nanoseconds of loops."""
    if isinstance(step, Kernel):
        return estimate(step.loops, all_exprs(step.stores))
    if isinstance(step, Rows):
        return sum(estimate((*step.loops, *k.loops), all_exprs(k.stores)) for k in step.kernels)
    loops = (*step.loops, step.along) if isinstance(step, Scan | Greatest) else step.loops
    return estimate(loops, [step.expr]) * 4


def trip_loops(step: Loops) -> list[Variable]:
    """The loops of a step, those of its reductions included."""
    kernels = step.kernels if isinstance(step, Rows) else [step] if isinstance(step, Kernel) else []
    if isinstance(step, Greatest):
        return [*step.loops, step.along]
    own = [*step.loops, *(v for k in kernels if k is not step for v in k.loops)]
    return [*own, *(v for r in {r.loops for r in reductions(kernels)} for v in r)]


def splits(step: Loops) -> bool:
    """Whether threads can share the loops."""
    if isinstance(step, Scan):
        return len(step.loops) > 1
    return isinstance(step, Kernel | Rows | Greatest) and bool(step.loops)
