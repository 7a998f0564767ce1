"""Long scatters in pieces: their meaning, their form, and the same bits for all threads."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest
from lowering import CPU, typed
from test_cpu_sort import is_same_for_all_threads

import rlx
from rlx.ir import ops
from rlx.ir.builder import build
from rlx.lower.lir import Program, Scatter, evaluate
from rlx.lower.pipeline import lower

HOWS = ("scatter_add", "scatter_mul", "scatter_min", "scatter_max", "scatter")
POINTS = {"window_axes": (), "inserted_axes": (0,), "scatter_axes": (0,), "mode": "drop"}
ROWS = {"window_axes": (1,), "inserted_axes": (0,), "scatter_axes": (0,), "mode": "drop"}


def program_of(how: str, shapes: tuple, dtype: str, attrs: dict) -> Program:
    types = [typed(*shapes[0], dtype=dtype), typed(*shapes[1], dtype="i32")]
    types.append(typed(*shapes[2], dtype=dtype))
    op: Callable = getattr(ops, how)
    return lower(build(lambda x, i, y: op(x, i, y, **attrs), types, "f"), CPU).program


def scatters(program: Program) -> list[Scatter]:
    return [step for step in program.steps if isinstance(step, Scatter)]


@pytest.mark.parametrize("how", HOWS)
def test_pieces_make_the_whole(how: str) -> None:
    random = np.random.default_rng(0)
    for count, size, dtype in ((40003, 9, "f32"), (1 << 15, 3000, "i32"), (33001, 1, "f64")):
        x, y = random.integers(-3, 4, size), random.choice([-1, 1, 1, 1, 2], count)
        here = random.integers(-1, size + 1, (count, 1))
        if how == "scatter_mul":
            y = np.where(random.random(count) < 0.001, y, 1)
        program = program_of(how, ((size,), (count, 1), (count,)), dtype, POINTS)
        kind = program.outputs[0].dtype
        given = [x.astype(kind), here.astype("int32"), y.astype(kind)]
        wanted = getattr(ops, how).run(given, {**POINTS, "unique": False, **EMPTY})[0]
        np.testing.assert_array_equal(evaluate(program, given)[0], wanted)
        found = rlx.jit(lambda x, i, y: getattr(x.at[i[:, 0]], METHODS[how])(y, mode="drop"))
        inside = [given[0], np.where(given[1] < 0, size, given[1]), given[2]]
        np.testing.assert_array_equal(np.asarray(found(*inside)), wanted)
        pieces = {step.loops[0].extent for step in scatters(program) if step.apart}
        assert bool(pieces) == (how != "scatter"), str(program)


EMPTY = {"operand_batch_axes": (), "indices_batch_axes": ()}
METHODS = {
    "scatter_add": "add",
    "scatter_mul": "multiply",
    "scatter_min": "min",
    "scatter_max": "max",
    "scatter": "set",
}


def test_rows_and_their_threads() -> None:
    random = np.random.default_rng(1)
    for width, in_pieces in ((3, True), (130, False)):
        count = 1 + (1 << 17) // width
        x, y = np.zeros((50, width), "float32"), random.integers(0, 9, (count, width)).astype("f4")
        here = random.integers(0, 50, (count, 1)).astype("int32")
        program = program_of("scatter_add", (x.shape, here.shape, y.shape), "f32", ROWS)
        assert (len(scatters(program)) > 1 or len(scatters(program)[0].loops) > 2) == in_pieces
        wanted = np.zeros_like(x)
        np.add.at(wanted, here[:, 0], y)
        np.testing.assert_array_equal(evaluate(program, [x, here, y])[0], wanted)
        found = rlx.jit(lambda x, i, y: x.at[i[:, 0]].add(y))(x, here, y)
        np.testing.assert_array_equal(np.asarray(found), wanted)


def test_a_zero_without_updates_keeps_its_sign() -> None:
    here = np.full(40000, 1)
    found = np.asarray(rlx.jit(lambda x, i: x.at[i].add(1.0))(np.full(3, -0.0, "float32"), here))
    np.testing.assert_array_equal(np.signbit(found), [True, False, True])


def test_places_that_are_promised_to_differ() -> None:
    here = np.random.default_rng(2).permutation(100_000)
    for how in ("set", "add"):
        scatter = rlx.jit(lambda x, i, y: getattr(x.at[i], how)(y, unique_indices=True))  # noqa: B023
        found = scatter(np.zeros(100_000, "int32"), here, np.arange(100_000, dtype="int32"))
        np.testing.assert_array_equal(np.asarray(found)[here], np.arange(100_000))


THREADS = """
import numpy as np, rlx
random = np.random.default_rng(0)
y, i = random.normal(size=(100_003, 3)).astype("float32"), random.integers(0, 99, 100_003)
found = rlx.jit(lambda y, i: (rlx.ops.segment_sum(y, i, 99), rlx.numpy.cumsum(y[:, 0])))(y, i)
print(hash(b"".join(np.asarray(x).tobytes() for x in found)))
"""


def test_all_numbers_of_threads_give_the_same_sums() -> None:
    assert is_same_for_all_threads(THREADS)
