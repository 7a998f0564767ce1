"""Donation: results that take over the memory of donated arguments."""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Sequence

from ...ir.record import record
from ...ir.types import Type
from ...lower.lir.access import reads, times, writes
from ...lower.lir.expr import Load
from ...lower.lir.program import (
    Buffer,
    Copy,
    Kernel,
    Program,
    RepeatStep,
    RowGroup,
    Step,
    WhileStep,
)
from ...lower.schedule.loops import expressions
from ...lower.schedule.rows import is_same_block


@record
class Lifetimes:
    """Live ranges of the inputs and outputs of a program, by the numbers of steps."""

    first: tuple[int, ...]  # for each output the step that writes it first
    last: tuple[int, ...]  # for each input the step that reads it last, -1 if none does
    # pairs (output, input): one step does both, and reads an element just before it overwrites it
    in_order: frozenset[tuple[int, int]]
    updated: frozenset[tuple[int, int]]  # pairs: some step computes the output from the input


def lifetimes(program: Program) -> Lifetimes:
    """Compute live ranges in one pass over a program."""
    inputs = {b: i for i, b in enumerate(program.inputs)}
    outputs = {b: i for i, b in enumerate(program.outputs)}
    first, last = [len(program.steps) + 1] * len(outputs), [-1] * len(inputs)
    updated, in_order = set(), set()
    for number, step in zip(times(program.steps), program.steps, strict=True):
        given = [b for b in reads(step) if b in inputs]
        for b in given:
            last[inputs[b]] = number
        for output in (b for b in writes(step) if b in outputs):
            place = outputs[output]
            first[place] = min(first[place], number)
            alike = [b for b in given if b.type == output.type]
            updated |= {(place, inputs[b]) for b in alike}
            if first[place] == number:
                kept = [b for b in alike if _overwrites_in_order(step, output, b)]
                in_order |= {(place, inputs[b]) for b in kept}
    return Lifetimes(tuple(first), tuple(last), frozenset(in_order), frozenset(updated))


def reused_memory(
    found: Lifetimes, inputs: Sequence[Type], outputs: Sequence[Type], donated: Iterable[int]
) -> dict[int, int]:
    """Choose for results, by number, a donated input whose memory they take over.

    The input has the type of the result, and is read for the last time before the result is
    written for the first time, or in the same kernel, each element just before it is overwritten.
    """
    free = list(donated)
    chosen: dict[int, int] = {}
    for number, type in enumerate(outputs):
        fitting = [
            i
            for i in free
            if inputs[i] == type
            and type.nbytes
            and (
                found.last[i] < found.first[number]
                or (found.last[i] == found.first[number] and (number, i) in found.in_order)
            )
        ]
        if fitting:
            # one that is updated element by element is likelier to fit no other result
            best = max(fitting, key=lambda i: (number, i) in found.updated)
            chosen[number] = best
            free.remove(best)
    return chosen


def copied_input(step: Step) -> tuple[Buffer, Buffer] | None:
    """The input and the output of a step that copies one to the other, or None."""
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


def _overwrites_in_order(step: Step, output: Buffer, given: Buffer) -> bool:
    """Whether each element of `given` is read no later than `output` overwrites it."""
    if isinstance(step, Copy):
        return True
    if isinstance(step, RepeatStep | WhileStep):
        return _changes_in_place(step, output, given)
    if not isinstance(step, Kernel | RowGroup):
        return False  # a matrix product, for one, keeps partial sums where its result goes
    kernels = step.kernels if isinstance(step, RowGroup) else (step,)
    stores = [(i, s) for i, k in enumerate(kernels) for s in k.stores if s.buffer is output]
    place = stores[0][0]
    loads = [(i, e) for i, k in enumerate(kernels) for e in _loads(k, given)]
    if any(i != place for i, _ in stores) or any(i > place for i, _ in loads):
        return False
    written = [store.index for _, store in stores]
    if isinstance(step, RowGroup):
        pairs = itertools.product(written, (e.index for _, e in loads))
        if not all(is_same_block(index, read, step.loops) for index, read in pairs):
            return False
    # all stores of a kernel are computed before the first of them is done
    return all(e.index in written for i, e in loads if i == place)


def _changes_in_place(step: RepeatStep | WhileStep, output: Buffer, given: Buffer) -> bool:
    """Whether a loop carries an array in place and reads it in no other way."""
    if isinstance(step, RepeatStep):
        others = [*step.constants, *step.slices]
    else:
        others = [*step.condition_constants, *step.body_constants]
    carried = [c for c in step.carries if c.result is output or c.initial is given]
    is_alone = len(carried) == 1 and carried[0].in_place and given not in others
    return is_alone and (carried[0].initial, carried[0].result) == (given, output)


def _loads(kernel: Kernel, buffer: Buffer) -> list[Load]:
    return [e for e in expressions([kernel]) if isinstance(e, Load) and e.buffer is buffer]
