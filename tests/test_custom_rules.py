"""Options of custom rules, functions that hold arrays, and the breakpoint."""

from __future__ import annotations

import bdb
import io

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import rlx
import rlx.numpy as rnp
from rlx.ir.errors import RlxError

X = np.array([1.0, 2.0, 3.0])


def close(got, wanted):
    np.testing.assert_allclose(got, wanted, rtol=2.0**-44, atol=2.0**-44)


# -- custom_jvp -----------------------------------------------------------------------------------


def test_derivatives_by_each_argument():
    @rlx.custom_jvp
    def f(x, y, n):
        return rnp.sin(x) * y

    f.defjvps(lambda t, out, x, y, n: 3.0 * t * y, None, None)
    close(rlx.grad(f, (0, 1))(2.0, 5.0, 1), (15.0, 0.0))
    close(rlx.vmap(rlx.grad(f), (0, None, None))(X, 2.0, 1), np.full(3, 6.0))

    constant = rlx.custom_jvp(lambda x: {"a": x})
    constant.defjvps(None)
    close(rlx.grad(lambda x: constant(x)["a"])(2.0), 0.0)


def scaled(kind, **options):
    """x ** 2 with a wrong derivative that `mode` picks: a fixed argument of any kind."""

    def scaled(x, mode):
        assert isinstance(mode, str)
        return x**2

    if kind == "jvp":
        made = rlx.custom_jvp(scaled, **options)
        made.defjvp(lambda mode, xs, ts: (made(*xs, mode), len(mode) * ts[0]))
    else:
        made = rlx.custom_vjp(scaled, **options)
        made.defvjp(lambda x, mode: (x**2, None), lambda mode, _, ct: (len(mode) * ct,))
    return made


@pytest.mark.parametrize("kind", ["jvp", "vjp"])
@pytest.mark.parametrize(
    "options", [{"nondiff_argnums": (1,)}, {"nondiff_argnums": 1}, {"nondiff_argnames": "mode"}]
)
def test_fixed_arguments_by_number_or_name(kind, options):
    f = scaled(kind, **options)
    close(rlx.grad(f)(3.0, "four"), 4.0)
    close(rlx.jit(rlx.grad(lambda x: f(x, mode="sixsix")))(3.0), 6.0)


def test_zero_tangents_are_seen():
    seen = []

    @rlx.custom_jvp
    def f(x, y):
        return x * y["a"]

    def f_jvp(primals, tangents):
        t, moving = tangents
        seen.append((isinstance(t, rlx.SymbolicZero), isinstance(moving["a"], rlx.SymbolicZero)))
        zero = moving["a"] if seen[-1][1] else t
        assert (zero.shape, zero.dtype) == ((), np.float64)
        return f(*primals), 10.0 * (primals[1]["a"] * t if seen[-1][1] else moving["a"])

    f.defjvp(f_jvp, symbolic_zeros=True)
    x, y = np.float64(2.0), {"a": np.float64(5.0)}
    close(rlx.grad(f)(x, y), 50.0)
    close(rlx.grad(f, 1)(x, y)["a"], 10.0)
    assert seen == [(False, True), (True, False)]
    close(rlx.vmap(rlx.grad(f), (0, None))(X, y), np.full(3, 50.0))
    close(rlx.jit(rlx.grad(lambda x: f(x, y)))(x), 50.0)
    assert set(seen[2:]) == {(False, True)}


def test_zero_tangents_may_be_returned():
    f = rlx.custom_jvp(lambda x: (2 * x, 3 * x))
    zero = rlx.SymbolicZero(rlx.spec((), "float64"))
    f.defjvp(lambda xs, ts: (f(*xs), (ts[0], zero)), symbolic_zeros=True)
    close(rlx.jacfwd(lambda x: f(x)[1])(np.float64(1.0)), 0.0)
    close(rlx.jacfwd(lambda x: f(x)[0])(np.float64(1.0)), 1.0)


# -- custom_vjp -----------------------------------------------------------------------------------


def pair_of(lib, n, zero, seen):
    """Two results of two arguments, with rules that note what they get."""
    f = lib.custom_vjp(lambda x, y: (x * y, x + y))

    def forward(x, y):
        seen.append((x.perturbed, y.perturbed))
        return (x.value * y.value, x.value + y.value), (x.value, y.value)

    def backward(residuals, cts):
        seen.append(tuple(type(ct) is zero for ct in cts))
        x, y = residuals
        first = 0.0 if seen[-1][0] else cts[0]
        return 7.0 * y * first, x * first

    f.defvjp(forward, backward, symbolic_zeros=True)
    return f


def test_what_is_perturbed_and_which_cotangents_are_zero():
    ours, theirs = [], []
    f = pair_of(rlx, rnp, rlx.SymbolicZero, ours)
    g = pair_of(jax, jnp, jax.custom_derivatives.SymbolicZero, theirs)
    for argnum in (0, 1):
        for result in (0, 1):
            mine = rlx.grad(lambda x, y, i=result: f(x, y)[i], argnum)(2.0, 5.0)
            other = jax.grad(lambda x, y, i=result: g(x, y)[i], argnum)(2.0, 5.0)
            close(mine, other)
    assert ours == theirs
    close(rlx.vmap(rlx.grad(lambda x, y: f(x, y)[0]), (0, None))(X, X[1]), np.full(3, 14.0))
    close(rlx.jit(rlx.grad(lambda x, y: f(x, y)[0]))(2.0, 5.0), 35.0)


@pytest.mark.parametrize(
    ("run", "what"),
    [
        (lambda: rlx.custom_jvp(lambda x: x, nondiff_argnames="y"), "no argument 'y'"),
        (lambda: scaled("jvp", nondiff_argnums=(1,)).defjvps(None), "has nondiff_argnums"),
    ],
)
def test_wrong_options_are_explained(run, what):
    with pytest.raises(RlxError, match=what):
        run()


# -- functions that hold arrays -------------------------------------------------------------------


def test_compiled_functions_may_return_pullbacks():
    value, pull = rlx.jit(lambda x: rlx.vjp(lambda x: rnp.sin(x) * x, x))(X)
    close(value, np.sin(X) * X)
    slope = np.cos(X) * X + np.sin(X)
    close(pull(X)[0], slope * X)
    close(rlx.jit(lambda pull, ct: pull(ct)[0])(pull, X), slope * X)
    assert len(rlx.tree.leaves(pull)) >= 1
    assert "pull_back with" in repr(pull)
    _, push = rlx.jit(lambda x: rlx.linearize(lambda x: (rnp.sin(x) * x, 1.0), x))(X)
    close(push(X)[0], slope * X)
    pulls = rlx.vmap(lambda x: rlx.vjp(rnp.sin, x)[1])(X)
    close(rlx.vmap(lambda pull, ct: pull(ct)[0])(pulls, X), np.cos(X) * X)


def test_closures_are_opened():
    @rlx.custom_vjp
    def applied(fn, x, held):
        return fn(x, *held)

    def loss(a, x):
        fn, held = rlx.closure_convert(lambda y: rnp.sin(y * a) + X[0], x)
        assert len(held) == 1
        apply = rlx.custom_vjp(lambda x, held: fn(x, *held))
        apply.defvjp(
            lambda x, held: (apply(x, held), (x, held)),
            lambda kept, ct: rlx.vjp(lambda x, held: fn(x, *held), *kept)[1](ct),
        )
        return apply(x, held)

    a, x = np.float64(2.0), np.float64(0.3)
    close(rlx.grad(loss, (0, 1))(a, x), (0.3 * np.cos(0.6), 2.0 * np.cos(0.6)))
    close(rlx.jit(rlx.grad(loss))(a, x), 0.3 * np.cos(0.6))
    fn, held = rlx.closure_convert(lambda y: y * 2.0, 1.0)
    assert held == []
    with pytest.raises(RlxError, match="takes 1 arguments"):
        fn(1.0, 2.0)


def test_reverse_mode_in_two_halves():
    fn = lambda p, y: (rnp.sin(p["x"]) * y, p["x"])  # noqa: E731
    for jitted in (True, False):
        forward, backward = rlx.fwd_and_bwd(fn, 0, has_aux=True, jitted=jitted)
        value, pull, extra = forward({"x": X}, 2.0)
        close(value, 2.0 * np.sin(X))
        close(extra, X)
        close(backward(pull, X)["x"], 2.0 * np.cos(X) * X)


def test_the_function_gives_its_own_pullback():
    @rlx.custom_gradient
    def f(x, y):
        n = rnp.argmax(x)
        return {"v": (x * y).sum()}, lambda ct: (7.0 * ct["v"] * y, ct["v"] * x[n] * x)

    loss = lambda x, y: f(x, y)["v"]  # noqa: E731
    wanted = 7.0 * X, 3.0 * X
    for got in (rlx.grad(loss, (0, 1))(X, X), rlx.jit(rlx.grad(loss, (0, 1)))(X, X)):
        close(got, wanted)
    close(rlx.vmap(rlx.grad(loss))(np.outer(X, X), np.outer(X, X)), 7.0 * np.outer(X, X))


# -- the breakpoint -------------------------------------------------------------------------------


def typed(monkeypatch, text):
    monkeypatch.setattr("sys.stdin", io.StringIO(text))


def stops(x, scale):
    doubled = {"y": x * scale}
    rlx.debug.breakpoint()
    return doubled["y"] + 1.0


def test_a_breakpoint_shows_numbers_of_compiled_code(monkeypatch, capsys):
    typed(monkeypatch, "p doubled['y'] + x\nlocals\nscale\np nonsense\n\nwhere\npp X\nc\n")
    close(rlx.jit(lambda x: stops(x, "abc".count("b") + 1))(X), 2 * X + 1)
    shown = capsys.readouterr().out
    assert "breakpoint at test_custom_rules.py" in shown
    assert "array([3., 6., 9.])" in shown
    assert "x scale doubled" in shown
    assert "(rlx) 2\n" in shown
    assert "NameError: name 'nonsense' is not defined" in shown
    assert "> test_custom_rules.py" in shown
    assert "array([1., 2., 3.])" in shown


def test_frames_above_and_the_way_out(monkeypatch, capsys):
    outer = 7
    typed(monkeypatch, "u\np outer\nd\nd\np scale\nhelp\nbt\nq\n")
    with pytest.raises(bdb.BdbQuit):
        stops(X, outer)
    shown = capsys.readouterr().out
    assert "(rlx) 7\n" in shown
    assert "Documented commands" in shown
    typed(monkeypatch, "")
    with pytest.raises(bdb.BdbQuit):
        stops(X, 2.0)


def test_breakpoints_under_transforms(monkeypatch, capsys):
    typed(monkeypatch, "p x\nc\n" * 3)
    close(rlx.vmap(lambda x: stops(x, 2.0))(X), 2 * X + 1)
    shown = capsys.readouterr().out
    assert [shown.count(f"array({n}.)") for n in (1, 2, 3)] == [1, 1, 1]
    typed(monkeypatch, "c\n" * 9)
    close(rlx.grad(lambda x: stops(x, 2.0))(1.0), 2.0)
