"""Derivatives and batches against JAX in float64, in every nesting."""

from __future__ import annotations

import functools

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import rlx
import rlx.numpy as rnp
from rlx import errors

RANDOM = np.random.default_rng(0)


@pytest.fixture(autouse=True)
def double_precision():
    with jax.enable_x64(True):
        yield


def close(ours, theirs, tolerance=1e-10):
    mine, others = rlx.tree.leaves(ours), jax.tree.leaves(theirs)
    assert len(mine) == len(others)
    for a, b in zip(mine, others, strict=True):
        np.testing.assert_allclose(np.asarray(a), np.asarray(b), rtol=tolerance, atol=tolerance)


X = RANDOM.normal(size=(5, 4))
LABELS = np.array([0, 2, 1, 1, 0], np.int32)
PARAMS = {
    "w1": RANDOM.normal(size=(4, 6)),
    "b1": RANDOM.normal(size=6),
    "scale": RANDOM.normal(size=6),
    "shift": RANDOM.normal(size=6),
    "w2": RANDOM.normal(size=(6, 3)),
}


def our_network(params, x=X):
    """The loss of an MLP with gelu, layer norm and softmax cross-entropy."""
    h = rlx.nn.gelu(x @ params["w1"] + params["b1"], approximate=False)
    h = rlx.nn.layer_norm(h, params["scale"], params["shift"])
    return rlx.nn.losses.cross_entropy(h @ params["w2"], LABELS)


def their_network(params, x=X):
    h = jax.nn.gelu(x @ params["w1"] + params["b1"], approximate=False)
    h = jax.nn.standardize(h, epsilon=1e-5) * params["scale"] + params["shift"]
    logits = h @ params["w2"]
    return -jnp.mean(jnp.sum(jax.nn.log_softmax(logits) * jax.nn.one_hot(LABELS, 3), axis=-1))


OURS, THEIRS = our_network, their_network
DIRECTION = {name: RANDOM.normal(size=p.shape) for name, p in PARAMS.items()}


def along(loss):
    """The loss along a line through the parameters."""
    return lambda t: loss({k: p + t * DIRECTION[k] for k, p in PARAMS.items()})


def test_gradient_of_a_network():
    close(rlx.value_and_grad(OURS)(PARAMS), jax.jit(jax.value_and_grad(THEIRS))(PARAMS))


def test_compiled_gradient_of_a_network():
    close(rlx.jit(rlx.grad(OURS))(PARAMS), jax.jit(jax.grad(THEIRS))(PARAMS))


def test_hvp_of_a_network():
    _, theirs = jax.jit(lambda *both: jax.jvp(jax.grad(THEIRS), *both))((PARAMS,), (DIRECTION,))
    close(rlx.hvp(OURS, (PARAMS,), (DIRECTION,)), theirs)
    close(rlx.jit(lambda p, d: rlx.hvp(OURS, (p,), (d,)))(PARAMS, DIRECTION), theirs)


def test_pullbacks_take_one_cotangent():
    def both(x):
        return 2 * x, 3 * x

    pull_back = rlx.vjp(both, V)[1]
    for pulled in (pull_back, rlx.linear_transpose(both, V)):
        close(pulled((V, V))[0], 5 * V)
        for cotangents in ((), (V, V)):
            with pytest.raises(errors.ArgumentError, match="a tuple if the result is one"):
                pulled(*cotangents)


def test_third_derivative_of_a_network():
    ours = rlx.grad(rlx.grad(rlx.grad(along(OURS))))
    theirs = jax.jit(jax.grad(jax.grad(jax.grad(along(THEIRS)))))(0.1)
    close(ours(np.float64(0.1)), theirs)
    close(rlx.jit(ours)(np.float64(0.1)), theirs)


def running(np_, scan):
    def loss(w, xs):
        def step(c, x):
            c = np_.tanh(w * c + x)
            return c, c * x

        last, ys = scan(step, xs[0] * 0.0, xs)
        return np_.sum(ys) + last

    return loss


def test_vmap_of_grad_of_scan():
    xs, ws = RANDOM.normal(size=(3, 7)), RANDOM.normal(size=3)
    ours = rlx.vmap(rlx.grad(running(rnp, rlx.scan), argnums=(0, 1)))
    theirs = jax.jit(jax.vmap(jax.grad(running(jnp, jax.lax.scan), argnums=(0, 1))))(ws, xs)
    close(ours(ws, xs), theirs)
    close(rlx.jit(ours)(ws, xs), theirs)


def test_grad_of_vmap_of_cond():
    def build(np_, vmap, cond):
        def one(x, w):
            return cond(x > 0, lambda v: np_.sin(v) * w, lambda v: v * v * w, x)

        return lambda x, w: np_.sum(vmap(one, in_axes=(0, None))(x, w))

    x = RANDOM.normal(size=6)
    ours = rlx.grad(build(rnp, rlx.vmap, rlx.cond), argnums=(0, 1))
    theirs = jax.jit(jax.grad(build(jnp, jax.vmap, jax.lax.cond), argnums=(0, 1)))(x, 1.5)
    close(ours(x, np.float64(1.5)), theirs)
    close(rlx.jit(ours)(x, np.float64(1.5)), theirs)


def test_jit_of_vmap_of_hessian():
    def f(np_):
        return lambda x: np_.sum(np_.sin(x) * x[::-1] ** 2)

    x = RANDOM.normal(size=(2, 3))
    ours = rlx.jit(rlx.vmap(rlx.hessian(f(rnp))))
    close(ours(x), jax.jit(jax.vmap(jax.hessian(f(jnp))))(x))


def test_forward_through_while_and_reverse_with_max_steps():
    def ours(x, **keywords):
        return rlx.while_loop(lambda v: v < 10.0, lambda v: v * v + 1.0, x, **keywords)

    theirs = lambda x: jax.lax.while_loop(lambda v: v < 10.0, lambda v: v * v + 1.0, x)  # noqa: E731
    x = np.float64(0.7)
    value, slope = jax.jit(lambda *both: jax.jvp(theirs, *both))((0.7,), (1.0,))
    close(rlx.jvp(ours, (x,), (np.float64(1.0),)), (value, slope))
    close(rlx.grad(lambda v: ours(v, max_steps=9))(x), slope)
    close(rlx.jit(rlx.grad(lambda v: ours(v, max_steps=9)))(x), slope)


def test_jacobians_agree():
    f = lambda np_: lambda x: np_.stack([np_.sum(x**3), np_.prod(x), x[0]])  # noqa: E731
    x = RANDOM.normal(size=3)
    close(rlx.jacfwd(f(rnp))(x), jax.jit(jax.jacfwd(f(jnp)))(x))
    close(rlx.jacrev(f(rnp))(x), jax.jit(jax.jacrev(f(jnp)))(x))


def test_custom_rules_under_vmap_and_grad():
    @rlx.custom_jvp
    def f(x):
        return rnp.sin(x)

    f.defjvp(lambda primals, tangents: (f(*primals), 3.0 * tangents[0] * primals[0]))
    x = np.array([1.0, 2.0])
    close(rlx.vmap(rlx.grad(f))(x), 3.0 * x)
    close(rlx.grad(rlx.grad(f))(np.float64(1.0)), 3.0)

    @rlx.custom_vjp
    def g(x):
        return rnp.sin(x)

    g.defvjp(lambda x: (g(x), x), lambda x, ct: (5.0 * ct * x,))
    close(rlx.jit(rlx.vmap(rlx.grad(g)))(x), 5.0 * x)


def test_checkpoint_changes_no_number():
    ours = rlx.grad(lambda p: rlx.checkpoint(OURS)(p))
    theirs = jax.jit(jax.grad(THEIRS))(PARAMS)
    close(ours(PARAMS), theirs)
    close(rlx.jit(ours)(PARAMS), theirs)


def test_python_branches_see_values_under_grad():
    def f(x):
        return x * x if x > 0 else -x

    close(rlx.grad(f)(np.float64(3.0)), 6.0)
    close(rlx.grad(f)(np.float64(-3.0)), -1.0)


def test_aux_and_argnums():
    f = lambda x, y: (x * y, {"sum": x + y})  # noqa: E731
    slopes, extra = rlx.grad(f, argnums=(1, 0), has_aux=True)(2.0, 5.0)
    close(slopes, (2.0, 5.0))
    close(extra, {"sum": 7.0})


def test_nested_jit_is_differentiated():
    f = rlx.jit(lambda x: rnp.sin(x) * x)
    x = np.float64(0.3)
    close(rlx.jit(rlx.grad(f))(x), np.cos(0.3) * 0.3 + np.sin(0.3))


# -- custom rules ---------------------------------------------------------------------------------

V = np.array([1.0, 2.0, 3.0])
SCALE = np.array([2.0, 3.0, 4.0])


def custom_jvp_of(fn, rule):
    made = rlx.custom_jvp(fn)
    made.defjvp(lambda primals, tangents: (made(*primals), rule(primals, tangents)))
    return made


def custom_vjp_of(fn, backward, residuals=lambda *xs: xs):
    made = rlx.custom_vjp(fn)
    made.defvjp(lambda *xs: (made(*xs), residuals(*xs)), backward)
    return made


def total(fn):
    return lambda *xs: rnp.sum(fn(*xs))


def test_custom_rules_use_arrays_from_outside():
    f = custom_jvp_of(lambda v: v * SCALE, lambda p, t: t[0] * SCALE * 2.0)
    g = custom_vjp_of(lambda v: v * SCALE, lambda r, ct: (ct * r * SCALE,), lambda v: SCALE)
    many = np.stack([V, V])
    for wrap in (lambda fn: fn, rlx.jit):
        close(wrap(rlx.vmap(rlx.grad(total(f))))(many), np.stack([2.0 * SCALE] * 2))
        close(wrap(rlx.vmap(rlx.grad(total(g))))(many), np.stack([SCALE * SCALE] * 2))


def test_custom_rule_uses_a_value_of_the_enclosing_trace():
    def f(w, v):
        inner = custom_jvp_of(lambda x: rnp.sum(x * w), lambda p, t: rnp.sum(t[0] * w * 3.0))
        return rlx.grad(inner)(v)

    close(rlx.jit(f)(SCALE, V), 3.0 * SCALE)
    with pytest.raises(errors.LeakedTracerError, match="give it as an argument"):
        rlx.grad(total(f))(SCALE, V)


def test_backward_rule_gives_none_numbers_and_skips_integers():
    f = custom_vjp_of(lambda v, w: v * w, lambda r, ct: (None, ct * 2.0))
    close(rlx.grad(total(f), argnums=(0, 1))(V, SCALE), (np.zeros(3), np.full(3, 2.0)))
    g = custom_vjp_of(lambda i, v: v * i, lambda r, ct: (None, ct * r[0] * 2.0))
    close(rlx.grad(lambda v: total(g)(np.array([1, 2, 3]), v))(V), 2.0 * np.arange(1.0, 4.0))
    h = custom_vjp_of(lambda v: v * 2.0, lambda r, ct: (5.0,))
    slope = rlx.grad(h)(np.float64(1.0))
    assert slope.dtype == np.float64 and float(slope) == 5.0


def test_wrong_results_of_rules_are_named():
    summed = lambda v: rnp.sum(v * 2.0)  # noqa: E731
    with pytest.raises(errors.ShapeError, match="cotangent of argument 0 is f64"):
        rlx.grad(custom_vjp_of(summed, lambda r, ct: (ct,)))(V)
    with pytest.raises(errors.StructureError, match="tuple of 1 cotangents"):
        rlx.grad(custom_vjp_of(summed, lambda r, ct: ct))(V)
    with pytest.raises(errors.StructureError, match="the jvp rule's tangent"):
        rlx.grad(custom_jvp_of(summed, lambda p, t: (t[0], t[0])))(V)


def test_nondiff_argnums_names_and_defaults():
    @functools.partial(rlx.custom_jvp, nondiff_argnums=(0,))
    def apply(fn, v):
        return fn(v)

    apply.defjvp(lambda fn, p, t: (fn(p[0]), 7.0 * t[0]))
    close(rlx.grad(lambda v: apply(rnp.sin, v))(np.float64(1.0)), 7.0)

    @functools.partial(rlx.custom_vjp, nondiff_argnums=(1,))
    def apply_to(v, fn):
        return fn(v)

    apply_to.defvjp(lambda v, fn: (fn(v), v), lambda fn, v, ct: (ct * v * 9.0,))
    close(rlx.vmap(rlx.grad(lambda v: apply_to(v, fn=rnp.sin)))(V), 9.0 * V)

    @rlx.custom_jvp
    def scaled(v, scale=2.0):
        return v * scale

    scaled.defjvp(lambda p, t: (scaled(*p), t[0] * p[1] * 10.0))
    close(rlx.grad(scaled)(np.float64(1.0)), 20.0)
    close(rlx.grad(lambda v: scaled(v, scale=3.0))(np.float64(1.0)), 30.0)


def test_custom_rule_in_a_scan_holds_in_second_derivatives():
    f = custom_jvp_of(rnp.sin, lambda p, t: 2.0 * rnp.cos(p[0]) * t[0])
    looped = lambda v: rlx.scan(lambda c, z: (f(c) * z, None), v, np.array([2.0, 3.0]))[0]  # noqa: E731
    x = np.float64(0.7)
    # by hand, with f' = 2 cos by the rule; JAX's own reverse over reverse forgets the rule here
    y = 2.0 * np.sin(x)
    second = -96.0 * np.sin(y) * np.cos(x) ** 2 - 24.0 * np.cos(y) * np.sin(x)
    close(rlx.grad(rlx.grad(looped))(x), second)
    close(rlx.hvp(looped, (x,), (np.float64(1.0),)), second)


# -- arguments, structures, axes ------------------------------------------------------------------


def test_python_numbers_are_tangents_of_any_dtype():
    x = np.float64(0.3)
    close(rlx.jit(lambda v: rlx.jvp(rnp.sin, (v,), (1.0,)))(x), (np.sin(0.3), np.cos(0.3)))
    close(rlx.jit(lambda v: rlx.vjp(rnp.sin, v)[1](1.0))(x), (np.cos(0.3),))


def test_wrong_tangents_are_named():
    with pytest.raises(errors.StructureError):
        rlx.jvp(lambda d: d["a"], ({"a": V},), ({"b": V},))
    with pytest.raises(errors.StructureError, match="is a tuple"):
        rlx.jvp(rnp.sin, (V,), ((1.0, 2.0, 3.0),))
    with pytest.raises(errors.ShapeError, match="the tangent of argument 0 of sin"):
        rlx.jvp(rnp.sin, (V,), (1.0,))
    with pytest.raises(errors.ShapeError, match="the cotangent"):
        rlx.vjp(rnp.sin, V)[1](1.0)
    with pytest.raises(errors.DtypeError, match="f32"):
        rlx.linearize(rnp.sin, V)[1](V.astype("float32"))
    with pytest.raises(errors.GradientError, match="integers have no gradient"):
        rlx.jacfwd(lambda i: i * 2.0)(np.array([1, 2]))
    with pytest.raises(errors.ArgumentError, match="argnums 2"):
        rlx.jacrev(rnp.sin, argnums=2)(V)


@pytest.mark.parametrize("argnums", [-1, (0, 1)])
def test_jacobians_of_chosen_arguments(argnums):
    f = lambda np_: lambda a, b: {"p": np_.sin(a) * b**2, "q": np_.sum(a)}  # noqa: E731
    g = lambda np_: lambda a, b: np_.sum(np_.sin(a) * b**2)  # noqa: E731
    for ours, theirs in ((rlx.jacfwd, jax.jacfwd), (rlx.jacrev, jax.jacrev)):
        close(ours(f(rnp), argnums)(V, SCALE), jax.jit(theirs(f(jnp), argnums))(V, SCALE))
        close(ours(f(rnp))(V, b=SCALE), jax.jit(theirs(f(jnp)))(V, b=SCALE))
        aux = lambda v: (v * v, {"v": v})  # noqa: E731
        close(ours(aux, has_aux=True)(V), jax.jit(theirs(aux, has_aux=True))(V))
    close(rlx.hessian(g(rnp), argnums)(V, SCALE), jax.jit(jax.hessian(g(jnp), argnums))(V, SCALE))
    both = jax.jit(lambda *both: jax.jvp(jax.grad(g(jnp), (0, 1)), *both)[1])(
        (V, SCALE), (SCALE, V)
    )
    close(rlx.hvp(g(rnp), (V, SCALE), (SCALE, V)), both)


@pytest.mark.parametrize("out_axes", [0, (0, 1), (-1, -1), (0, -2)])
def test_vmap_axes_of_trees(out_axes):
    f = lambda np_: lambda d, s: (np_.sum(d["u"]) * s, d["v"] + s)  # noqa: E731
    table = np.arange(12.0).reshape(3, 4)
    given, axes = {"u": table, "v": table.T}, ({"u": -1, "v": 0}, None)
    theirs = jax.jit(jax.vmap(f(jnp), axes, out_axes))(given, 2.0)
    close(rlx.vmap(f(rnp), axes, out_axes)(given, 2.0), theirs)


def test_vmap_shares_python_numbers_and_branches_on_them():
    half = np.ones(3, np.float16)
    f = rlx.vmap(lambda x, s: x * s if s > 1 else x, in_axes=(0, None))
    assert f(half, 2.0).dtype == np.float16
    close(f(half, 2.0), 2.0 * half)


def test_wrong_axes_are_named():
    with pytest.raises(errors.AxisError, match="out_axes 5"):
        rlx.vmap(rnp.sin, out_axes=5)(np.ones((3, 4)))
    with pytest.raises(errors.ShapeError, match="argument 1 of pair, b: "):

        def pair(a, b):
            return a

        rlx.vmap(pair)(np.ones(3), np.ones(4))
    with pytest.raises(errors.StructureError, match="in_axes and the argument differ"):
        rlx.vmap(lambda d: d["a"], in_axes=({"b": 0},))({"a": V})
    with pytest.raises(errors.ArgumentError, match="not an axis"):
        rlx.vmap(rnp.sin, in_axes=("z",))(V)


def test_results_do_not_share_memory_with_arguments():
    given = np.ones(3)
    value, _ = rlx.jvp(lambda v: v, (given,), (np.ones(3),))
    given[...] = 9.0
    close(value, np.ones(3))


def test_gradients_of_unused_and_shared_arguments():
    close(rlx.grad(lambda a, b: rnp.sum(a), argnums=(0, 1))(V, SCALE), (np.ones(3), np.zeros(3)))
    close(rlx.grad(lambda a: 3.0)(V), np.zeros(3))
    _, pull_back = rlx.vjp(lambda v, i: v * i, V, np.array([1, 2, 3]))
    assert pull_back(V)[1].shape == (3,)
    close(
        rlx.grad(lambda v: rnp.sum(rlx.checkpoint(lambda a, s: a * s)(v, 2.0)))(V), np.full(3, 2.0)
    )
