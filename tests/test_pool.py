"""Reductions of windows against `jax.lax`: values, both modes, batches and second order."""

from __future__ import annotations

from typing import Any

import jax
import numpy as np
import pytest

import rlx
import rlx.numpy as rnp
from rlx import lax
from rlx.ir.errors import RlxError

KINDS = {"add": 0.0, "max": -np.inf, "min": np.inf, "mul": 1.0}
DIFFERENTIABLE = ("add", "max", "min")  # in JAX too


def random_case(seed: int, most: int = 3) -> tuple[np.ndarray, dict[str, Any]]:
    """An operand and the keywords of a reduction of windows along one to four axes.

    `most` bounds the dilations.
    """
    random = np.random.default_rng(seed)
    rank = int(random.integers(1, 5))
    window = random.integers(1, 4, rank)
    strides, spread, dilation = (random.choice([1, 1, 2, 3], rank) for _ in range(3))
    spread, dilation = np.minimum(spread, most), np.minimum(dilation, most)
    lengths = random.integers(2, 8 - rank, rank)
    reach = (window - 1) * dilation + 1
    low = random.integers(0, 3, rank)
    least = np.maximum(reach - (lengths - 1) * spread - 1 - low, 0)  # at least one window
    high = least + random.integers(0, 3, rank)
    return random.normal(size=lengths), {
        "window_dimensions": tuple(map(int, window)),
        "window_strides": tuple(map(int, strides)),
        "padding": [(int(a), int(b)) for a, b in zip(low, high, strict=True)],
        "base_dilation": tuple(map(int, spread)),
        "window_dilation": tuple(map(int, dilation)),
    }


def run_with(module: Any, kind: str, start: Any, attrs: dict[str, Any]) -> Any:
    return lambda x: module.reduce_window(x, start, getattr(module, kind), **attrs)


def assert_close(ours: Any, theirs: Any, tolerance: float = 1e-12) -> None:
    ours, theirs = np.asarray(ours), np.asarray(theirs)
    assert (ours.dtype, ours.shape) == (theirs.dtype, theirs.shape)
    np.testing.assert_allclose(ours, theirs, rtol=tolerance, atol=tolerance)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("seed", range(6))
def test_values_and_cotangents(kind: str, seed: int):
    x, attrs = random_case(seed + 10 * list(KINDS).index(kind))
    if kind in ("max", "min"):  # JAX has no derivative of these with dilations
        x, attrs = random_case(seed, most=1)
    ours = run_with(lax, kind, KINDS[kind], attrs)
    weights = None
    with jax.enable_x64(True):
        theirs = run_with(jax.lax, kind, KINDS[kind], attrs)
        wanted = jax.jit(theirs)(x)
        weights = np.random.default_rng(seed).normal(size=wanted.shape)
        if kind in DIFFERENTIABLE:
            cotangent = jax.jit(lambda x, c: jax.vjp(theirs, x)[1](c)[0])(x, weights)
    assert_close(ours(x), wanted)
    assert_close(rlx.jit(ours)(x), wanted)
    if kind in DIFFERENTIABLE:
        assert_close(rlx.jit(lambda x, c: rlx.vjp(ours, x)[1](c)[0])(x, weights), cotangent)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("seed", [100, 101])
def test_batches_and_tangents(kind: str, seed: int):
    x, attrs = random_case(seed)
    ours = run_with(lax, kind, KINDS[kind], attrs)
    many = np.stack([x, np.flip(x), 2 * x], axis=1)
    members = np.stack([ours(many[:, i]) for i in range(3)])
    assert_close(rlx.vmap(ours, in_axes=1)(many), members)
    tangent = np.random.default_rng(seed).normal(size=x.shape)
    step = 1e-6
    _, pushed = rlx.jvp(ours, (x,), (tangent,))
    after, before = (np.asarray(ours(x + s * tangent)) for s in (step, -step))
    finite = np.where(np.isfinite(after), after, 0) - np.where(np.isfinite(before), before, 0)
    assert_close(pushed, finite / (2 * step), 1e-7)
    pull = rlx.vjp(ours, x)[1]
    weights = np.random.default_rng(seed + 1).normal(size=after.shape)
    (back,) = pull(weights)
    assert_close((weights * np.asarray(pushed)).sum(), (np.asarray(back) * tangent).sum(), 1e-10)


@pytest.mark.parametrize("kind", KINDS)
def test_second_order(kind: str):
    x, attrs = random_case(3)
    ours = run_with(lax, kind, KINDS[kind], attrs)

    def loss(x: Any) -> Any:
        y = ours(x)
        return rnp.where(rnp.isfinite(y), y, 0.0).__pow__(3).sum()

    random = np.random.default_rng(0)
    t, step = random.normal(size=x.shape), 1e-5
    got = rlx.hvp(loss, (x,), (t,))
    after, before = (np.asarray(rlx.grad(loss)(x + s * t)) for s in (step, -step))
    assert_close(got, (after - before) / (2 * step), 1e-6)


def test_the_first_of_a_tie_has_the_cotangent():
    x = np.array([[1.0, 1.0, 0.0, 1.0, 1.0], [1.0, 0.0, 0.0, 0.0, 1.0]], "float32")
    attrs = {"window_dimensions": (2, 2), "window_strides": (1, 1), "padding": "SAME"}
    for kind, start in (("max", -np.inf), ("min", np.inf)):
        ours, theirs = (run_with(names, kind, start, attrs) for names in (lax, jax.lax))
        _, pull = rlx.vjp(ours, x)
        wanted, pull_theirs = jax.vjp(theirs, x)
        weights = np.arange(wanted.size, dtype="float32").reshape(wanted.shape)
        assert_close(pull(weights)[0], pull_theirs(weights)[0])


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("start", [0.0, 2.0, -3.0])
@pytest.mark.parametrize("padding", ["SAME", [(1, 2), (0, 1)]])
def test_the_initial_value_counts_once(kind: str, start: float, padding: Any):
    x = np.random.default_rng(0).normal(size=(4, 5)).astype("float32")
    attrs = {"window_dimensions": (3, 2), "window_strides": (2, 1), "padding": padding}
    for given in ({}, {"window_dilation": (1, 2)}, {"base_dilation": (2, 1)}):
        given = {**attrs, **given}
        ours, theirs = (run_with(m, kind, np.float32(start), given)(x) for m in (lax, jax.lax))
        assert_close(ours, theirs, 2e-5)


def test_padding_by_name():
    for sizes, windows, strides in [((5, 6), (3, 3), (1, 2)), ((1, 9), (4, 2), (3, 5))]:
        for name in ("SAME", "VALID", "SAME_LOWER", "same"):
            wanted = jax.lax.padtype_to_pads(sizes, windows, strides, name)
            assert lax.padtype_to_pads(sizes, windows, strides, name) == wanted


def test_functions_are_known_by_what_they_do():
    x = np.arange(6.0, dtype="float32")
    for function in (lax.add, rnp.add, lambda a, b: a + b, lambda a, b: b + a):
        made = lax.reduce_window(x, 0.0, function, (3,))
        np.testing.assert_array_equal(made, [3, 6, 9, 12])
    made = lax.reduce_window(x, -np.inf, lambda a, b: rnp.maximum(a, b), (3,), (2,))
    np.testing.assert_array_equal(made, [2, 4])


def test_integers_and_halves():
    ones = np.full((300,), 100, np.int8)
    made = lax.reduce_window(ones, np.int8(0), lax.add, (3,))
    assert made.dtype.name == "int8" and int(made[0]) == 44  # 300 wraps
    assert lax.reduce_window(ones, np.int8(-128), lax.max, (3,), padding="SAME").dtype == np.int8
    halves = rnp.full((4096,), 0.1, "bfloat16")
    total = lax.reduce_window(halves, rnp.zeros((), "bfloat16"), lax.add, (4096,))
    assert total.dtype.name == "bfloat16"
    assert abs(float(total[0]) - 4096 * float(halves[0])) < 4096 * 0.1 * 2**-8


def test_a_nan_in_a_window_is_its_extreme():
    x = np.array([1.0, np.nan, 0.0, 3.0], "float32")
    for run in (lambda f: f, rlx.jit):
        made = run(lambda x: lax.reduce_window(x, -np.inf, lax.max, (2,)))(x)
        np.testing.assert_array_equal(made, [np.nan, np.nan, 3.0])


def test_windows_that_fit_nowhere_are_none():
    x = np.ones((2, 3), "float32")
    for kind in DIFFERENTIABLE:
        run = run_with(lax, kind, KINDS[kind], {"window_dimensions": (3, 1)})
        assert run(x).shape == (0, 3)
        gradient = rlx.jit(rlx.grad(lambda x, f=run: f(x).sum()))(x)
        np.testing.assert_array_equal(gradient, np.zeros((2, 3)))


BAD = {
    "reduce_window(X, 0.0, add, (2,))": "has 1 numbers, not 2",
    "reduce_window(X, 0.0, add, (2, 0))": "is not positive",
    "reduce_window(X, 0.0, add, (2, 2), (1, 0))": "is not positive",
    "reduce_window(X, 0.0, add, (2, 2), padding=[(0, 0)])": "a pair for each of 2 axes",
    'reduce_window(X, 0.0, add, (2, 2), padding="SOME")': "there is no padding 'SOME'",
    "reduce_window(X, 0.0, add, (2, 2), padding=[(-9, 0), (0, 0)])": "less than nothing",
    "reduce_window(X, 0.0, sub, (2, 2))": "none of add, mul, max and min",
    "reduce_window(X, 0.0, lambda a, b: a + b * b, (2, 2))": "none of add, mul, max and min",
    "reduce_window(X, 0.0, lambda a: a, (2, 2))": "none of add, mul, max and min",
    "reduce_window(X, 1j, add, (2, 2))": "does not fit float32",
    "reduce_window(I, 0.5, add, (2, 2))": "does not fit int32",
    "reduce_window(X, D, add, (2, 2))": "the dtypes differ",
    "reduce_window(C, 0j, max, (2, 2))": "none of add, mul, max and min",
    "reduce_window(X, 0.0, 7, (2, 2))": "the computation of a reduction",
}


@pytest.mark.parametrize("expression", BAD)
def test_bad_input_says_what_and_how_to_mend_it(expression: str):
    x = np.ones((4, 4), "float32")
    names = {"X": x, "I": x.astype("int32"), "C": x.astype("complex64"), "D": np.float64(0)}
    with pytest.raises(RlxError) as caught:
        eval(expression, {**vars(lax), **names})
    assert BAD[expression] in str(caught.value)
    assert caught.value.fix and caught.value.where
