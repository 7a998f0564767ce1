"""Python functions called by running programs: how often, with what, and what may go wrong."""

from __future__ import annotations

import numpy as np
import pytest

import rlx
from rlx.ir.errors import (
    ArgumentError,
    AttributeValueError,
    CallbackError,
    CheckError,
    GradientError,
    StructureError,
)

X = np.arange(3, dtype=np.float32)
WRAPS = [lambda fn: fn, rlx.jit, lambda fn: rlx.jit(fn, device="reference")]


@pytest.fixture
def seen() -> list:
    return []


@pytest.mark.parametrize("wrap", WRAPS)
def test_results_come_back(wrap):
    def fn(x):
        made = rlx.pure_callback(
            lambda a, factor: {"sin": np.sin(a), "max": float(a.max()) * factor},
            {"sin": x, "max": rlx.spec(())},
            x,
            factor=2.0,
        )
        return made["sin"] * made["max"]

    np.testing.assert_allclose(wrap(fn)(X), np.sin(X) * 4, rtol=1e-6)


@pytest.mark.parametrize("wrap", WRAPS)
def test_effects_happen_once_and_in_order(wrap, seen):
    def step(total, x):
        rlx.io_callback(lambda a: seen.append(("io", float(a))), None, x)
        rlx.debug.callback(lambda a: seen.append(("debug", float(a))), x)
        return total + x, None

    run = wrap(lambda xs: rlx.scan(step, 0.0, xs)[0])
    assert float(run(X)) == 3
    expected = [(kind, float(x)) for x in X for kind in ("io", "debug")]
    assert seen == expected
    run(X)
    assert seen == expected * 2


def test_a_callback_may_assign_to_an_argument_of_the_call():
    """What the call has read of it stays in memory until the call ends."""
    ones = rlx.jit(lambda x: x * 0 + 1)
    x = ones(np.zeros(100_000, np.float32))
    others = []

    def change(a):
        x[...] = 5.0
        others.extend(ones(x) * 9 for _ in range(4))  # where its elements would have been
        return a

    found = rlx.jit(lambda x: rlx.pure_callback(change, X, x[:3])[0] + x)(x)
    assert set(np.asarray(found).tolist()) == {2.0}


def test_unused_pure_callbacks_are_left_out(seen):
    def fn(x):
        rlx.pure_callback(lambda a: seen.append(1) or a, x, x)
        return x + 1

    rlx.jit(fn)(X)
    assert not seen


def test_constant_operands_do_not_call_while_compiling(seen):
    fn = rlx.jit(lambda x: x + rlx.pure_callback(lambda a: seen.append(1) or a, X, x * 0 + 1))
    fn.lower(X).compile()
    assert not seen
    fn(X)
    assert seen


@pytest.mark.parametrize("wrap", WRAPS)
def test_printing(wrap, capsys):
    def loss(x):
        rlx.debug.print("x[0] is {}, sum {total:.1f}", x[0], total=x.sum())
        return (x * x).sum()

    np.testing.assert_allclose(wrap(rlx.grad(loss))(X), 2 * X)
    assert capsys.readouterr().out == "x[0] is 0.0, sum 3.0\n"


def test_branches_print_only_when_taken(capsys):
    def fn(p, x):
        return rlx.cond(p, lambda x: rlx.debug.print("yes") or x, lambda x: x, x)

    jitted = rlx.jit(fn)
    jitted(True, X), jitted(False, X)
    assert capsys.readouterr().out == "yes\n"


@pytest.mark.parametrize(
    ("method", "shapes"),
    [
        ("sequential", [((), ())] * 3),
        ("expand_dims", [((3,), (1,))]),
        ("broadcast_all", [((3,), (3,))]),
    ],
)
def test_batches(method, shapes, seen):
    def add(a, b):
        seen.append((a.shape, b.shape))
        return (a + b).astype(np.float32)

    one = lambda a, b: rlx.pure_callback(add, rlx.spec(()), a, b, vmap_method=method)  # noqa: E731
    found = rlx.jit(rlx.vmap(one, in_axes=(0, None)))(X, np.float32(2))
    np.testing.assert_allclose(found, X + 2)
    assert seen == shapes


def test_batches_print_each_member(capsys):
    rlx.vmap(lambda x: rlx.debug.print("{}", x))(X)
    assert capsys.readouterr().out == "0.0\n1.0\n2.0\n"


def test_stopped_gradients_pass_by():
    def fn(x):
        fixed = rlx.stop_gradient(x)
        rlx.io_callback(lambda a: None, None, fixed)
        return (x * rlx.pure_callback(np.cos, rlx.spec((3,)), fixed)).sum()

    for wrap in (lambda fn: fn, rlx.jit):
        np.testing.assert_allclose(wrap(rlx.grad(fn))(X), np.cos(X), rtol=1e-6)


def test_a_rule_gives_the_derivative():
    @rlx.custom_jvp
    def sine(x):
        return rlx.pure_callback(np.sin, rlx.spec((3,)), x)

    sine.defjvp(lambda primals, tangents: (sine(*primals), rlx.numpy.cos(*primals) * tangents[0]))
    np.testing.assert_allclose(rlx.grad(lambda x: sine(x).sum())(X), np.cos(X), rtol=1e-6)


def test_functions_may_keep_what_they_get_but_not_change_it(seen):
    fn = rlx.jit(lambda x: (rlx.io_callback(seen.append, None, x * 2), x)[1])
    for i in range(3):
        fn(X + i)
    np.testing.assert_array_equal(seen, [(X + i) * 2 for i in range(3)])

    def write(a):
        a[...] = 0

    given = rlx.array(X)
    with pytest.raises(ValueError, match="read-only"):
        rlx.jit(lambda x: (rlx.debug.callback(write, x), x + 1)[1])(given)
    np.testing.assert_array_equal(given, X)
    mine = np.ones(3, np.float32)
    result = rlx.pure_callback(lambda a: mine, rlx.spec((3,)), X)
    mine[0] = 9
    assert float(result[0]) == 1


def test_calls_without_traced_operands_happen_when_the_program_runs(seen):
    fn = rlx.jit(lambda x: (rlx.io_callback(lambda: seen.append(1), None), x + 1)[1])
    for _ in range(3):
        fn(1.0)
    assert len(seen) == 3

    def branch(x):
        call = lambda: rlx.io_callback(lambda: seen.append(2), None)  # noqa: E731
        rlx.cond(x > 5, call, lambda: None)
        rlx.cond(x > 5, lambda: rlx.check(False, "never"), lambda: None)
        return x

    rlx.jit(branch)(1.0)
    assert 2 not in seen
    with pytest.raises(CheckError):
        rlx.jit(branch)(6.0)

    def loop(x):
        rlx.debug.callback(seen.append, 10)
        rlx.scan(lambda c, i: (c, rlx.debug.callback(seen.append, i)), 0, np.arange(2))
        rlx.debug.callback(seen.append, 20)
        return x

    seen.clear()
    rlx.jit(loop)(1.0)
    assert [int(x) for x in seen] == [10, 0, 1, 20]


def test_linearize_does_nothing_twice(seen):
    def power(x):
        def step(c):
            rlx.io_callback(seen.append, None, c[0])
            return c[0] + 1, c[1] * x

        return rlx.while_loop(lambda c: c[0] < 3, step, (0, 1.0))[1]

    assert float(rlx.jit(lambda x: rlx.linearize(power, x)[1](1.0))(2.0)) == 12
    assert len(seen) == 3


# -- errors ---------------------------------------------------------------------------------------


@pytest.mark.parametrize("wrap", WRAPS)
def test_errors(wrap):
    call = lambda fn, spec, **options: wrap(  # noqa: E731
        lambda x: rlx.pure_callback(fn, spec, x, **options)
    )(X)
    with pytest.raises(CallbackError, match=r"gave f64\[3\], it was to give f32\[3\]"):
        call(lambda a: a.astype(np.float64), rlx.spec((3,)))
    with pytest.raises(CallbackError, match=r"gave f32\[2\]"):
        call(lambda a: a[:2], rlx.spec((3,)))
    with pytest.raises(StructureError, match="pure_callback"):
        call(lambda a: a, (rlx.spec((3,)), rlx.spec((3,))))
    with pytest.raises(KeyError, match="mine"):
        call(lambda a: {}["mine"], rlx.spec((3,)))
    with pytest.raises(ArgumentError, match="no shape and dtype"):
        call(np.sin, 5)
    with pytest.raises(AttributeValueError, match="no vmap_method"):
        call(np.sin, rlx.spec((3,)), vmap_method="fast")
    with pytest.raises(ArgumentError, match="not a function"):
        call(5, rlx.spec((3,)))
    with pytest.raises(GradientError, match="nothing is known of the derivative"):
        wrap(rlx.grad(lambda x: rlx.pure_callback(np.sum, rlx.spec(()), x)))(X)


@pytest.mark.parametrize("wrap", WRAPS)
def test_checks(wrap):
    def root(x, low=0.0):
        rlx.check(x >= low, "{} is below {low}", x, low=low)
        return rlx.numpy.sqrt(x).sum()

    fn = wrap(root)
    assert float(fn(X)) > 0
    with pytest.raises(CheckError, match=r"\[ 1. -1.\] is below 0.0") as caught:
        fn(np.array([1.0, -1.0], np.float32))
    assert "in root" in caught.value.where and isinstance(caught.value, AssertionError)
    assert float(fn(X)) > 0
    for transform in (rlx.grad(root), rlx.vmap(root)):
        np.asarray(wrap(transform)(X + 1))
        with pytest.raises(CheckError, match="is below"):
            wrap(transform)(X - 1)
