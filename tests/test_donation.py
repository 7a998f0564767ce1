"""Donated arguments: their memory becomes a result's, and using them again is an error."""

import pickle
import threading

import numpy as np
import pytest

import rlx
import rlx.numpy as rnp
from rlx.ir.errors import ArgumentError, DonatedError, StaticArgumentError

N = 1000


def ones(*shape: int) -> rlx.Array:
    """An array in memory of compiled code, which nobody else refers to."""
    return rlx.jit(lambda x: x + 1.0)(np.zeros(shape or (N,), np.float32))


def place(array: rlx.Array) -> int:
    return np.asarray(array).__array_interface__["data"][0]


def donating(fn, *names: str):
    return rlx.jit(fn, donate_argnames=names)


# -- memory ---------------------------------------------------------------------------------------


def test_a_result_takes_over_the_memory():
    update = donating(lambda w, g: w - 0.5 * g, "w")
    w, g = ones(), ones()
    before = place(w)
    for i in range(4):
        w = update(w, g)
        assert place(w) == before
        np.testing.assert_array_equal(w, np.full(N, 1 - 0.5 * (i + 1), np.float32))


def test_memory_that_a_view_shows_is_left_alone():
    update = donating(lambda w: w * 2.0, "w")
    w = ones()
    view = np.asarray(w)[5:]
    before = place(w)
    doubled = update(w)
    assert place(doubled) != before
    assert (view == 1).all()
    assert (np.asarray(doubled) == 2).all()


def test_memory_of_a_numpy_array_is_left_alone():
    theirs = np.ones(N, np.float32)
    shared = rlx.Array(theirs)
    doubled = donating(lambda w: w * 2.0, "w")(shared)
    assert (theirs == 1).all() and (np.asarray(doubled) == 2).all()


def test_a_bound_array_is_left_alone():
    session = rlx.Session("cpu")
    w = ones()
    keeper = session.compile(lambda w, x: w + x, w, w)
    keeper.bind("w", w)
    donating(lambda w: w * 2.0, "w")(w)
    assert (np.asarray(keeper(np.zeros(N, np.float32))) == 1).all()


def test_an_update_of_one_row_writes_one_row():
    update = donating(lambda cache, i, row: cache.at[i].set(row), "cache")
    cache = ones(6, 5)
    before, expected = place(cache), np.ones((6, 5), np.float32)
    for i in (2, 4, 2):
        row = np.arange(5, dtype=np.float32) + i
        cache = update(cache, np.int32(i), row)
        expected[i] = row
        np.testing.assert_array_equal(cache, expected)
        assert place(cache) == before


def test_what_is_returned_unchanged_keeps_its_memory():
    same = donating(lambda x, y: (x, y + 1.0), "x", "y")
    x, y = ones(), ones()
    places = place(x), place(y)
    results = same(x, y)
    assert tuple(map(place, results)) == places
    assert [np.asarray(r)[0] for r in results] == [1, 2]


def test_swapped_arguments_are_not_written_over_too_early():
    swap = donating(lambda x, y: (y, x), "x", "y")
    x, y = ones(), rlx.jit(lambda x: x + 5.0)(np.zeros(N, np.float32))
    for expected in [(5, 1), (1, 5)]:
        x, y = swap(x, y)
        assert (np.asarray(x) == expected[0]).all() and (np.asarray(y) == expected[1]).all()


HARD = {
    "transposed": (lambda x: x.T * 2.0, (32, 32)),
    "reversed": (lambda x: x[::-1] + 1.0, (N,)),
    "rolled": (lambda x: rnp.roll(x, 3) + x, (N,)),
    "softmax": (lambda x: rnp.exp(x - rnp.max(x, -1, keepdims=True)), (40, 70)),
    "normalized": (lambda x: (x - rnp.mean(x, -1, keepdims=True)) * x, (40, 70)),
    "by column": (lambda x: x - rnp.sum(x, 0), (40, 70)),
    "cumulative": (lambda x: rnp.cumsum(x, 0) - x, (40, 70)),
    "sorted": (lambda x: rnp.sort(x, -1), (40, 70)),
    "product": (lambda x: x @ x - x, (150, 150)),
    "product of a long sum": (lambda x: x - 0.1 * (x @ x.T), (700, 700)),
    "gathered": (lambda x: x[rnp.argsort(x[:, 0])], (40, 70)),
    "scattered": (lambda x: x.at[1:].add(x[:-1]), (40, 70)),
    "repeated": (lambda x: rlx.fori_loop(0, 5, lambda i, c: c * 0.5 + c.T, x), (30, 30)),
    "chosen": (lambda x: rlx.cond(rnp.sum(x) > 1, lambda x: x.T + x, lambda x: x, x), (30, 30)),
    "twice": (lambda x: (x + 1.0, x.T * 2.0), (30, 30)),
    "moments": (lambda x: (x * 0.9, x * x, x / (1.0 + x * x)), (N,)),
}


@pytest.mark.parametrize("name", HARD)
def test_results_are_the_same_with_donation(name):
    fn, shape = HARD[name]
    start = np.random.default_rng(0).normal(size=shape).astype(np.float32)
    expected = rlx.jit(fn)(start)
    given = rlx.jit(lambda x: x + 0.0)(start)
    results = donating(fn, "x")(given)
    many = isinstance(expected, tuple)
    for want, got in zip(
        expected if many else [expected], results if many else [results], strict=True
    ):
        np.testing.assert_array_equal(np.asarray(got), np.asarray(want))


def test_an_optimizer_step_moves_nothing():
    def step(state, gradient):
        m = 0.9 * state["m"] + 0.1 * gradient
        v = 0.99 * state["v"] + 0.01 * gradient * gradient
        w = state["w"] - 0.1 * m / (rnp.sqrt(v) + 1e-8)
        return {"m": m, "v": v, "w": w}

    fast = donating(step, "state")
    state = {name: ones() for name in "mvw"}
    expected = {name: np.ones(N, np.float32) for name in "mvw"}
    gradient = np.linspace(-1, 1, N, dtype=np.float32)
    plain = rlx.jit(step)
    for _ in range(3):
        places = {place(x) for x in state.values()}
        state, expected = fast(state, gradient), plain(expected, gradient)
        assert {place(x) for x in state.values()} == places
        for name in "mvw":
            np.testing.assert_array_equal(state[name], expected[name])


def test_the_report_says_what_becomes_of_donated_memory():
    fn = donating(lambda w, x: w * rnp.sum(x), "w", "x")
    report = fn.lower(ones(), ones(3, 3)).compile().report()
    assert "donated w: result 0 takes its memory" in report
    assert "donated x: no result can take it" in report


# -- using a donated array ------------------------------------------------------------------------

USES = {
    "add": lambda x: x + 1,
    "shape": lambda x: x.shape,
    "dtype": lambda x: x.dtype,
    "host": lambda x: x.host(),
    "asarray": np.asarray,
    "index": lambda x: x[0],
    "len": len,
    "iter": list,
    "float": float,
    "bool": bool,
    "repr": repr,
    "str": str,
    "equal": lambda x: x == x,
    "at": lambda x: x.at[0].set(1),
    "sum": rnp.sum,
    "numpy sum": np.sum,
    "pickle": pickle.dumps,
    "tolist": lambda x: x.tolist(),
    "wait": lambda x: x.block_until_ready(),
    "jit": rlx.jit(lambda x: x),
    "grad": rlx.grad(rnp.sum),
    "dlpack": np.from_dlpack,
}


@pytest.mark.parametrize("name", USES)
def test_every_use_of_a_donated_array_is_an_error(name):
    x = ones()
    USES["jit"](ones())  # the fast way of a compiled function must see it, too
    donating(lambda w: w + 1.0, "w")(x)
    with pytest.raises(DonatedError, match="was used after it was donated"):
        USES[name](x)


def test_the_error_names_where_it_was_donated():
    def train(params):
        return {"w": params["w"] + 1.0}

    step, w = donating(train, "params"), ones()
    step({"w": w})
    with pytest.raises(DonatedError) as caught:
        w + 1
    text = str(caught.value)
    assert 'donated as argument 0 of train, params["w"]' in text
    assert "test_donation.py" in text and 'step({"w": w})' in text
    assert "fix    use the array that the function returned instead" in text


def test_an_array_is_donated_even_if_nothing_can_use_its_memory():
    x = ones()
    donating(lambda w: rnp.sum(w), "w")(x)
    with pytest.raises(DonatedError):
        _ = x.shape


# -- what cannot be donated -----------------------------------------------------------------------


def test_a_numpy_array_cannot_be_donated():
    step = donating(lambda w: w + 1.0, "w")
    with pytest.raises(ArgumentError, match="w is donated, but a NumPy array") as caught:
        step(np.ones(3, np.float32))
    assert "rlx.array(x)" in caught.value.fix


def test_numbers_may_stand_in_donated_trees():
    step = donating(lambda state: {"w": state["w"] + 1.0, "n": state["n"] + 1}, "state")
    assert int(step({"w": ones(), "n": 3})["n"]) == 4


def test_an_array_is_donated_once():
    x = ones()
    with pytest.raises(ArgumentError, match="a is donated, but the same array is also"):
        donating(lambda a, b: (a + 1.0, b + 1.0), "a", "b")(x, x)
    with pytest.raises(ArgumentError, match="argument 0 of <lambda>, a") as caught:
        donating(lambda a, b: a + b, "b")(x, x)
    assert "argument 1 of <lambda>, b is donated" in str(caught.value)
    assert x.shape == (N,)  # a call that is refused gives nothing away


def test_an_array_the_function_holds_cannot_be_donated():
    x = ones()
    with pytest.raises(ArgumentError, match="is donated, but the same array is also"):
        donating(lambda w: w + x, "w")(x)


def test_a_call_that_is_refused_gives_nothing_away():
    compiled = rlx.Session("cpu").compile(
        lambda w, x: w + x, ones(), ones(), options=rlx.CompileOptions(donate=("w",))
    )
    w = ones()
    with pytest.raises(TypeError):
        compiled(w, np.ones(3, np.float32))
    assert (np.asarray(compiled(w, np.ones(N, np.float32))) == 2).all()
    with pytest.raises(DonatedError):
        compiled(w, np.ones(N, np.float32))


def test_a_donated_parameter_cannot_be_bound():
    options = rlx.CompileOptions(donate=("w",))
    compiled = rlx.Session("cpu").compile(lambda w, x: w + x, ones(), ones(), options=options)
    with pytest.raises(ArgumentError, match="'w' of <lambda> is donated"):
        compiled.bind("w", ones())
    compiled.bind("x", ones())
    assert float(compiled(ones())[0]) == 2


def test_names_that_do_not_exist_cannot_be_donated():
    with pytest.raises(ArgumentError, match="no parameter 'v' to donate") as caught:
        options = rlx.CompileOptions(donate=("v",))
        rlx.Session("cpu").compile(lambda w: w, ones(), options=options)
    assert caught.value.fix == "its parameters are w"
    with pytest.raises(StaticArgumentError, match="donate_argnames"):
        rlx.jit(lambda w: w, donate_argnames="v")


def test_a_static_argument_cannot_be_donated():
    with pytest.raises(StaticArgumentError, match="'n' is static and donated"):
        rlx.jit(lambda x, n: x, static_argnames="n", donate_argnames=("x", "n"))


def test_of_two_threads_one_gets_the_array():
    step = donating(lambda w: w + 1.0, "w")
    step(ones())
    outcomes: list[str] = []

    def work(x: rlx.Array, gate: threading.Barrier) -> None:
        gate.wait()
        try:
            outcomes.append(str(float(step(x)[0])))
        except DonatedError:
            outcomes.append("donated")

    for _ in range(30):
        x, gate = ones(), threading.Barrier(2)
        threads = [threading.Thread(target=work, args=(x, gate)) for _ in range(2)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    assert sorted(outcomes) == ["2.0"] * 30 + ["donated"] * 30


def test_donation_inside_of_another_trace_is_left_to_the_outer_one():
    inner = donating(lambda w: w * 2.0, "w")
    x = ones()
    assert float(rlx.jit(lambda x: rnp.sum(inner(x) + x))(x)) == 3 * N
    assert x.shape == (N,)


def test_donation_on_the_reference_device():
    step = rlx.jit(lambda w: w + 1.0, donate_argnames="w", device="reference")
    x = ones()
    assert float(step(x)[0]) == 2
    with pytest.raises(DonatedError):
        step(x)
