"""What a compile, a session and the clocks are told: each wrong value is an error that names it."""

import time

import numpy as np
import pytest
from hypothesis import given, settings, strategies as st

import rlx
from rlx.ir.errors import ArgumentError, StaticArgumentError
from rlx.runtime.options import options_of

X = np.linspace(-1, 1, 4, dtype=np.float32).reshape(2, 2)
WRONG = {
    "name": [3, None, b"x"],
    "check": ["yes", 1, 0],
    "donate": [3, [1], ("x", None)],
    "specialize": [1, None, "n"],
    "debug_nans": [1, None, "yes"],
    "buckets": [{"n": 4}, {"n": ()}, {"n": (0,)}, {1: (4,)}, "n", 7, {"n": (True,)}],
    "deterministic": ["threads", 1],
    "tier": ["slow", None, 2],
    "fixed": [-3, True, 1.0, "1"],
    "precision": ["zz", 3],
}


@pytest.mark.parametrize("field", WRONG)
def test_a_wrong_value_names_its_field(field):
    for value in WRONG[field]:
        with pytest.raises((ArgumentError, StaticArgumentError), match=f"`?{field}`? ") as caught:
            rlx.CompileOptions(**{field: value})
        assert "test_options.py" in str(caught.value) and caught.value.fix


anything = st.one_of(
    st.none(), st.booleans(), st.integers(-3, 3), st.text(max_size=3), st.lists(st.text())
)


@settings(deadline=None, max_examples=25)
@given(st.sampled_from([name for name in WRONG if name != "precision"]), anything)
def test_options_are_hashable_or_an_error(field, value):
    try:
        options = rlx.CompileOptions(**{field: value})
    except (ArgumentError, StaticArgumentError):
        return
    hash(options)


def test_options_may_be_a_dict():
    session = rlx.Session("cpu")
    compiled = session.compile(lambda x: x + 1, X, options={"donate": ["x"], "tier": "fast"})
    assert compiled.donated == (0,)
    assert options_of(None) == options_of({}) == rlx.CompileOptions()
    with pytest.raises(ArgumentError, match="no field 'teir'") as caught:
        session.compile(lambda x: x, X, options={"teir": "max"})
    assert "did you mean 'tier'?" in caught.value.fix
    with pytest.raises(ArgumentError, match="`options` is of type str"):
        session.compile(lambda x: x, X, options="max")  # type: ignore[arg-type]


@pytest.mark.parametrize("device", ["cpu", "reference"])
@pytest.mark.parametrize("fixed", [1, 2, 3])
def test_fixed_parameters_may_be_given_in_each_call(device, fixed):
    def f(x, w, b):
        return rlx.nn.gelu(x @ w) + b

    x, w, b = X, np.float32(0.5) + X.T, np.ones(2, np.float32)
    session = rlx.Session(device)
    expected = np.asarray(session.compile(f, x, w, b)(x, w, b))
    compiled = session.compile(f, x, w, b, options=rlx.CompileOptions(fixed=fixed))
    np.testing.assert_allclose(compiled(x, w, b), expected, rtol=1e-6)
    np.testing.assert_allclose(compiled(x, rlx.array(w), b[::-1]), expected, rtol=1e-6)
    np.testing.assert_allclose(compiled.run(b=b, w=w, x=x), expected, rtol=1e-6)
    out = np.empty((2, 2), np.float32)
    compiled.run_into(x, w, b, out=[out])
    np.testing.assert_allclose(out, expected, rtol=1e-6)
    compiled.set_param("w", w)
    np.testing.assert_allclose(compiled(x, b), expected, rtol=1e-6)
    with pytest.raises(rlx.ShapeError, match="b is f32"):
        compiled(x, np.ones(3, np.float32))


def test_more_fixed_parameters_than_there_are():
    with pytest.raises(ArgumentError, match="fixed is 2"):
        rlx.Session("cpu").compile(lambda x: x, X, options=rlx.CompileOptions(fixed=2))


def test_buckets_need_open_sizes():
    with pytest.raises(ArgumentError, match="no size of <lambda> is left open") as caught:
        rlx.jit(lambda x: x, buckets={"n": (4,)})(X)
    assert "dynamic=" in caught.value.fix
    options = rlx.CompileOptions(buckets={"n": (8, 4)})  # type: ignore[arg-type]
    assert options.buckets == (("n", (4, 8)),)
    with pytest.raises(ArgumentError, match="is left open"):
        rlx.Session("cpu").compile(lambda x: x, X, options=options)
    compiled = rlx.Session("cpu").compile(lambda x: x + 1, rlx.spec(("n",)), options=options)
    assert compiled(X[0]).shape == (2,)


def test_bound_arguments_may_be_all_that_was_open():
    f = rlx.jit(lambda x, w: x.sum() * w, dynamic={"x": {0: "n"}}, buckets={"n": (4,)})
    compiled = f.lower(X[0], X).compile()
    compiled.bind(x=X[0])
    np.testing.assert_allclose(compiled(X), X[0].sum() * X, rtol=1e-6)


@pytest.mark.parametrize("capacity", [-1, 1.5, True, "many", None])
def test_the_capacity_of_a_session_is_a_number(capacity):
    with pytest.raises(ArgumentError, match="Session: capacity is "):
        rlx.Session("cpu", capacity=capacity)


def test_a_session_may_keep_nothing():
    session = rlx.Session("reference", capacity=0)
    assert session.compile(lambda x: x + 1, X)(X).shape == (2, 2)
    assert session.cache.stats.entries == 0


def test_a_session_tells_its_policy():
    assert rlx.Session("cpu").policy.text == "as_written"
    with rlx.precision("f16"):
        assert rlx.Session("cpu").policy.text == "always_f16"
    session = rlx.Session("cpu", policy="bf16")
    assert session.policy == session.compile(lambda x: x * 2, X).precision
    other = session.with_policy("mixed_f16")
    assert (other.device, other.policy.text, session.policy.text) == (
        "cpu",
        "mixed_f16",
        "always_bf16",
    )
    with pytest.raises(ArgumentError, match="two names of one thing"):
        rlx.Session("cpu", policy="f16", precision="f16")
    third = rlx.with_policy("f16")(lambda x: x / 3)
    assert third(np.ones(1, np.float32)).item() == np.float16(1) / np.float16(3)


# -- clocks ---------------------------------------------------------------------------------------


def test_time_ns_waits_for_results(monkeypatch):
    waited = []
    monkeypatch.setattr(
        rlx.Array, "block_until_ready", lambda self: waited.append(time.sleep(0.002))
    )
    taken = rlx.time_ns(lambda x: {"y": x}, 3, args=[rlx.array(1.0)])
    assert len(waited) == 3 and taken >= 2e6
    assert rlx.time_ns(lambda: object(), rounds=1) > 0


def test_wrong_numbers_of_rounds_and_bytes():
    for rounds in (0, -1, 1.0, True, 2**70):
        with pytest.raises(ArgumentError, match="time_ns: rounds is "):
            rlx.time_ns(lambda: None, rounds=rounds)  # type: ignore[arg-type]
    for nbytes in (-1, 0, 1e6, "64"):
        with pytest.raises(ArgumentError, match="CacheBuster: nbytes is "):
            rlx.CacheBuster(nbytes)  # type: ignore[arg-type]
    rlx.CacheBuster(1 << 10).thrash()


def test_ticks_have_a_difference():
    first, second = rlx.Tick(5), rlx.Tick(12)
    assert second - first == 7 and first - second == -7
    with pytest.raises(TypeError):
        first - 3  # type: ignore[operator]


# -- several calls --------------------------------------------------------------------------------


@pytest.mark.parametrize("seconds", [0.0, 1.0])  # what is worth a thread: everything, nothing
@pytest.mark.parametrize("device", ["cpu", "reference"])
def test_many_calls_give_their_results_in_order(device, seconds, monkeypatch):
    monkeypatch.setattr("rlx.runtime.queue.WORTH_A_THREAD", seconds)
    weights = {"w": X}
    f = rlx.jit(lambda p, x: {"y": x @ p["w"]}, device=device)
    calls = [(weights, np.full(2, i, np.float32)) for i in range(6)]
    expected = [np.asarray(f(*call)["y"]) for call in calls]
    compiled = f.lower(*calls[0]).compile()
    graph = rlx.Session(device).compile(lambda w, x: x @ w, X, calls[0][1])
    named = [{"w": X, "x": x} for _, x in calls]
    for found in (f.run_many(calls), compiled.run_many(calls)):
        np.testing.assert_array_equal([y["y"] for y in found], expected)
    np.testing.assert_array_equal(graph.run_many(named), expected)
    compiled.bind(p=weights)
    np.testing.assert_array_equal(
        [y["y"] for y in compiled.run_many([x for _, x in calls])], expected
    )
    assert f.run_many([]) == []


def test_the_errors_of_many_calls():
    f = rlx.jit(lambda x, y: x @ y)
    calls = [(X, X), (X, X[0, :1]), (X, "x"), (X, X)]
    made = f.run_many(calls, return_errors=True)
    assert [type(x).__name__ for x in made] == ["Array", "ShapeError", "DtypeError", "Array"]
    for runner in (f, f.lower(X, X).compile(), rlx.Session("cpu").compile(f, X, X)):
        ran = []
        with pytest.raises(rlx.ShapeError) as caught:
            runner.run_many(ran.append(i) or call for i, call in enumerate(calls))
        assert ran == [0, 1, 2, 3] and "test_options.py" in str(caught.value)
        with pytest.raises(ArgumentError, match="run_many was given a str"):
            runner.run_many("calls")


def test_submitted_calls_of_functions():
    f = rlx.jit(lambda x, y: {"z": x - y})
    compiled = f.lower(X, X).compile()
    for runner in (f, compiled):
        np.testing.assert_array_equal(runner.submit(X, 2 * X).result()["z"], -X)
        with pytest.raises(rlx.ShapeError):
            runner.submit(X, np.ones((3, 3), np.float32))
    compiled.bind(y=X)
    np.testing.assert_array_equal(compiled.submit(X).result()["z"], X - X)


# -- what jit compiled, looked at -----------------------------------------------------------------


def test_a_compiled_function_tells_its_cost_and_names():
    compiled = rlx.jit(lambda p, x: x @ p["w"] + np.float32(1)).lower({"w": X}, X).compile()
    assert compiled.names == ('p["w"]', "x")
    assert compiled.cost().flops == 2 * 2 * 2 * 2 + 4
    held = rlx.array(X)
    assert rlx.jit(lambda x: x @ held).lower(X).compile().names == ("x",)


def test_parameters_of_a_compiled_function_are_set_one_by_one():
    compiled = rlx.jit(lambda a, p, x: a * x + p["b"]).lower(X, {"b": X}, X).compile()
    b = X.copy()
    compiled.set_param("p", {"b": b})
    compiled.set_param("a", X)
    b[:] = 9
    assert compiled.bound == ("a", "p")
    np.testing.assert_allclose(compiled(X), X * X + X, rtol=1e-6)
    compiled.set_param("a", 2 * X)
    np.testing.assert_allclose(compiled(X), 2 * X * X + X, rtol=1e-6)
    compiled.unbind("p")
    np.testing.assert_allclose(compiled({"b": b}, X), 2 * X * X + b, rtol=1e-6)
    compiled.unbind("a")
    np.testing.assert_allclose(compiled(X, {"b": b}, X), X * X + b, rtol=1e-6)
    with pytest.raises(ArgumentError, match="'a' of <lambda> is not bound"):
        compiled.unbind("a")
    compiled.bind(a=X, x=X)
    with pytest.raises(ArgumentError, match="were bound together"):
        compiled.set_param("p", {"b": b})
    with pytest.raises(ArgumentError, match="were bound together"):
        compiled.unbind("a")
