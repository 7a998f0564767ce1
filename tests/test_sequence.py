"""Sequences: calls of compiled functions made as one give what they give one by one."""

import threading

import numpy as np
import pytest

import rlx
import rlx.numpy as rnp
from rlx.ir.errors import ArgumentError, DonatedError, ShapeError, StructureError

N = {0: "n"}
X = rlx.array([0.5, -1.5, 2.0])


def layer(w, x, state):
    """A new state, in the memory of the old one, and a new x."""
    state = state + x * w
    return state, rnp.tanh(x + 0.25 * state)


def compiled(fn, *given, dynamic=None, device=None, **options):
    return rlx.jit(fn, dynamic=dynamic, device=device, **options).lower(*given).compile()


def layers(count, device=None, **options):
    """Copies of a layer with weights of their own, which use up the state they are given."""
    options = {"dynamic": {"x": N, "state": N}, **options} if device is None else options
    one = compiled(layer, X[0], X, X, donate_argnames="state", device=device, **options)
    return [one.with_bound(w=rlx.array(0.5 + i)) for i in range(count)]


def fresh(values):
    """An array in memory of compiled code, which nobody else refers to."""
    return rlx.jit(lambda x: x + 0.0)(np.asarray(values, np.float32))


def place(array):
    return np.asarray(array).__array_interface__["data"][0]


def stacked(parts):
    def stack(call, x, states):
        after = []
        for each, state in zip(parts, states, strict=True):
            state, x = call(each, x, state)
            after.append(state)
        return {"x": x, "states": after}

    return rlx.sequence(stack, X, [X] * len(parts))


def one_by_one(parts, x, states):
    after = []
    for each, state in zip(parts, states, strict=True):
        state, x = each(x, state)
        after.append(state)
    return x, after


@pytest.mark.parametrize("device", [None, "reference"])
@pytest.mark.parametrize("count", [1, 4])
def test_calls_in_sequence_are_calls_one_by_one(count, device):
    parts = layers(count, device)
    run, rng = stacked(parts), np.random.default_rng(0)
    for size in (3, 3, 17, 1, 3) if device is None else (3, 3):
        x, *states = (rng.normal(size=size).astype(np.float32) for _ in range(count + 1))
        wanted_x, wanted = one_by_one(parts, x, [rlx.array(s) for s in states])
        found = run(x, [rlx.array(s) for s in states])
        np.testing.assert_array_equal(found["x"], wanted_x)
        for mine, other in zip(found["states"], wanted, strict=True):
            np.testing.assert_array_equal(mine, other)


def test_what_is_donated_is_changed_in_place():
    run = stacked(layers(3))
    states = [fresh([i, 1.0, 2.0]) for i in range(3)]
    places = [place(s) for s in states]
    x = X
    for _ in range(3):
        before = states
        found = run(x, states)
        x, states = found["x"], found["states"]
        assert [place(s) for s in states] == places
        with pytest.raises(DonatedError):
            _ = before[0] + 1


def test_memory_that_a_view_shows_is_left_alone():
    run = stacked(layers(2))
    states = [fresh([1.0, 1.0, 1.0]), fresh([2.0, 2.0, 2.0])]
    view = np.asarray(states[1])[1:]
    found = run(X, states)
    assert (view == 2).all()
    assert place(found["states"][1]) != view.__array_interface__["data"][0]


def test_a_result_on_its_way_gives_its_memory_to_the_next():
    (part,) = layers(1)

    def twice(call, x, state):
        state, x = call(part, x, state)
        state, x = call(part, x, state)
        return state, x, state

    run, state = rlx.sequence(twice, X, X), fresh([1.0, 2.0, 3.0])
    where = place(state)
    state_after, x_after = part(X, rlx.array(np.array(state)))
    wanted, wanted_x = part(x_after, state_after)
    found, x, again = run(X, state)
    assert place(found) == where == place(again)
    np.testing.assert_array_equal(found, wanted)
    np.testing.assert_array_equal(x, wanted_x)


def test_any_wiring_of_calls():
    """Random sequences: results are used many times, or by nobody, and handed out."""
    rng = np.random.default_rng(0)
    pair = compiled(lambda x, y: (x * 0.5 + y, x - y * y), X, X, dynamic={"x": N, "y": N})
    one = compiled(lambda x: rnp.sin(x), X, dynamic={"x": N})
    for _ in range(20):
        picks = [(rng.random() < 0.6, *rng.random(2)) for _ in range(rng.integers(1, 9))]
        wanted = rng.random(4)

        def run(call, *args, picks=picks, wanted=wanted):
            known = list(args)
            for is_pair, *places in picks:
                chosen = [known[int(len(known) * p)] for p in places]
                known += call(pair, *chosen) if is_pair else [call(one, chosen[0])]
            made = known[len(args) :]
            return [made[int(len(made) * p)] for p in wanted]

        args = [rng.normal(size=5).astype(np.float32) for _ in range(3)]
        found = rlx.sequence(run, *args)(*args)
        for mine, other in zip(found, run(lambda f, *xs: f(*xs), *args), strict=True):
            np.testing.assert_array_equal(mine, other)


def test_arrays_that_a_call_is_given_are_constants():
    pair = compiled(lambda x, y: x * y, X, X)
    table = np.array([1.0, 2.0, 3.0], np.float32)
    run = rlx.sequence(lambda call, x: call(pair, call(pair, x, rlx.array(table)), table), X)
    table[:] = 0  # a copy was taken
    np.testing.assert_array_equal(run(X), np.asarray(X) * np.array([1, 4, 9], np.float32))


def test_threads_make_calls_at_the_same_time():
    parts = layers(6)
    run, found = stacked(parts), {}

    def work(n):
        for _ in range(20):
            states = [rlx.array(np.full(n, i, np.float32)) for i in range(6)]
            found.setdefault(n, []).append(
                np.asarray(run(np.full(n, 0.5, np.float32), states)["x"])
            )

    threads = [threading.Thread(target=work, args=(n,)) for n in (1, 7, 64, 1000)]
    for t in threads:
        t.start()
    for t in threads:
        t.join()
    for n, every in found.items():
        states = [rlx.array(np.full(n, i, np.float32)) for i in range(6)]
        right, _ = one_by_one(parts, np.full(n, 0.5, np.float32), states)
        assert all((x == right).all() for x in every)


# -- errors ---------------------------------------------------------------------------------------


def test_what_is_not_compiled_is_named():
    with pytest.raises(ArgumentError, match="calls a function, not a compiled function"):
        rlx.sequence(lambda call, x: call(rnp.sin, x), X)


def test_one_device():
    here, there = compiled(rnp.sin, X), compiled(rnp.sin, X, device="reference")
    with pytest.raises(ArgumentError, match="for cpu and reference"):
        rlx.sequence(lambda call, x: call(there, call(here, x)), X)


def test_results_fit_where_they_go():
    wide, narrow = compiled(rnp.sin, rnp.zeros(4)), compiled(rnp.cos, X)
    with pytest.raises(ShapeError, match=r"f32\[3\], but the array it is given is f32\[4\]"):
        rlx.sequence(lambda call, x: call(narrow, call(wide, x)), X)


def test_what_was_donated_is_gone():
    (part,) = layers(1)

    def reused(call, x, state):
        call(part, x, state)
        return call(part, x, state)

    with pytest.raises(DonatedError, match="donated to layer before"):
        rlx.sequence(reused, X, X)
    with pytest.raises(ArgumentError, match="what it donates as a constant, or twice"):
        rlx.sequence(lambda call, x: call(part, x, x), X)
    with pytest.raises(ArgumentError, match="no call returned"):
        rlx.sequence(lambda call, x: x, X)


def test_arguments_go_by_position():
    run = stacked(layers(2))
    with pytest.raises(ArgumentError, match="stack go by position, states by keyword"):
        run(X, states=[X, X])
    with pytest.raises(ArgumentError, match="go by position, x by keyword"):
        rlx.sequence(lambda call, x: x, x=X)
    with pytest.raises(ArgumentError, match="is called with `call` and 1 more: too many"):
        rlx.sequence(lambda call: call, X)
    with pytest.raises(ArgumentError, match="max does not tell its arguments"):
        rlx.sequence(max, X)


def test_arguments_fit():
    run = stacked(layers(2))
    with pytest.raises(StructureError, match="was recorded for other arguments"):
        run(X, [X])
    with pytest.raises(rlx.SymbolicSizeError, match="n is 3"):
        run(X, [fresh([1.0, 2.0]), fresh([1.0, 2.0, 3.0])])
    with pytest.raises(ArgumentError, match="cannot be given away"):
        run(X, [np.zeros(3, "f")] * 2)
