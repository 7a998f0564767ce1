"""`rlx.from_jax`: functions of JAX, replayed by rlx, give what they give in JAX."""

from __future__ import annotations

import functools
import threading
from concurrent.futures import ThreadPoolExecutor

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import rlx
import rlx.numpy as rnp
from rlx.interop.containers import Keys
from rlx.interop.replay import RULES
from tests.parity.compare import difference
from tests.parity.converted import Converted, is_convertible
from tests.parity.differences import unlisted
from tests.parity.engine import check_recorded
from tests.parity.record import recorded, sample

X = np.linspace(-1.0, 2.0, 12, dtype=np.float32).reshape(3, 4)


def agree(found, wanted):
    """Whether all leaves are equal within rounding."""
    plain = [x.data if isinstance(x, Keys) else x for x in jax.tree.leaves(found)]
    said = difference(plain, jax.tree.leaves(wanted), list)
    assert not said, said


def agrees(fun, *args, **options):
    """Whether a converted function, compiled by rlx, agrees with itself in JAX."""
    agree(rlx.jit(rlx.from_jax(fun, **options))(*args), jax.jit(fun)(*args))


# -- the parity suite ---------------------------------------------------------------------------


@functools.cache
def answers():
    return recorded()


@pytest.mark.parametrize("part", range(4))
def test_cases_of_the_parity_suite(part):
    said = []
    for case, _ in sample()[::4][part::4]:
        if is_convertible(case):
            converted = Converted(case.module, case.text)
            said += unlisted(case, list(check_recorded(converted, ("value",), answers())))
    assert not said, "\n\n".join(said)


# -- calls and control flow ---------------------------------------------------------------------


def test_derivatives_of_all_kinds():
    def f(x):
        return jnp.sum(jnp.tanh(x) ** 2 * x)

    converted = rlx.from_jax(f)
    agree(rlx.jit(rlx.grad(converted))(X), jax.grad(f)(X))
    agree(rlx.grad(converted)(X), jax.grad(f)(X))
    agree(rlx.jit(rlx.hessian(converted))(X[0]), jax.hessian(f)(X[0]))
    agree(rlx.jit(rlx.vmap(rlx.grad(converted)))(X), jax.vmap(jax.grad(f))(X))
    agrees(jax.grad(f), X)
    agrees(jax.hessian(f), X[0])


def test_a_function_is_applied_as_often_as_a_place_is_named():
    for places, is_unique in (([1, 1, 3, 1], False), ([0, 9, 0], False), ([2, 0], True)):
        found = np.array(places)

        def f(x, found=found, is_unique=is_unique):
            return x.at[found].apply(lambda y: y * 2 + 1, unique_indices=is_unique)

        agrees(f, jnp.asarray(X[0]))
        agree(rlx.from_jax(f)(rnp.array(X[0])), f(jnp.asarray(X[0])))
        agrees(jax.vmap(f), jnp.asarray(X))


def test_threads_meet_a_container_of_jax_at_once():
    rlx.from_jax(jnp.sin)
    begin = threading.Barrier(4)

    def leaves(tree):
        begin.wait()
        return len(rlx.tree.leaves(tree))

    with ThreadPoolExecutor(4) as pool:
        for i in range(20):
            cls = type(f"Container{i}", (), {"part": X})
            make = lambda _, children, cls=cls: cls()  # noqa: E731
            jax.tree_util.register_pytree_node(cls, lambda x: ((x.part, x.part), None), make)
            assert list(pool.map(leaves, [cls()] * 4)) == [2] * 4


def test_loops_and_choices():
    def f(x, n):
        def step(carry, row):
            return carry * 0.5 + row, jnp.sum(carry)

        last, sums = jax.lax.scan(step, x[0], x, reverse=True, unroll=2)
        grown = jax.lax.while_loop(lambda p: p[0] < n, lambda p: (p[0] + 1, p[1] * 1.5), (0, last))
        chosen = jax.lax.cond(n > 2, jnp.sin, jnp.cos, grown[1])
        return jax.lax.switch(n, [jnp.exp, jnp.tanh, jnp.negative], chosen), sums

    for n in (0, 1, 3):
        agrees(f, X, np.int32(n))
    gradient = jax.grad(lambda x: jnp.sum(jax.lax.scan(lambda c, r: (c * r, c), x[0], x)[1]))
    agrees(gradient, X)


def test_loops_of_batches():
    def halvings(x):
        return jax.lax.while_loop(lambda p: p[0] > 1, lambda p: (p[0] / 2, p[1] + 1), (x, 0))

    agrees(jax.vmap(halvings), np.array([1.0, 9.0, 100.0], np.float32))
    converted = rlx.vmap(rlx.from_jax(halvings))
    found = rlx.jit(converted)(np.array([1.0, 9.0], np.float32))
    assert [x.tolist() for x in found] == [[1.0, 9 / 16], [0, 4]]


def test_custom_derivatives_are_kept():
    @jax.custom_jvp
    def doubled(x, n):
        return x * n

    doubled.defjvp(lambda primals, tangents: (doubled(*primals), 50 * tangents[0]))

    @jax.custom_vjp
    def scaled(x, n):
        return x * n

    scaled.defvjp(lambda x, n: (x * n, (x, n)), lambda kept, ct: (ct * 100 * kept[0], None))
    for fun in (doubled, scaled):
        wanted = jax.grad(fun)(2.0, 3)
        agree(rlx.grad(rlx.from_jax(fun))(2.0, 3), wanted)
        agree(rlx.jit(rlx.grad(rlx.from_jax(fun)))(2.0, 3), wanted)
        many = rlx.vmap(rlx.grad(rlx.from_jax(fun)), (0, None))
        agree(rlx.jit(many)(X[0], 3.0), jax.vmap(jax.grad(fun), (0, None))(X[0], 3.0))


def test_derivatives_at_corners_are_those_of_jax():
    zeros = np.zeros(3, np.float32)
    for fun in (jax.nn.relu, jax.nn.silu, lambda x: jnp.logaddexp(x, x), jax.nn.gelu):
        agree(rlx.grad(rlx.from_jax(lambda x, fun=fun: fun(x).sum()))(zeros),
              jax.grad(lambda x, fun=fun: fun(x).sum())(zeros))  # fmt: skip


def test_checkpoints_and_equations_to_solve():
    def f(x):
        return jnp.sum(jax.checkpoint(lambda y: jnp.sin(jnp.sin(y)))(x))

    agree(rlx.jit(rlx.grad(rlx.from_jax(f)))(X), jax.grad(f)(X))

    def solved(a):
        return jnp.sum(jnp.linalg.solve(a @ a.T + jnp.eye(3), jnp.ones(3)))

    agree(rlx.jit(rlx.grad(rlx.from_jax(solved)))(X), jax.grad(solved)(X))


def test_pooling_differentiated_by_jax():
    def pooled(x):
        windows = (1, 2, 2, 1)
        found = jax.lax.reduce_window(x, -jnp.inf, jax.lax.max, windows, windows, "VALID")
        return jnp.sum(found**2)

    images = np.random.default_rng(0).normal(size=(2, 4, 4, 3)).astype(np.float32)
    agrees(jax.grad(pooled), images)
    agrees(lambda x: jax.jvp(pooled, (x,), (x + 1,)), images)
    agree(rlx.jit(rlx.grad(rlx.from_jax(pooled)))(images), jax.grad(pooled)(images))


def test_callbacks(capsys):
    def f(x):
        jax.debug.print("x is {x}", x=x)
        shape = jax.ShapeDtypeStruct((), jnp.float32)
        return jax.pure_callback(lambda v: np.asarray(v) * 2, shape, x)

    assert rlx.jit(rlx.from_jax(f))(3.0) == 6.0
    assert capsys.readouterr().out == "x is 3.0\n"


def test_dispatch_on_the_platform():
    def f(x):
        return jax.lax.platform_dependent(x, cpu=jnp.sin, default=jnp.cos)

    agrees(f, X)


# -- random numbers -----------------------------------------------------------------------------


def test_random_numbers_are_those_of_jax():
    def f(key):
        first, second = jax.random.split(jax.random.fold_in(key, 7))
        many = jax.random.split(second, (2, 3))
        return (
            jax.random.normal(first, (3,)),
            jax.random.bits(second, (5,), "uint8"),
            jax.random.permutation(first, 9),
            jax.vmap(jax.vmap(jax.random.uniform))(many),
            jax.random.gamma(second, jnp.array([0.3, 2.0])),
        )

    agrees(f, jax.random.key(3))
    untyped = rlx.jit(rlx.from_jax(lambda key: jax.random.bits(key, (3,))))
    agree(untyped(rlx.random.key(3)), jax.random.bits(jax.random.key(3), (3,)))
    agrees(lambda: jax.random.normal(jax.random.key(5), (2,)))


def test_typed_keys_come_and_go():
    advance = rlx.jit(rlx.from_jax(lambda key: jax.random.split(key, 2)))
    first = advance(jax.random.key(0))
    assert isinstance(first, Keys)
    assert first.shape == (2,)
    assert "fry" in repr(first)
    pick = rlx.jit(rlx.from_jax(lambda keys: jax.random.uniform(keys[1])))
    wanted = jax.random.uniform(jax.random.split(jax.random.key(0), 2)[1])
    agree(pick(first), wanted)


def test_gamma_follows_its_parameter():
    def f(a):
        return jax.random.gamma(jax.random.key(3), a, (4,)).sum()

    agree(rlx.jit(rlx.grad(rlx.from_jax(f)))(2.0), jax.grad(f)(2.0))


# -- types and arguments ------------------------------------------------------------------------


def test_float64_stays():
    found = rlx.from_jax(lambda x: jnp.sum(jnp.exp(x)) + 1)(np.ones(2))
    assert found.dtype == np.float64
    assert found == 2 * np.e + 1


def test_integers_are_as_in_jax():
    assert rlx.from_jax(lambda x: x * 2)(np.arange(3)).dtype == np.int32
    with pytest.raises(rlx.DtypeError, match="do not fit"):
        rlx.from_jax(lambda x: x * 2)(np.arange(3) + 2**40)
    with jax.enable_x64(True):
        assert rlx.from_jax(lambda x: x * 2)(np.arange(3) + 2**40).dtype == np.int64


def test_weak_types_are_kept():
    scaled = rlx.from_jax(lambda x: x * 2)
    half = rnp.ones(2, "float16")
    assert rlx.jit(lambda y, x: scaled(x) * y)(half, 3.0).dtype == np.float16
    assert rlx.jit(lambda y, x: scaled(x) * y)(half, rnp.float32(3.0)).dtype == np.float32


def test_static_arguments():
    def f(x, n, *, mode="times"):
        return x * n if mode == "times" else x

    converted = rlx.from_jax(f, static_argnums=1, static_argnames="mode")
    assert converted(2.0, 3) == converted(2.0, n=3) == 6
    assert converted(2.0, 3, mode="no") == 2
    jitted = rlx.jit(converted, static_argnums=1, static_argnames="mode")
    assert jitted(2.0, 3, mode="no") == 2


def test_weights_from_outside_are_no_constants():
    weights = jnp.ones((64, 64))
    graph = rlx.make_graph(rlx.from_jax(lambda x: x @ weights))(np.ones((2, 64), np.float32))
    assert len(graph.params) == 2
    assert not any(node.op.name == "constant" for node in graph.nodes)


def test_large_arrays_from_nothing_are_recorded():
    def masked(x):
        return jnp.where(jnp.tril(jnp.ones((64, 64), bool)), x, -jnp.inf) + jnp.zeros((64, 64))

    graph = rlx.make_graph(rlx.from_jax(masked))(np.ones((64, 64), np.float32))
    assert len(graph.params) == 1


def test_lines_are_those_of_the_jax_function():
    def f(x):
        return jnp.sin(x)  # this line

    graph = rlx.make_graph(rlx.from_jax(f))(X)
    assert "this line" in str(graph.nodes[0].source)


# -- errors -------------------------------------------------------------------------------------


def test_an_unknown_primitive_is_named():
    def f(x):
        return jax.lax.rng_uniform(x, 2.0, (3,))

    with pytest.raises(rlx.UnknownPrimitive) as caught:
        rlx.jit(rlx.from_jax(f))(1.0)
    assert "`rng_uniform`" in caught.value.what
    assert "jax.lax.rng_uniform(x, 2.0, (3,))" in caught.value.where


def test_what_cannot_be_converted():
    with pytest.raises(rlx.ArgumentError, match="not a function"):
        rlx.from_jax(3)
    with pytest.raises(rlx.DtypeError, match="static_argnums"):
        rlx.from_jax(lambda x, s: x)(1.0, "text")
    with pytest.raises(rlx.SymbolicSizeError, match="sizes that are numbers"):
        rlx.make_graph(rlx.from_jax(jnp.sin))(rlx.spec(("n",)))


NOT_ONE_DEVICE = ("all_", "axis_index", "ppermute", "ragged_all")
NO_MEANING = (
    "after_all create_token hessenberg rng_bit_generator rng_uniform select_and_scatter tridiagonal"
).split()


def test_the_table_knows_every_primitive_of_lax():
    modules = (jax.lax, jax.lax.linalg)
    pairs = [(module, name) for module in modules for name in dir(module) if name.endswith("_p")]
    names = {getattr(module, name).name for module, name in pairs}
    missing = [n for n in names - set(RULES) if not n.startswith(NOT_ONE_DEVICE)]
    assert sorted(missing) == NO_MEANING
