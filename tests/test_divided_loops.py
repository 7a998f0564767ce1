"""Laws of loops that are divided among threads."""

from __future__ import annotations

import importlib
from random import Random
from typing import Any

import numpy as np
import pytest
from lowering import arrays_for, compare, typed

import rlx
import rlx.numpy as rnp
from rlx.ir import ops
from rlx.ir.builder import as_value, build
from rlx.ir.graph import OPS, Graph, Value
from rlx.ir.interpret import interpret
from rlx.ir.types import Type
from rlx.lower.lir import RepeatStep, evaluate
from rlx.lower.pipeline import lower
from rlx.lower.target import Target

ROWS, WIDTH, TIMES = 4, 8, 5
STATE, MATRIX = typed(ROWS, WIDTH), typed(WIDTH, WIDTH)
START = Type(np.dtype("int32"), ())


@pytest.fixture(autouse=True)
def every_loop_is_worth_it(monkeypatch: pytest.MonkeyPatch) -> None:
    module = importlib.import_module("rlx.lower.schedule.divide_loops")
    monkeypatch.setattr(module, "LEAST_WORK", 1)


def loop(step: Any, constant: Any = MATRIX, reverse: bool = False) -> Graph:
    body = build(step, [constant, STATE, STATE], "body")
    attrs = {"body": body, "n_constants": 1, "n_carry": 1, "length": TIMES, "reverse": reverse}
    return build(
        lambda *xs: OPS["scan"](*xs, **attrs), [constant, STATE, typed(TIMES, ROWS, WIDTH)], "loop"
    )


def parts_of(graph: Graph, threads: int = 2) -> int:
    """Into how many parts the loop of a graph is divided, which must keep its meaning."""
    program = lower(graph, Target("cpu", threads=threads, has_chains=True), check=True).program
    arrays = arrays_for(graph.param_types)
    compare(evaluate(program, arrays), interpret(graph, arrays), 1e-12)
    (step,) = (step for step in program.steps if isinstance(step, RepeatStep))
    return step.parts


def dot(x: Value, y: Value) -> Value:
    return ops.dot_general(x, y, contract=((1,), (0,)))


def spread(x: Value) -> Value:
    return ops.broadcast(x, shape=(ROWS, WIDTH), axes=(0,))


@pytest.mark.parametrize("threads", [1, 2, 3, 9])
def test_loop_has_parts_whatever_the_threads(threads: int) -> None:
    """A product of few rows has two, for in more the other operand would be read too often."""
    graph = loop(lambda w, c, x: [ops.tanh(dot(c, w)) + x, ops.concat(c, x, axis=1)])
    assert parts_of(graph, threads) == 2
    graph = loop(lambda w, c, x: [ops.tanh(c) + x, ops.concat(c, x, axis=1)])
    assert parts_of(graph, threads) == 4


def test_products_of_many_rows_have_more_parts() -> None:
    w, state, xs = typed(WIDTH, WIDTH), typed(64, WIDTH), typed(TIMES, 64, WIDTH)
    body = build(lambda w, c, x: [ops.tanh(dot(c, w)) + x, c], [w, state, state], "body")
    attrs = {"body": body, "n_constants": 1, "n_carry": 1, "length": TIMES, "reverse": False}
    assert parts_of(build(lambda *xs: OPS["scan"](*xs, **attrs), [w, state, xs], "loop")) == 4


def test_rows_are_summed_in_their_part() -> None:
    graph = loop(lambda w, c, x: [dot(c, w) * spread(ops.reduce_sum(x, axes=(1,))), c + x])
    assert parts_of(graph) == 2


def test_constants_of_rows_are_divided_too() -> None:
    graph = loop(lambda scale, c, x: [ops.sin(c) * scale + x, c * scale], constant=STATE)
    assert parts_of(graph) == 4


def test_constant_that_is_read_by_rows_and_as_a_whole_is_in_the_way() -> None:
    def step(w: Value, c: Value, x: Value) -> list[Value]:
        apart = ops.dot_general(c, w, contract=((1,), (1,)))
        return [ops.tanh(dot(apart, w)) * w + x, c]

    assert parts_of(loop(step, constant=STATE)) == 1


def mixing(kind: str) -> Graph:
    def step(w: Value, c: Value, x: Value) -> list[Value]:
        halves = ops.slice(c, start=(0, 0), stop=(ROWS, 1), step=(1, 1))
        others = {
            "flip": lambda: ops.flip(c, axes=(0,)),
            "sum of rows": lambda: ops.broadcast(
                ops.reduce_sum(c, axes=(0,)), shape=c.shape, axes=(1,)
            ),
            "product of rows": lambda: dot(ops.dot_general(c, x, contract=((1,), (1,))), c),
            "number of the row": lambda: c * ops.iota(shape=c.shape, axis=0, dtype=c.dtype),
            "cumulative sum": lambda: ops.cumsum(c, axis=0, reverse=False),
            "first row": lambda: (
                ops.broadcast(ops.reshape(halves, shape=(ROWS,)), shape=(ROWS, WIDTH), axes=(0,))
                * ops.broadcast(
                    ops.reshape(
                        ops.slice(c, start=(0, 0), stop=(1, WIDTH), step=(1, 1)), shape=(WIDTH,)
                    ),
                    shape=c.shape,
                    axes=(1,),
                )
            ),
        }
        return [ops.tanh(others[kind]()) + x, c]

    return loop(step)


@pytest.mark.parametrize(
    "kind",
    [
        "flip", "sum of rows", "product of rows", "number of the row", "cumulative sum",
        "first row",
    ],
)  # fmt: skip
def test_loop_whose_rows_need_each_other_is_not_divided(kind: str) -> None:
    assert parts_of(mixing(kind)) == 1


@pytest.mark.parametrize("seed", range(8))
def test_random_loops_keep_their_meaning(seed: int) -> None:
    random = Random(seed)

    def step(w: Value, *params: Value) -> list[Value]:
        values = list(params)
        for _ in range(7):
            x, y = random.choice(values), random.choice(values)
            choice = random.randrange(5)
            if choice == 0:
                values.append(dot(x, w))
            elif choice == 1:
                values.append(spread(ops.reduce_max(x, axes=(1,))))
            elif choice == 2:
                values.append(ops.flip(x, axes=(random.randrange(2),)))
            else:
                values.append(random.choice([ops.add, ops.sub, ops.mul])(x, ops.sin(y)))
        return [ops.tanh(values[-1]), *random.sample(values, 2)]

    parts_of(loop(step, reverse=random.random() < 0.5))


def test_divided_loop_on_the_processor() -> None:
    width, times = 64, 50
    w, xs = arrays_for([typed(2 * width, width), typed(times, 8, width)])

    def loss(w: Any, xs: Any) -> Any:
        def step(c: Any, x: Any) -> Any:
            gates = c @ w.T * 0.1
            c = rnp.tanh(gates[:, :width]) * rlx.nn.functional.sigmoid(gates[:, width:]) + x * 0.1
            return c, c

        last, cs = rlx.scan(step, rnp.zeros_like(xs[0]), xs)
        return rnp.sum(last) + rnp.sum(cs * cs)

    grad = rlx.value_and_grad(loss, argnums=(0, 1))
    ours = rlx.tree.leaves(rlx.jit(grad)(w, xs))
    theirs = rlx.tree.leaves(rlx.jit(grad, device="reference")(w, xs))
    for mine, meant in zip(ours, theirs, strict=True):
        np.testing.assert_allclose(mine, meant, rtol=1e-10, atol=1e-10)


def test_what_is_changed_in_places_is_divided_by_rows() -> None:
    """Starts that all rows share are whole for each part, and so is what is made of them."""

    def step(w: Value, c: Value, start: Value) -> list[Value]:
        none = ops.full(shape=(), value=0, dtype=start.dtype)
        part = ops.dynamic_slice(c, none, start, sizes=(ROWS, 2))
        places = ops.iota(shape=(2,), axis=0, dtype=start.dtype)
        places = places + ops.broadcast(start, shape=(2,), axes=())
        numbers = ops.convert(ops.broadcast(places, shape=(ROWS, 2), axes=(1,)), dtype=part.dtype)
        return [ops.dynamic_update_slice(c, part * numbers, none, start)]

    body = build(step, [MATRIX, STATE, START], "body")
    attrs = {"body": body, "n_constants": 1, "n_carry": 1, "length": 3, "reverse": False}
    starts = np.array([0, 5, 3], "int32")
    graph = build(
        lambda w, c: OPS["scan"](w, c, as_value(starts), **attrs), [MATRIX, STATE], "loop"
    )
    assert parts_of(graph) == 4
