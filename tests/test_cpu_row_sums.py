"""Reductions of many columns on `cpu`, row after row."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest

import rlx
import rlx.numpy as rnp
from rlx.backends.cpu.loops import kernels

SHAPES = ((512, 1024), (1024, 768), (67, 4099), (3, 130, 800), (1, 2000, 600), (64, 65600))


def small(shape: tuple[int, ...], dtype: str = "float32") -> np.ndarray:
    """Whole numbers, of which sums are exact."""
    return (np.arange(np.prod(shape)).reshape(shape) * 7 % 11 - 5).astype(dtype)


@pytest.fixture
def found(monkeypatch: pytest.MonkeyPatch) -> list[bool]:
    """Whether each kernel that is compiled goes row by row."""
    kept: list[bool] = []
    ask = kernels.reduced_by_rows

    def asked(*args: object) -> object:
        answer = ask(*args)  # type: ignore[arg-type]
        kept.append(bool(answer))
        return answer

    monkeypatch.setattr(kernels, "reduced_by_rows", asked)
    return kept


@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("dtype", ["float32", "float64", "int32"])
def test_sums_of_each_shape(shape: tuple[int, ...], dtype: str, found: list[bool]) -> None:
    x, axes = small(shape, dtype), tuple(range(len(shape) - 1))
    for reduce in ("sum", "max", "prod"):
        with np.errstate(over="ignore"):
            wanted = getattr(x, reduce)(axes, dtype) if reduce != "max" else x.max(axes)
        fn = rlx.jit(lambda x, reduce=reduce: getattr(rnp, reduce)(x, axes).astype(dtype))
        np.testing.assert_array_equal(np.asarray(fn(x)), wanted)
    assert any(found)


def test_not_a_number_and_the_sign_of_zero(found: list[bool]) -> None:
    x = np.full((520, 1030), -0.0, np.float32)
    x[300, 5], x[511, 6], x[0, 7], x[3, 8] = np.nan, np.nan, np.inf, -np.inf
    top, total = rlx.jit(lambda x: x.max(0))(x), rlx.jit(lambda x: x.sum(0))(x)
    np.testing.assert_array_equal(np.asarray(top), x.max(0))
    np.testing.assert_array_equal(np.asarray(total), x.sum(0))
    assert any(found)


@pytest.mark.parametrize(
    "fn",
    [
        lambda x, m: ((x - m) ** 2).sum(0),
        lambda x, m: m + x.sum(0),
        lambda x, m: m * (x - m).max(0) + 1,
        lambda x, m: rnp.sort(((x - x.max(0)) ** 2).sum(0)) + m,
    ],
)
def test_results_over_what_is_read(fn: Callable) -> None:
    """What is read to the end is not written over before, though its memory may be used."""
    x, m = small((1000, 1001)), small((1001,))
    given = rlx.jit(lambda m: m + 0)(m)
    np.testing.assert_array_equal(np.asarray(rlx.jit(fn, donate_argnums=(1,))(x, given)), fn(x, m))


def test_an_ending_reads_what_was_summed(found: list[bool]) -> None:
    x, w = small((600, 1500)), small((1500,))
    ended = rlx.jit(lambda x, w: rnp.maximum(x.sum(0) * w, x.sum(0) + 3) / 2)(x, w)
    np.testing.assert_array_equal(np.asarray(ended), np.maximum(x.sum(0) * w, x.sum(0) + 3) / 2)
    assert any(found)


def test_the_error_does_not_grow_with_the_rows(found: list[bool]) -> None:
    x = np.random.default_rng(0).random((1024, 700), np.float32)
    wanted = x.astype(np.float64).sum(0)
    error = np.abs(np.asarray(rlx.jit(lambda x: x.sum(0))(x)) - wanted) / wanted
    assert any(found) and error.max() < 16 * np.finfo(np.float32).eps


def test_the_error_does_not_grow_with_the_rounds_of_outer_loops() -> None:
    x, w = (np.random.default_rng(0).random(s, np.float32) for s in ((300, 520), (600, 1, 1)))
    wanted = 600 * x.astype(np.float64).sum(0) + 300 * w.astype(np.float64).sum()
    error = np.abs(np.asarray(rlx.jit(lambda x, w: abs(x + w).sum((0, 1)))(x, w)) - wanted) / wanted
    assert error.max() < 16 * np.finfo(np.float32).eps


def test_the_order_of_the_loops_is_always_the_same() -> None:
    x, w = (np.random.default_rng(0).random(s, np.float32) for s in ((60, 20), (90, 1, 1)))
    fns = [rlx.jit(lambda x, w: abs(x + w).sum((0, 1))) for _ in range(8)]
    assert len({np.asarray(fn(x, w)).tobytes() for fn in fns}) == 1


@pytest.mark.parametrize("shape", [(768, 512), (1001, 700), (65, 5000), (130, 1 << 13)])
@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_batch_invariant_sums_have_the_bits_that_they_have_along_memory(
    shape: tuple[int, int], dtype: str, found: list[bool]
) -> None:
    x = np.random.default_rng(0).normal(size=shape).astype(dtype)
    x[:, 3] = -0.0
    add = rlx.jit(lambda x, axis: x.sum(axis), static_argnames="axis", deterministic="batch")
    both = rlx.jit(lambda x: (1 / (x * x).sum(0), 2 * x.sum(0)), deterministic="batch")
    whole = np.asarray(add(x, axis=0))
    assert any(found)
    assert np.asarray(add(x.T[:40].copy(), axis=1)).tobytes() == whole[:40].tobytes()
    assert np.asarray(add(x[:, :5].copy(), axis=0)).tobytes() == whole[:5].tobytes()
    assert np.asarray(both(x)[1]).tobytes() == (2 * whole).tobytes()
    np.testing.assert_array_equal(np.asarray(both(x)[0])[:9], np.asarray(both(x[:, :9].copy())[0]))


def test_batch_invariant_sums_beside_the_greatest() -> None:
    x = small((600, 1500))
    ended = rlx.jit(lambda x: x.sum(0) + x.max(0), deterministic="batch")(x)
    np.testing.assert_array_equal(np.asarray(ended), x.sum(0) + x.max(0))
