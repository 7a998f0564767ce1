"""What one run of a program costs: counted, not measured."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence

from ..ir.dims import likely
from .lir.access import reads, writes
from .lir.expr import Apply, Expr, Reduce
from .lir.index import Variable
from .lir.program import (
    BranchStep,
    Chain,
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


def work(program: Program) -> tuple[int, int]:
    """The scalar instructions of one run, and the bytes that its steps read and write.

    A product of matrices has two instructions for each pair of numbers; a tanh counts as one. Of
    branches the dearest counts; a `while` loop counts one round; a library call no instruction. A
    symbolic size counts as a likely number.
    """
    counts = [_step(step) for step in program.steps]
    return sum(flops for flops, _ in counts), sum(moved for _, moved in counts)


def _step(step: Step) -> tuple[int, int]:
    nested = [work(p) for p in nested_programs(step)]
    if nested:
        if isinstance(step, BranchStep):
            return max(nested)
        rounds = step.parts * likely(step.length) if isinstance(step, RepeatStep) else 1
        return rounds * sum(f for f, _ in nested), rounds * sum(m for _, m in nested)
    moved = sum(likely(b.nbytes) for b in (*reads(step), *writes(step)))
    return _flops(step), moved


def _flops(step: Step) -> int:
    if isinstance(step, Kernel):
        return _loops(step.loops, [s.expr for s in step.stores])
    if isinstance(step, Rows):
        return _trips(step.loops) * sum(_flops(kernel) for kernel in step.kernels)
    if isinstance(step, Chain):
        return _trips(step.loops) * sum(map(_flops, step.steps))
    if isinstance(step, Contraction):
        outer = (*step.batch, step.row, step.column)
        products = 2 * _trips((*outer, step.depth))
        return products + _loops(outer, [s.expr for s in step.stores])
    if isinstance(step, Scan):
        loops = (*step.loops, step.along)
        return _loops(loops, [step.expr]) + _trips(loops)
    if isinstance(step, Greatest):
        loops = (*step.loops, step.along)
        return _loops(loops, [step.expr]) + _trips(loops)
    if isinstance(step, Scatter):
        return _loops(step.loops, [step.expr]) + _trips(step.loops)
    return 0


def _trips(loops: Iterable[Variable]) -> int:
    return math.prod(likely(variable.extent) for variable in loops)


def _loops(loops: Iterable[Variable], exprs: Sequence[Expr]) -> int:
    seen: set[Expr] = set()
    return _trips(loops) * sum(_instructions(e, seen) for e in exprs)


def _instructions(expr: Expr, seen: set[Expr]) -> int:
    """The instructions of one evaluation; what is shared counts once."""
    if expr in seen:
        return 0
    seen.add(expr)
    inner = sum(_instructions(e, seen) for e in expr.operands)
    if isinstance(expr, Reduce):
        return _trips(expr.loops) * (inner + 1)
    return inner + isinstance(expr, Apply)
