"""Products that pass on matrices to each other run together, one matrix after another."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from lowering import CHAINED, arrays_for, compare, kinds, softmax_of, text, typed

import rlx
from rlx.backends.registry import get
from rlx.ir import ops
from rlx.ir.builder import build
from rlx.ir.graph import Value
from rlx.ir.interpret import interpret
from rlx.lower.lir import Chain, Contraction, Kernel, Program, evaluate
from rlx.lower.pipeline import lower

HEADS, LENGTH, COUNT, SIZE = 4, 3, 5, 2


def attended(q: Value, k: Value, v: Value) -> Value:
    """Attention of heads that lie in between each other, as `(time, head, size)`."""
    scores = ops.dot_general(q, k, contract=((2,), (2,)), batch=((1,), (1,)))
    flat = ops.reshape(scores, shape=(HEADS * LENGTH, COUNT))
    shares = ops.reshape(softmax_of(flat), shape=(HEADS, LENGTH, COUNT))
    return ops.dot_general(shares, v, contract=((2,), (0,)), batch=((0,), (1,)))


HEAD_TYPES = [typed(n, HEADS, SIZE) for n in (LENGTH, COUNT, COUNT)]


def chained(fn: Any, *types: Any) -> Program:
    """The program of a function, which means what its graph does."""
    graph = build(fn, types, "f")
    program, arrays = lower(graph, CHAINED).program, arrays_for(types)
    compare(evaluate(program, arrays), interpret(graph, arrays), 1e-12)
    return program


def test_attention_is_one_chain() -> None:
    program = chained(attended, *HEAD_TYPES)
    assert text(program) == (
        """\
  chain i < 4, by workers j < 2:
    contraction k < 3, l < 5:
      accumulated = f64 add over m < 2: b0[k*8 + i*2 + m] * b1[l*8 + i*2 + m]
      b4[j*16 + k*5 + l] = accumulated
    rows k < 3, local 128 bytes:
      b5: f64[1] local at 0
      b6: f64[5] local at 64
      b7: f64[1] local at 0
      kernel:
        t0 = max over l < 5: b4[j*16 + k*5 + l]
        b5[0] = t0
      kernel l < 5:
        b6[l] = exp((b4[j*16 + k*5 + l] - b5[0]))
      kernel:
        t0 = add over l < 5: b6[l]
        b7[0] = t0
      kernel l < 5:
        b8[j*16 + k*5 + l] = b6[l] / b7[0]
    contraction k < 3, l < 2:
      accumulated = f64 add over m < 5: b8[j*16 + k*5 + m] * b2[m*8 + i*2 + l]
      b3[i*6 + k*2 + l] = accumulated"""
    )


def test_a_product_over_the_matrices_ends_a_chain() -> None:
    """It needs all of them at once."""

    def fn(q: Value, k: Value, v: Value) -> Value:
        made = ops.transpose(attended(q, k, v), axes=(1, 0, 2))
        flat = ops.reshape(made, shape=(LENGTH, HEADS * SIZE))
        return ops.dot_general(flat, flat, contract=((1,), (1,)), batch=((), ()))

    assert kinds(chained(fn, *HEAD_TYPES)) == [Chain, Contraction]


def test_matrices_that_need_each_other_are_no_chain() -> None:
    def fn(x: Value, y: Value) -> Value:
        first = ops.dot_general(x, y, contract=((2,), (1,)), batch=((0,), (0,)))
        turned = ops.flip(first, axes=(0,))
        return ops.dot_general(turned, y, contract=((2,), (1,)), batch=((0,), (0,)))

    assert Chain not in kinds(chained(fn, typed(4, 3, 3), typed(4, 3, 3)))


def halves(fn: Any) -> Any:
    """Attention of the first and of the last two queries, both with `fn` of the keys."""

    def both(q: Value, k: Value, v: Value) -> list[Value]:
        def part(first: int, last: int) -> Value:
            start, stop = (first, 0, 0), (last, HEADS, SIZE)
            some = ops.slice(q, start=start, stop=stop, step=(1, 1, 1))
            scores = ops.dot_general(some, k, contract=((2,), (2,)), batch=((1,), (1,)))
            return ops.dot_general(fn(scores), v, contract=((2,), (0,)), batch=((0,), (1,)))

        return [ops.concat(part(0, 2), part(2, 4), axis=1)]

    return both


def test_chains_that_read_the_same_matrices_are_one() -> None:
    """Each matrix is then read by both while it is in cache, and they share their memory."""
    types = [typed(n, HEADS, SIZE) for n in (4, COUNT, COUNT)]
    program = chained(halves(ops.exp), *types)
    assert kinds(program) == [Chain]
    assert [type(step) for step in program.steps[0].steps] == [Contraction] * 4
    assert program.arena_bytes == 2 * 128  # for each worker 2 * 5 numbers


def test_chains_that_need_each_other_stay_apart() -> None:
    def fn(q: Value, k: Value, v: Value) -> Value:
        turned = ops.flip(attended(q, k, v), axes=(0,))
        return attended(ops.transpose(turned, axes=(1, 0, 2)), k, v)

    assert kinds(chained(fn, *HEAD_TYPES)).count(Chain) == 2


def test_results_that_others_read_stay_whole() -> None:
    def fn(x: Value, y: Value) -> list[Value]:
        first = ops.dot_general(x, y, contract=((2,), (1,)), batch=((0,), (0,)))
        second = ops.dot_general(first, y, contract=((2,), (1,)), batch=((0,), (0,)))
        return [second, ops.reduce_sum(first, axes=(0,))]

    program = chained(fn, typed(4, 3, 3), typed(4, 3, 3))
    assert kinds(program) == [Chain, Kernel]
    assert program.arena_bytes >= 4 * 3 * 3 * 8


def test_few_matrices_do_not_keep_threads_waiting() -> None:
    """Whatever the number of threads: products alone are shared better."""

    def fn(x: Value, y: Value) -> Value:
        first = ops.dot_general(x, y, contract=((2,), (1,)), batch=((0,), (0,)))
        return ops.dot_general(first, y, contract=((2,), (1,)), batch=((0,), (0,)))

    for count, kind in ((2, Contraction), (3, Contraction), (4, Chain), (5, Chain)):
        assert kinds(chained(fn, typed(count, 3, 3), typed(count, 3, 3)))[0] is kind


def test_matrices_read_again_and_again_are_put_in_order_once() -> None:
    def fn(x: Value, y: Value) -> list[Value]:
        made = []
        for stop in (128, 160, 176, 192):
            part = ops.slice(y, start=(0, 0, 0), stop=(stop, 2, 16), step=(1, 1, 1))
            made.append(ops.dot_general(x, part, contract=((2,), (2,)), batch=((1,), (1,))))
        return made

    program = chained(fn, typed(16, 2, 16), typed(192, 2, 16))
    assert kinds(program) == [Kernel, *[Contraction] * 4]
    assert text(program).splitlines()[:2] == [
        "  kernel i < 32, j < 192:",
        "    b1ot[i*192 + j] = b1[j*32 + i]",
    ]


def test_a_matrix_that_changes_is_read_as_it_is() -> None:
    def fn(y: Value) -> list[Value]:
        made = [y]
        for _ in range(4):
            made.append(ops.dot_general(made[-1], y, contract=((2,), (0,)), batch=((1,), (1,))))
            made[-1] = ops.transpose(made[-1], axes=(1, 0, 2))
        return made[1:]

    chained(fn, typed(32, 2, 32))


LONG = np.random.default_rng(0).normal(size=(3, 1, 128, 8, 16)).astype(np.float32)
PLACES = np.arange(128)
SEEN = np.random.default_rng(1).random((1, 8, 128, 128)) < 0.5
MASKS = {
    "none": ({}, np.ones((128, 128), bool)),
    "causal": ({"is_causal": True}, PLACES[:, None] >= PLACES),
    "window": ({"local_window_size": 9}, abs(PLACES[:, None] - PLACES) <= 9),
    "mask": ({"mask": SEEN}, SEEN[0]),
}


@pytest.mark.parametrize("name", MASKS)
@pytest.mark.parametrize("groups", [8, 2])
def test_attention_is_that_of_higher_precision(name: str, groups: int) -> None:
    settings, seen = MASKS[name]
    q, k, v = LONG[0], LONG[1][:, :, :groups], LONG[2][:, :, :groups]

    def run(q: Any, k: Any, v: Any) -> Any:
        return rlx.nn.dot_product_attention(q, k, v, **settings)

    compiled = rlx.jit(run)
    got = np.asarray(compiled(q, k, v))[0]
    wide = [np.repeat(x[0].astype(float), 8 // n, 1) for x, n in ((q, 8), (k, groups), (v, groups))]
    scores = np.einsum("thc,shc->hts", wide[0], wide[1]) / 4.0
    weights = np.exp(np.where(seen, scores, -np.inf))
    exact = np.einsum("hts,shc->thc", weights / weights.sum(-1, keepdims=True), wide[2])
    # sums of 16 and 128 products of numbers up to about 4, each rounded
    np.testing.assert_allclose(got, exact, rtol=0, atol=128 * np.finfo(np.float32).eps)
    lowered = lower(rlx.make_graph(run)(q, k, v), get("cpu").target).program
    assert any(isinstance(step, Chain) for step in lowered.steps)
    # no more than the scores of a head for each thread, twice
    assert lowered.arena_bytes < 2 * 8 * 128 * 128 * 4
