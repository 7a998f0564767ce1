"""A static cost model: the work and traffic of one run, counted and not measured."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence

from ..ir.dims import likely
from ..ir.record import field, record
from .lir.expr import INSTRUCTIONS, Apply, Expr, Guard, Load, Reduce, walk
from .lir.index import Variable
from .lir.nests import Nest, is_dense, nests, traffic, trips
from .lir.program import BranchStep, Program, RepeatStep, Step, WhileStep, nested_programs
from .work_class import COSTLY

SHORT = 8  # rounds of a loop that fill no vector
OUTSIDE = ("input", "output", "constant")  # what is touched once in a run, with all the rest


@record
class StepCost:
    """The cost of one execution of a step.

    The kinds of work are `additions` (simple instructions), `series` (transcendental functions, in
    simple instructions), `gather` (elements read at computed indices), `strided` (not contiguous
    ones), and those of loop nests: see `Nest.kind`.
    """

    times: float = 1.0  # executions in a call
    work: Mapping[str, float] = field(default_factory=dict)  # by its kind
    nbytes: float = 0.0  # read and written
    far: float = 0.0  # of these, in arrays that the program was given or makes
    within: float = 0.0  # the bytes over which such arrays are spread


def step_costs(program: Program, times: float = 1.0) -> list[StepCost]:
    """The cost of each step, those of nested programs included.

    Of branches the dearest counts, of a `while` loop one iteration, of a loop's parallel parts one.
    A symbolic size counts as a likely number.
    """
    outside = (*program.inputs, *program.outputs, *program.constants)
    within = float(sum(likely(b.nbytes) for b in outside) + likely(program.arena_bytes))
    found: list[StepCost] = []
    for step in program.steps:
        if inner := nested_programs(step):
            inner = [max(inner, key=work)] if isinstance(step, BranchStep) else inner
            rounds = times * (likely(step.length) if isinstance(step, RepeatStep) else 1)
            found += [cost for nested in inner for cost in step_costs(nested, rounds)]
        else:
            found.append(_cost(step, times, within))
    return found


def notes(program: Program) -> tuple[str, ...]:
    """Sentences for the user that say what the counts leave out."""
    if any(has_while(step) for step in program.steps):
        return ("a while loop: one round counted",)
    return ()


def has_while(step: Step) -> bool:
    """Whether a step, or a program nested in it, runs a `while` loop."""
    inner = (each for nested in nested_programs(step) for each in nested.steps)
    return isinstance(step, WhileStep) or any(map(has_while, inner))


def work(program: Program) -> tuple[int, int]:
    """Scalar instructions of one run, and bytes that its steps read and write.

    A multiply-add counts as two instructions, a tanh as one. Of branches the dearest counts, of a
    `while` loop one iteration, of a library call what its op says. A symbolic size counts as a
    likely number.
    """
    flops = moved = 0
    for step in program.steps:
        if inner := [work(nested) for nested in nested_programs(step)]:
            inner = [max(inner)] if isinstance(step, BranchStep) else inner
            rounds = step.parts * likely(step.length) if isinstance(step, RepeatStep) else 1
            flops += rounds * sum(count for count, _ in inner)
            moved += rounds * sum(nbytes for _, nbytes in inner)
        else:
            flops += sum(map(_flops, nests(step)))
            moved += sum(nbytes for _, nbytes in traffic(step))
    return flops, moved


def _cost(step: Step, times: float, within: float) -> StepCost:
    counts: dict[str, float] = defaultdict(float)
    for nest in nests(step):
        counts[nest.kind] += nest.count
        seen: set[Expr] = set()
        for expr in nest.roots:
            for kind, count in _evaluated(expr, nest.trips, nest.loops[-1:], seen):
                counts[kind] += count
    moved = list(traffic(step))
    far = sum(nbytes for buffer, nbytes in moved if buffer.kind in OUTSIDE)
    total = sum(nbytes for _, nbytes in moved)
    return StepCost(times, {k: n for k, n in counts.items() if n}, total, far, within)


def _evaluated(
    expr: Expr, trips_made: float, along: Sequence[Variable], seen: set[Expr]
) -> Iterator[tuple[str, float]]:
    """Work of evaluating an expression by kind, common subexpressions counted once.

    `along` are the loops that vectors may follow.
    """
    if expr in seen:
        return
    seen.add(expr)
    if isinstance(expr, Reduce):
        trips_made *= trips(expr.loops)
        along = (*along, *expr.loops)
        # numbers come from caches again and again, and conditions are asked for each
        inner = list(walk(expr.body))
        loads = sum(isinstance(e, Load) for e in inner)
        guards = sum(isinstance(e, Guard) for e in inner)
        yield "additions", trips_made * (1 + loads + guards)
    for part in expr.parts:
        yield from _evaluated(part, trips_made, along, seen)
    if isinstance(expr, Load) and expr.index.loads:
        yield "gather", trips_made
    elif isinstance(expr, Load) and not _is_near(expr, along):
        yield "strided", trips_made
    if isinstance(expr, Apply):
        units = INSTRUCTIONS[expr.instruction][0]
        yield "series" if units >= COSTLY else "additions", trips_made * units


def _is_near(load: Load, along: Sequence[Variable]) -> bool:
    """Whether some loop reads neighbouring elements of memory."""
    long = [loop for loop in along if likely(loop.extent) >= SHORT]
    return is_dense(load, long or along)


def _flops(nest: Nest) -> int:
    seen: set[Expr] = set()
    own = 0 if nest.kind in ("library", "sort") else int(nest.count)
    return own + nest.trips * sum(_instructions(e, seen) for e in nest.exprs)


def _instructions(expr: Expr, seen: set[Expr]) -> int:
    """Instructions of one evaluation, common subexpressions counted once."""
    if expr in seen:
        return 0
    seen.add(expr)
    inner = sum(_instructions(e, seen) for e in expr.operands)
    if isinstance(expr, Reduce):
        return trips(expr.loops) * (inner + 1)
    return inner + isinstance(expr, Apply)
