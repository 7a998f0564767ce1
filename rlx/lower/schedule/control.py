"""Control flow: nested programs bound to buffers of the caller."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import TYPE_CHECKING

from ...ir.graph import Node
from ...ir.types import Type, as_dtype
from ..lir.access import reads, writes
from ..lir.expr import Load
from ..lir.program import (
    BranchStep,
    Buffer,
    Carry,
    Copy,
    Kernel,
    Program,
    RepeatStep,
    Step,
    WhileStep,
)

if TYPE_CHECKING:
    from .schedule import Scheduler

BYTES = Type(as_dtype("uint8"), (0,))


def branch_step(scheduler: Scheduler, node: Node) -> BranchStep:
    """Run one of several programs."""
    selector, *args = node.args
    return BranchStep(
        selector=scheduler.buffer(selector),
        programs=tuple(scheduler.nested(graph) for graph in node.attrs["branches"]),
        inputs=tuple(scheduler.buffer(a) for a in args),
        outputs=tuple(scheduler.result_buffer(r) for r in node.results),
        scratch=scheduler.new_buffer(BYTES),
    )


def while_step(scheduler: Scheduler, node: Node) -> WhileStep:
    """Run a program as long as another one says so."""
    n_condition, n_body = node.attrs["n_condition"], node.attrs["n_body"]
    buffers = [scheduler.buffer(a) for a in node.args]
    start = n_condition + n_body
    body = scheduler.nested(node.attrs["body"])
    return WhileStep(
        condition=scheduler.nested(node.attrs["condition"]),
        body=body,
        condition_constants=tuple(buffers[:n_condition]),
        body_constants=tuple(buffers[n_condition:start]),
        carries=_carries(scheduler, node, buffers[start:], body, n_body),
        flag=scheduler.new_buffer(Type(as_dtype("bool"))),
        scratch=scheduler.new_buffer(BYTES),
    )


def repeat_step(scheduler: Scheduler, node: Node) -> RepeatStep:
    """Run a program for each row of arrays."""
    n_constants, n_carry = node.attrs["n_constants"], node.attrs["n_carry"]
    buffers = [scheduler.buffer(a) for a in node.args]
    end = n_constants + n_carry
    body = scheduler.nested(node.attrs["body"])
    return RepeatStep(
        body=body,
        length=node.attrs["length"],
        reverse=node.attrs["reverse"],
        constants=tuple(buffers[:n_constants]),
        carries=_carries(scheduler, node, buffers[n_constants:end], body, n_constants),
        slices=tuple(buffers[end:]),
        stacks=tuple(scheduler.result_buffer(r) for r in node.results[n_carry:]),
        scratch=scheduler.new_buffer(BYTES),
    )


def _carries(
    scheduler: Scheduler, node: Node, initial: Sequence[Buffer], body: Program, first: int
) -> tuple[Carry, ...]:
    """The carried arrays of a loop.

    Those the body only changes in places are kept in one buffer.
    """
    carries = []
    for number, buffer in enumerate(initial):
        result = scheduler.result_buffer(node.results[number])
        before, after = body.inputs[first + number], body.outputs[number]
        if scheduler.target.in_place_carries and _shares(body, before, after):
            carries.append(Carry(buffer, result, None, in_place=True))
        else:
            spare = scheduler.new_buffer(node.results[number].type)
            carries.append(Carry(buffer, result, spare))
    return tuple(carries)


def _shares(body: Program, before: Buffer, after: Buffer) -> bool:
    """Let an output have the memory of an input that it begins as a copy of.

    That is right if nothing reads the input after the copy; then the copy is dropped.
    """
    at = next((n for n, step in enumerate(body.steps) if after in writes(step)), None)
    if at is None or not _is_copy(body.steps[at], before, after):
        return False
    if any(before in reads(step) for step in body.steps[at + 1 :]):
        return False
    del body.steps[at]
    body.shared[after] = before
    return True


def _is_copy(step: Step, before: Buffer, after: Buffer) -> bool:
    """Whether a step copies all of one buffer into another."""
    if isinstance(step, Copy):
        return step.origin is before and step.target is after
    if not isinstance(step, Kernel) or len(step.stores) != 1:
        return False
    (store,) = step.stores
    is_load = isinstance(store.expr, Load) and store.expr.buffer is before
    is_whole = math.prod(v.extent for v in step.loops) == before.count
    return is_load and is_whole and store.expr.index == store.index  # type: ignore[attr-defined]
