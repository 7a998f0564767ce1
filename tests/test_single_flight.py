"""Threads that call a new function at once: one records it, and nobody waits forever."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import pytest

import rlx
import rlx.numpy as rnp
from rlx.runtime.cache import SingleFlight

THREADS = 16


def _at_once(jobs: Sequence[Callable[[], Any]]) -> list[Any]:
    """The results of jobs on threads that start together, errors included."""
    gate, found = threading.Barrier(len(jobs)), [None] * len(jobs)

    def run(i: int) -> None:
        gate.wait()
        try:
            found[i] = jobs[i]()
        except Exception as error:
            found[i] = error

    threads = [threading.Thread(target=run, args=(i,), daemon=True) for i in range(len(jobs))]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)
        assert not thread.is_alive(), "threads wait for each other"
    return found


@pytest.mark.parametrize("device", [None, "reference"])
@pytest.mark.parametrize("way", ["call", "run_async", "run_into", "method"])
def test_one_thread_records_for_all(way: str, device: str | None) -> None:
    count = [0]

    def slow(x: Any) -> Any:
        count[0] += 1
        time.sleep(0.02)
        return rnp.tanh(x) @ x

    f, x = rlx.jit(slow, device=device), np.ones((3, 3), "f4")

    def into() -> Any:
        out = np.empty((3, 3), "f4")
        f.run_into(x, out=out)
        return out

    ways = {
        "call": lambda: f(x),
        "run_async": lambda: f.run_async(x).result(),
        "run_into": into,
        "method": lambda: f.__get__(x)(),
    }
    for result in _at_once([ways[way]] * THREADS):
        np.testing.assert_allclose(result, np.tanh(x) @ x, rtol=1e-6)
    assert count == [1]
    assert f.cache_info().compiles == 1


def test_kinds_are_recorded_once_each() -> None:
    count: dict[int, int] = {}

    def slow(x: Any) -> Any:
        count[x.size] = count.get(x.size, 0) + 1
        time.sleep(0.005)
        return x + 1

    f = rlx.jit(slow)
    sizes = [1 + i % 3 for i in range(THREADS)]
    results = _at_once([lambda n=n: f(np.zeros(n, "f4")) for n in sizes])
    assert [r.shape for r in results] == [(n,) for n in sizes]
    assert count == {1: 1, 2: 1, 3: 1}


def test_arrays_of_a_device_are_recorded_for_once() -> None:
    count = [0]

    def slow(x: Any) -> Any:
        count[0] += 1
        time.sleep(0.02)
        return x * 2

    f, x = rlx.jit(slow), rlx.device_put(np.ones(3, "f4"), "reference")
    _at_once([lambda: f(x)] * THREADS)
    assert count == [1]


def test_an_error_does_not_stay() -> None:
    """Every thread gets an error or a result of its own, and the next call works."""
    left = [5]

    def failing(x: Any) -> Any:
        time.sleep(0.002)
        left[0] -= 1
        if left[0] >= 0:
            raise ValueError("not yet")
        return x + 1

    f = rlx.jit(failing)
    results = _at_once([lambda: f(np.ones(3, "f4"))] * THREADS)
    assert sum(isinstance(r, ValueError) for r in results) == 5
    assert all(isinstance(r, ValueError) or r.tolist() == [2, 2, 2] for r in results)
    assert left == [-1]


def test_a_function_may_call_itself_while_it_is_recorded() -> None:
    depth = [0]

    def again(x: Any) -> Any:
        depth[0] += 1
        return x + (f(np.ones(3, "f4")) if depth[0] < 3 else 0)

    f = rlx.jit(again)
    assert f(np.ones(3, "f4")).tolist() == [3, 3, 3]


@pytest.mark.parametrize("count", [2, 3, 5])
def test_functions_that_call_each_other_on_known_arrays(count: int) -> None:
    """Each is recorded by a thread while it calls the next one, in a circle."""
    gate, first = threading.Barrier(count), set[int]()
    made: list[Any] = []

    def link(i: int) -> Callable[[Any], Any]:
        def f(x: Any) -> Any:
            if i in first:  # it comes back to where it began
                return x * 1
            first.add(i)
            gate.wait(30)
            return x + made[(i + 1) % count](np.ones(3, "f4"))

        return f

    made += [rlx.jit(link(i)) for i in range(count)]
    results = _at_once([lambda f=f: f(np.ones(3, "f4")) for f in made])
    assert not [r for r in results if isinstance(r, Exception)]


def test_a_callback_may_call_what_others_record() -> None:
    inner = rlx.jit(lambda x: x * 3)
    outer = rlx.jit(lambda x: rlx.pure_callback(lambda y: inner(y), rlx.spec((3,)), x) + 1)
    jobs = [lambda f=f: f(np.ones(3, "f4")) for f in (outer, inner) * 4]
    assert [r.tolist() for r in _at_once(jobs)] == [[4, 4, 4], [3, 3, 3]] * 4


def test_a_thread_of_the_recorded_function_does_not_wait_forever(monkeypatch: Any) -> None:
    monkeypatch.setattr("rlx.runtime.cache.PATIENCE", 0.05)
    outside = []

    def spawn(x: Any) -> Any:
        if not outside:
            outside.append(1)
            thread = threading.Thread(target=lambda: outside.append(f(np.ones(3, "f4"))))
            thread.start()
            thread.join(30)
        return x + 1

    f = rlx.jit(spawn)
    assert f(np.ones(3, "f4")).tolist() == [2, 2, 2]
    assert outside[1].tolist() == [2, 2, 2]


def test_flights_leave_nothing() -> None:
    flights = SingleFlight()
    with flights.turn(1), flights.turn(2), flights.turn(1):
        assert len(flights._flights) == 2
    with pytest.raises(KeyError), flights.turn(3):
        raise KeyError
    assert not flights._flights
