"""Small products that run at the same time."""

from __future__ import annotations

import itertools
from collections.abc import Callable

import numpy as np
import pytest
from lowering import CHAINED, typed

import rlx
import rlx.numpy as rnp
from rlx.backends.cpu.products.contraction import GroupedGemm, with_grouped_gemms
from rlx.ir import ops
from rlx.ir.builder import build
from rlx.ir.graph import Value
from rlx.lower.lir import Buffer, Contraction, Program, evaluate
from rlx.lower.lir.access import reads, writes
from rlx.lower.pipeline import lower

random = np.random.default_rng(0)


def small(*shape: int) -> np.ndarray:
    """Whole numbers, of which sums are exact."""
    return random.integers(-4, 5, shape).astype(np.float32)


def program_of(fn: Callable, *shapes: tuple[int, ...]) -> Program:
    return lower(build(fn, [typed(*shape) for shape in shapes], "f"), CHAINED).program


def joins(program: Program) -> list[bool]:
    return [step.joins for step in program.steps if isinstance(step, Contraction)]


def dot(x: Value, y: Value) -> Value:
    return ops.dot_general(x, y, contract=((1,), (0,)), batch=((), ()))


def heads(x: Value, q: Value, k: Value, v: Value) -> list[Value]:
    made = [ops.tanh(dot(x, w)) for w in (q, k)]
    return [*made, dot(x, v), ops.reduce_sum(made[0], axes=(1,))]


def test_products_of_one_operand_join() -> None:
    shapes = ((8, 24), (24, 32), (24, 32), (24, 40))
    program = program_of(heads, *shapes)
    assert joins(program) == [False, True, True], str(program)
    assert "at the same time" in str(program)
    arrays = [small(*shape) for shape in shapes]
    x, q, k, v = arrays
    wanted = [np.tanh(x @ q), np.tanh(x @ k), x @ v, np.tanh(x @ q).sum(1)]
    for found, other in zip(evaluate(program, arrays), wanted, strict=True):
        np.testing.assert_allclose(found, other, rtol=1e-6, atol=1e-6)


def test_products_that_need_each_other_stay_apart() -> None:
    program = program_of(lambda x, w: dot(dot(x, w), w), (8, 24), (24, 24))
    assert joins(program) == [False, False], str(program)


def test_large_products_stay_apart() -> None:
    fn = lambda x, a, b: [dot(x, a), dot(x, b)]  # noqa: E731
    program = program_of(fn, (512, 256), (256, 256), (256, 256))
    assert joins(program) == [False, False], str(program)


def test_what_runs_at_the_same_time_has_memory_of_its_own() -> None:
    def fn(x: Value, *weights: Value) -> Value:
        first = second = x
        for w in weights:
            first, second = dot(first, w), dot(w, second)
        return ops.add(first, second)

    program = program_of(fn, *[(16, 16)] * 5)
    groups = [s for s in with_grouped_gemms(program.steps) if isinstance(s, GroupedGemm)]
    assert groups, str(program)
    for step, other in itertools.chain(*(itertools.permutations(g.steps, 2) for g in groups)):
        used = {*reads(other), *writes(other)}
        assert not any(overlap(a, b) for a in writes(step) for b in used)


def overlap(a: Buffer, b: Buffer) -> bool:
    if a.offset is None or b.offset is None:
        return a is b
    return max(a.offset, b.offset) < min(x.offset + x.nbytes for x in (a, b))  # type: ignore


@pytest.mark.parametrize("rows", [1, 3, 8, 64])
@pytest.mark.parametrize("width", [48, 257, 384])
def test_the_cpu_runs_them(rows: int, width: int) -> None:
    x, weights = small(rows, width), [small(width, n) for n in (width, 64, 130)]
    b = small(width)

    @rlx.jit
    def fn(x: rlx.Array, weights: list[rlx.Array]) -> list[rlx.Array]:
        q, k, v = weights
        return [rnp.maximum(x @ q + b, 0), x @ k, (x @ v).T, q.T @ x.T]

    q, k, v = weights
    wanted = [np.maximum(x @ q + b, 0), x @ k, (x @ v).T, q.T @ x.T]
    for _ in range(3):
        for found, other in zip(fn(x, weights), wanted, strict=True):
            np.testing.assert_array_equal(np.asarray(found), other)


def test_donated_operands_are_not_written_over_while_they_are_read() -> None:
    a, b, c = (small(64, 64) for _ in range(3))

    @rlx.jit(donate_argnums=(0, 1, 2))
    def fn(x: rlx.Array, y: rlx.Array, z: rlx.Array) -> tuple[rlx.Array, ...]:
        return x @ y, y @ z, x @ z

    for _ in range(20):
        given = [rlx.jit(lambda x: x + 0)(x) for x in (a, b, c)]
        for found, wanted in zip(fn(*given), (a @ b, b @ c, a @ c), strict=True):
            np.testing.assert_array_equal(np.asarray(found), wanted)
