"""Programs as JAX users write them, which once failed or gave other numbers."""

from __future__ import annotations

import pickle
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import rlx
import rlx.numpy as rnp
from rlx import nn, optim
from rlx.ir.errors import (
    ArgumentError,
    BoundsError,
    ConcretizationError,
    GradientError,
    NanError,
    StaticArgumentError,
)

X = np.array([1.0, -2.0, 3.0], np.float32)


def same(found: Any, wanted: Any) -> None:
    """Compare two trees of arrays."""
    ours, theirs = rlx.tree.leaves(found), jax.tree.leaves(wanted)
    for x, y in zip(ours, theirs, strict=True):
        np.testing.assert_allclose(np.asarray(x), np.asarray(y), rtol=1e-6)


# -- places outside of an array -------------------------------------------------------------------

PADDED = np.array([0, 1, 3, 3, -1, -3, -4, -100])
INDICES = [PADDED, 5, -4, -1, (PADDED[:3],), np.array(9)]


@pytest.mark.parametrize("mode", ["drop", "clip", "fill"])
@pytest.mark.parametrize("index", INDICES, ids=str)
def test_a_mode_holds_for_known_places_too(index, mode):
    zeros = np.zeros(3, np.float32)
    for wrap in (lambda fn: fn, rlx.jit):
        same(
            wrap(lambda v: rlx.array(zeros).at[index].add(v, mode=mode))(1.0),
            jnp.array(zeros).at[index].add(1.0, mode=mode),
        )
        same(
            wrap(lambda x: x.at[index].get(mode=mode))(rlx.array(X)),
            jnp.array(X).at[index].get(mode=mode),
        )


@pytest.mark.parametrize(
    "index",
    [
        (5, slice(None, None, 2)),
        (np.array([0, 9]), slice(1, 3)),
        (slice(None, None, 2), np.array([1, 7])),
        (9, 9),
        (0, -9),
        (None, 7),
    ],
    ids=str,
)
def test_a_mode_holds_for_each_axis(index):
    y = np.arange(24.0, dtype=np.float32).reshape(4, 6)
    for mode in ("drop", "clip"):
        same(rlx.array(y).at[index].add(1.0, mode=mode), jnp.array(y).at[index].add(1.0, mode=mode))
    same(rlx.array(y).at[index].get(mode="fill"), jnp.array(y).at[index].get(mode="fill"))


def test_a_known_place_outside_is_an_error_without_a_mode():
    with pytest.raises(BoundsError):
        rlx.array(X).at[PADDED].set(1.0)


@pytest.mark.parametrize("name", ["nonzero", "flatnonzero", "argwhere"])
@pytest.mark.parametrize("size", [1, 2, 3])
def test_searches_of_a_given_size_outside_of_a_trace(name, size):
    found = getattr(rnp, name)(X > 0, size=size)
    same(found, getattr(jnp, name)(jnp.array(X) > 0, size=size))
    same(rnp.unique(np.array([3, 1, 3]), size=size), jnp.unique(jnp.array([3, 1, 3]), size=size))


@pytest.mark.parametrize(("axis", "total"), [(0, 3), (0, 2), (0, 5)])
def test_counts_of_repeat_may_be_traced(axis, total):
    x, counts = np.arange(12.0).reshape(3, 4), np.array([1, 0, 2])
    found = rlx.jit(lambda x, n: rnp.repeat(x, n, axis, total_repeat_length=total))(x, counts)
    same(found, jnp.repeat(x, counts, axis, total_repeat_length=total))
    with pytest.raises(ConcretizationError, match="total_repeat_length"):
        rlx.jit(lambda x, n: rnp.repeat(x, n, axis))(x, counts)


# -- static values --------------------------------------------------------------------------------


def test_static_arguments_of_other_types_are_others():
    f = rlx.jit(lambda n: rnp.full(2, n), static_argnames="n")
    assert [f(n).dtype.name for n in (1, 1.0, True, 1)] == ["int32", "float32", "bool", "int32"]
    g = rlx.jit(lambda n: rnp.full(2, n[0]), static_argnames="n")
    assert [g((n,)).dtype.name for n in (1, 1.0, True)] == ["int32", "float32", "bool"]


def test_static_fields_of_other_types_are_others():
    class Constant(nn.Module):
        value: Any = nn.field(static=True)

    f = rlx.jit(lambda module: rnp.full(2, module.value))
    assert [f(Constant(n)).dtype.name for n in (1, 1.0)] == ["int32", "float32"]


def test_a_static_argument_is_no_array():
    with pytest.raises(StaticArgumentError, match=r"is an array, f32\[3\]"):
        rlx.jit(lambda n: n, static_argnames="n")(rlx.array(X))


# -- arguments that are not differentiated ------------------------------------------------------


@pytest.mark.parametrize(
    ("fn", "other"),
    [
        (lambda x, train: (x * 2 if train is True else x).sum(), True),
        (lambda x, n: (x * (2 if isinstance(n, int) else 3)).sum(), 2),
        (lambda x, n: {1: x, 2: x * 2}[n].sum(), 2),
        (lambda x, name: (x * 3 if name == "three" else x).sum(), "three"),
        (lambda x, fn: fn(x).sum(), lambda x: x * x),
        (lambda x, y: (x * y["a"]).sum(), {"a": X, "b": None}),
    ],
)
def test_grad_passes_other_arguments_as_they_are(fn, other):
    wanted = jax.grad(fn)(jnp.array(X), other)
    same(rlx.grad(fn)(X, other), wanted)
    same(rlx.jit(lambda x: rlx.grad(fn)(x, other))(X), wanted)


def test_vmap_passes_shared_arguments_as_they_are():
    fn = lambda x, name: x * 2 if name == "two" else x  # noqa: E731
    same(rlx.vmap(fn, in_axes=(0, None))(X, "two"), X * 2)


def test_loops_know_the_bounds_that_grad_passes():
    found = rlx.grad(lambda p, n: rlx.fori_loop(0, n, lambda i, c: c * p[0], 1.0))(X, 3)
    same(found, np.array([3.0, 0.0, 0.0]))


# -- derivatives ----------------------------------------------------------------------------------


def test_a_custom_rule_may_use_its_linear_function():
    @rlx.custom_jvp
    def product(a, x):
        return a @ x

    @product.defjvp
    def product_jvp(primals, tangents):
        (a, x), (da, dx) = primals, tangents
        return product(a, x), product(da, x) + product(a, dx)

    a = np.arange(9.0, dtype=np.float32).reshape(3, 3)
    loss = lambda a, x, product: (product(a, x) ** 2).sum()  # noqa: E731
    for wrap in (rlx.grad, rlx.hessian):
        same(wrap(lambda x: loss(a, x, product))(X), wrap(lambda x: loss(a, x, rnp.matmul))(X))
    same(rlx.grad(lambda a: loss(a, X, product))(a), rlx.grad(lambda a: loss(a, X, rnp.matmul))(a))


def test_a_custom_rule_may_keep_python_values():
    @rlx.custom_vjp
    def double(x):
        return x * 2

    def backward(kept, ct):
        shape, factor = kept
        return (rnp.full(shape, factor if factor > 1 else 0.0) * ct,)

    double.defvjp(lambda x: (x * 2, (x.shape, 2.0)), backward)
    for wrap in (lambda fn: fn, rlx.jit, lambda fn: rlx.jit(rlx.jit(fn))):
        same(wrap(rlx.grad(lambda x: double(x).sum()))(X), np.full(3, 2.0))


def test_linearize_goes_through_while_loop():
    def power(a):
        return rlx.while_loop(lambda c: c[0] < 5, lambda c: (c[0] + 1, c[1] * a), (0, 1.0))[1]

    same(rlx.linearize(power, 1.5)[1](1.0), 5 * 1.5**4)
    same(rlx.jit(lambda a: rlx.linearize(power, a)[1](1.0))(1.5), 5 * 1.5**4)
    open_end = lambda a: rlx.while_loop(lambda c: c < 10, lambda c: c * a, 1.0)  # noqa: E731
    same(rlx.linearize(open_end, 2.0)[1](1.0), 32.0)
    with pytest.raises(GradientError, match="reverse mode") as caught:
        rlx.grad(power)(1.5)
    assert "test_manners.py" in caught.value.where


# -- training in half precision -------------------------------------------------------------------


@pytest.mark.parametrize("optimizer", [optim.adam(1e-2), optim.rmsprop(1e-2), optim.adamw(1e-2)])
@pytest.mark.parametrize("dtype", ["float16", "bfloat16"])
def test_small_half_size_gradients_make_steps(optimizer, dtype):
    params = rlx.array(np.ones(3, np.float32)).astype(dtype)
    grads = rlx.array(np.array([0.0, 1e-4, -1e-4], np.float32)).astype(dtype)
    updates, _ = optimizer.update(grads, optimizer.init(params), params)
    assert updates.dtype == params.dtype
    found = np.asarray(updates.astype("float32"))
    assert abs(found[0]) < 1e-5
    # rmsprop's eps takes 5 % of so small a step
    np.testing.assert_allclose(found[1:], [-1e-2, 1e-2], rtol=0.06)


# -- finding a NaN --------------------------------------------------------------------------------


def test_nan_check_looks_into_loops():
    def step(total, x):
        return total + rnp.log(x), total

    with pytest.raises(NanError, match="log gives nan of") as caught:
        rlx.nan_check(lambda xs: rlx.scan(step, 0.0, xs)[0])(np.array([1.0, -1.0], np.float32))
    assert "in step" in caught.value.where


# -- dtypes ---------------------------------------------------------------------------------------


def test_names_of_dtypes_convert():
    assert rnp.float16(3).dtype == rnp.float16 == "float16" != rnp.float32
    assert rlx.jit(lambda x: rnp.bfloat16(x))(X).dtype == rnp.bfloat16
    assert {rnp.int8: 1}[np.dtype("int8")] == 1 and np.zeros(2, rnp.int8).dtype == np.int8
    assert rnp.result_type(rnp.int8, rnp.float32) == rnp.float32
    assert pickle.loads(pickle.dumps(rnp.float32)) == rnp.float32


@pytest.mark.parametrize("dtype", ["uint8", "uint16", "uint32", "uint64"])
def test_great_unsigned_places_are_not_negative(dtype):
    index = np.array([1, np.iinfo(dtype).max], dtype)
    same(rlx.jit(lambda x, i: x[i])(X, index), X[[1, 2]])
    same(rlx.jit(lambda x, i: x.at[i].add(1.0))(X, index), X + np.array([0, 1, 0]))


# -- what a review found --------------------------------------------------------------------------


def test_static_numpy_scalars_differ_from_python_numbers():
    f = rlx.jit(lambda x, s: x * s, static_argnums=1)
    numbers = [np.float32(1), 1.0, np.int8(1), 1, np.float16(1), np.bool_(True), True]
    found = [f(X.astype(np.float16), n).dtype.name for n in numbers]
    wanted = [(rlx.array(X).astype("float16") * n).dtype.name for n in numbers]
    assert found == wanted and f.cache_size() == len(numbers)


def test_derivatives_of_loops_pass_the_verifier():
    power = lambda x: rlx.scan(lambda c, i: (c * x + i, c), 1.0, rnp.arange(3.0))[0]  # noqa: E731
    loop = lambda x: rlx.while_loop(lambda c: c < 10, lambda c: c * x, 1.0)  # noqa: E731
    with rlx.config.using(check=True):
        same(rlx.jit(rlx.grad(power))(2.0), jax.grad(lambda x: x**3 + 1 * x)(2.0))
        same(rlx.jit(lambda x: rlx.linearize(loop, x)[1](1.0))(2.0), 32.0)


def test_nan_check_takes_numbers_as_meant_and_no_tracers():
    fill = rlx.nan_check(lambda x: rnp.where(x > 1, x, -np.inf).max(), infinities=True)
    assert float(fill(np.array([1.0, 2.0], np.float32))) == 2
    with pytest.raises(ArgumentError, match="being traced"):
        rlx.grad(rlx.nan_check(lambda x: (x * x).sum()))(X)


def test_apply_reads_and_writes_by_its_mode():
    x = rlx.array(X)
    assert x.at[9].apply(lambda v: v * 10, mode="clip").tolist() == [1, -2, 30]
    assert x.at[9].apply(lambda v: v * 10, mode="drop").tolist() == X.tolist()
    with pytest.raises(BoundsError):
        x.at[9].apply(lambda v: v * 10)


@pytest.mark.parametrize(
    "call",
    [
        lambda np: np.insert(np.arange(6.0), np.array([3, 1, -1]), np.array([8.0, 9.0, 7.0])),
        lambda np: np.insert(np.ones((3, 4)), np.array([0, 2]), 9.0, 1),
        lambda np: np.ones((3, 4))[np.ix_(np.array([0, 2]), np.array([True, False, True, False]))],
        lambda np: np.polyint(np.array([3.0, 2.0, 1.0]), 2, k=np.array([1.0, 2.0])),
        lambda np: np.geomspace(-1.0, -1000.0, 4),
        lambda np: np.indices((2, 3), sparse=True),
    ],
)
def test_numpy_functions_as_numpy_has_them(call):
    same(call(rnp), call(np))


def test_files_keep_bfloat16(tmp_path):
    rnp.save(tmp_path / "x.npy", rnp.ones(3, "bfloat16"))
    assert rnp.load(tmp_path / "x.npy").dtype == "bfloat16"
