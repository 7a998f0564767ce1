"""Long reductions in pieces: their meaning and their form."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import numpy as np
import pytest
from lowering import CPU, typed

import rlx
import rlx.numpy as rnp
from rlx.ir import ops
from rlx.ir.builder import build
from rlx.ir.graph import Value
from rlx.lower.lir import Kernel, Program, RowGroup, evaluate
from rlx.lower.pipeline import lower
from rlx.lower.schedule import split as module


def program_of(fn: Callable, *shape: int, dtype: str = "f32") -> Program:
    return lower(build(fn, [typed(*shape, dtype=dtype)], "f"), CPU).program


def small(shape: tuple[int, ...], dtype: str = "float32") -> np.ndarray:
    """Whole numbers, of which sums are exact."""
    return (np.arange(np.prod(shape)).reshape(shape) * 7 % 11 - 5).astype(dtype)


@pytest.mark.parametrize(
    ("shape", "axes", "kernels"),
    [
        ((1 << 19,), (0,), 2),
        (((1 << 19) + 1,), (0,), 2),
        ((3, 200003), (0, 1), 2),
        ((3, 200003), (1,), 2),
        ((1031, 1024), (0,), 2),
        ((9, 700, 700), (1,), 1),
        ((1 << 19, 2), (0,), 2),
        ((1 << 18,), (0,), 1),
        ((1024, 1024), (1,), 1),
        ((1 << 19, 3), (1,), 1),
        ((1 << 14, 64), (0,), 2),
        ((1100, 600), (0,), 1),
    ],
)
def test_pieces_make_the_whole(shape: tuple[int, ...], axes: tuple[int, ...], kernels: int) -> None:
    program = program_of(lambda x: ops.reduce_sum(x, axes=axes), *shape)
    assert [type(step) for step in program.steps] == [Kernel] * kernels, str(program)
    x = small(shape)
    np.testing.assert_array_equal(evaluate(program, [x])[0], x.sum(axes))
    np.testing.assert_array_equal(np.asarray(rlx.jit(lambda x: x.sum(axes))(x)), x.sum(axes))


@pytest.mark.parametrize(
    "fn",
    [
        lambda x: (x * x).mean(),
        lambda x: x.max() - x.min() + (x > 4).any() + (x < 9).all(),
        lambda x: rnp.where(x.sum() > 3, x[0, 0], x.max()),
        lambda x: rnp.pad(x, ((1, 0), (0, 2))).sum(),
        lambda x: x.max(0) - x.sum(0),
        lambda x: ((x - x.mean()) ** 2).sum(),
        lambda x: (x.sum(0) / 4 + x[0]).sum(),
    ],
)
def test_what_is_computed_around_a_long_reduction(fn: Callable) -> None:
    x = small((1100, 1000))
    found, wanted = rlx.jit(fn)(x), rlx.jit(fn, device="reference")(x)
    np.testing.assert_allclose(np.asarray(found), np.asarray(wanted), rtol=1e-5)


@pytest.mark.parametrize("dtype", ["bool", "int8", "int64", "float16", "float64"])
def test_long_reductions_of_each_dtype(dtype: str) -> None:
    x = small((700, 751), dtype)
    fns = [lambda x: x.max(), lambda x: (x != 0).sum(), lambda x: (x == 2).any()]
    for fn in fns:
        found, wanted = rlx.jit(fn)(x), rlx.jit(fn, device="reference")(x)
        assert found.dtype == wanted.dtype
        np.testing.assert_array_equal(np.asarray(found), np.asarray(wanted))


def test_nan_is_found_in_any_piece() -> None:
    greatest = rlx.jit(lambda x: x.max())
    for place in (0, 300000, (1 << 19) + 1):
        x = small(((1 << 19) + 2,))
        x[place] = np.nan
        assert np.isnan(float(greatest(x)))


def test_parts_go_on_being_split() -> None:
    program = program_of(lambda x: ops.reduce_sum(x, axes=(0,)), 1 << 17, 513)
    assert len(program.steps) == 3, str(program)
    assert module.ROWS == 64


def test_columns_are_not_reduced_one_by_one() -> None:
    fns = (lambda x: x.var(0), lambda x: rnp.argmax(x, 0), lambda x: x / x.sum(0))
    x = np.random.default_rng(0).normal(size=(70, 90)).astype("float32")
    for fn in fns:
        program = lower(rlx.make_graph(fn)(x), CPU).program
        assert not any(isinstance(step, RowGroup) for step in program.steps), str(program)
        found, wanted = rlx.jit(fn)(x), rlx.jit(fn, device="reference")(x)
        # as many roundings as there are rows
        np.testing.assert_allclose(np.asarray(found), np.asarray(wanted), rtol=70 * 2.0**-23)


@pytest.mark.parametrize(
    ("inner", "columns", "steps"),
    [(2048, 1024, 2), (1024, 8192, 2), (1000, 2048, 1), (1024, 512, 1), (128, 16384, 1)],
)
def test_product_of_a_row_and_a_large_matrix(inner: int, columns: int, steps: int) -> None:
    """Lines that are next to each other in memory are a piece; an epilogue comes at the end."""

    def fn(x: Value, y: Value) -> Value:
        return ops.neg(ops.dot_general(x, y, contract=((1,), (0,))))

    types = [typed(1, inner, dtype="f32"), typed(inner, columns, dtype="f32")]
    program = lower(build(fn, types, "f"), CPU).program
    assert len(program.steps) == steps, str(program)
    x, y = (small(t.shape) for t in types)
    np.testing.assert_array_equal(evaluate(program, [x, y])[0], -(x @ y))
    np.testing.assert_array_equal(np.asarray(rlx.jit(lambda x, y: -(x @ y))(x, y)), -(x @ y))


def test_product_of_a_row_is_in_one_piece_if_all_batches_are_alike() -> None:
    types = [typed(1, 2048, dtype="f32"), typed(2048, 1024, dtype="f32")]
    graph = build(lambda x, y: ops.dot_general(x, y, contract=((1,), (0,))), types, "f")
    assert len(lower(graph, replace(CPU, batch_invariant=True)).program.steps) == 1


def test_pieces_of_what_is_read_together_are_one_kernel() -> None:
    def fn(x: Value) -> Value:
        total, squares = ops.reduce_sum(x, axes=(0,)), ops.reduce_sum(ops.mul(x, x), axes=(0,))
        return ops.add(ops.mul(total, squares), ops.reduce_max(x, axes=(0,)))

    program = program_of(fn, 2048, 1024)
    assert [len(step.stores) for step in program.steps] == [3, 1], str(program)
    x = small((2048, 1024))
    wanted = x.sum(0) * (x * x).sum(0) + x.max(0)
    np.testing.assert_array_equal(evaluate(program, [x])[0], wanted)
