"""`lax.ragged_dot` and `lax.scaled_dot` against JAX and NumPy."""

from __future__ import annotations

import inspect

import jax
import numpy as np
import pytest

import rlx
from rlx import lax
from rlx.ir.errors import RlxError

RANDOM = np.random.default_rng(0)
X = RANDOM.normal(size=(7, 4)).astype("float32")
Y = RANDOM.normal(size=(3, 4, 5)).astype("float32")
SIZES = np.array([2, 0, 4], "int32")


def test_parameters_are_those_of_jax() -> None:
    for name in ("ragged_dot", "scaled_dot"):
        wanted = [p for p in inspect.signature(getattr(jax.lax, name)).parameters]
        got = list(inspect.signature(getattr(lax, name)).parameters)
        assert got == [p for p in wanted if p != "out_sharding"]


def test_groups_of_rows() -> None:
    wanted = jax.lax.ragged_dot(X, Y, SIZES)
    np.testing.assert_allclose(lax.ragged_dot(X, Y, SIZES), wanted, rtol=1e-5, atol=1e-6)
    np.testing.assert_allclose(rlx.jit(lax.ragged_dot)(X, Y, SIZES), wanted, rtol=1e-5, atol=1e-6)
    got = rlx.grad(lambda x, y: (lax.ragged_dot(x, y, SIZES) ** 2).sum(), (0, 1))(X, Y)
    other = jax.grad(lambda x, y: (jax.lax.ragged_dot(x, y, SIZES) ** 2).sum(), (0, 1))(X, Y)
    for one, two in zip(got, other, strict=True):
        np.testing.assert_allclose(one, two, rtol=1e-4, atol=1e-5)
    # the matrices of groups 1 and 2 alone
    part = lax.ragged_dot(X, Y[1:], SIZES, group_offset=np.array([1]))
    np.testing.assert_allclose(part[2:6], wanted[2:6], rtol=1e-5, atol=1e-6)
    assert not np.asarray(part[:2]).any()
    assert lax.ragged_dot(X, Y, SIZES, preferred_element_type="float64").dtype == "float64"


def test_scales_of_blocks() -> None:
    x, y = RANDOM.normal(size=(2, 3, 64)), RANDOM.normal(size=(2, 64, 5))
    s, t = np.exp2(RANDOM.integers(-3, 3, (2, 3, 2))), np.exp2(RANDOM.integers(-3, 3, (2, 2, 5)))
    wide = [x * np.repeat(s, 32, 2), y * np.repeat(t, 32, 1)]
    np.testing.assert_allclose(lax.scaled_dot(x, y, lhs_scale=s, rhs_scale=t), wide[0] @ wide[1])
    np.testing.assert_allclose(lax.scaled_dot(x, y), x @ y)
    few = x.astype("float8_e4m3fn"), y.astype("float8_e4m3fn")
    got = lax.scaled_dot(*few, lhs_scale=s, preferred_element_type="float32")
    exact = (few[0].astype("float64") * np.repeat(s, 32, 2)) @ few[1].astype("float64")
    np.testing.assert_allclose(got, exact, rtol=1e-5, atol=1e-5)
    numbers = (((2,), (1,)), ((0,), (0,)))
    np.testing.assert_allclose(lax.scaled_dot(x, y, dimension_numbers=numbers), x @ y)
    for call in (
        lambda: lax.scaled_dot(x, y, lhs_scale=s[..., 0]),
        lambda: lax.scaled_dot(x, y, lhs_scale=np.ones((2, 3, 5))),
        lambda: lax.ragged_dot(X, Y[0], SIZES),
        lambda: lax.ragged_dot(X, Y.astype("float64"), SIZES),
    ):
        with pytest.raises(RlxError) as caught:
            call()
        assert caught.value.fix
