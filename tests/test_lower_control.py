"""Laws of lowered loops that change an array in places."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from lowering import arrays_for, compare, typed

from rlx.ir import ops
from rlx.ir.builder import build
from rlx.ir.graph import OPS, Graph, Value
from rlx.ir.interpret import interpret
from rlx.lower.lir import Carry, Program, RepeatStep, Scatter, WhileStep, evaluate
from rlx.lower.pipeline import lower
from rlx.lower.target import Target

IN_PLACE = Target("cpu", in_place_carries=True)


def lowered_like_its_graph(graph: Graph, arrays: list[np.ndarray]) -> Program:
    program = lower(graph, IN_PLACE, check=True).program
    compare(evaluate(program, arrays), interpret(graph, arrays), 1e-12)
    return program


def carries_of(program: Program) -> list[Carry]:
    loops = [s for s in program.steps if isinstance(s, RepeatStep | WhileStep)]
    return [carry for loop in loops for carry in loop.carries]


def put(cache: Value, i: Value, row: Value) -> Value:
    zero = ops.full(shape=(), value=0, dtype="int32")
    return ops.dynamic_update_slice(cache, ops.reshape(row, shape=(1, 3)), i, zero)


def filling(also: str) -> Graph:
    """A scan that puts row after row into an array; `also` says what else reads the array."""

    def step(cache: Value, i: Value, row: Value) -> list[Value]:
        if also == "the new row":
            row = row + ops.reduce_sum(cache, axes=(0,))
        after = put(cache, i, row)
        out = {"old": cache, "new": after}.get(also, row)
        return [after, i + 1, ops.reduce_sum(out, axes=tuple(range(out.rank)))]

    body = build(step, [typed(5, 3), typed(dtype="i32"), typed(3)], "step")

    def fn(cache: Value, i: Value, rows: Value) -> Any:
        return OPS["scan"](cache, i, rows, body=body, n_carry=2, length=4)

    return build(fn, [typed(5, 3), typed(dtype="i32"), typed(4, 3)], "filling")


@pytest.mark.parametrize("also", ["nothing", "new", "the new row"])
def test_array_is_changed_in_place(also: str) -> None:
    graph = filling(also)
    arrays = arrays_for(graph.param_types)
    program = lowered_like_its_graph(graph, arrays)
    assert carries_of(program)[0].in_place
    (loop,) = program.steps
    assert sum(isinstance(step, Scatter) for step in loop.body.steps) == 1  # type: ignore


def test_array_that_is_read_after_its_change_is_copied() -> None:
    graph = filling("old")
    arrays = arrays_for(graph.param_types)
    lowered_like_its_graph(graph, arrays)


def test_while_changes_an_array_in_place() -> None:
    types = [typed(5, 3), typed(dtype="i32")]
    below = build(lambda cache, i: ops.lt(i, 4), types, "below")

    def step(cache: Value, i: Value) -> list[Value]:
        return [put(cache, i, ops.full(shape=(3,), value=2.0, dtype="f64")), i + 1]

    body = build(step, types, "step")
    graph = build(
        lambda cache, i: OPS["while_loop"](cache, i, condition=below, body=body), types, "loop"
    )
    program = lowered_like_its_graph(graph, [np.ones((5, 3)), np.int32(1)])
    assert carries_of(program)[0].in_place


def test_value_that_does_not_change_is_not_copied() -> None:
    body = build(lambda c, x: [c, c * x], [typed(3), typed(3)], "body")

    def fn(c: Value, xs: Value) -> Any:
        return OPS["scan"](c, xs, body=body, n_carry=1, length=4)

    graph = build(fn, [typed(3), typed(4, 3)], "fixed")
    program = lowered_like_its_graph(graph, arrays_for(graph.param_types))
    assert carries_of(program)[0].in_place
