"""What indices outside of an array mean: JAX's numbers for each mode, however the code is run."""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from hypothesis import given, settings, strategies as st

import rlx
import rlx.numpy as rnp
from rlx.ir.errors import BoundsError, ConfigError

X = np.arange(1, 13, dtype=np.float32).reshape(4, 3)
READS = (None, "clip", "fill", "drop", "promise_in_bounds")
WRITES = (None, "clip", "fill", "drop", "promise_in_bounds")
CHANGES = ("set", "add", "multiply", "min", "max")


@st.composite
def expressions(draw: Any) -> tuple[Any, ...]:
    """An index of arrays of which some lie outside, with slices and numbers between."""
    count, items = draw(st.integers(1, 4)), []
    for size in X.shape:
        kind = draw(st.sampled_from(["places", "places", "one", "slice"]))
        dtype = draw(st.sampled_from(["int8", "int32", "uint8"]))
        numbers = st.integers(0 if dtype == "uint8" else -3 * size, 3 * size)
        if kind == "slice":
            items.append(slice(None, None, draw(st.sampled_from([1, -1]))))
        else:
            shape = () if kind == "one" else (count,)
            found = draw(st.lists(numbers, min_size=count, max_size=count))
            items.append(np.resize(np.array(found, dtype), shape))
    return tuple(items)


def is_outside(index: tuple[Any, ...]) -> bool:
    pairs = [(i, n) for i, n in zip(index, X.shape, strict=True) if isinstance(i, np.ndarray)]
    return any(((i.astype(int) < -n) | (i.astype(int) >= n)).any() for i, n in pairs)


def split(index: tuple[Any, ...]) -> tuple[list[np.ndarray], Any]:
    """The arrays of an index, and what puts others in their place."""
    arrays = [i for i in index if isinstance(i, np.ndarray)]

    def filled(given: Any) -> tuple[Any, ...]:
        each = iter(given)
        return tuple(next(each) if isinstance(i, np.ndarray) else i for i in index)

    return arrays, filled


def ways(fn: Any, arrays: list[np.ndarray]) -> dict[str, Any]:
    """A function of x and index arrays run in all the ways that look at no index."""
    x = rlx.array(X)
    many = [np.stack([a, a]) for a in arrays]
    axes = (0, [0] * len(arrays))
    found = {
        "jit": rlx.jit(fn)(x, arrays),
        "batch": rlx.jit(rlx.vmap(fn, axes))(rnp.stack([x, x]), many)[1],
    }
    with rlx.disable_jit():
        found["line by line"] = rlx.jit(fn)(x, [rlx.array(a) for a in arrays])
    if not all(a.ndim for a in arrays):
        return found  # known ones are numbers, which must lie inside
    found["constants"] = rlx.jit(lambda x: fn(x, arrays))(x)
    with rlx.disable_jit():
        found["line by line, constants"] = rlx.jit(lambda x: fn(x, arrays))(x)
    with rlx.config.using(checks=False):
        found["at once"] = fn(x, [rlx.array(a) for a in arrays])
        found["grad at once"] = rlx.value_and_grad(lambda x: (fn(x, arrays) * 1).sum())(x)[0]
    return found


def compare(fn: Any, index: tuple[Any, ...], mode: str | None) -> None:
    """Check a function `fn(x.at, filled index)` in all ways against JAX."""
    arrays, filled = split(index)

    def ours(x: Any, given: Any) -> Any:
        return fn(x, filled(given))

    wanted = np.asarray(fn(jnp.asarray(X), filled([jnp.asarray(a) for a in arrays])))
    for way, found in ways(ours, arrays).items():
        target = wanted.sum() if way == "grad at once" else wanted
        np.testing.assert_allclose(np.asarray(found), target, rtol=1e-6, err_msg=way)
    x, given = rlx.array(X), [rlx.array(a) for a in arrays]
    if mode is not None or not is_outside(index):
        np.testing.assert_array_equal(np.asarray(ours(x, given)), wanted)
        return
    with pytest.raises(BoundsError, match="is outside axis"):
        ours(x, given)


@given(expressions(), st.sampled_from(READS))
@settings(max_examples=8, deadline=None)
def test_reads(index, mode):
    compare(lambda x, i: x.at[i].get(mode=mode), index, mode)
    if mode is None:
        compare(lambda x, i: x[i], index, None)


@given(expressions(), st.sampled_from(WRITES), st.sampled_from(CHANGES))
@settings(max_examples=8, deadline=None)
def test_writes(index, mode, change):
    if mode is None or change != "set":  # which of two that name one place is set nobody says
        compare(lambda x, i: getattr(x.at[i], change)(7.0, mode=mode), index, mode)


def test_gradients_of_writes_are_jaxs():
    i = np.array([9, 1, -9, 3], np.int32)
    for mode in WRITES[:3]:
        for change in ("set", "add"):

            def f(x, v, i=i, mode=mode, change=change):
                return (getattr(x.at[i, 0], change)(v, mode=mode) ** 2).sum()

            v = np.arange(4, dtype=np.float32)
            wanted = jax.grad(f, (0, 1))(jnp.asarray(X), jnp.asarray(v))
            for one, other in zip(rlx.jit(rlx.grad(f, (0, 1)))(X, v), wanted, strict=True):
                np.testing.assert_allclose(one, other, rtol=1e-6)


@pytest.mark.parametrize("fn", [lambda x, i: x[i], lambda x, i: x.at[i].set(7.0)])
def test_the_setting_says_where_indices_are_checked(fn):
    x, i = rlx.array(X), rlx.array(np.array([9, 1]))
    compiled, slope = rlx.jit(fn), rlx.grad(lambda x: fn(x, i).sum())
    compiled(x, i)
    at_once = [lambda: fn(x, i), lambda: slope(x)]
    in_jit = [lambda: compiled(x, i), lambda: rlx.jit(lambda x: fn(x, i))(x)]

    def check(runs: Any) -> None:
        for run in runs:
            with pytest.raises(BoundsError, match="index 9 is outside axis 0 with size 4"):
                run()

    check(at_once)
    with rlx.config.using(checks=True):
        check([*at_once, *in_jit])
        assert x.at[i].get(mode="clip").shape == (2, 3), "who says a mode means it"
    with rlx.config.using(checks=False):
        np.testing.assert_array_equal(at_once[0](), in_jit[0]())
        at_once[1]()
    with pytest.raises(ConfigError, match="RLX_CHECKS is 'yes'"):
        rlx.config.update(checks="yes")


def test_transforms_that_keep_recordings_keep_no_other_rule():
    slope = rlx.grad(lambda x, i: x[i].sum())
    x, i = rlx.array(X), rlx.array([9, 1])
    for _ in range(3):
        with rlx.disable_jit():
            found = rlx.jit(lambda x, i: slope(x, i))(x, i)
        with rlx.config.using(checks=False):
            np.testing.assert_array_equal(found, slope(x, i))
        assert slope(x, rlx.array([0, 1])).sum() == 6
        with pytest.raises(BoundsError, match="index 9 is outside"):
            slope(x, i)


def test_python_numbers_outside_are_errors_everywhere():
    for wrap in (lambda f: f, rlx.jit):
        for number in (4, -5):
            with pytest.raises(BoundsError, match="is outside axis 0 with size 4"):
                wrap(lambda x, number=number: x[number])(rlx.array(X))
    with rlx.disable_jit(), pytest.raises(BoundsError, match="is outside axis 0"):
        rlx.jit(lambda x: x[4])(X)


def test_functions_that_say_what_is_outside_raise_nowhere():
    x, i = rlx.array(X), np.array([[9, 1, -9]], np.int32)
    for ours, jaxs in (
        (lambda x: rnp.take(x, i), lambda x: jnp.take(x, i)),
        (lambda x: rnp.take_along_axis(x, i, 0), lambda x: jnp.take_along_axis(x, i, 0)),
        (
            lambda x: rlx.lax.dynamic_slice(x, (9, -9), (2, 2)),
            lambda x: jax.lax.dynamic_slice(x, (9, -9), (2, 2)),
        ),
        (
            lambda x: rlx.lax.dynamic_index_in_dim(x, 9),
            lambda x: jax.lax.dynamic_index_in_dim(x, 9),
        ),
    ):
        for run in (ours, rlx.jit(ours)):
            np.testing.assert_array_equal(run(x), jaxs(jnp.asarray(X)))
