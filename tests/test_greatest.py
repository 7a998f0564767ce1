"""The greatest of each row, without the library: on `cpu`, and as the meaning of its step."""

from __future__ import annotations

import ml_dtypes
import numpy as np
import pytest

import rlx
import rlx.numpy as rnp
from rlx.ir import ops
from rlx.ir.builder import build
from rlx.ir.op import Op
from rlx.ir.types import Type, as_dtype
from rlx.lower.lir import LibraryCall, TopK, evaluate
from rlx.lower.pipeline import lower
from rlx.lower.target import Target

RANKING = Target("cpu", most_ranked=64)
TOP_K: Op = ops.top_k
SIZES = ((1, 1), (5, 3), (16, 16), (18, 1), (100, 7), (300, 33), (64, 64), (71, 64))


def rows(size: int, dtype: str) -> list[np.ndarray]:
    """Rows with many ties, with the extremes, with the same number everywhere."""
    random = np.random.default_rng(size)
    kind = np.dtype(ml_dtypes.bfloat16 if dtype == "bfloat16" else dtype)
    if dtype == "bool":
        return [random.integers(0, 2, (3, size)).astype(kind)]
    if kind.kind in "iu":
        info = np.iinfo(kind)
        extremes, least = [info.min, info.max, 0, 1], info.min
    else:
        extremes, least = [np.nan, -np.nan, 0.0, -0.0, np.inf, -np.inf, 1.0, -1.0], -np.inf
    few = np.array(extremes, kind)
    return [
        random.integers(0, 20, (3, size)).astype(kind),
        few[random.integers(0, len(few), (4, size))],
        np.full((2, size), least).astype(kind),
        np.arange(size)[None].astype(kind),
    ]


def same(found: object, wanted: np.ndarray) -> None:
    """The same numbers to the last bit, that of -0.0 included; NaN is NaN."""
    there = np.asarray(found)
    assert there.shape == wanted.shape
    if there.dtype.kind not in "biu":
        there, wanted = there.astype(np.float64), wanted.astype(np.float64)
    np.testing.assert_array_equal(there, wanted.astype(there.dtype))
    if there.dtype.kind == "f":
        numbers = ~np.isnan(there)
        np.testing.assert_array_equal(np.signbit(there)[numbers], np.signbit(wanted)[numbers])


@pytest.mark.parametrize(
    "dtype",
    ["bool", "int8", "uint16", "int32", "uint64", "float16", "bfloat16", "float32", "float64"],
)
def test_greatest_of_each_dtype(dtype: str) -> None:
    for size, k in SIZES:
        values = np.concatenate(rows(size, dtype))
        wanted = TOP_K.run([values], {"k": k})
        for found, array in zip(
            rlx.jit(lambda x, k=k: rlx.lax.top_k(x, k))(values), wanted, strict=True
        ):
            same(found, array)


@pytest.mark.parametrize("dtype", ["bool", "int32", "bfloat16", "float32"])
def test_the_step_means_the_same(dtype: str) -> None:
    for size, k in SIZES:
        values = np.concatenate(rows(size, dtype))
        graph = build(lambda x, k=k: TOP_K(x, k=k), [Type(values.dtype, values.shape)], "f")
        program = lower(graph, RANKING).program
        assert any(isinstance(step, TopK) for step in program.steps), str(program)
        for found, array in zip(
            evaluate(program, [values]), TOP_K.run([values], {"k": k}), strict=True
        ):
            same(found, array)


def test_what_the_step_is_not_made_for_is_a_library_call() -> None:
    type = Type(as_dtype("float32"), (3, 200))
    for k, target in ((65, RANKING), (3, Target("cpu"))):
        graph = build(lambda x, k=k: TOP_K(x, k=k), [type], "f")
        assert isinstance(lower(graph, target).program.steps[0], LibraryCall)
    x = np.random.default_rng(0).normal(size=(3, 200)).astype("float32")
    for k in (65, 0):
        for found, array in zip(
            rlx.jit(lambda x, k=k: rlx.lax.top_k(x, k))(x), TOP_K.run([x], {"k": k}), strict=True
        ):
            same(found, array)


def test_greatest_of_what_is_computed() -> None:
    x = np.random.default_rng(1).normal(size=(4, 9, 50)).astype("float32")
    fn = lambda x: rlx.lax.top_k(-rnp.swapaxes(x, 1, 2) * 2.0, 4)  # noqa: E731
    for found, array in zip(
        rlx.jit(fn)(x), TOP_K.run([-x.swapaxes(1, 2) * 2], {"k": 4}), strict=True
    ):
        same(found, array)
    values = rlx.jit(lambda x: rlx.lax.top_k(x, 4)[0].sum())(x)
    np.testing.assert_allclose(values, np.sort(x)[..., -4:].sum(), rtol=1e-5)


def test_greatest_of_any_number_of_rows() -> None:
    greatest = rlx.jit(lambda x: rlx.lax.top_k(x, 3), dynamic={"x": {0: "n"}})
    longer = rlx.jit(lambda x: rlx.lax.top_k(x, 3), dynamic={"x": {1: "n"}})
    for n in (1, 5, 40):
        x = np.random.default_rng(n).normal(size=(n, 40)).astype("float32")
        y = np.random.default_rng(n).normal(size=(6, n + 3)).astype("float32")
        for fn, given in ((greatest, x), (longer, y)):
            for found, array in zip(fn(given), TOP_K.run([given], {"k": 3}), strict=True):
                same(found, array)


def test_gradient_goes_to_the_greatest() -> None:
    x = np.array([[1.0, 5.0, 3.0], [7.0, 7.0, 0.0]], np.float32)
    grad = rlx.jit(rlx.grad(lambda x: (rlx.lax.top_k(x, 2)[0] * np.float32([2, 1])).sum()))(x)
    np.testing.assert_array_equal(np.asarray(grad), [[0, 2, 1], [2, 1, 0]])
