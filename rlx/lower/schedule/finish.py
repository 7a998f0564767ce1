"""Loop optimization of all kernels, program by program."""

from __future__ import annotations

from dataclasses import replace

from ..lir.program import Kernel, Program, Rows, Scan, Step, Store, nested_programs
from ..target import Target
from .chain_products import chain_products, join_products
from .forward import forward_copies, forward_pads
from .loops import indices, merge_kernel_loops, merge_loops, split_loops, substituted
from .merge import drop_dead_stores, merge_epilogues, merge_kernels
from .rows import group_rows, localize_rows
from .split import split_reductions, split_scatters


def finish(program: Program, target: Target) -> Program:
    """Split, merge and group the kernels of a program and of its nested programs.

    Sets `Program.steps`; what the program computes stays the same.
    """
    for step in program.steps:
        for nested in nested_programs(step):
            finish(nested, target)
    steps: list[Step] = [split_loops(s) if isinstance(s, Kernel) else s for s in program.steps]
    steps = drop_dead_stores(merge_epilogues(merge_kernels(steps)))
    steps = forward_pads(forward_copies(steps))
    merged = [_merged(step) for step in group_rows(steps)]
    steps = split_reductions(merged, target.sums_alike)
    steps = steps if target.sums_alike else split_scatters(steps)
    steps = localize_rows(steps, target.local_bytes)
    program.steps = steps
    if target.has_chains:
        program.steps = join_products(chain_products(steps, target.threads))
    return program


def _merged(step: Step) -> Step:
    """A step with adjacent loops merged."""
    if isinstance(step, Kernel):
        return merge_kernel_loops(step)
    if isinstance(step, Scan):
        outer = Kernel(step.loops, (Store(step.buffer, step.index, step.expr),))
        merged = merge_kernel_loops(outer)
        (store,) = merged.stores
        return replace(step, loops=merged.loops, index=store.index, expr=store.expr)
    if isinstance(step, Rows):
        loops, table = merge_loops(step.loops, list(indices(step.kernels)))
        kernels = [substituted(k, k.loops, table) if table else k for k in step.kernels]
        return Rows(tuple(loops), tuple(merge_kernel_loops(k) for k in kernels))
    return step
