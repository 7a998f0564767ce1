"""Laws of loops that are lowered: what need not be done in every round is not."""

from __future__ import annotations

from collections.abc import Callable
from random import Random
from typing import Any

import numpy as np
import pytest
from lowering import arrays_for, check, text, typed

import rlx
import rlx.numpy as rnp
from rlx.ir import ops
from rlx.ir.builder import build
from rlx.ir.graph import OPS, Graph, Node, Value
from rlx.lower.hir import batch_products, hoist, trim_loops
from rlx.lower.pipeline import Lowered

TIMES, BATCH, WIDTH = 5, 3, 4
MATRIX, STATE = typed(WIDTH, WIDTH), typed(BATCH, WIDTH)
Step = Callable[..., list[Value]]


def dot(x: Value, y: Value) -> Value:
    return ops.dot_general(x, y, contract=((1,), (0,)))


def turned(x: Value) -> Value:
    return ops.transpose(x, axes=(1, 0))


def loop(step: Step, *, constants: int = 1, rows: int = 1, reverse: bool = False) -> Graph:
    """A scan of constants that are matrices, a carried state and rows that are states."""
    body = build(step, [*[MATRIX] * constants, STATE, *[STATE] * rows], "body")
    attrs = {"body": body, "n_constants": constants, "n_carry": 1, "length": TIMES}
    types = [*[MATRIX] * constants, STATE, *[typed(TIMES, BATCH, WIDTH)] * rows]
    return build(lambda *xs: OPS["scan"](*xs, **attrs, reverse=reverse), types, "loop")


def loops_of(graph: Graph) -> list[Node]:
    return [node for node in graph.nodes if node.op.name == "scan"]


def in_loop(graph: Graph) -> list[str]:
    """The ops in the body of the only loop of a graph."""
    (node,) = loops_of(graph)
    return [each.op.name for each in node.attrs["body"].nodes]


def optimized(graph: Graph) -> Graph:
    check(graph)
    return trim_loops(batch_products(trim_loops(hoist(graph))))


# -- what is the same in every round -------------------------------------------------------------


def test_what_constants_give_is_computed_before_the_loop() -> None:
    graph = optimized(loop(lambda w, c, x: [ops.tanh(dot(c, ops.tanh(turned(w)))) + x, x]))
    assert "transpose" not in in_loop(graph)
    assert in_loop(graph).count("tanh") == 1


def test_what_is_larger_and_cheap_stays_in_the_loop() -> None:
    def step(w: Value, c: Value, x: Value) -> list[Value]:
        line = ops.reshape(ops.slice(w, start=(0, 0), stop=(1, WIDTH), step=(1, 1)), shape=(WIDTH,))
        return [c * ops.broadcast(line, shape=(BATCH, WIDTH), axes=(1,)), x]

    assert "broadcast" in in_loop(optimized(loop(step)))


def test_both_graphs_of_a_while_loop_are_relieved() -> None:
    limit, scale, number = typed(WIDTH), typed(WIDTH), typed()

    def below(limit: Value, x: Value) -> Value:
        return ops.lt(x, ops.reduce_sum(ops.exp(limit), axes=(0,)))

    def double(scale: Value, x: Value) -> Value:
        return x * 2.0 + ops.reduce_sum(ops.square(scale), axes=(0,))

    attrs = {
        "condition": build(below, [limit, number], "below"),
        "body": build(double, [scale, number], "double"),
    }
    counts = {"n_condition": 1, "n_body": 1}
    graph = build(
        lambda *xs: OPS["while_loop"](*xs, **attrs, **counts), [limit, scale, number], "while"
    )
    check(graph, [np.ones(WIDTH), np.ones(WIDTH), np.float64(0.5)])
    check(graph, [np.ones(WIDTH), np.ones(WIDTH), np.float64(50.0)])  # no round at all
    (node,) = (node for node in hoist(graph).nodes if node.graphs)
    inner = [each.op.name for nested in node.graphs for each in nested.nodes]
    assert sorted(inner) == ["add", "full", "lt", "mul"]


def test_effects_stay_in_the_loop() -> None:
    seen: list[float] = []

    @rlx.jit
    def f(w: Any, xs: Any) -> Any:
        def step(c: Any, x: Any) -> Any:
            rlx.debug.callback(lambda number: seen.append(float(number)), w)
            return c + x * w, None

        return rlx.scan(step, w, xs)[0]

    f(np.float32(2.0), np.ones(3, np.float32))
    assert seen == [2.0, 2.0, 2.0]


def test_constant_stack_of_one_loop_is_a_constant_of_the_next() -> None:
    body = build(lambda w, c, x: [c + x, w, c * x], [MATRIX, STATE, STATE], "first")
    second = build(lambda c, w, x: [dot(c, w) + x], [STATE, MATRIX, STATE], "second")

    def both(w: Value, c: Value, xs: Value) -> Any:
        scan = OPS["scan"]
        last, ws, ys = scan(w, c, xs, body=body, n_constants=1, n_carry=1, length=TIMES)
        return scan(last, ws, ys, body=second, n_carry=1, length=TIMES, reverse=True)

    graph = build(both, [MATRIX, STATE, typed(TIMES, BATCH, WIDTH)], "both")
    check(graph)
    first, following = loops_of(trim_loops(graph))
    assert [r.shape for r in first.results] == [(BATCH, WIDTH), (TIMES, BATCH, WIDTH)]
    assert following.attrs["n_constants"] == 1


def test_carried_value_that_nobody_needs_is_dropped() -> None:
    body = build(lambda c, d, x: [c + x, d * c + x, c], [STATE, STATE, STATE], "body")

    def fn(c: Value, xs: Value) -> Any:
        last, _, ys = OPS["scan"](c, c, xs, body=body, n_carry=2, length=TIMES)
        return last, ys

    graph = build(fn, [STATE, typed(TIMES, BATCH, WIDTH)], "fn")
    check(graph)
    (node,) = loops_of(trim_loops(graph))
    assert node.attrs["n_carry"] == 1


# -- products of all rounds ----------------------------------------------------------------------


def test_product_of_rows_comes_before_the_loop() -> None:
    graph = optimized(loop(lambda w, c, x: [ops.tanh(c + dot(ops.sin(x), w)), x]))
    assert "dot_general" not in in_loop(graph)
    assert "dot_general" in [node.op.name for node in graph.nodes]


def test_product_of_rows_that_would_fill_the_memory_stays_in_the_loop() -> None:
    times = 1 << 23
    wide = typed(1, WIDTH)
    body = build(lambda w, c, x: [c + dot(x, w)], [wide, typed(1, WIDTH), typed(1, 1)], "body")
    attrs = {"body": body, "n_constants": 1, "n_carry": 1, "length": times}
    graph = build(
        lambda *xs: OPS["scan"](*xs, **attrs), [wide, typed(1, WIDTH), typed(times, 1, 1)], "long"
    )
    assert in_loop(batch_products(graph)) == ["dot_general", "add"]


def test_product_of_the_state_stays_in_the_loop() -> None:
    assert in_loop(optimized(loop(lambda w, c, x: [ops.tanh(dot(c, w)) + x, x]))) == [
        "dot_general",
        "tanh",
        "add",
    ]


def test_product_that_is_only_stacked_comes_after_the_loop() -> None:
    graph = optimized(loop(lambda w, c, x: [ops.sin(c) + x, turned(dot(c * x, w))], reverse=True))
    assert "dot_general" not in in_loop(graph)


@pytest.mark.parametrize("reverse", [False, True])
def test_carried_sum_of_products_comes_after_the_loop(reverse: bool) -> None:
    types = [MATRIX, STATE, STATE]

    def step(total: Value, c: Value, x: Value) -> list[Value]:
        moved = turned(ops.dot_general(c, x, contract=((0,), (0,))))
        return [moved + total, ops.sin(c) + x]

    attrs = {"body": build(step, types, "body"), "n_carry": 2, "length": TIMES}
    graph = build(
        lambda *xs: OPS["scan"](*xs, **attrs, reverse=reverse),
        [MATRIX, STATE, typed(TIMES, BATCH, WIDTH)],
        "sums",
    )
    made = optimized(graph)
    assert "dot_general" not in in_loop(made)
    (product,) = (node for node in made.nodes if node.op.name == "dot_general")
    assert [a.shape for a in product.args] == [(TIMES, BATCH, WIDTH)] * 2


def test_sum_that_the_loop_reads_stays_there() -> None:
    types = [typed(WIDTH, WIDTH), STATE]

    def step(total: Value, x: Value) -> list[Value]:
        return [total + ops.dot_general(x, x, contract=((0,), (0,))), dot(x, total)]

    attrs = {"body": build(step, types, "body"), "n_carry": 1, "length": TIMES}
    graph = build(
        lambda *xs: OPS["scan"](*xs, **attrs), [MATRIX, typed(TIMES, BATCH, WIDTH)], "sums"
    )
    assert in_loop(optimized(graph)).count("dot_general") == 2


# -- operands ------------------------------------------------------------------------------------


def lowered(step: Step) -> Lowered:
    return check(loop(step))


def test_constant_matrix_is_turned_once_before_the_loop() -> None:
    before, _, inside = text(lowered(lambda w, c, x: [dot(c, turned(w)) + x, x]).program).partition(
        "repeat"
    )
    assert "b0t0[i*4 + j] = b0[j*4 + i]" in before
    assert "b0u0[k*4 + j]" in inside


def test_matrix_that_lies_well_is_not_turned() -> None:
    assert "t0[" not in text(lowered(lambda w, c, x: [dot(c, w) + x, x]).program)


# -- everything together -------------------------------------------------------------------------


def random_step(random: Random) -> Step:
    """A step of products, movement and pointwise ops of constants, rows and the state."""

    def step(*params: Value) -> list[Value]:
        values = list(params)
        for _ in range(9):
            x, y = random.choice(values), random.choice(values)
            if random.random() < 0.4 and x.shape[1] == y.shape[0]:
                values.append(dot(x, y))
            elif random.random() < 0.3:
                values.append(turned(x))
            else:
                same = random.choice([v for v in values if v.shape == x.shape])
                op = random.choice([ops.add, ops.sub, ops.mul, ops.add])
                values.append(ops.tanh(x) if random.random() < 0.3 else op(x, same))
        states = [v for v in values if v.shape == (BATCH, WIDTH)]
        last = [values[-1], *random.sample(values, 2)]
        carried = params[2] + random.choice(states) if random.random() < 0.5 else states[-1]
        return [ops.tanh(carried), *last]

    return step


@pytest.mark.parametrize("seed", range(12))
def test_random_loops_keep_their_meaning(seed: int) -> None:
    random = Random(seed)
    graph = loop(random_step(random), constants=2, reverse=random.random() < 0.5)
    check(graph)


@pytest.mark.parametrize("length", [0, 1, 2, 7])
def test_gradient_of_a_recurrent_network(length: int) -> None:
    w, v, b, xs = (
        x.astype(np.float64)
        for x in arrays_for([MATRIX, MATRIX, typed(WIDTH), typed(length, BATCH, WIDTH)])
    )

    def loss(w: Any, v: Any, b: Any, xs: Any) -> Any:
        def step(c: Any, x: Any) -> Any:
            gates = rnp.split(rnp.concatenate([x @ v.T + b, c @ w.T], axis=1), 2, axis=1)
            c = rnp.tanh(gates[0] + gates[1]) * c[:, :1] + x
            return c, rnp.sum(c * x)

        last, ys = rlx.scan(step, rnp.zeros((BATCH, WIDTH), "float64"), xs)
        return rnp.sum(rnp.sin(last)) + rnp.sum(ys)

    grad = rlx.grad(loss, argnums=(0, 1, 2, 3))
    ours = rlx.jit(grad)(w, v, b, xs)
    theirs = rlx.jit(grad, device="reference")(w, v, b, xs)
    for mine, meant in zip(ours, theirs, strict=True):
        np.testing.assert_allclose(mine, meant, rtol=1e-10, atol=1e-10)


# -- what a gradient keeps -----------------------------------------------------------------------


def kept_by_gradient(step: Callable[..., Any], *args: Any) -> list[tuple[int, ...]]:
    """The shapes of what the first of the two loops of a gradient stacks for the second."""

    def loss(c: Any, xs: Any, *rest: Any) -> Any:
        return rnp.sum(rlx.scan(lambda c, x: (step(c, x, *rest), None), c, xs)[0])

    graph = rlx.jit(rlx.grad(loss)).lower(*args).graph
    check(graph, list(args), tolerance=1e-9)
    made = trim_loops(hoist(graph))
    return [r.shape for r in loops_of(made)[0].results if r.shape[:1] == (TIMES,)]


def test_slope_that_is_made_of_the_value_is_not_kept() -> None:
    state, rows = arrays_for([STATE, typed(TIMES, BATCH, WIDTH)])
    kept = kept_by_gradient(lambda c, x: rnp.tanh(c) + x, state, rows)
    assert kept == [(TIMES, BATCH, WIDTH)]


def test_difference_of_repeated_numbers_is_not_kept() -> None:
    state, rows = arrays_for([typed(WIDTH), typed(TIMES, WIDTH)])

    def step(c: Any, x: Any) -> Any:
        apart = c[None] - c[:, None]
        return rnp.sum(apart * apart, 1) + x

    kept = kept_by_gradient(step, state, rows)
    assert kept == [(TIMES, WIDTH)]


def test_matrix_is_not_kept_for_each_round() -> None:
    w, state, rows = arrays_for([MATRIX, STATE, typed(TIMES, BATCH, WIDTH)])
    kept = kept_by_gradient(lambda c, x, w: rnp.sin(c @ rnp.exp(w.T)) + x, state, rows, w)
    assert kept == [(TIMES, BATCH, WIDTH)]


def test_products_of_a_checkpointed_step_are_not_done_in_each_round() -> None:
    def loss(w: Any, c: Any, xs: Any) -> Any:
        step = rlx.checkpoint(lambda c, x: (rnp.tanh(c @ w.T) + x, None))
        return rnp.sum(rlx.scan(step, c, xs)[0])

    args = arrays_for([MATRIX, STATE, typed(TIMES, BATCH, WIDTH)])
    lowered = check(rlx.jit(rlx.grad(loss)).lower(*args).graph, args)
    *_, backward = loops_of(lowered.mir)
    names = [node.op.name for node in backward.attrs["body"].nodes]
    assert names.count("dot_general") == 1


# -- folds ---------------------------------------------------------------------------------------


def test_product_names_the_axes_of_what_was_transposed() -> None:
    graph = build(lambda x, w: dot(x, turned(w)), [STATE, MATRIX], "f")
    folded = check(graph).graphs["simplified"]
    (node,) = folded.nodes
    assert node.attrs["contract"] == ((1,), (1,))


def test_cotangents_of_parts_side_by_side_become_one_array() -> None:
    def f(x: Any) -> Any:
        parts = rnp.split(x, 4, axis=1)
        return rnp.sum(rnp.sin(parts[0]) * parts[1] + parts[2] * parts[3])

    (x,) = arrays_for([typed(3, 8)])
    graph = rlx.jit(rlx.grad(f)).lower(x).graph
    folded = check(graph, [x]).graphs["simplified"]
    names = [node.op.name for node in folded.nodes]
    assert names.count("concat") == 1 and "pad" not in names
