"""What moves through memory: values computed again, sums taken at once, operands packed."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace

import pytest
from lowering import CPU, arrays_for, compare, typed

from rlx.ir import ops
from rlx.ir.builder import build
from rlx.ir.graph import Graph, Value
from rlx.ir.interpret import interpret
from rlx.lower.lir import Kernel, Load, Program, evaluate
from rlx.lower.lir.expr import walk
from rlx.lower.pipeline import lower
from rlx.lower.schedule import traffic
from rlx.lower.target import Target

LANES = replace(CPU, packs_lanes=True)
TABLE = typed(40, 16)


@pytest.fixture
def small_caches(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(traffic, "CACHED", 1 << 10)


def checked(fn: Callable, types: Sequence, target: Target = CPU) -> Program:
    """The program of a function, which gives what the function means."""
    graph: Graph = build(fn, types, "f")
    program, arrays = lower(graph, target, check=True).program, arrays_for(types)
    compare(evaluate(program, arrays), interpret(graph, arrays), 1e-9)
    return program


def stored(program: Program) -> list[tuple]:
    """The shapes of the temporaries."""
    return sorted({b.shape for step in program.steps for b in written(step)})


def written(step: object) -> list:
    stores = step.stores if isinstance(step, Kernel) else ()
    return [s.buffer for s in stores if s.buffer.kind == "temporary"]


def slope(x: Value, w: Value) -> list[Value]:
    """As in a gradient of batch norm: sums of columns, then all numbers again."""
    y = ops.mul(ops.sub(ops.mul(x, w), x), w)
    first, second = (ops.reduce_sum(z, axes=(0,)) for z in (y, ops.mul(x, y)))
    whole = [ops.broadcast(z, shape=x.shape, axes=(1,)) for z in (first, second)]
    return [first, ops.sub(y, ops.mul(x, ops.add(*whole)))]


def test_a_small_value_that_three_read_is_stored() -> None:
    assert TABLE.shape in stored(checked(slope, [TABLE, TABLE]))


@pytest.mark.usefixtures("small_caches")
def test_a_large_value_is_computed_again_where_its_operands_are_read_anyway() -> None:
    assert TABLE.shape not in stored(checked(slope, [TABLE, TABLE]))


@pytest.mark.usefixtures("small_caches")
def test_a_dear_value_is_stored_however_large() -> None:
    def dear(x: Value) -> list[Value]:
        for _ in range(4):
            x = ops.sin(x)
        return slope(x, x)

    assert TABLE.shape in stored(checked(dear, [TABLE]))


@pytest.mark.usefixtures("small_caches")
def test_rows_that_stay_in_a_cache_are_stored() -> None:
    def softmax(x: Value) -> Value:
        y = ops.exp(ops.exp(x))
        total = ops.broadcast(ops.reduce_sum(y, axes=(1,)), shape=x.shape, axes=(0,))
        return ops.div(y, total)

    text = str(checked(softmax, [TABLE]))
    assert text.count("exp(exp(") == 1


@pytest.mark.usefixtures("small_caches")
def test_a_whole_sum_is_taken_with_those_of_columns() -> None:
    def sums(x: Value) -> list[Value]:
        return [ops.reduce_sum(ops.mul(x, x), axes=(0, 1)), ops.reduce_sum(x, axes=(0,))]

    program = checked(sums, [TABLE])
    reading = [step for step in program.steps if program.inputs[0] in loaded(step)]
    assert len(reading) == 1


def loaded(step: object) -> set:
    exprs = [s.expr for s in step.stores] if isinstance(step, Kernel) else []
    return {e.buffer for e in walk(*exprs) if isinstance(e, Load)}


@pytest.mark.usefixtures("small_caches")
@pytest.mark.parametrize("axes", [(0,), (1,)])
def test_a_whole_sum_of_another_array_stays_alone(axes: tuple[int, ...]) -> None:
    def sums(x: Value, y: Value) -> list[Value]:
        return [ops.reduce_sum(x, axes=(0, 1)), ops.reduce_sum(y, axes=axes)]

    assert stored(checked(sums, [TABLE, TABLE])) == []


@pytest.mark.usefixtures("small_caches")
def test_a_value_that_is_read_at_many_places_is_not_computed_again_at_each() -> None:
    """Neighbors of neighbors, eight times: work in proportion to the number of steps."""

    def slopes(x: Value) -> Value:
        for _ in range(8):
            size = x.shape[0] - 1
            left, right = (ops.slice(x, start=(i,), stop=(i + size,), step=(1,)) for i in range(2))
            x = ops.sub(ops.sin(right), left)
        return x

    assert str(checked(slopes, [typed(500)])).count("sin(") <= 2 * 8


# -- packing for vectors ---------------------------------------------------------------------------


def filtered(x: Value, w: Value) -> Value:
    """Each channel of rows of numbers by a filter of its own, which lies channel by channel."""
    windows = ops.windows(x, axis=1, size=3, stride=1, dilation=1)
    filters = ops.broadcast(w, shape=windows.shape, axes=(2, 3))
    return ops.reduce_sum(ops.mul(windows, filters), axes=(3,))


def test_a_filter_is_read_along_the_channels() -> None:
    program = checked(filtered, [typed(8, 34, 16), typed(16, 3)], LANES)
    first, second = program.steps
    assert [b.shape for b in written(first)] == [(3, 16)]
    assert isinstance(second, Kernel)
    assert all(
        e.index.stride_of(second.loops[-1]) == 1 for s in second.stores for e in s.expr.loads
    )


@pytest.mark.parametrize(
    ("fn", "types"),
    [
        (filtered, [typed(1, 6, 16), typed(16, 3)]),  # few numbers
        (lambda x, y: ops.add(x, ops.transpose(y, axes=(1, 0))), [typed(90, 90)] * 2),  # read once
        (lambda x, w: filtered(x, ops.transpose(w, axes=(1, 0))), [typed(8, 34, 16), typed(3, 16)]),
    ],
)
def test_what_is_read_seldom_or_in_order_is_not_packed(fn: Callable, types: Sequence) -> None:
    assert len(checked(fn, types, LANES).steps) == 1
