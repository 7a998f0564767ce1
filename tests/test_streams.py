"""Streams and events: order within a stream, none between streams, and what events add."""

from __future__ import annotations

import threading
import time
from typing import Any

import numpy as np
import pytest

import rlx
from rlx.runtime.queue import MOST_AT_ONCE, run_all

SOON = 20.0  # seconds


@rlx.jit
def double(x):
    return x * 2


def test_calls_of_a_stream_are_made_in_order_and_beside_others():
    one, other, gate = rlx.Stream(), rlx.Stream(), threading.Event()
    one.submit(lambda: gate.wait(SOON))
    with one:
        held = double.run_async(np.ones(2, np.float32))
        with other:  # its own calls wait for nobody
            assert double.run_async(np.ones(2, np.float32)).result(SOON).tolist() == [2, 2]
        after = double.submit(np.ones(3, np.float32))
    usual = double.run_async(np.ones(1, np.float32))
    assert usual.result(SOON).tolist() == [2]
    assert not held.done() and not after.done()
    gate.set()
    assert after.result(SOON).tolist() == [2, 2, 2]
    assert held.done()


def test_results_that_are_pending_may_be_arguments():
    one, other, gate = rlx.Stream(), rlx.Stream(), threading.Event()
    x = np.ones(2, np.float32)
    with one:
        one.submit(lambda: gate.wait(SOON))
        first = double.run_async(x)
    with other:
        last = double.run_async(first)
    compiled = rlx.Session("cpu").compile(lambda x, y: x + y, x, x)
    y = rlx.array(x)
    both, later = compiled.run_async(first, x), compiled.run_async(first, y)
    x[:] = y[:] = 100  # what was given is copied
    assert not last.done()
    gate.set()
    assert last.result(SOON).tolist() == [4, 4]
    assert both.result(SOON).tolist() == later.result(SOON).tolist() == [3, 3]
    wrong = double.run_async(rlx.jit(lambda x: x @ x).run_async(np.ones((2, 3))))
    with pytest.raises(rlx.ShapeError, match="inner sizes differ"):
        wrong.result(SOON)
    late = rlx.jit(lambda x, y: x + y).run_async(last, np.ones(3, np.float32))
    assert isinstance(late.exception(SOON), rlx.ShapeError)
    rlx.jit(lambda x: x * 2, donate_argnames="x").run_async(last).result(SOON)
    with pytest.raises(rlx.DonatedError) as caught:
        last.result().tolist()
    assert "None" not in str(caught.value)


def test_events_order_streams():
    one, other, gate = rlx.Stream(), rlx.Stream(), threading.Event()
    done: list[str] = []
    one.submit(lambda: gate.wait(SOON))
    one.submit(lambda: done.append("one"))
    event = one.record()
    other.wait(event)
    other.submit(lambda: done.append("other"))
    assert not event.done() and repr(event) == "<Event, not reached>"
    with pytest.raises(TimeoutError):
        event.wait(0.01)
    gate.set()
    other.synchronize(SOON)
    assert done == ["one", "other"] and event.done()
    with pytest.raises(rlx.ArgumentError, match="event is 3, not an event"):
        other.wait(3)  # type: ignore[arg-type]
    with pytest.raises(rlx.ArgumentError, match="job is 3, not a function"):
        other.submit(3)  # type: ignore[arg-type]
    with pytest.raises(rlx.ArgumentError, match="another order"):
        other.__exit__()


def test_the_stream_of_a_block_is_that_of_its_thread():
    one, seen = rlx.Stream(), []
    with one:
        thread = threading.Thread(target=lambda: seen.append(double.run_async(1.0).place))
        thread.start()
        thread.join()
        assert double.run_async(1.0).place is one is not seen[0]
    assert double.run_async(1.0).place is seen[0]


def test_calls_of_many_may_make_many_calls():
    def outer() -> int:
        time.sleep(0.001)
        return sum(run_all([lambda: time.sleep(0.001) or 1] * 3, on_threads=True))

    calls = [outer] * (2 * MOST_AT_ONCE + 2)
    found = rlx.Stream().submit(lambda: run_all(calls, on_threads=True))
    assert found.result(SOON) == [3] * len(calls)


def test_a_stream_is_left_once():
    one, other = rlx.Stream(), rlx.Stream()
    with pytest.raises(rlx.ArgumentError, match="left in another order"):
        one.__exit__()
    with other, one, pytest.raises(rlx.ArgumentError, match="left in another order"):
        other.__exit__()


def test_errors_of_a_call_come_where_its_result_is_asked_for():
    with rlx.Stream() as stream:
        bad = double.run_async("text")
    stream.synchronize(SOON)
    with pytest.raises(rlx.RlxError):
        bad.result()


@pytest.mark.parametrize("timeout", ["x", float("nan"), True, 1j, [1]])
def test_a_timeout_that_is_no_number_is_an_error(timeout):
    stream = rlx.Stream()
    with stream:
        pending = double.run_async(1.0)
    waits = (stream.synchronize, stream.record().wait, pending.result, pending.exception)
    for wait in waits:
        with pytest.raises(rlx.ArgumentError, match=r"timeout is .*, not a number of seconds"):
            wait(timeout)
        wait(1e300)  # longer than threads may wait for


def test_a_call_may_wait_for_later_calls_of_its_own_stream():
    stream, done = rlx.Stream(), []

    def outer():
        stream.submit(lambda: done.append("before"))
        with stream:
            pending = double.run_async(np.ones(2, np.float32))
        event = stream.record()
        event.wait()
        later = stream.submit(lambda: done.append("after"))
        return pending.result().tolist(), later.exception(), event.done()

    assert stream.submit(outer).result(SOON) == ([2, 2], None, True)
    assert done == ["before", "after"]

    def asked(x):  # on the thread of all calls without a stream
        return np.asarray(double.run_async(x).result())

    calls = rlx.jit(lambda x: rlx.pure_callback(asked, rlx.spec((2,), "float32"), x) + 1)
    assert calls.run_async(np.ones(2, np.float32)).result(SOON).tolist() == [3, 3]


def test_a_call_that_waits_for_its_own_end_is_an_error():
    stream, box = rlx.Stream(), []
    begin = threading.Event()
    box.append(stream.submit(lambda: begin.wait(SOON) and box[0].result()))
    begin.set()
    assert "waits for its own end" in str(box[0].exception(SOON))


def test_a_pending_result_is_no_array():
    pending = double.run_async(1.0)
    uses: list[Any] = [double, np.asarray, rlx.numpy.sin, rlx.array]
    for use in uses:
        with pytest.raises(rlx.ArgumentError, match=r"wait for it, y\.result"):
            use(pending)
