"""Laws of lowering: a program gives what its graph gives, op by op and at random."""

from __future__ import annotations

from random import Random
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings, strategies as st
from lowering import (
    CPU,
    arrays_for,
    check,
    check_fn,
    compare,
    random_graph,
    softmax_of,
    text,
    typed,
)

from rlx.ir import ops
from rlx.ir.builder import build
from rlx.ir.errors import UnsupportedDtype, UnsupportedOp
from rlx.ir.graph import OPS, Graph, Value
from rlx.ir.interpret import interpret
from rlx.ir.record import replace
from rlx.ir.types import Type, as_dtype
from rlx.lower.lir import evaluate
from rlx.lower.lir.program import nested_programs
from rlx.lower.pipeline import lower
from rlx.lower.target import Target

# -- meaning --------------------------------------------------------------------------------------


def sample_arrays(sample: Any, seed: int) -> list[np.ndarray]:
    random = np.random.default_rng(seed)

    def array(arg: Any) -> np.ndarray:
        if not isinstance(arg, tuple | Type):
            return np.asarray(arg)
        type = arg if isinstance(arg, Type) else typed(*arg)
        if type.dtype.kind == "b":
            return random.random(type.shape) > 0.5
        if type.dtype.kind in "iu":
            return random.integers(0, 5, type.shape).astype(type.dtype)
        numbers = random.uniform(sample.low, sample.high, type.shape)
        if type.dtype.kind == "c":
            numbers = numbers + 1j * random.uniform(sample.low, sample.high, type.shape)
        return numbers.astype(type.dtype)

    return [array(arg) for arg in sample.args]


def all_samples() -> list[Any]:
    return [
        pytest.param(op, sample, id=f"{op.name}-{number}")
        for op in OPS.values()
        if not op.is_constant
        for number, sample in enumerate(op.sample_list)
    ]


@pytest.mark.parametrize(("op", "sample"), all_samples())
def test_every_op_lowered_is_its_reference(op: Any, sample: Any) -> None:
    arrays = sample_arrays(sample, seed=1)
    types = [Type(as_dtype(a.dtype), a.shape) for a in arrays]
    graph = build(lambda *xs: op(*xs, **sample.attrs), types, op.name)
    tolerance = 1e-6 if all(t.dtype.itemsize >= 4 for t in types) else 1e-2
    check(graph, arrays, tolerance)


def test_few_terms_are_added_in_turn_where_there_is_one_order() -> None:
    graph = build(lambda x, y: ops.sum_in_turn(x * y, axes=(0,)), [typed(3, 4)] * 2, "f")
    arrays = arrays_for(graph.param_types)
    ordered = replace(CPU, batch_invariant=True, adds_in_turn=True)
    for target, words in ((CPU, "add over"), (ordered, "add in turn over")):
        program = lower(graph, target, check=True).program
        assert words in text(program)
        compare(evaluate(program, arrays), interpret(graph, arrays), 1e-12)


def test_sums_of_what_is_the_same_for_an_outer_loop_keep_their_meaning() -> None:
    def fn(x: Value) -> Value:
        half = ops.full(shape=(), value=0.5, dtype=as_dtype("float64"))
        spread = ops.pad(x, half, low=(0, 0), high=(0, 0), interior=(0, 1))
        return ops.reduce_sum(ops.broadcast(spread, shape=(2, 2, 5), axes=(1, 2)), axes=(1,))

    check_fn(fn, typed(2, 3))


@settings(max_examples=150, deadline=None)
@given(st.randoms(use_true_random=False))
def test_random_graphs_keep_their_meaning(random: Random) -> None:
    check(random_graph(random), tolerance=1e-8)


@pytest.mark.parametrize("dtype", ["float16", "bfloat16"])
def test_half_floats_round_after_each_instruction(dtype: str) -> None:
    types = [typed(4, 5, dtype=dtype), typed(4, 5, dtype=dtype)]
    program = check_fn(lambda x, y: ops.exp(x) * y + x, *types, tolerance=0)
    assert "f32" in text(program)


def test_dtypes_without_arithmetic_call_the_library() -> None:
    lowered = check(
        build(lambda x: ops.cumprod(x, axis=0) * x, [typed(3, dtype="c128")]), [np.ones(3) * 1j]
    )
    assert "library (NumPy), cpu has no arithmetic for complex128" in lowered.report


def test_missing_dtype_is_an_error_with_a_fix() -> None:
    small = Target("toy", stored=frozenset(["float32", "bool"]))
    with pytest.raises(UnsupportedDtype, match="toy has no float64"):
        lower(build(lambda x: ops.exp(x), [typed(3)]), small)


def test_missing_op_is_an_error_that_names_it() -> None:
    bare = Target("toy", native=frozenset(["float32"]), has_library=False)
    with pytest.raises(UnsupportedOp, match="exp: toy cannot run it"):
        lower(build(lambda x: ops.exp(x), [typed(3)]), bare)


# -- control flow ---------------------------------------------------------------------------------


def loop_graph(length: int, reverse: bool) -> Graph:
    def step(c: Value, s: Value, x: Value) -> list[Value]:
        after = s * c + ops.sin(x)
        return [after, after * x, c]

    body = build(step, [typed(3), typed(3), typed(3)], "step")

    def fn(c: Value, s: Value, xs: Value) -> Any:
        attrs = {"n_constants": 1, "n_carry": 1, "length": length, "reverse": reverse}
        return OPS["scan"](c, s, ops.exp(xs), body=body, **attrs)

    return build(fn, [typed(3), typed(3), typed(length, 3)], "loop")


@pytest.mark.parametrize("length", [0, 1, 2, 3])
@pytest.mark.parametrize("reverse", [False, True])
def test_repeat_leaves_the_carry_in_its_result(length: int, reverse: bool) -> None:
    check(loop_graph(length, reverse))


@pytest.mark.parametrize("start", [0.5, 3.0, 100.0])
def test_while_runs_any_number_of_rounds(start: float) -> None:
    below = build(lambda limit, x, n: ops.lt(x, limit), [typed(), typed(), typed()], "below")
    double = build(lambda x, n: [x * 2.0, n + 1.0], [typed(), typed()], "double")

    def fn(limit: Value, x: Value, n: Value) -> Any:
        return OPS["while_loop"](limit, x, n, condition=below, body=double, n_condition=1)

    check(build(fn, [typed()] * 3), [np.float64(50), np.float64(start), np.float64(0)])


@pytest.mark.parametrize("choice", [-1, 0, 1, 2])
def test_branch_runs_the_chosen_graph(choice: int) -> None:
    heavy = build(softmax_of, [typed(8, 4)], "heavy")
    light = build(lambda x: x, [typed(8, 4)], "light")

    def fn(i: Value, x: Value) -> Any:
        return OPS["cond"](i, x * 2.0, branches=(heavy, light))

    graph = build(fn, [typed(dtype="i32"), typed(8, 4)])
    check(graph, [np.int32(choice), *arrays_for([typed(8, 4)])])


def test_nested_programs_get_scratch_memory() -> None:
    program = lower(loop_graph(3, False), CPU).program
    for step in program.steps:
        for nested in nested_programs(step):
            assert step.scratch.nbytes >= nested.arena_bytes


def test_recomputed_nodes_are_not_merged_with_the_first_run() -> None:
    graph = build(lambda x: ops.exp(ops.sin(x)), [typed(3)], "inner")

    def fn(x: Value) -> list[Value]:
        first = OPS["checkpoint"](x, graph=graph)
        again = OPS["checkpoint"](x, graph=graph, recompute=True)
        return [*first, ops.neg(again[0])]

    mir = check(build(fn, [typed(3)])).mir
    assert sum(node.op.name == "sin" for node in mir.nodes) == 2
