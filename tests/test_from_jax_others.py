"""Primitives that libraries of JAX made: replayed by what they are in plain JAX."""

from __future__ import annotations

import itertools

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax.extend.core import Primitive
from jax.interpreters import ad, batching, mlir

import rlx

NUMBERS = itertools.count()
X = np.array([0.5, -1.0, 2.0], np.float32)


def primitive(impl=None, *, several=False):
    """A new primitive whose result is like its first operand."""
    made = Primitive(f"of_a_library_{next(NUMBERS)}")
    made.multiple_results = several

    def type_rule(*avals, **params):
        found = avals[0].update(weak_type=False)
        return [found, found] if several else found

    made.def_abstract_eval(type_rule)
    if impl is not None:
        made.def_impl(impl)
        mlir.register_lowering(made, mlir.lower_fun(impl, multiple_results=several))
    return made


def agree(f, *args):
    found, wanted = rlx.jit(rlx.from_jax(f))(*args), jax.jit(f)(*args)
    for x, y in zip(jax.tree.leaves(found), jax.tree.leaves(wanted), strict=True):
        np.testing.assert_allclose(np.asarray(x), np.asarray(y), 1e-6, 1e-6)


def test_what_a_primitive_is_in_plain_jax():
    doubled = primitive(lambda x, *, by: jnp.sin(x) * by)
    both = primitive(lambda x: [x + 1, x * 2], several=True)
    same = primitive(lambda x: x)
    f = lambda x: (doubled.bind(x, by=2.0), both.bind(same.bind(x)))  # noqa: E731
    agree(f, X)
    assert rlx.from_jax(f)(X)[1][0].tolist() == [1.5, 0.0, 3.0]
    slope = rlx.jit(rlx.grad(rlx.from_jax(lambda x: doubled.bind(x, by=2.0).sum())))(X)
    np.testing.assert_allclose(slope, 2 * np.cos(X), 1e-6)
    agree(lambda x: jax.lax.scan(lambda c, r: (both.bind(c)[0] + r, r), 0.0, x), X)


def test_a_primitive_may_call_itself_with_other_parameters():
    power = primitive(lambda x, *, n: x * power.bind(x, n=n - 1) if n else jnp.ones_like(x))
    agree(lambda x: power.bind(x, n=3), X)


def test_keys_reach_what_a_primitive_is():
    drawn = Primitive("drawn_by_a_library")
    drawn.def_impl(lambda key: jax.random.normal(key, (2,)))
    drawn.def_abstract_eval(lambda key: jax.core.ShapedArray((2,), np.float32))
    mlir.register_lowering(drawn, mlir.lower_fun(drawn.impl, multiple_results=False))
    agree(drawn.bind, jax.random.key(3))


def test_derivatives_are_those_of_the_library():
    odd = primitive(jnp.sin)
    ad.primitive_jvps[odd] = lambda primals, tangents: (
        odd.bind(*primals),
        ad.instantiate_zeros(tangents[0]) * 50,
    )
    f = rlx.from_jax(lambda x: odd.bind(x).sum())
    assert rlx.jit(rlx.grad(f))(X).tolist() == [50.0, 50.0, 50.0]
    assert rlx.jit(lambda x: rlx.jvp(f, (x,), (x,)))(X)[1] == 75.0


def test_an_operand_without_a_tangent_has_none_in_the_rule_of_a_library():
    scaled = primitive(lambda x, by: x * by)

    def rule(primals, tangents):
        assert type(tangents[1]) is ad.Zero
        return scaled.bind(*primals), scaled.bind(ad.instantiate_zeros(tangents[0]), primals[1])

    ad.primitive_jvps[scaled] = rule
    f = rlx.from_jax(lambda x: scaled.bind(x, jax.lax.stop_gradient(x)).sum())
    np.testing.assert_allclose(rlx.jit(rlx.grad(f))(X), X)


def test_a_linear_primitive_of_a_loop_is_transposed_by_its_library():
    def halved_until_small(x, n):  # x / 2**n, by a loop of unknown length
        return jax.lax.while_loop(lambda c: c[1] > 0, lambda c: (c[0] / 2, c[1] - 1), (x, n))[0]

    halved = primitive(halved_until_small)

    def jvp(primals, tangents):
        x, n = primals
        return halved.bind(x, n), halved.bind(ad.instantiate_zeros(tangents[0]), n)

    ad.primitive_jvps[halved] = jvp
    ad.primitive_transposes[halved] = lambda ct, x, n: [halved.bind(ct, n), None]
    batching.primitive_batchers[halved] = lambda args, axes: (halved.bind(*args), axes[0])
    f = rlx.from_jax(lambda x, n: (halved.bind(x, n) ** 2).sum())
    np.testing.assert_allclose(rlx.jit(rlx.grad(f))(X, 2), 2 * X / 16)

    @jax.custom_jvp
    def outer(x, n):
        return jnp.sin(x)

    outer.defjvp(lambda xs, ts: (outer(*xs), halved.bind(ts[0], xs[1])))
    f = rlx.from_jax(lambda x, n: outer(x, n).sum())
    np.testing.assert_allclose(rlx.jit(rlx.grad(f))(X, 2), [0.25] * 3)


@pytest.mark.parametrize("impl", [None, np.asarray, lambda x: x * float(x[0])])
def test_a_primitive_without_a_meaning_in_jax(impl):
    unknown = primitive(impl) if impl is None else primitive()
    if impl is not None:
        unknown.def_impl(impl)
    with pytest.raises(rlx.UnknownPrimitive) as caught:
        rlx.jit(rlx.from_jax(lambda x: unknown.bind(x)))(X)
    assert f"`{unknown.name}`" in caught.value.what
    assert "unknown.bind(x)" in caught.value.where


def test_a_custom_vjp_of_tangents_says_why_it_has_no_transpose():
    @rlx.custom_vjp
    def inner(x):
        return x * 2

    inner.defvjp(lambda x: (inner(x), None), lambda _, ct: (ct * 2,))

    @rlx.custom_jvp
    def outer(x):
        return rlx.numpy.sin(x)

    outer.defjvp(lambda xs, ts: (outer(*xs), inner(ts[0])))
    with pytest.raises(rlx.GradientError, match="applied to tangents, and is not known as linear"):
        rlx.grad(outer)(1.0)


@pytest.mark.parametrize("dtype", [np.float32, np.complex64])
@pytest.mark.parametrize("shape", [(4, 4), (5, 3), (2, 3, 5), (1, 2), (3, 1)])
def test_reflections_of_a_factorization(shape, dtype):
    random = np.random.default_rng(0)
    a = random.normal(size=shape).astype(dtype)
    if dtype is np.complex64:
        a = a + 1j * random.normal(size=shape).astype(np.float32)
    a[..., 1:, 0] = 0  # nothing to reflect
    rows = shape[-2]
    c = random.normal(size=(*shape[:-2], rows, 2)).astype(dtype)
    turned = np.swapaxes(c, -1, -2)

    def f(a, c, turned):
        h, taus = jnp.linalg.qr(a, mode="raw")
        h = jnp.swapaxes(h, -1, -2)
        multiply = jax.lax.linalg.ormqr
        return (
            h,
            taus,
            jax.lax.linalg.householder_product(h[..., : min(a.shape[-2:])], taus),
            [multiply(h, taus, c, transpose=t) for t in (False, True)],
            [multiply(h, taus, turned, left=False, transpose=t) for t in (False, True)],
        )

    agree_loosely = rlx.jit(rlx.from_jax(f))(a, c, turned), jax.jit(f)(a, c, turned)
    for x, y in zip(*map(jax.tree.leaves, agree_loosely), strict=True):
        np.testing.assert_allclose(np.asarray(x), np.asarray(y), 1e-5, 3e-6)
