"""What the steps of a program do, by kinds of work: what cost models ask."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

from ..ir.dims import likely
from ..ir.types import NAMES
from .cost import work
from .lir.access import reads, writes
from .lir.expr import INSTRUCTIONS, Apply, Expr, Guard, Load, Reduce, walk
from .lir.index import Index, Variable
from .lir.program import (
    BranchStep,
    Chain,
    Contraction,
    Greatest,
    Kernel,
    LibraryCall,
    Program,
    RepeatStep,
    Rows,
    Scan,
    Scatter,
    Sort,
    Step,
    WhileStep,
    nested_programs,
)
from .work_class import COSTLY

SHORT = 8  # rounds of a loop that fill no vector


@dataclass(frozen=True)
class StepCost:
    """One step, which runs `times` in a call; all counts are those of one run.

    `flops` are those of products of matrices in `dtype`, `rows` the fewer of their rows and
    columns. `additions` are simple instructions, in units of one addition, `series` those of
    transcendental ones. `gathered` numbers are read at computed places, `strided` ones not side by
    side, `scattered` ones written at computed places, `ordered` ones sorted, `scanned` ones are
    combined one after another. `calls` counts library calls.
    """

    times: float = 1.0
    nbytes: float = 0.0
    dtype: str = "float32"
    flops: float = 0.0
    rows: float = 0.0
    additions: float = 0.0
    series: float = 0.0
    gathered: float = 0.0
    strided: float = 0.0
    scattered: float = 0.0
    scanned: float = 0.0
    ordered: float = 0.0
    calls: float = 0.0


def step_costs(program: Program, times: float = 1.0) -> list[StepCost]:
    """The steps of a program, those of nested programs as often as they run.

    Of branches the dearest counts, of a `while` loop one round. A symbolic size counts as a likely
    number.
    """
    return [cost for step in program.steps for cost in _costs(step, times)]


def _costs(step: Step, times: float) -> Iterator[StepCost]:
    if isinstance(step, BranchStep):
        yield from step_costs(max(step.programs, key=work), times)
    elif isinstance(step, RepeatStep | WhileStep):
        rounds = step.parts * likely(step.length) if isinstance(step, RepeatStep) else 1
        for nested in nested_programs(step):
            yield from step_costs(nested, times * rounds)
    else:
        yield _cost(step, times)


def _cost(step: Step, times: float) -> StepCost:
    moved = float(sum(likely(b.nbytes) for b in (*reads(step), *writes(step))))
    total = _Total()
    for part in step.steps if isinstance(step, Chain) else (step,):
        trips = _trips(step.loops) if isinstance(step, Chain) else 1
        total.add(part, trips)
    return StepCost(times, moved, **vars(total))


class _Total:
    """The counts of a step so far."""

    def __init__(self) -> None:
        self.dtype, self.flops, self.rows = "float32", 0.0, 0.0
        self.additions = self.series = self.gathered = self.strided = self.scattered = 0.0
        self.scanned = self.ordered = self.calls = 0.0

    def add(self, step: Step, trips: float) -> None:
        """Count a step that runs so many times."""
        match step:
            case Contraction():
                outer = (*step.batch, step.row, step.column)
                self.flops += trips * 2 * _trips((*outer, step.depth))
                self.dtype = NAMES[step.lhs.dtype]
                self.rows = float(min(likely(step.row.extent), likely(step.column.extent)))
                self._loops(trips, outer, [s.expr for s in step.stores], ())
            case Kernel():
                exprs = [s.expr for s in step.stores]
                self._loops(trips, step.loops, exprs, [s.index for s in step.stores])
            case Rows():
                inner = trips * _trips(step.loops)
                for kernel in step.kernels:
                    self.add(kernel, inner)
            case Scan() | Greatest():
                loops = (*step.loops, step.along)
                self._loops(trips, loops, [step.expr], ())
                self.scanned += trips * _trips(loops)
            case Scatter():
                self._loops(trips, step.loops, [step.expr], [step.index])
                self.scattered += trips * _trips(step.loops)
            case Sort():
                moved = 1 if step.places is None else 2  # a number alone, or with its place
                self.ordered += moved * trips * likely(step.rows) * likely(step.length)
            case LibraryCall():
                self.calls += trips

    def _loops(
        self,
        trips: float,
        loops: Sequence[Variable],
        exprs: Sequence[Expr],
        places: Iterable[Index],
    ) -> None:
        trips *= _trips(loops)
        seen: set[Expr] = set()
        for expr in (*exprs, *(e for index in places for e in index.loads)):
            self._expr(expr, trips, loops[-1:], seen)

    def _expr(self, expr: Expr, trips: float, along: Sequence[Variable], seen: set[Expr]) -> None:
        """Count the evaluations of an expression; what is shared counts once.

        `along` are the loops that vectors may follow.
        """
        if expr in seen:
            return
        seen.add(expr)
        if isinstance(expr, Reduce):
            trips *= _trips(expr.loops)
            along = (*along, *expr.loops)
            # numbers come from caches again and again, and conditions are asked for each
            inner = list(walk(expr.body))
            loads = sum(1 for e in inner if isinstance(e, Load))
            self.additions += trips * (1 + loads + 2 * sum(isinstance(e, Guard) for e in inner))
        for inner in expr.parts:
            self._expr(inner, trips, along, seen)
        if isinstance(expr, Load) and expr.index.loads:
            self.gathered += trips
        elif isinstance(expr, Load) and not _is_near(expr, along):
            self.strided += trips
        if isinstance(expr, Apply):
            units = INSTRUCTIONS[expr.instruction][0]
            if units >= COSTLY:
                self.series += trips * units
            else:
                self.additions += trips * units


def _is_near(load: Load, along: Sequence[Variable]) -> bool:
    """Whether a loop of some length reads neighbours in memory."""
    long = [loop for loop in along if likely(loop.extent) >= SHORT]
    return is_dense(load, long or along)


def is_dense(load: Load, along: Sequence[Variable]) -> bool:
    """Whether some loop reads neighbours in memory, or all read one number."""
    strides = [load.index.stride_of(loop) for loop in along]
    steady = all(load.index.is_stepped_by(loop) for loop in along)
    return steady and (1 in strides or not any(strides))


def _trips(loops: Iterable[Variable]) -> int:
    return math.prod(likely(variable.extent) for variable in loops)
