"""Loop optimization and memory planning: all passes over steps, in their order."""

from __future__ import annotations

from collections.abc import Sequence

from ...ir.record import replace
from ..lir.program import (
    Contraction,
    Kernel,
    Program,
    RepeatStep,
    RowGroup,
    Scan,
    Scatter,
    Step,
    Store,
    WhileStep,
)
from ..target import Target
from .chain_products import chain_products, join_products
from .divide_loops import divide_loops
from .forward import forward_copies, forward_pads
from .loops import indices, merge_kernel_loops, merge_loops, split_loops, substituted
from .merge import drop_dead_stores, merge_epilogues, merge_kernels
from .operands import order_operands, turn_operands
from .plan_memory import plan_memory
from .rows import group_rows, localize_rows
from .split import split_reductions, split_scatters


def finish(program: Program, target: Target) -> Program:
    """Improve the steps of a program and its nested programs, and plan their memory.

    Each pass is for the steps of one program; the inner ones come first. What the program computes
    stays the same.
    """
    programs = list(program.programs)[::-1]
    steps = [step for each in programs for step in each.steps]
    has_loops = any(isinstance(s, RepeatStep | WhileStep) for s in steps)
    has_products = any(isinstance(s, Contraction) for s in steps)
    for each in programs if has_loops and has_products else ():
        turn_operands(each)
    for each in programs if target.has_chains and has_products else ():
        order_operands(each)
    if target.has_chains and has_loops:
        divide_loops(program)
    for each in programs:
        each.steps = improved(each.steps, target)
        plan_memory(each)
    return program


def improved(steps: Sequence[Step], target: Target) -> list[Step]:
    """The steps of one program, split, merged and grouped."""
    made: list[Step] = [split_loops(s) if isinstance(s, Kernel) else s for s in steps]
    if len(made) > 1:  # else there is nothing to put together
        made = drop_dead_stores(merge_epilogues(merge_kernels(made)))
        made = group_rows(forward_pads(forward_copies(made)))
    made = split_reductions([_merged(step) for step in made], target.batch_invariant)
    if not target.batch_invariant and any(isinstance(s, Scatter) for s in made):
        made = split_scatters(made)
    if any(isinstance(s, RowGroup) for s in made):
        made = localize_rows(made, target.local_bytes)
    if target.has_chains and len(made) > 1:
        made = join_products(chain_products(made, target.threads))
    return made


def _merged(step: Step) -> Step:
    """A step with adjacent loops merged."""
    if isinstance(step, Kernel):
        return merge_kernel_loops(step)
    if isinstance(step, Scan):
        outer = Kernel(step.loops, (Store(step.buffer, step.index, step.expr),))
        merged = merge_kernel_loops(outer)
        (store,) = merged.stores
        return replace(step, loops=merged.loops, index=store.index, expr=store.expr)
    if isinstance(step, RowGroup):
        loops, table = merge_loops(step.loops, list(indices(step.kernels)))
        kernels = [substituted(k, k.loops, table) if table else k for k in step.kernels]
        return RowGroup(tuple(loops), tuple(merge_kernel_loops(k) for k in kernels))
    return step
