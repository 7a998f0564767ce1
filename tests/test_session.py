"""Sessions and compiled graphs: the cache, names, futures, threads, forks, what cannot be run."""

import asyncio

import numpy as np
import pytest

import rlx
import rlx.numpy as rnp
from rlx.ir.errors import (
    ArgumentError,
    DtypeError,
    ShapeError,
    StructureError,
    UnknownDeviceError,
)
from rlx.runtime import CompileCache

X = np.linspace(-1, 1, 12, dtype=np.float32).reshape(3, 4)
W = np.ones((4, 2), np.float32)


def layer(w, x):
    return rnp.tanh(x @ w)


@pytest.fixture
def session() -> rlx.Session:
    return rlx.Session("cpu")


@pytest.fixture
def compiled(session) -> rlx.CompiledGraph:
    return session.compile(layer, W, X)


# -- calls ----------------------------------------------------------------------------------------


def test_a_graph_and_a_function_compile_to_the_same(session):
    graph = rlx.make_graph(layer)(W, X)
    np.testing.assert_array_equal(session.compile(graph)(W, X), session.compile(layer, W, X)(W, X))
    assert session.cache.stats == (stats := session.cache.stats)
    assert (stats.hits, stats.misses, stats.entries) == (1, 1, 1)


def test_specs_stand_for_arrays(session):
    compiled = session.compile(layer, rlx.spec((4, 2)), rlx.spec((3, 4)))
    np.testing.assert_allclose(compiled(W, X), np.tanh(X @ W), rtol=1e-6)


def test_a_function_that_holds_arrays_is_refused(session):
    held = rlx.array(W)
    with pytest.raises(ArgumentError, match="uses arrays from outside"):
        session.compile(lambda x: x @ held, X)


def test_a_device_that_does_not_exist(session):
    with pytest.raises(UnknownDeviceError, match="there is no device 'cpuu'") as caught:
        rlx.Session("cpuu")
    assert "did you mean 'cpu'" in caught.value.fix


def test_results_come_as_a_tuple_unless_there_is_one(session):
    assert session.compile(lambda x: (), X)(X) == ()
    one, two = session.compile(lambda x: (x, x + x), X)(X)
    np.testing.assert_array_equal(two, one + one)


def test_errors_name_the_argument_of_this_function(session):
    """An equal graph that was compiled before has other names."""
    session.compile(lambda a, b: rnp.tanh(b @ a), W, X)
    compiled = session.compile(layer, W, X)
    assert session.cache.stats.entries == 1
    assert compiled.names == ("w", "x")
    with pytest.raises(ShapeError, match="argument 1 of layer, x is f32"):
        compiled(W, X[:2])


def test_run_takes_names(compiled):
    expected = compiled(W, X)
    np.testing.assert_array_equal(compiled.run(x=X, w=W), expected)
    with pytest.raises(ArgumentError, match="layer was run without w") as caught:
        compiled.run(x=X)
    assert caught.value.fix == "pass one array for each of w, x"
    with pytest.raises(ArgumentError, match="layer has no parameter 'y'") as caught:
        compiled.run(x=X, w=W, y=X)
    assert caught.value.fix == "its parameters are w, x"


def test_names_reach_into_trees(session):
    tree = {"w": W, "b": np.ones(2, np.float32)}
    compiled = session.compile(lambda p, x: x @ p["w"] + p["b"], tree, X)
    assert set(compiled.names) == {'p["b"]', 'p["w"]', "x"}
    compiled.set_param('p["w"]', W)
    compiled.set_param('p["b"]', [1.0, 2.0])
    np.testing.assert_allclose(compiled(X), X @ W + [1.0, 2.0], rtol=1e-6)


def test_a_compiled_function_takes_the_structure_it_was_compiled_for():
    difference = rlx.jit(lambda p, n: p["a"] - p["b"] * n, static_argnames="n")
    compiled = difference.lower({"a": X, "b": W[0, 0]}, 3).compile()
    tree = {"b": W[0, 0], "a": X}
    np.testing.assert_array_equal(compiled(tree), X - 3)
    np.testing.assert_array_equal(compiled(tree, 3), X - 3)
    for wrong in [{"x": X, "y": W[0, 0]}, [X, W[0, 0]], {"a": X}]:
        with pytest.raises(StructureError, match="<lambda> was compiled for other arguments"):
            compiled(wrong)
    with pytest.raises(StructureError, match="other fixed data"):
        compiled(tree, 4)
    with pytest.raises(StructureError):
        compiled(tree, 3, 3)


# -- bound parameters -----------------------------------------------------------------------------


def test_set_param_copies_and_bind_shares(compiled):
    w = W.copy()
    compiled.set_param("w", w)
    copied = np.asarray(compiled(X))
    w[...] = 0
    np.testing.assert_array_equal(compiled(X), copied)
    compiled.bind("w", w)
    assert not np.asarray(compiled(X)).any()
    w[...] = 1
    np.testing.assert_array_equal(compiled(X), copied)
    np.testing.assert_array_equal(compiled.bound["w"], w)
    np.testing.assert_array_equal(compiled.run(x=X), copied)


def test_bound_parameters_are_left_out_and_come_back(compiled):
    compiled.bind("x", X)
    with pytest.raises(ArgumentError, match="layer takes 1 arrays, not 2"):
        compiled(W, X)
    compiled.bind("w", W)
    np.testing.assert_allclose(compiled(), np.tanh(X @ W), rtol=1e-6)
    compiled.unbind("x")
    compiled.unbind("w")
    assert compiled.bound == {}
    assert compiled(W, X).shape == (3, 2)


def test_a_parameter_of_another_shape_cannot_be_bound(compiled):
    for bind in (compiled.bind, compiled.set_param):
        with pytest.raises(ShapeError, match=r"argument 0 of layer, w is f32\[5, 2\]"):
            bind("w", np.ones((5, 2), np.float32))
        with pytest.raises(DtypeError, match=r"w is f64\[4, 2\].*compiled for f32\[4, 2\]"):
            bind("w", np.ones((4, 2)))
        with pytest.raises(ArgumentError, match="no parameter 'v'"):
            bind("v", W)
    assert compiled.bound == {}


def test_two_compiled_graphs_of_one_executable_have_their_own_parameters(session):
    first, second = session.compile(layer, W, X), session.compile(layer, W, X)
    first.bind("w", W)
    assert second.bound == {}
    assert second.executable is first.executable


# -- given memory ---------------------------------------------------------------------------------


def test_run_into_writes_to_the_given_arrays(compiled):
    out = np.full((3, 2), 7, np.float32)
    compiled.run_into(W, X, out=[out])
    np.testing.assert_array_equal(out, compiled(W, X))
    compiled.bind("w", W)
    out[...] = 7
    compiled.run_into(X, out=[out])
    np.testing.assert_array_equal(out, compiled(X))


def test_run_into_strided_and_overlapping_arrays(session):
    turn = session.compile(lambda x: x.T + 1.0, np.ones((4, 4), np.float32))
    x = np.arange(16, dtype=np.float32).reshape(4, 4)
    expected = x.T + 1
    wide = np.zeros((4, 8), np.float32)
    turn.run_into(x, out=[wide[:, ::2]])
    np.testing.assert_array_equal(wide[:, ::2], expected)
    assert not wide[:, 1::2].any()
    big_endian = np.zeros((4, 4), ">f4")
    with pytest.raises(ShapeError, match=r"out\[0\] is >f4\[4, 4\], the result is f32"):
        turn.run_into(x, out=[big_endian])
    unaligned = np.zeros(65, np.uint8)[1:].view(np.float32).reshape(4, 4)
    turn.run_into(x, out=[unaligned])
    np.testing.assert_array_equal(unaligned, expected)
    turn.run_into(x, out=[x])
    np.testing.assert_array_equal(x, expected)


def test_run_into_refuses_what_cannot_be_written(session):
    twice = session.compile(lambda x: (x + 1.0, x + 2.0), X)
    out, other = np.zeros_like(X), np.zeros_like(X)
    frozen = np.zeros_like(X)
    frozen.flags.writeable = False
    with pytest.raises(ArgumentError, match="has 2 results, `out` has 1 arrays"):
        twice.run_into(X, out=[out])
    with pytest.raises(ArgumentError, match=r"out\[1\] is read-only") as caught:
        twice.run_into(X, out=[out, frozen])
    assert "np.empty((3, 4), 'float32')" in caught.value.fix
    with pytest.raises(ArgumentError, match=r"out\[1\] is of type Array"):
        twice.run_into(X, out=[out, rlx.array(X)])
    with pytest.raises(ArgumentError, match=r"out\[1\] shares memory"):
        twice.run_into(X, out=[out, out])
    with pytest.raises(ShapeError, match=r"out\[0\] is float32\[2, 4\]"):
        twice.run_into(X, out=[out[:2], other])
    with pytest.raises(ShapeError, match=r"out\[0\] is float64"):
        twice.run_into(X, out=[out.astype(np.float64), other])
    assert not out.any()


# -- futures --------------------------------------------------------------------------------------


def test_submitted_calls_run_in_order(session, monkeypatch):
    add = session.compile(lambda x, y: x + y, X, X)
    order, entry = [], add.executable.entry

    def watched(*arrays):
        order.append(float(arrays[1][0, 0]))
        return entry(*arrays)

    monkeypatch.setattr(add.executable, "entry", watched)
    futures = [add.submit(X, np.full_like(X, i)) for i in range(50)]
    for i, future in enumerate(futures):
        np.testing.assert_array_equal(future.result(60), X + np.float32(i))
    assert order == [float(i) for i in range(50)]


def test_a_submitted_array_may_be_changed_at_once(session):
    add = session.compile(lambda x: x + 1.0, X)
    x, futures = X.copy(), []
    for i in range(20):
        x[...] = i
        futures.append(add.submit(x))
    assert [float(f.result(60)[0, 0]) for f in futures] == [i + 1 for i in range(20)]


def test_what_does_not_fit_is_an_error_when_it_is_submitted(compiled):
    with pytest.raises(ShapeError):
        compiled.submit(W, X[:2])


def by_library(x):
    """A factor of a matrix, for which there is no native code."""
    return rnp.linalg.qr(x)[1]


def failing(session) -> rlx.CompiledGraph:
    """A graph whose first library call raises."""
    compiled = session.compile(lambda x: by_library(x) + 1.0, X)
    library_call(compiled)
    return compiled


def library_call(compiled: rlx.CompiledGraph):
    """The only library call of a compiled graph."""
    program = compiled.executable.program
    (call,) = [s for s in program.steps if type(s).__name__ == "LibraryCall"]
    return call


def test_an_error_while_running_is_in_the_future(session, monkeypatch):
    compiled = failing(session)
    good = compiled.submit(X)
    good.result(60)
    monkeypatch.setattr(type(library_call(compiled).op), "run", broken)
    bad = compiled.submit(X)
    with pytest.raises(ZeroDivisionError, match="in the library"):
        bad.result(60)
    with pytest.raises(ZeroDivisionError, match="in the library"):
        compiled(X)
    monkeypatch.undo()
    np.testing.assert_allclose(compiled.submit(X).result(60), np.linalg.qr(X)[1] + 1, rtol=1e-5)


def broken(*arguments, **known):
    raise ZeroDivisionError("in the library")


def test_run_async_can_be_awaited(compiled):
    async def main():
        return await asyncio.gather(*[compiled.run_async(W, X + i) for i in range(5)])

    for i, result in enumerate(asyncio.run(main())):
        np.testing.assert_array_equal(result, compiled(W, X + np.float32(i)))


def test_run_async_raises_where_it_is_awaited(compiled):
    async def main():
        await compiled.run_async(W, X[:1])

    with pytest.raises(ShapeError):
        asyncio.run(main())


# -- cost -----------------------------------------------------------------------------------------


def test_cost_counts_products_and_bytes(session):
    cost = session.compile(
        lambda a, b: a @ b, np.ones((8, 16), "f4"), np.ones((16, 4), "f4")
    ).cost()
    assert cost.flops == 2 * 8 * 16 * 4
    assert cost.bytes == 4 * (8 * 16 + 16 * 4 + 8 * 4)
    assert cost.peak_bytes == cost.bytes + cost.arena_bytes


def test_cost_counts_rounds_and_instructions(session):
    def rounds(n):
        return lambda x: rlx.fori_loop(0, n, lambda i, c: c * 2.0 + 1.0, x)

    one = session.compile(lambda x: x * 2.0 + 1.0, X).cost()
    assert one.flops == 2 * X.size
    assert one.bytes == 2 * X.nbytes
    few, many = (session.compile(rounds(n), X).cost().flops for n in (10, 1000))
    assert 90 * few < many <= 100 * few
    assert session.compile(lambda x: rnp.sum(x), X).cost().flops == X.size


def test_cost_on_a_device_without_loops():
    cost = rlx.Session("reference").compile(layer, W, X).cost()
    assert (cost.flops, cost.peak_bytes) == (0, X.nbytes + W.nbytes + 24)


# -- the cache ------------------------------------------------------------------------------------


def test_the_least_recently_used_is_dropped():
    cache = CompileCache(capacity=2)
    for key in "abacab":  # c drops b
        cache.get(key, lambda key=key: key.upper())
    assert (cache.stats.hits, cache.stats.misses, cache.stats.entries) == (2, 4, 2)
    cache.get("a", broken)
    with pytest.raises(ZeroDivisionError):
        cache.get("c", broken)
    cache.clear()
    assert cache.stats.entries == 0


def test_a_session_keeps_as_many_as_it_may():
    session = rlx.Session("cpu", capacity=2)
    for scale in (1.0, 2.0, 3.0, 1.0):
        assert float(session.compile(lambda x, s=scale: x * s, X)(X)[0, 0]) == -scale
    assert session.cache.stats.misses == 4
    assert session.cache.stats.entries == 2


def test_a_compile_may_ask_for_another():
    cache = CompileCache(capacity=2)
    assert cache.get("outer", lambda: cache.get("inner", lambda: 1) + 1) == 2
    assert (cache.get("inner", lambda: 9), cache.stats.misses) == (1, 2)


def test_specs_beside_a_graph_are_an_error() -> None:
    graph = rlx.jit(lambda x: x * 2).lower(np.ones(3, "float32")).graph
    with pytest.raises(rlx.errors.ArgumentError, match="whose parameters have types already"):
        rlx.Session("cpu").compile(graph, rlx.spec((9,)))
