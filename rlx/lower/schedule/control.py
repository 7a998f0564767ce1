"""Control flow: nested programs bound to buffers of the caller."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ...ir.graph import Node
from ...ir.types import Type, as_dtype
from ..lir.program import BranchStep, Carry, RepeatStep, WhileStep

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


def _carries(scheduler: Scheduler, node: Node, start: int, count: int) -> tuple[Carry, ...]:
    initial = node.args[start : start + count]
    return tuple(
        Carry(
            initial=scheduler.buffer(arg),
            result=scheduler.result_buffer(result),
            spare=scheduler.new_buffer(result.type),
        )
        for arg, result in zip(initial, node.results, strict=False)
    )


def while_step(scheduler: Scheduler, node: Node) -> WhileStep:
    """Run a program as long as another one says so."""
    n_condition, n_body = node.attrs["n_condition"], node.attrs["n_body"]
    buffers = [scheduler.buffer(a) for a in node.args]
    start = n_condition + n_body
    return WhileStep(
        condition=scheduler.nested(node.attrs["condition"]),
        body=scheduler.nested(node.attrs["body"]),
        condition_constants=tuple(buffers[:n_condition]),
        body_constants=tuple(buffers[n_condition:start]),
        carries=_carries(scheduler, node, start, len(node.args) - start),
        flag=scheduler.new_buffer(Type(as_dtype("bool"))),
        scratch=scheduler.new_buffer(BYTES),
    )


def repeat_step(scheduler: Scheduler, node: Node) -> RepeatStep:
    """Run a program for each row of arrays."""
    n_constants, n_carry = node.attrs["n_constants"], node.attrs["n_carry"]
    buffers = [scheduler.buffer(a) for a in node.args]
    return RepeatStep(
        body=scheduler.nested(node.attrs["body"]),
        length=node.attrs["length"],
        reverse=node.attrs["reverse"],
        constants=tuple(buffers[:n_constants]),
        carries=_carries(scheduler, node, n_constants, n_carry),
        slices=tuple(buffers[n_constants + n_carry :]),
        stacks=tuple(scheduler.result_buffer(r) for r in node.results[n_carry:]),
        scratch=scheduler.new_buffer(BYTES),
    )
