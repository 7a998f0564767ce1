"""What a jitted function keeps, and why it is compiled again."""

from __future__ import annotations

import sys

import jax
import numpy as np
import pytest

import rlx
import rlx.numpy as rnp
from rlx.ir.errors import GradientError, RecompileError, StructureError
from rlx.trace import short_ways
from rlx.transforms import repeated

X = np.ones(3, np.float32)


def scaled(x, params, n=1):
    return x * params["w"] * n


def test_the_reason_names_the_argument():
    f = rlx.jit(scaled, static_argnames="n")
    f(X, {"w": 2.0})
    assert f.cache_info().reason == "" and f.cache_info().compiles == 1
    f(np.ones(4, np.float32), {"w": 2.0})
    assert f.cache_info().reason == "argument 0 of scaled, x is f32[4], was f32[3]"
    f(X, {"w": X})
    expected = 'argument 1 of scaled, params["w"] is f32[3], was f32[] (a Python number)'
    assert f.cache_info().reason == expected
    f(X, {"w": X.astype(np.float64)})
    assert f.cache_info().reason == expected.replace(
        "f32[3], was f32[] (a Python number)", "f64[3], was f32[3]"
    )
    f(X, {"w": 2.0, "v": 1.0})
    assert "['v', 'w'] in this call" in f.cache_info().reason.replace("'v', 'w'", "['v', 'w']")
    f(X, {"w": 3.0}, n=2)
    assert "n" in f.cache_info().reason
    assert f.cache_info().entries == f.cache_info().compiles == 6
    f(X, {"w": 5.0})
    assert f.cache_info().compiles == 6


def test_the_reason_is_printed(capfd):
    f = rlx.jit(scaled, static_argnames="n")
    with rlx.debug(1):
        f(X, {"w": 2.0})
        f(X[:2], {"w": 2.0})
    printed = capfd.readouterr().err
    assert "scaled: compiled again, argument 0 of scaled, x is f32[2], was f32[3]" in printed


def test_compiles_can_be_forbidden():
    f = rlx.jit(scaled, static_argnames="n")
    with rlx.no_recompile(), pytest.raises(RecompileError, match="for the first time"):
        f(X, {"w": 2.0})
    f(X, {"w": 2.0})
    with rlx.no_recompile():
        f(X + 1, {"w": 3.0})
        with pytest.raises(RecompileError, match=r"x is f32\[2\], was f32\[3\]") as caught:
            f(X[:2], {"w": 2.0})
    assert "test_recompile.py" in caught.value.where
    f(X[:2], {"w": 2.0})


def test_only_the_recent_kinds_are_kept(monkeypatch):
    monkeypatch.setattr(sys.modules["rlx.transforms.jit.jitted"], "KEPT", 3)
    f = rlx.jit(lambda x: x + 1)
    for n in (1, 2, 3, 1, 4, 5):
        assert f(np.zeros(n, np.float32)).shape == (n,)
    info = f.cache_info()
    assert (info.entries, info.limit, info.compiles) == (3, 3, 5)
    f(np.zeros(1, np.float32))
    assert f.cache_info().compiles == 5
    f.cache_clear()
    f(np.zeros(1, np.float32))
    assert f.cache_info().entries == 1 and f.cache_info().compiles == 6


# -- clear_caches ---------------------------------------------------------------------------------


def test_clear_caches_lets_all_be_recorded_and_compiled_anew():
    recorded = []

    def f(x):
        recorded.append(0)
        return (x * 3).sum()

    jitted, session, x = rlx.jit(f), rlx.Session("cpu"), np.arange(4.0, dtype=np.float32)
    held, graph = jitted.lower(x).compile(), rlx.make_graph(f)(x)
    slope, norm = rlx.grad(lambda x: (x * x).sum()), lambda: rnp.std(x)
    recorded.clear()
    for times in (1, 2):
        found = [jitted(x), slope(x), slope(x), norm(), held(x), session.compile(graph)(x)]
        expected = [18.0, 2 * x, 2 * x, np.std(x), 18.0, 18.0]
        for one, wanted in zip(found, expected, strict=True):
            np.testing.assert_allclose(one, wanted, rtol=1e-6)
        jitted(x)
        assert len(recorded) == jitted.cache_info().compiles == times
        assert session.cache.stats.misses == times
        rlx.clear_caches()
        assert jitted.cache_size() == session.cache.stats.entries == 0
        assert not repeated._families and not any(map(len, short_ways._all))


# -- linear_transpose -----------------------------------------------------------------------------


def test_linear_transpose():
    a = np.arange(6.0, dtype=np.float32).reshape(2, 3)

    def fn(x, y):
        return {"r": a @ x["v"] - 2 * y, "s": x["v"].sum()}

    given = ({"v": X}, np.ones(2, np.float32))
    ct = {"r": np.array([1.0, 2.0], np.float32), "s": np.float32(3.0)}
    found = rlx.linear_transpose(fn, *given)(ct)
    wanted = jax.linear_transpose(fn, *given)(ct)
    for ours, theirs in zip(rlx.tree.leaves(found), jax.tree.leaves(wanted), strict=True):
        np.testing.assert_allclose(ours, theirs)
    by_type = rlx.linear_transpose(fn, {"v": rlx.spec((3,))}, rlx.spec((2,)))(ct)
    np.testing.assert_allclose(by_type[0]["v"], found[0]["v"])


def test_linear_transpose_errors():
    with pytest.raises(GradientError, match="not linear"):
        rlx.linear_transpose(lambda x: x * x, X)
    with pytest.raises(GradientError, match="integers are not linear"):
        rlx.linear_transpose(lambda x: x, np.arange(3))
    with pytest.raises(StructureError):
        rlx.linear_transpose(lambda x: (x, x), X)(rnp.ones(3))
