"""Laws of lowering: a program gives what its graph gives, and fuses what it should."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from random import Random
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from rlx.ir import ops
from rlx.ir.builder import build
from rlx.ir.errors import UnsupportedDtype, UnsupportedOp
from rlx.ir.graph import OPS, Graph, Value
from rlx.ir.interpret import interpret
from rlx.ir.types import Type, as_dtype
from rlx.ir.verify import verify
from rlx.lower.lir import Contraction, Kernel, Program, Rows, Step, evaluate
from rlx.lower.lir.program import nested_programs
from rlx.lower.pipeline import Lowered, lower
from rlx.lower.target import Target

CPU = Target("cpu")
LOCAL = Target("cpu", local_bytes=16384)


def typed(*shape: int, dtype: str = "f64") -> Type:
    return Type(as_dtype(dtype), shape)


def arrays_for(types: Sequence[Type], seed: int = 0) -> list[np.ndarray]:
    random = np.random.default_rng(seed)
    return [random.uniform(-2, 2, t.shape).astype(t.dtype) for t in types]


def verified(stage: str, graph: Graph) -> None:
    verify(graph, "mir" if stage == "mir" else "hir")


def check(graph: Graph, arrays: Sequence[Any] | None = None, tolerance: float = 1e-9) -> Lowered:
    """Lower, evaluate, and compare with the interpreter."""
    lowered = lower(graph, CPU, check=verified)
    arrays = arrays_for(graph.param_types) if arrays is None else arrays
    meanings = interpret(graph, arrays)
    compare(evaluate(lowered.program, arrays), meanings, tolerance)
    if any(isinstance(step, Rows) for p in lowered.program.programs for step in p.steps):
        local = lower(graph, LOCAL, check=verified).program
        compare(evaluate(local, arrays), meanings, tolerance)
    return lowered


def compare(
    results: Sequence[np.ndarray], meanings: Sequence[np.ndarray], tolerance: float
) -> None:
    for ours, meant in zip(results, meanings, strict=True):
        assert (ours.dtype, ours.shape) == (meant.dtype, meant.shape)
        wide = complex if meant.dtype.kind == "c" else float
        np.testing.assert_allclose(
            ours.astype(wide), meant.astype(wide), rtol=tolerance, atol=tolerance
        )


def check_fn(fn: Callable[..., Any], *types: Type, tolerance: float = 1e-9) -> Program:
    return check(build(fn, types, "f"), tolerance=tolerance).program


def text(program: Program) -> str:
    """The text without the lines of buffers."""
    lines = str(program).splitlines()
    return "\n".join(line for line in lines[1:] if not line.startswith("  b") or "=" in line)


def kinds(program: Program) -> list[type[Step]]:
    return [type(step) for step in program.steps]


def rows_of(x: Value, like: Value) -> Value:
    return ops.broadcast(x, shape=like.shape, axes=(0,))


def softmax_of(x: Value) -> Value:
    e = ops.exp(x - rows_of(ops.reduce_max(x, axes=(1,)), x))
    return e / rows_of(ops.reduce_sum(e, axes=(1,)), x)


# -- goldens --------------------------------------------------------------------------------------


def test_chain_is_one_kernel_with_one_loop() -> None:
    program = check_fn(lambda x, y: ops.exp(x) * y + ops.exp(x), typed(4, 5), typed(4, 5))
    assert (
        text(program)
        == """\
  kernel i < 20:
    t0 = exp(b0[i])
    b2[i] = (t0 * b1[i]) + t0"""
    )


def test_softmax_goes_row_by_row() -> None:
    program = check_fn(softmax_of, typed(8, 32))
    assert (
        text(program)
        == """\
  rows i < 8:
    kernel:
      t0 = max over j < 32: b0[i*32 + j]
      b2[i] = t0
    kernel j < 32:
      b3[i*32 + j] = exp((b0[i*32 + j] - b2[i]))
    kernel:
      t0 = add over j < 32: b3[i*32 + j]
      b4[i] = t0
    kernel j < 32:
      b1[i*32 + j] = b3[i*32 + j] / b4[i]"""
    )


def test_mean_and_variance_take_their_producers_in() -> None:
    def moments(x: Value) -> list[Value]:
        mean = ops.reduce_sum(x, axes=(1,)) / 6.0
        center = x - rows_of(mean, x)
        return [mean, ops.reduce_sum(center * center, axes=(1,)) / 6.0]

    program = check_fn(moments, typed(4, 6))
    assert (
        text(program)
        == """\
  kernel i < 4:
    t0 = add over j < 6: b0[i*6 + j]
    b1[i] = t0 / 6.0
  kernel i < 4:
    t1 = add over j < 6:
        t0 = (b0[i*6 + j] - b1[i])
        (t0 * t0)
    b2[i] = t1 / 6.0"""
    )


def test_sums_over_the_same_rows_share_a_kernel() -> None:
    def both(x: Value) -> list[Value]:
        return [ops.reduce_sum(x, axes=(1,)), ops.reduce_sum(x * x, axes=(1,))]

    program = check_fn(both, typed(4, 6))
    assert kinds(program) == [Kernel] and len(program.steps[0].stores) == 2


def test_concat_stores_into_one_buffer() -> None:
    program = check_fn(lambda x: ops.concat(x, ops.exp(x), axis=1), typed(4, 5))
    assert (
        text(program)
        == """\
  kernel i < 4, j < 5:
    b1[i*10 + j] = b0[i*5 + j]
  kernel i < 4, j < 5:
    b1[i*10 + j + 5] = exp(b0[i*5 + j])"""
    )


def test_reshape_to_finer_axes_needs_no_division() -> None:
    def fn(x: Value, y: Value) -> Value:
        return ops.reshape(ops.transpose(x, axes=(1, 0, 2)), shape=(20, 6)) + y

    program = check_fn(fn, typed(5, 4, 6), typed(20, 6))
    assert "//" not in text(program) and "%" not in text(program)


def test_large_results_are_reused_not_computed_twice() -> None:
    def fn(x: Value) -> list[Value]:
        e = ops.tanh(x)
        return [ops.transpose(e, axes=(1, 0)), ops.reduce_sum(e, axes=(0,))]

    program = check_fn(fn, typed(6, 5))
    assert text(program).count("tanh") == 1


def test_random_programs_have_the_same_text_again() -> None:
    graph = random_graph(Random(7))
    assert str(lower(graph, CPU).program) == str(lower(graph, CPU).program)


# -- contractions ---------------------------------------------------------------------------------


def dot(x: Value, y: Value, contract: tuple, batch: tuple = ((), ())) -> Value:
    return OPS["dot_general"](x, y, contract=contract, batch=batch)


has_dot = pytest.mark.skipif("dot_general" not in OPS, reason="there is no dot_general")


@has_dot
def test_bias_and_relu_are_an_epilogue() -> None:
    def layer(x: Value, w: Value, b: Value) -> Value:
        y = dot(x, w, ((1,), (0,)))
        return ops.max(y + ops.broadcast(b, shape=y.shape, axes=(1,)), 0.0)

    program = check_fn(layer, typed(16, 32), typed(32, 24), typed(24))
    assert (
        text(program)
        == """\
  contraction i < 16, j < 24:
    accumulated = f64 add over k < 32: b0[i*32 + k] * b1[k*24 + j]
    b3[i*24 + j] = max((accumulated + b2[j]), 0.0)"""
    )


@has_dot
def test_transposes_become_strides() -> None:
    def fn(x: Value, y: Value) -> Value:
        turned = ops.transpose(x, axes=(1, 0)), ops.transpose(y, axes=(1, 0))
        return dot(*turned, ((1,), (0,)))

    program = check_fn(fn, typed(5, 4), typed(3, 5))
    assert (
        text(program)
        == """\
  contraction i < 4, j < 3:
    accumulated = f64 add over k < 5: b0[k*4 + i] * b1[j*5 + k]
    b2[i*3 + j] = accumulated"""
    )


@has_dot
def test_batch_and_rows_merge_where_a_weight_has_no_batch() -> None:
    def fn(x: Value, w: Value, r: Value) -> Value:
        return dot(x, w, ((2,), (0,))) + r

    program = check_fn(fn, typed(2, 5, 6), typed(6, 8), typed(2, 5, 8))
    (step,) = program.steps
    assert isinstance(step, Contraction) and not step.batch and step.row.extent == 10


@has_dot
def test_saved_activation_is_a_second_store() -> None:
    def fn(x: Value, w: Value) -> list[Value]:
        h = dot(x, w, ((1,), (0,)))
        return [h, ops.tanh(h)]

    program = check_fn(fn, typed(4, 5), typed(5, 6))
    assert kinds(program) == [Contraction] and len(program.steps[0].stores) == 2


@has_dot
@pytest.mark.parametrize(
    ("shapes", "contract", "batch"),
    [
        (((7,), (7,)), ((0,), (0,)), ((), ())),
        (((7,), (3,)), ((), ()), ((), ())),
        (((7, 5), (5, 7)), ((0, 1), (1, 0)), ((), ())),
        (((2, 5, 3, 4), (2, 7, 3, 4)), ((3,), (3,)), ((0, 2), (0, 2))),
        (((2, 3, 5, 4), (3, 4, 6)), ((1, 3), (0, 1)), ((), ())),
        (((3, 0), (0, 2)), ((1,), (0,)), ((), ())),
        (((0, 3), (3, 2)), ((1,), (0,)), ((), ())),
        (((1, 1), (1, 1)), ((1,), (0,)), ((), ())),
    ],
)
def test_contractions_of_all_layouts(shapes: tuple, contract: tuple, batch: tuple) -> None:
    check_fn(lambda x, y: dot(x, y, contract, batch), *(typed(*s) for s in shapes))


# -- memory ---------------------------------------------------------------------------------------


def test_temporaries_share_memory() -> None:
    def chain(x: Value) -> Value:
        for _ in range(8):
            x = ops.cumsum(x, axis=0)
        return x

    program = check_fn(chain, typed(16, 16))
    assert program.arena_bytes == 2 * 16 * 16 * 8


def test_results_may_be_arguments_constants_or_the_same_twice() -> None:
    def fn(x: Value) -> list[Value]:
        y = ops.exp(x)
        table = OPS["constant"].lift(np.arange(3.0))
        return [x, y, y, ops.reshape(y, shape=(6,)), table, ops.reshape(x, shape=(3, 2))]

    check_fn(fn, typed(2, 3))


def test_program_without_nodes() -> None:
    check_fn(lambda x: x, typed(3))


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


UNARY = ["neg", "tanh", "abs", "square", "sin"]
BINARY = ["add", "sub", "mul", "max", "min"]


def random_graph(random: Random, size: int = 10) -> Graph:
    """A graph of pointwise ops, movement, reductions, scans and concatenations."""

    def grow(*params: Value) -> list[Value]:
        values = list(params)
        for _ in range(size):
            values.append(random_value(random, values))
        return [*random.sample(values, 2), values[-1]]

    types = [typed(*random.choice([(2, 3), (3, 2), (6,), (2, 3, 4), ()])) for _ in range(3)]
    return build(grow, types, "random")


def random_value(random: Random, values: Sequence[Value]) -> Value:
    x = random.choice(values)
    same = [v for v in values if v.shape == x.shape]
    choice = random.randrange(10)
    axis = random.randrange(x.rank) if x.rank else 0
    if choice < 2 or not x.rank:
        return OPS[random.choice(UNARY)](x)
    if choice < 4:
        return OPS[random.choice(BINARY)](x, random.choice(same))
    if choice == 4:
        axes = tuple(random.sample(range(x.rank), random.randint(1, x.rank)))
        return OPS[random.choice(["reduce_sum", "reduce_max"])](x, axes=tuple(sorted(axes)))
    if choice == 5:
        return ops.transpose(x, axes=tuple(random.sample(range(x.rank), x.rank)))
    if choice == 6:
        return ops.reshape(x, shape=random_shape(random, x.type.size))
    if choice == 7 and x.rank < 4:
        place = random.randint(0, x.rank)
        shape = (*x.shape[:place], 2, *x.shape[place:])
        axes = tuple(i for i in range(x.rank + 1) if i != place)
        return ops.broadcast(x, shape=shape, axes=axes)
    return random_cut(random, x, axis)


def random_cut(random: Random, x: Value, axis: int) -> Value:
    choice = random.randrange(5)
    if choice == 0:
        return ops.concat(x, ops.neg(x), axis=axis)
    if choice == 1:
        return ops.cumsum(x, axis=axis, reverse=random.random() < 0.5)
    if choice == 2:
        return ops.flip(x, axes=(axis,))
    if choice == 3 and x.shape[axis] > 1:
        start = tuple(int(i == axis) for i in range(x.rank))
        return ops.slice(x, start=start, stop=x.shape, step=(1,) * x.rank)
    low = tuple(random.randint(-1, 2) if n > 1 else 0 for n in x.shape)
    interior = tuple(random.randint(0, 1) for _ in x.shape)
    zero = ops.full(shape=(), value=0.5, dtype=x.dtype)
    return ops.pad(
        x, zero, low=low, high=low[::-1] if x.rank == 1 else (0,) * x.rank, interior=interior
    )


def random_shape(random: Random, size: int) -> tuple[int, ...]:
    shape: list[int] = []
    while size > 1:
        factors = [n for n in range(2, size + 1) if size % n == 0]
        shape.append(random.choice(factors))
        size //= shape[-1]
    return tuple(shape) or (1,)


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
    lowered = check(build(lambda x: ops.exp(x) * x, [typed(3, dtype="c128")]), [np.ones(3) * 1j])
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


# -- rows -----------------------------------------------------------------------------------------


def test_rows_pass_on_small_blocks_where_the_target_offers_them() -> None:
    program = lower(build(softmax_of, [typed(8, 32)]), LOCAL).program
    (step,) = program.steps
    assert isinstance(step, Rows)
    assert program.arena_bytes == 0 and 32 * 8 < step.local_bytes < 2 * 32 * 8


def test_rows_are_not_grouped_across_rows() -> None:
    def fn(x: Value) -> Value:
        e = ops.exp(ops.exp(x))
        total = ops.reduce_sum(e, axes=(0,))
        return e / ops.broadcast(total, shape=x.shape, axes=(1,))

    program = check_fn(fn, typed(8, 32))
    assert Rows not in kinds(program)
