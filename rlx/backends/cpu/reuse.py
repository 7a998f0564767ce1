"""Which results may be written over which arguments that nobody needs any more."""

from __future__ import annotations

from collections.abc import Iterable

from ...lower.lir.access import reads, writes
from ...lower.lir.expr import Load
from ...lower.lir.program import Buffer, Copy, Kernel, Program, Rows, Step
from ...lower.schedule.group_rows import is_same_block
from ...lower.schedule.loops import expressions


def reused_memory(program: Program, donated: Iterable[int]) -> dict[int, int]:
    """Choose for results (by number) an input whose memory they take over.

    The input has the type of the result, and is read for the last time before the result is
    written for the first time, or in the same kernel, each element just before it is overwritten.
    """
    free = list(donated)
    chosen: dict[int, int] = {}
    for number, output in enumerate(program.outputs):
        fitting = [i for i in free if _can_take(program, output, program.inputs[i])]
        if fitting:
            # one that is updated element by element is likelier to fit no other result
            best = max(fitting, key=lambda i: _is_updated(program, output, program.inputs[i]))
            chosen[number] = best
            free.remove(best)
    return chosen


def copied_input(step: Step) -> tuple[Buffer, Buffer] | None:
    """The input and the output if all a step does is copy one to the other."""
    if isinstance(step, Copy):
        pair = (step.origin, step.target)
    elif isinstance(step, Kernel) and len(step.stores) == 1:
        (store,) = step.stores
        if not isinstance(store.expr, Load) or store.expr.index != store.index:
            return None
        pair = (store.expr.buffer, store.buffer)
    else:
        return None
    return pair if [b.kind for b in pair] == ["input", "output"] else None


def _can_take(program: Program, output: Buffer, given: Buffer) -> bool:
    if output.type != given.type or not output.nbytes:
        return False
    first = next(i for i, step in enumerate(program.steps) if output in writes(step))
    if any(given in reads(step) for step in program.steps[first + 1 :]):
        return False
    step = program.steps[first]
    return given not in reads(step) or _overwrites_in_order(step, output, given)


def _is_updated(program: Program, output: Buffer, given: Buffer) -> bool:
    return any(output in writes(step) and given in reads(step) for step in program.steps)


def _overwrites_in_order(step: Step, output: Buffer, given: Buffer) -> bool:
    """Whether each element of `given` is read no later than `output` overwrites it."""
    if isinstance(step, Copy):
        return True
    if not isinstance(step, Kernel | Rows):
        return False  # a matrix product, for one, keeps partial sums where its result goes
    kernels = step.kernels if isinstance(step, Rows) else (step,)
    stores = [(i, s) for i, k in enumerate(kernels) for s in k.stores if s.buffer is output]
    (place, store), *others = stores
    loads = [(i, e) for i, k in enumerate(kernels) for e in _loads(k, given)]
    if others or any(i > place for i, _ in loads):
        return False
    if isinstance(step, Rows):
        if not all(is_same_block(store.index, e.index, step.loops) for _, e in loads):
            return False
    # all stores of a kernel are computed before the first of them is done
    return all(e.index == store.index for i, e in loads if i == place)


def _loads(kernel: Kernel, buffer: Buffer) -> list[Load]:
    return [e for e in expressions([kernel]) if isinstance(e, Load) and e.buffer is buffer]
