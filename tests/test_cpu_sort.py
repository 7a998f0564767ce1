"""Sorting on `cpu` by the digits of keys: all dtypes, ties, lines along any axis, any threads."""

from __future__ import annotations

import functools
import os
import subprocess
import sys

import ml_dtypes
import numpy as np
import pytest
from lowering import typed

import rlx
import rlx.numpy as rnp
from rlx.backends.cpu.sorting import rows as row_sort
from rlx.ir import ops
from rlx.ir.builder import build
from rlx.ir.interpret import interpret
from rlx.lower.lir import LibraryCall, Sort, evaluate
from rlx.lower.pipeline import lower
from rlx.lower.target import Target
from rlx.runtime.session import default_session

SORTING = Target("cpu", has_sort=True)
DTYPES = ("bool", "int8", "uint16", "int32", "int64", "uint64", "float16", "bfloat16")
DTYPES += ("float32", "float64")


def rows(size: int, dtype: str) -> np.ndarray:
    """Rows with ties, with the extremes, with one number, of numbers in order and of any."""
    random = np.random.default_rng(size)
    kind = np.dtype(ml_dtypes.bfloat16 if dtype == "bfloat16" else dtype)
    if dtype == "bool":
        return random.integers(0, 2, (3, size)).astype(kind)
    if kind.kind in "iu":
        info = np.iinfo(kind)
        few, wide = [info.min, info.max, 0, 1], random.integers(info.min, info.max, size, kind)
    else:
        few = [np.nan, -np.nan, 0.0, -0.0, np.inf, -np.inf, 1.0, -1.0]
        wide = random.normal(size=size) * np.exp(random.normal(size=size) * 5)
    ties = np.array(few, kind)[random.integers(0, len(few), size)]
    lines = [ties, wide, random.integers(0, 9, size), np.full(size, 3), np.arange(size)[::-1] % 100]
    with np.errstate(over="ignore"):
        return np.stack([np.asarray(line).astype(kind) for line in lines])


def same_bits(found: object, wanted: np.ndarray) -> None:
    """The same bits, those of NaN and of -0.0 included."""
    there = np.asarray(found)
    assert there.dtype == wanted.dtype
    assert there.shape == wanted.shape
    number = np.dtype(f"u{wanted.dtype.itemsize}")
    np.testing.assert_array_equal(there.view(number), wanted.view(number))


@pytest.mark.parametrize("dtype", DTYPES)
def test_each_dtype_is_sorted_as_by_its_meaning(dtype: str) -> None:
    for size in (2, 31, 33, 100, 250, 300, 10007):
        x = rows(size, dtype)
        meaning = ops.sort.run([x, np.broadcast_to(np.arange(size, dtype="int32"), x.shape)], ORDER)
        same_bits(rlx.jit(rnp.sort)(x), meaning[0])
        same_bits(rlx.jit(rnp.argsort)(x), meaning[1].astype("int32"))


ORDER = {"axis": 1, "n_keys": 1}


def test_long_rows_are_shared_by_threads() -> None:
    for dtype in ("uint8", "float32", "float64"):
        x = rows(row_sort.SHARED * 3 + 5, dtype)[:3]
        order = ops.sort.run([x, np.broadcast_to(np.arange(x.shape[1]), x.shape)], ORDER)
        same_bits(rlx.jit(rnp.sort)(x), order[0])
        same_bits(rlx.jit(rnp.argsort)(x[1]), order[1][1].astype("int32"))


def test_lines_along_any_axis_and_what_moves_along() -> None:
    random = np.random.default_rng(0)
    x, y = random.integers(0, 9, (5, 40, 3)), random.normal(size=(5, 40, 3)).astype("float32")
    for axis in range(3):
        sort = rlx.jit(
            lambda x, y, axis=axis: rlx.lax.sort((x % 7, y * 2, x, -y), axis, num_keys=1)
        )
        order = np.argsort(x % 7, axis, kind="stable")
        for found, given in zip(sort(x, y), (x % 7, y * 2, x, -y), strict=True):
            np.testing.assert_array_equal(found, np.take_along_axis(given, order, axis))
        found = rlx.jit(lambda y, axis=axis: rnp.argsort(y, axis))(y)
        np.testing.assert_array_equal(found, np.argsort(y, axis))
    turned = rlx.jit(lambda y: rnp.sort(y[::-1].T, 0))(y)
    np.testing.assert_array_equal(turned, np.sort(y[::-1].T, 0))


def test_rows_of_any_number_and_length() -> None:
    sort = rlx.jit(lambda x: (rnp.sort(x, -1), rnp.argsort(x, 0)), dynamic={"x": {0: "n", 1: "m"}})
    for shape in ((1, 1), (3, 70), (70, 3), (2, 40000)):
        x = np.random.default_rng(1).normal(size=shape).astype("float32")
        found = sort(x)
        np.testing.assert_array_equal(found[0], np.sort(x, -1))
        np.testing.assert_array_equal(found[1], np.argsort(x, 0))
    assert rlx.jit(rnp.sort)(np.zeros((3, 0), "float32")).shape == (3, 0)
    assert rlx.jit(rnp.argsort)(np.zeros((0, 3), "float32")).shape == (0, 3)


@pytest.mark.parametrize("dtype", ["int32", "bfloat16", "float32"])
def test_the_step_means_the_same(dtype: str) -> None:
    kind = "bf16" if dtype == "bfloat16" else {"int32": "i32", "float32": "f32"}[dtype]
    for axis in (0, 1):
        x = rows(50, dtype)
        y = np.arange(x.size, dtype="int32").reshape(x.shape)
        sort = functools.partial(ops.sort, axis=axis, n_keys=1)
        both = [typed(*x.shape, dtype=kind), typed(*x.shape, dtype="i32")]
        program = lower(build(sort, both, "f"), SORTING)
        assert any(isinstance(step, Sort) for step in program.program.steps)
        wanted = ops.sort.run([x, y], {"axis": axis, "n_keys": 1})
        for found, array in zip(evaluate(program.program, [x, y]), wanted, strict=True):
            same_bits(found, array)


@pytest.mark.parametrize("axis", [0, 1])
def test_several_keys_are_sorted_one_after_another(axis: int) -> None:
    rng = np.random.default_rng(0)
    x, y = rng.integers(0, 3, (2, 40, 7)).astype("int32")
    z = rng.choice([0.0, -0.0, np.nan, -1.5], (40, 7)).astype("float32")
    types = [typed(40, 7, dtype=kind) for kind in ("i32", "f32", "i32")]
    sort = functools.partial(ops.sort, axis=axis, n_keys=2)
    for program in (sort, lambda *xs: ops.sort(*(ops.add(v, v) for v in xs), axis=axis, n_keys=3)):
        graph = build(program, types)
        lowered = lower(graph, SORTING)
        assert not any(isinstance(step, LibraryCall) for step in lowered.program.steps)
        wanted = interpret(graph, [x, z, y])
        both = evaluate(lowered.program, [x, z, y]), default_session().compile(graph)(x, z, y)
        for results in both:
            for found, array in zip(results, wanted, strict=True):
                same_bits(np.asarray(found), array)


@pytest.mark.parametrize("dtype", ["complex64", "complex128"])
def test_complex_numbers_are_sorted_as_by_numpy(dtype: str) -> None:
    parts = [0.0, -0.0, 1.0, -2.0, np.inf, -np.inf, np.nan]
    z = np.random.default_rng(0).permutation([complex(a, b) for a in parts for b in parts] * 3)
    z = z.astype(dtype)
    both = rlx.jit(lambda z: (rnp.sort(z), rnp.argsort(z))).lower(z).compile()
    assert "library" not in both.report()
    order = np.argsort(z, kind="stable")
    np.testing.assert_array_equal(both(z)[1], order)
    same_bits(np.asarray(both(z)[0]).view(z.real.dtype), z[order].view(z.real.dtype))


THREADS = """
import numpy as np, rlx, rlx.numpy as rnp
x = np.random.default_rng(0).integers(0, 999, 100_003).astype("float32")
found = rlx.jit(lambda x: (rnp.sort(x), rnp.argsort(x)))(x)
print(hash(b"".join(np.asarray(y).tobytes() for y in found)))
"""


def is_same_for_all_threads(program: str) -> bool:
    """Whether processes with different numbers of threads print the same."""
    told = {
        subprocess.run(
            [sys.executable, "-c", program],
            env=os.environ | {"RLX_NUM_THREADS": str(count), "PYTHONHASHSEED": "0"},
            capture_output=True,
            text=True,
            check=True,
        ).stdout
        for count in (1, 3)
    }
    return len(told) == 1


def test_all_numbers_of_threads_give_the_same_order() -> None:
    assert is_same_for_all_threads(THREADS)


def test_digits_sort_where_vectors_cannot(monkeypatch) -> None:
    monkeypatch.setattr(row_sort, "has_quick_sort", lambda host: False)
    for dtype in ("int32", "float32", "float64"):
        x = rows(1235, dtype)
        meaning = ops.sort.run([x, np.broadcast_to(np.arange(1235, dtype="int32"), x.shape)], ORDER)
        both = rlx.jit(lambda x: (rnp.sort(x), rnp.argsort(x)))(x)
        same_bits(both[0], meaning[0])
        same_bits(both[1], meaning[1].astype("int32"))
