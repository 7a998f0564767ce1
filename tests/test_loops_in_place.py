"""Laws of compiled loops that change arrays in places."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import rlx
import rlx.numpy as rnp

N = 12


def sums(i: Any, x: Any) -> Any:
    return x.at[i].set(x[i] + x[i - 1])


def swaps(i: Any, x: Any) -> Any:
    low, high = rnp.minimum(x[i], x[i + 1]), rnp.maximum(x[i], x[i + 1])
    return x.at[i].set(low).at[i + 1].set(high)


def adds(i: Any, x: Any) -> Any:
    return x.at[(7 * i) % N].add(x[i] * 0.5)


def slices(i: Any, x: Any) -> Any:
    return rlx.lax.dynamic_update_slice(x, x[2:5] * 0.5 + i, (i,))


def whole(i: Any, x: Any) -> Any:
    return x.at[i].set(rnp.sum(x)) * 0.5


def before_and_after(i: Any, x: Any) -> Any:
    return x.at[i].set(1.5 * x[0]) + 0.1 * x


STEPS = [sums, swaps, adds, slices, whole, before_and_after]


def agrees(f: Callable[..., Any], *args: np.ndarray) -> None:
    """A function gives the same when it is compiled, and leaves its arguments alone."""
    kept = [x.copy() for x in args]
    ours = rlx.tree.leaves(rlx.jit(f)(*args))
    theirs = rlx.tree.leaves(rlx.jit(f, device="reference")(*args))
    for mine, meant in zip(ours, theirs, strict=True):
        np.testing.assert_allclose(mine, meant, rtol=1e-12)
    for x, before in zip(args, kept, strict=True):
        np.testing.assert_array_equal(x, before)


def numbers(*shape: int) -> np.ndarray:
    return np.random.default_rng(0).uniform(0.5, 1.5, shape)


@pytest.mark.parametrize("rounds", [0, 9])
@pytest.mark.parametrize("step", STEPS)
def test_loop_of_known_length(step: Callable[..., Any], rounds: int) -> None:
    agrees(lambda x: rlx.fori_loop(0, rounds, step, x), numbers(N))


@pytest.mark.parametrize("step", STEPS)
def test_loop_that_ends_by_itself(step: Callable[..., Any]) -> None:
    def f(x: Any, last: Any) -> Any:
        start = (x, np.int32(0))
        return rlx.while_loop(
            lambda c: (c[1] < 9) & (c[0][3] < last), lambda c: (step(c[1], c[0]), c[1] + 1), start
        )

    agrees(f, numbers(N), np.float64(2.5))
    agrees(f, numbers(N), np.float64(0.0))  # no round


def test_two_arrays_that_read_each_other() -> None:
    def step(i: Any, c: Any) -> Any:
        x, y = c
        return x.at[i].set(y[i + 1] - x[0]), y.at[i].set(x[i + 1] + y[0])

    agrees(lambda x, y: rlx.fori_loop(0, 9, step, (x, y)), numbers(N), -numbers(N))


def test_arrays_that_change_places() -> None:
    def step(i: Any, c: Any) -> Any:
        x, y = c
        return y.at[i].set(x[i]), x.at[i + 1].set(2.0 * y[i])

    agrees(lambda x, y: rlx.fori_loop(0, 9, step, (x, y)), numbers(N), -numbers(N))


def test_one_array_carried_twice() -> None:
    def step(i: Any, c: Any) -> Any:
        return c[0].at[i].set(c[1][0]), c[1].at[i + 1].add(c[0][i])

    agrees(lambda x: rlx.fori_loop(0, 9, step, (x, x)), numbers(N))


def test_loops_in_loops() -> None:
    def row(i: Any, table: Any) -> Any:
        return rlx.fori_loop(
            0, N - 1, lambda j, t: t.at[i, j].set(t[i - 1, j] + 0.1 * t[i, j + 1]), table
        )

    agrees(lambda x: rlx.fori_loop(1, 5, row, x), numbers(5, N))


def test_rows_that_are_kept_of_an_array_that_changes() -> None:
    def f(x: Any, rows: Any) -> Any:
        def step(c: Any, row: Any) -> Any:
            cache, i = c
            before = cache[0]
            cache = cache.at[i].set(row)
            return (cache, i + 1), (before, rnp.sum(cache, 0))

        return rlx.scan(step, (x, 0), rows)

    agrees(f, numbers(N, 3), -numbers(N, 3))


def test_donated_array_is_changed_where_it_is() -> None:
    f = rlx.jit(lambda x: rlx.fori_loop(0, 9, sums, x), donate_argnums=0)
    x = numbers(N)
    meant = rlx.jit(lambda x: rlx.fori_loop(0, 9, sums, x), device="reference")(x)
    given = rlx.jit(lambda x: x + 0.0)(x)  # in memory that nobody else refers to
    where = np.asarray(given).ctypes.data
    made = f(given)
    np.testing.assert_allclose(made, meant, rtol=1e-12)
    assert np.asarray(made).ctypes.data == where


def test_gradient_of_a_loop_that_changes_an_array() -> None:
    def f(x: Any) -> Any:
        return rnp.sum(rlx.fori_loop(1, 9, sums, x) ** 2)

    agrees(rlx.grad(f), numbers(N))
