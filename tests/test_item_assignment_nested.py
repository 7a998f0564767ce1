"""`x[i] = v` in loops, branches, derivatives and batches."""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import rlx
import rlx.numpy as rnp
from rlx.ir.errors import AliasError

X = np.arange(12, dtype="float32").reshape(3, 4)


def same(found: Any, expected: Any) -> None:
    np.testing.assert_array_equal(np.asarray(found), np.asarray(expected))


def test_loops_may_assign_to_what_they_carry():
    def fill(i: Any, out: Any) -> Any:
        out[i] = i * 2.0
        out[0] += 1.0
        return out

    for wrap in (lambda f: f, rlx.jit):
        same(wrap(lambda n: rlx.fori_loop(0, 3, fill, rnp.zeros(3)))(3), [3, 2, 4])
        same(wrap(lambda n: rlx.fori_loop(0, n, fill, rnp.zeros(3)))(2), [2, 2, 0])

        def step(pair: Any) -> Any:
            i, out = pair
            out[i] = 1.0
            return i + 1, out

        for steps in (None, 4):
            found = wrap(
                lambda n, steps=steps: rlx.while_loop(
                    lambda pair: pair[0] < n, step, (0, rnp.zeros(3)), max_steps=steps
                )[1]
            )(2)
            same(found, [1, 1, 0])


def test_branches_assign_to_what_they_make_only():
    table = rlx.array([1.0, 2.0])

    def make(x: Any) -> Any:
        made = rnp.zeros(2)
        made[0] = x[1]
        return made, x, x[:1]

    def operand(x: Any) -> Any:
        x[0] = 9.0
        return x, x, x[:1]

    def part(x: Any) -> Any:
        x[:1][0] = 9.0
        return make(x)

    def outside(x: Any) -> Any:
        table[0] = 9.0
        return make(x)

    ways = {
        "cond": lambda fn: lambda x: rlx.cond(True, fn, make, x),
        "switch": lambda fn: lambda x: rlx.switch(7, [make, fn], x),
        "known in jit": lambda fn: rlx.jit(lambda x: rlx.cond(True, fn, make, x)),
        "jit": lambda fn: rlx.jit(lambda x: rlx.cond(x.sum() > 0, fn, make, x)),
    }
    for way in ways.values():
        for given in (np.ones(2, "float32"), rlx.array([1.0, 1.0])):
            for fn in (operand, part, outside):
                with pytest.raises(AliasError):
                    way(fn)(given)
            made, same_, first = way(make)(given)
            for each in (made, same_, first):
                each[0] = 5.0  # results are the caller's own
            assert made.tolist() == [5, 0] and np.asarray(given).tolist() == [1, 1]
    assert table.tolist() == [1, 2]

    @rlx.jit
    def f(x: Any) -> Any:
        made, whole, _ = rlx.cond(True, make, make, x)
        made[1], whole[0] = x[0], 7.0
        return made, whole, x

    assert [y.tolist() for y in f(rlx.array([3.0, 4.0]))] == [[4, 3], [7, 4], [3, 4]]


def _program(x: Any, v: Any, i: Any) -> Any:
    out = x * x
    out[1:, ::2] = v * v
    out[i] *= 3.0
    out[..., i % 2] = x[..., 0] * v[0, 0]
    out[out > 50.0] = v[0, 0] * 2
    out[i, [0, 2]] += x[0, 1]
    return out


def _reference(x: Any, v: Any, i: Any) -> Any:
    out = x * x
    out = out.at[1:, ::2].set(v * v)
    out = out.at[i].multiply(3.0)
    out = out.at[..., i % 2].set(x[..., 0] * v[0, 0])
    out = jnp.where(out > 50.0, v[0, 0] * 2, out)
    return out.at[i, jnp.array([0, 2])].add(x[0, 1])


def test_both_modes_of_derivatives_and_batches_are_jaxs():
    v, i = np.arange(4, dtype="float32").reshape(2, 2) + 1, np.int32(2)
    t = (np.cos(X), np.sin(v))
    same(rlx.jit(_program)(X, v, i), jax.jit(_reference)(X, v, i))

    def loss(fn: Any, xp: Any) -> Any:
        return lambda x, v: (fn(x, v, i) * xp.cos(x)).sum()

    expected = jax.jit(jax.grad(loss(_reference, jnp), (0, 1)))(X, v)
    for wrap in (lambda f: f, rlx.jit):
        found = wrap(rlx.grad(loss(_program, rnp), (0, 1)))(rlx.array(X), rlx.array(v))
        for a, b in zip(found, expected, strict=True):
            np.testing.assert_allclose(a, b, rtol=2e-5, atol=1e-5)
    found = rlx.jvp(lambda x, v: _program(x, v, i), (X, v), t)
    slope = jax.jit(lambda *t: jax.jvp(lambda x, v: _reference(x, v, i), (X, v), t))
    expected = slope(*t)
    for a, b in zip(found, expected, strict=True):
        np.testing.assert_allclose(a, b, rtol=2e-5, atol=1e-5)
    rows, places = np.stack([X, X + 1, -X]), np.array([0, 2, 1], "int32")
    for axes in ((0, None, None), (0, None, 0), (None, None, 0)):
        pairs = zip((X, v, i), (rows, v, places), axes, strict=True)
        batch = [rlx.array(a if axis is None else b) for a, b, axis in pairs]
        expected = jax.jit(jax.vmap(_reference, axes))(*map(np.asarray, batch))
        for wrap in (lambda f: f, rlx.jit) if axes == (0, None, 0) else (lambda f: f,):
            same(wrap(rlx.vmap(_program, axes))(*batch), expected)
