"""Laws of lowering: a program gives what its graph gives, and fuses what it should."""

from __future__ import annotations

from random import Random

import numpy as np
import pytest
from lowering import CPU, LOCAL, check_fn, kinds, random_graph, rows_of, softmax_of, text, typed

from rlx.ir import ops
from rlx.ir.builder import build
from rlx.ir.graph import OPS, Value
from rlx.lower.lir import Contraction, Kernel, RowGroup, expr as scalar
from rlx.lower.lir.index import Variable, as_index
from rlx.lower.lir.program import Buffer, Store
from rlx.lower.pipeline import lower
from rlx.lower.schedule.rows import group_rows

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


@pytest.mark.parametrize(("across", "down", "kind"), [(12, 1, RowGroup), (1, 32, Kernel)])
def test_sums_of_columns_are_no_rows(across: int, down: int, kind: type) -> None:
    """Their lanes go along the columns, which rows would take one by one."""
    f64 = typed().dtype
    x, total, out = (
        Buffer(n, typed(size), "temporary") for n, size in zip("xto", (384, 32, 32), strict=True)
    )
    i, j, k = Variable(32), Variable(12), Variable(32)
    read = scalar.load(x, i * across + j * down)
    added = scalar.reduce("add", (j,), scalar.const(f64, 0), read)
    first = Kernel((i,), (Store(total, as_index(i), added),))
    last = scalar.apply("exp", f64, scalar.load(total, as_index(k)))
    steps = group_rows([first, Kernel((k,), (Store(out, as_index(k), last),))])
    assert {type(step) for step in steps} == {kind}


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


def test_products_store_where_a_copy_would_put_their_results() -> None:
    def fn(x: Value, *weights: Value) -> Value:
        parts = [ops.reshape(dot(x, w, ((1,), (0,))), shape=(6, 1, 5)) for w in weights]
        pairs = ops.concat(*parts[:2], axis=1), ops.concat(*parts[2:], axis=1)
        return ops.concat(*(ops.reshape(pair, shape=(2, 1, 30)) for pair in pairs), axis=1)

    program = check_fn(fn, typed(6, 4), *[typed(4, 5)] * 4)
    assert kinds(program) == [Contraction] * 4
    assert program.arena_bytes == 0


def convolved_products(x: Value, w: Value, kernel: Value) -> tuple[Value, Value]:
    """Images of products, and these convolved."""
    made = ops.reshape(ops.exp(dot(x, w, ((1,), (0,)))), shape=(1, 8, 9, 5))
    attrs = {name: (1, 1) for name in ("window_strides", "lhs_dilation", "rhs_dilation")}
    image = ops.transpose(made, axes=(0, 3, 1, 2))
    done = ops.conv_general_dilated(image, kernel, padding=((1, 1), (2, 0)), **attrs)
    return made, ops.transpose(done, axes=(0, 2, 3, 1))


CONVOLVED = typed(72, 4), typed(4, 5), typed(5, 5, 3, 3)


def test_products_store_into_the_middle_of_padding() -> None:
    def fn(*args: Value) -> Value:
        made, convolved = convolved_products(*args)
        return convolved * made

    program = check_fn(fn, *CONVOLVED)
    first, second = (step for step in program.steps if isinstance(step, Contraction))
    assert first.stores[0].buffer.type.shape == (1, 10, 11, 5)
    assert first.stores[0].buffer in {load.buffer for load in second.stores[0].expr.loads}


def test_a_result_is_copied_into_padding() -> None:
    program = check_fn(convolved_products, *CONVOLVED)
    assert kinds(program).count(Contraction) == 2


def test_padding_that_is_written_to_later_is_a_copy() -> None:
    def fn(x: Value, w: Value, update: Value) -> tuple[Value, Value]:
        made = dot(x, w, ((1,), (0,)))
        zero = ops.full(shape=(), value=0.0, dtype=made.dtype)
        wide = ops.pad(made, zero, low=(1, 1), high=(1, 1), interior=(0, 0))
        start = ops.full(shape=(), value=2, dtype=np.dtype("int32"))
        changed = ops.dynamic_update_slice(wide, update, start, start)
        return changed, ops.reduce_sum(ops.exp(made), axes=(0,))

    check_fn(fn, typed(6, 4), typed(4, 5), typed(3, 3))


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


def test_products_read_slices_of_arguments_where_they_lie() -> None:
    def fn(x: Value, w: Value) -> Value:
        part = ops.slice(x, start=(2, 0), stop=(4, 5), step=(1, 1))
        return dot(part, w, ((1,), (0,)))

    program = check_fn(fn, typed(40, 5), typed(5, 6))
    assert kinds(program) == [Contraction]


def test_products_read_thirds_of_a_sum_that_a_product_stores() -> None:
    def fn(x: Value, w: Value, b: Value) -> Value:
        whole = dot(x, w, ((1,), (0,))) + ops.broadcast(b, shape=(8, 12), axes=(1,))
        q, k, v = (ops.slice(whole, start=(0, i), stop=(8, i + 4), step=(1, 1)) for i in (0, 4, 8))
        return dot(dot(q, k, ((1,), (1,))), v, ((1,), (0,)))

    program = check_fn(fn, typed(8, 5), typed(5, 12), typed(12))
    assert kinds(program) == [Contraction] * 3


# -- rows -----------------------------------------------------------------------------------------


def test_rows_pass_on_small_blocks_where_the_target_offers_them() -> None:
    program = lower(build(softmax_of, [typed(8, 32)]), LOCAL).program
    (step,) = program.steps
    assert isinstance(step, RowGroup)
    assert program.arena_bytes == 0 and 32 * 8 < step.local_bytes < 2 * 32 * 8


def test_rows_are_not_grouped_across_rows() -> None:
    def fn(x: Value) -> Value:
        e = ops.exp(ops.exp(x))
        total = ops.reduce_sum(e, axes=(0,))
        return e / ops.broadcast(total, shape=x.shape, axes=(1,))

    program = check_fn(fn, typed(8, 32))
    assert RowGroup not in kinds(program)


def test_rows_do_not_overwrite_what_another_row_reads() -> None:
    def fn(x: Value) -> list[Value]:
        table = ops.cumsum(x, axis=0)
        total = ops.reduce_sum(ops.exp(ops.transpose(table, axes=(1, 0))), axes=(1,))
        return [table * rows_of(total, x), ops.tanh(rows_of(ops.exp(total), x) + table)]

    check_fn(fn, typed(8, 8))


def test_deep_chains_are_cut_into_kernels() -> None:
    def fn(x: Value, w: Value) -> list[Value]:
        y = dot(x, w, ((1,), (0,)))
        for _ in range(100):
            y = ops.tanh(y * 0.1) + y * 0.01
        return [ops.reduce_sum(y, axes=(0,)), y]

    program = check_fn(fn, typed(4, 5), typed(5, 6))
    assert 3 < len(program.steps) < 12
