"""Many threads and processes: one compile for each graph, calls that do not meet, forks, exits."""

import os
import subprocess
import sys
import threading
import time
import warnings
from types import SimpleNamespace

import numpy as np
import pytest
from soak import stress
from test_session import W, X, failing, layer, library_call

import rlx
import rlx.numpy as rnp
from rlx.backends import locks, registry
from rlx.backends.locks import Turns
from rlx.ir.gil import HAS_GIL
from rlx.runtime.session import _session
from rlx.transforms.jit.signature import LruCache


@pytest.fixture
def session() -> rlx.Session:
    return rlx.Session("cpu")


def in_threads(count: int, work) -> list:
    """What `work(i)` gives or raises in each of several threads that start together."""
    gate, results = threading.Barrier(count), [None] * count

    def run(i: int) -> None:
        gate.wait()
        try:
            results[i] = work(i)
        except BaseException as error:
            results[i] = error

    threads = [threading.Thread(target=run, args=(i,)) for i in range(count)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)
    assert not any(thread.is_alive() for thread in threads)
    return results


def test_threads_that_ask_for_one_graph_compile_it_once(session, monkeypatch):
    made, compile = [], session.backend.compile

    def slow(graph, array, **options):
        made.append(graph)
        time.sleep(0.05)
        return compile(graph, array, **options)

    monkeypatch.setattr(session.backend, "compile", slow)
    results = in_threads(16, lambda i: session.compile(layer, W, X)(W, X))
    assert len(made) == 1
    for result in results:
        np.testing.assert_allclose(result, np.tanh(X @ W), rtol=1e-6)


def test_a_compile_that_fails_is_tried_again_by_the_next(session, monkeypatch):
    compile, tries = session.backend.compile, []

    def flaky(graph, array, **options):
        tries.append(graph)
        if len(tries) == 1:
            time.sleep(0.02)
            raise ZeroDivisionError
        return compile(graph, array, **options)

    monkeypatch.setattr(session.backend, "compile", flaky)
    results = in_threads(6, lambda i: session.compile(layer, W, X))
    assert sum(isinstance(r, ZeroDivisionError) for r in results) == 1
    assert sum(isinstance(r, rlx.CompiledGraph) for r in results) == 5
    assert len(tries) == 2


def test_threads_that_meet_in_a_jitted_function():
    """Of several kinds at once: no thread may see half of another's compile."""
    for _ in range(5):
        double = rlx.jit(lambda x: x * 2.0)
        results = in_threads(12, lambda i, f=double: f(np.full(i % 4 + 1, i, np.float32)))
        for i, result in enumerate(results):
            np.testing.assert_array_equal(result, np.full(i % 4 + 1, 2 * i, np.float32))


@pytest.mark.parametrize("size", [4, 200])
def test_threads_that_run_one_executable(session, size):
    """Each call has its own memory for temporaries, whether it gives up the GIL or not."""

    def several(x):
        y = x @ x
        return rnp.sort(y, -1) @ rnp.tanh(x) + rnp.sum(y, 0)

    inputs = [np.random.default_rng(i).normal(size=(size, size)).astype("f4") for i in range(6)]
    compiled = session.compile(several, inputs[0])
    expected = [np.asarray(compiled(x)) for x in inputs]

    def work(i: int) -> bool:
        return all(np.array_equal(compiled(inputs[i]), expected[i]) for _ in range(20))

    assert in_threads(6, work) == [True] * 6


def test_sixteen_threads_call_compile_wait_and_fail_at_once():
    assert stress(16, lambda i: i < 8) == []


def test_errors_of_threads_do_not_mix(session, monkeypatch):
    compiled = failing(session)

    def mine(self, arrays, attrs, device, **known):
        raise RuntimeError(threading.current_thread().name)

    monkeypatch.setattr(type(library_call(compiled).op), "run", mine)

    def work(i: int) -> bool:
        for _ in range(50):
            with pytest.raises(RuntimeError) as caught:
                compiled(X)
            assert caught.value.args == (threading.current_thread().name,)
        return True

    assert in_threads(6, work) == [True] * 6


# -- the same thing in many threads ---------------------------------------------------------------


def test_threads_call_with_an_array_that_others_assign_to():
    """What a call has begun to read stays in memory, whatever the array is given meanwhile."""
    plus_one, x = rlx.jit(lambda x: x + 1), rlx.array(np.zeros(2000, np.float32))
    plus_one(x)
    numbers = [np.full(2000, k, np.float32) for k in range(10)]

    def work(i: int) -> bool:
        if i % 2:
            for k in range(50_000):
                x._data = numbers[k % 10].copy()  # as `x[...] = k` does at its end
            return True
        results = (y._data for _ in range(3000) for y in [plus_one(x) for _ in range(10)])
        return all(y[0] == y[-1] for y in results)

    assert in_threads(6, work) == [True] * 6


def test_threads_give_one_array_away():
    """One gets it; to the others it is gone, and nobody reads memory that is a result already."""
    plus_one = rlx.jit(lambda x: x + 1, donate_argnames="x")
    plus_two = rlx.jit(lambda x: x + 2)

    def give(x) -> float | None:
        try:
            return float(plus_one(x)[0])
        except rlx.DonatedError:
            return None

    def read(x) -> float | None:
        try:
            found = np.asarray(plus_two(x))
            return float(found[0]) if (found == found[0]).all() else -1
        except rlx.DonatedError:
            return None

    for k in range(50):
        x = plus_two(np.full(1000, k, np.float32))
        found = in_threads(6, lambda i, x=x: (give, read)[i % 2](x))
        assert [y for y in found[::2] if y is not None] == [k + 3]
        assert {y for y in found[1::2]} <= {None, float(k + 4)}


def test_threads_take_parts_of_one_array():
    x = rlx.array(np.arange(4000, dtype=np.float32).reshape(1000, 4))

    def work(i: int) -> bool:
        return all((np.asarray(x[k]) == np.arange(4 * k, 4 * k + 4)).all() for k in range(1000))

    assert in_threads(8, work) == [True] * 8
    part = x[3]
    x[3, 0] = 0.0
    with pytest.raises(rlx.AliasError):
        part.tolist()


def test_threads_call_clear_and_drop_one_function():
    """Of more kinds than have a path of their own, while its code is forgotten."""

    def work(i: int) -> bool:
        for k in range(30):
            n = (i + k) % 7 + 1
            if not np.array_equal(shared(np.full(n, k, np.float32)), np.full(n, 3.0 * k + 1)):
                return False
            if (i + k) % 10 == 0:
                shared.cache_clear()
        return True

    for _ in range(3):
        shared = rlx.jit(lambda x: x * 3 + 1)
        assert in_threads(8, work) == [True] * 8


def test_threads_make_functions_while_settings_change():
    def work(i: int) -> bool:
        for k in range(50):
            if i == 0:
                with rlx.config.using(debug_nans=True):
                    pass
            else:
                functions[i] = [rlx.jit(lambda x, k=k: x + k) for _ in range(20)]
        return True

    functions = [[]] * 6

    assert in_threads(6, work) == [True] * 6


def test_threads_meet_new_sizes_of_one_program():
    total = rlx.jit(lambda x: (x * 2).sum(), dynamic={"x": {0: "n"}})
    total(np.ones(1, np.float32))

    def work(i: int) -> bool:
        sizes = [(i * 37 + k) % 600 + 1 for k in range(600)]
        return all(float(total(np.ones(n, np.float32))) == 2 * n for n in sizes)

    assert in_threads(6, work) == [True] * 6


def test_threads_open_a_device_once():
    """Else arrays of one would lie elsewhere for the code of another."""
    try:
        for _ in range(20):
            registry._open.cache_clear()
            found = in_threads(8, lambda i: registry.get("reference"))
            assert len(set(map(id, found))) == 1
    finally:
        registry._open.cache_clear()
        _session.cache_clear()


def test_threads_draw_keys_from_one_stream():
    stream = rlx.random.stream(0)
    found = in_threads(8, lambda i: [stream.key().tolist() for _ in range(40)])
    assert len({tuple(key) for keys in found for key in keys}) == 8 * 40


def test_threads_use_what_a_function_keeps():
    entry = SimpleNamespace(executable=SimpleNamespace(held_bytes=1))
    kept, limit = LruCache(), 20

    def work(i: int) -> bool:
        for k in range(300):
            kept.put((i, k), entry, limit)
            good = kept.get((i, k)) in (entry, None) and len(list(kept)) < limit + 8
            kept.reason((i, k - 30), limit)
            if not good:
                return False
            if k % 50 == 49:
                kept.clear()
        return True

    assert in_threads(8, work) == [True] * 8


# -- processes ------------------------------------------------------------------------------------

BIG = np.random.default_rng(0).normal(size=(400, 400)).astype(np.float32)  # shared by threads


@pytest.mark.skipif(not hasattr(os, "fork"), reason="the system has no fork")
def test_a_forked_child_runs_compiles_and_submits(session):
    compiled = session.compile(layer, BIG, BIG)
    expected = np.asarray(compiled(BIG, BIG))
    compiled.submit(BIG, BIG).result(60)
    stop = threading.Event()

    def compile_on() -> None:
        for i in range(1000):
            if stop.is_set():
                return
            session.compile(lambda x, i=i: x * float(i), X)

    busy = [threading.Thread(target=compile_on) for _ in range(3)]  # one compiles, others wait
    for thread in busy:
        thread.start()
    try:
        for _ in range(4):
            assert os.waitstatus_to_exitcode(os.waitpid(forked(compiled, expected), 0)[1]) == 0
    finally:
        stop.set()
        for thread in busy:
            thread.join()


def test_who_waits_for_the_lock_of_compiles_gets_it_next():
    """As a fork does; though the thread that compiles asks for it again at once."""
    turns, order, begun = Turns(), [], threading.Event()

    def compile_twice() -> None:
        with turns, turns:
            begun.set()
            while not turns._waiting.locked():
                time.sleep(0.001)
            order.append("first compile")
        with turns:
            order.append("second compile")

    busy = threading.Thread(target=compile_twice)
    busy.start()
    begun.wait()
    with turns:
        order.append("fork")
    busy.join()
    assert order == ["first compile", "fork", "second compile"]


@pytest.mark.skipif(not hasattr(os, "fork"), reason="the system has no fork")
def test_a_forked_child_does_not_wait_for_who_waits_in_the_parent(monkeypatch):
    turns = Turns()

    class Waiter:
        """Waits for its turn once the fork has taken it."""

        def __enter__(self) -> None:
            self.thread = threading.Thread(target=turns.__enter__)
            self.thread.start()
            while not turns._waiting.locked():
                time.sleep(0.001)

        def __exit__(self, *error: object) -> None:
            pass

    monkeypatch.setattr(locks, "_held", [(5, turns), (6, Waiter())])
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        child = os.fork()
    if not child:
        os._exit(0 if turns._waiting.acquire(timeout=5) else 1)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0


def forked(compiled: rlx.CompiledGraph, expected: np.ndarray) -> int:
    """The number of a child process that ends with 0 if all works there."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # Python and JAX warn of threads and fork: the point
        child = os.fork()
    if child:
        return child
    good = False
    try:
        good = np.array_equal(compiled(BIG, BIG), expected)
        good &= np.array_equal(compiled.submit(BIG, BIG).result(60), expected)
        good &= float(rlx.Session("cpu").compile(lambda x: x - 1.0, X)(X)[0, 0]) == -2
        good &= float(rlx.jit(lambda x: x - 3.0)(X)[0, 0]) == -4
    finally:
        os._exit(0 if good else 1)


def ends_well(program: str) -> None:
    done = subprocess.run(
        [sys.executable, "-c", f"import numpy as np, rlx, threading, time\n{program}"],
        capture_output=True,
        text=True,
        timeout=60,
        env=os.environ | {"RLX_NUM_THREADS": "3"},
    )
    assert (done.returncode, done.stderr) == (0, "")


def test_the_interpreter_ends_while_workers_sleep_and_futures_wait():
    ends_well(
        "x = np.ones((500, 500), 'float32')\n"
        "c = rlx.Session().compile(lambda x: x @ x, x)\n"
        "c(x)\n"
        "kept = [c.submit(x) for _ in range(20)]\n"
    )


@pytest.mark.skipif(HAS_GIL, reason="this Python has a GIL")
def test_the_gil_stays_off():
    ends_well(
        "import sys\n"
        "rlx.jit(lambda x: rlx.numpy.sort(x @ x))(np.ones((9, 9), 'float32'))\n"
        "assert not sys._is_gil_enabled()\n"
    )


def test_the_interpreter_ends_while_daemon_threads_compute():
    ends_well(
        "x = np.ones((300, 300), 'float32')\n"
        "c = rlx.Session().compile(lambda x: x @ x, x)\n"
        "def work():\n"
        "    while True:\n"
        "        c(x)\n"
        "for _ in range(3):\n"
        "    threading.Thread(target=work, daemon=True).start()\n"
        "time.sleep(0.05)\n"
    )
