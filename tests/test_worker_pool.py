"""A pool of processes: what functions return and raise comes back, whatever they do."""

from __future__ import annotations

import functools
import os
import pickle
import signal
import subprocess
import sys
import textwrap
import threading
import time
from concurrent.futures import as_completed
from pathlib import Path

import numpy as np
import pool_tasks as tasks
import pytest

import rlx
from rlx.workers import pool as pool_file

pytestmark = pytest.mark.skipif(sys.platform == "win32", reason="signals are those of POSIX")


@pytest.fixture(scope="module")
def pool():
    others = tasks.children().keys()  # of tests before
    with rlx.WorkerPool(2, heartbeat=1.0) as made:
        yield made
    deadline = time.monotonic() + 10
    while tasks.children().keys() - others and time.monotonic() < deadline:
        time.sleep(0.05)
    assert not tasks.children().keys() - others


def test_results_in_order_and_as_they_come(pool):
    assert list(pool.map(tasks.square, range(20))) == [x * x for x in range(20)]
    late = pool.submit(tasks.slow, 0.5, "late")
    soon = pool.submit(tasks.slow, 0.0, "soon")
    assert [x.result() for x in as_completed([late, soon])] == ["soon", "late"]
    assert pool.submit(pow, 2, exp=5).result() == 32
    np.testing.assert_array_equal(pool.submit(tasks.compiled, np.arange(3.0)).result(), [1, 3, 5])


def test_errors_come_back_with_their_tracebacks(pool):
    with pytest.raises(KeyError, match="'x'") as caught:
        pool.submit(tasks.fails, KeyError("x")).result()
    (note,) = caught.value.__notes__
    assert note.startswith("in a worker of the pool:") and "in fails\n    raise kind" in note
    with pytest.raises(rlx.ShapeError, match="do not broadcast") as caught:
        pool.submit(tasks.shape_error).result()
    assert "pool_tasks.py" in caught.value.where
    with pytest.raises(RuntimeError, match="Odd: ab"):
        pool.submit(tasks.fails_oddly).result()
    with pytest.raises(SystemExit):
        pool.submit(tasks.leave).result()
    with pytest.raises((AttributeError, TypeError), match="no_pickle"):
        pool.submit(tasks.no_pickle).result()
    assert len(set(pool.map(lambda_free, range(4)))) <= 2  # and the workers are alive


def lambda_free(_):
    return os.getpid()


def test_what_kills_two_workers_is_refused(pool):
    for task, args, how in (
        (tasks.ended_by, (signal.SIGKILL,), "was ended by SIGKILL"),
        (tasks.segfault, (), "was ended by SIGSEGV"),
    ):
        others = [pool.submit(tasks.square, x) for x in range(4)]
        message = f"{task.__name__} killed 2 workers: the last one {how}"
        with pytest.raises(rlx.WorkerLostError, match=message):
            pool.submit(task, *args).result()
        assert [x.result() for x in others] == [0, 1, 4, 9]


@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGSTOP], ids=lambda x: x.name)
def test_what_kills_one_worker_is_done_by_another(pool, tmp_path, number):
    found = pool.submit(tasks.ended_once, str(tmp_path / "begun"), number).result(timeout=30)
    assert found in tasks.children()


def test_a_worker_that_dies_idle_is_replaced(pool):
    for _ in range(2):
        for pid in {x.result() for x in [pool.submit(tasks.pid) for _ in range(8)]}:
            os.kill(pid, signal.SIGKILL)
        time.sleep(0.1)
        assert pool.submit(tasks.square, 3).result() == 9


def test_memory_is_bounded():
    with rlx.WorkerPool(1, memory="256M") as small:
        assert small.submit(tasks.take, 100 << 20).result() == 100 << 20
        if sys.platform == "linux":
            with pytest.raises(MemoryError):
                small.submit(tasks.take, 400 << 20).result()
        assert small.submit(tasks.take, 100 << 20).result() == 100 << 20


@pytest.mark.skipif(sys.platform not in ("linux", "darwin"), reason="memory is not bounded here")
def test_memory_that_starts_no_thread_is_refused():
    with pytest.raises(rlx.AttributeValueError, match="memory is 8388608 bytes") as caught:
        rlx.WorkerPool(1, memory="8M")
    assert "allow 32M or more" in str(caught.value)


@pytest.mark.skipif(sys.platform != "linux", reason="limits are Linux's")
@pytest.mark.parametrize("take", [tasks.take, tasks.take_or_abort])
def test_memory_that_is_too_little_to_begin_is_named(take):
    with rlx.WorkerPool(1, memory=10**8, initializer=take, initargs=(3 * 10**8,)) as small:
        with pytest.raises(rlx.WorkerLostError) as caught:
            small.submit(tasks.square, 3).result()
        assert str(caught.value) == (
            "memory is 100000000 bytes, too little for a worker to begin: it takes 200 to 400 MB\n"
            '  fix    give memory="762M" or so, since what it computes takes some, too; '
            "or leave it out"
        )
        with pytest.raises(rlx.WorkerLostError, match="too little"):
            small.submit(tasks.square, 3).result()


@pytest.mark.skipif(sys.platform != "linux", reason="limits are Linux's")
def test_an_initializer_that_more_memory_does_not_help_keeps_its_error():
    with rlx.WorkerPool(1, memory="64M", initializer=tasks.fails, initargs=(OSError,)) as small:
        with pytest.raises(rlx.WorkerLostError, match="the initializer failed") as caught:
            small.submit(tasks.square, 3).result()
        assert isinstance(caught.value.__cause__, OSError)


def test_where_no_process_can_be_tried_the_first_error_stays():
    def start(memory):
        raise OSError("no place for a process")

    failed = pickle.dumps((False, TypeError(), ""))
    place = pool_file._Place(pool_file._Shared(None), start, 1 << 26)
    with pytest.raises(rlx.WorkerLostError, match="the initializer failed") as caught:
        place._fail("the initializer failed", "mend it", failed)
    assert isinstance(caught.value.__cause__, TypeError)


@pytest.mark.skipif(sys.platform != "linux", reason="limits are Linux's")
def test_a_call_that_ends_workers_may_lack_memory():
    with rlx.WorkerPool(1, memory="64M") as small:
        with pytest.raises(rlx.WorkerLostError, match="SIGABRT") as caught:
            small.submit(tasks.take_or_abort, 10**8).result()
        assert "nor take over 67108864 bytes" in str(caught.value)


def test_time_is_bounded():
    with rlx.WorkerPool(1, timeout=3.0) as hurried:
        with pytest.raises(rlx.TaskTimeoutError, match=r"slow took more than 3 seconds") as caught:
            hurried.submit(tasks.slow, 60, 0).result()
        assert isinstance(caught.value, TimeoutError)
        assert hurried.submit(tasks.square, 3).result() == 9


def test_an_initializer_runs_in_each_worker():
    with rlx.WorkerPool(1, initializer=tasks.remember, initargs=(7,)) as made:
        assert made.submit(tasks.remembered).result() == [7]
    with rlx.WorkerPool(1, initializer=tasks.fails, initargs=(OSError("no"),)) as made:
        with pytest.raises(rlx.WorkerLostError, match="the initializer failed") as caught:
            made.submit(tasks.square, 3).result()
        assert isinstance(caught.value.__cause__, OSError)
        with pytest.raises(rlx.WorkerLostError, match="the initializer failed"):
            made.submit(tasks.square, 3).result()
    for ends, fix in ((tasks.quit_now, "__main__"), (tasks.segfault, "see what ended them")):
        with rlx.WorkerPool(1, initializer=ends) as made:
            with pytest.raises(rlx.WorkerLostError, match="3 workers ended before they") as caught:
                made.submit(tasks.square, 3).result()
            assert fix in caught.value.fix


def test_an_error_ends_a_block_at_once():
    start = time.monotonic()
    with pytest.raises(KeyboardInterrupt):
        with rlx.WorkerPool(1) as made:
            running, waiting = (made.submit(tasks.slow, 60, 0) for _ in range(2))
            while not running.running():
                time.sleep(0.01)
            raise KeyboardInterrupt
    assert time.monotonic() - start < 20
    assert waiting.cancelled() and isinstance(running.exception(), rlx.WorkerLostError)
    with pytest.raises(rlx.WorkerLostError, match="the pool was shut down"):
        made.submit(tasks.square, 3)


def test_a_call_that_comes_as_the_pool_ends_is_refused(monkeypatch):
    pool = rlx.WorkerPool(1)
    add = pool._shared.add
    monkeypatch.setattr(pool._shared, "add", lambda task: (pool.shutdown(), add(task)))
    with pytest.raises(rlx.WorkerLostError, match="the pool was shut down"):
        pool.submit(abs, 1)


def test_wrong_arguments_are_named():
    for options, message in (
        ({"workers": 0}, "workers is 0"),
        ({"memory": "1T"}, "memory is '1T'"),
        ({"timeout": -1}, "timeout is -1, not a number of seconds above 0"),
        ({"heartbeat": float("nan")}, "heartbeat is nan"),
        ({"initializer": 3}, "initializer is 3"),
    ):
        with pytest.raises(rlx.RlxError, match=message):
            rlx.WorkerPool(**options)
    with rlx.WorkerPool(1) as made:
        with pytest.raises(rlx.ArgumentError, match="fn is 3, not a function"):
            made.submit(3)
        with pytest.raises(rlx.ArgumentError, match="cannot be sent to a worker"):
            made.submit(lambda: 0)
        with pytest.raises(rlx.ArgumentError, match="cannot be sent to a worker"):
            made.submit(tasks.square, threading.Lock())
        with pytest.raises(rlx.ArgumentError, match="to a worker: maximum recursion"):
            made.submit(tasks.square, functools.reduce(lambda x, _: [x], range(100_000), [0]))


SCRIPT = """
    import os, signal, sys, threading, time
    import rlx

    def f(x):
        time.sleep(x)
        return os.getpid()

    {guard}
        pool = rlx.WorkerPool(2)
        print(pool.submit(f, 0).result(), flush=True)
        {rest}
"""


def script(tmp_path: Path, rest: str, guard: str = 'if __name__ == "__main__":') -> list[str]:
    path = tmp_path / "script.py"
    path.write_text(textwrap.dedent(SCRIPT).format(guard=guard, rest=rest))
    return [sys.executable, str(path)]


def is_gone(pid: int) -> bool:
    deadline = time.monotonic() + 20
    while time.monotonic() < deadline:
        try:
            os.kill(pid, 0)
        except ProcessLookupError:
            return True
        time.sleep(0.05)
    return False


def test_no_worker_outlives_its_program(tmp_path):
    process = subprocess.Popen(
        script(tmp_path, "pool.submit(f, 60); time.sleep(60)"), stdout=subprocess.PIPE, text=True
    )
    with process:
        pid = int(process.stdout.readline())
        process.kill()
    ended = subprocess.run(
        script(tmp_path, "pool.submit(f, 60)"), capture_output=True, text=True, timeout=30
    )
    assert ended.returncode == 0 and ended.stderr == ""
    assert is_gone(pid) and is_gone(int(ended.stdout))


def test_a_script_without_a_guard_is_told(tmp_path):
    done = subprocess.run(
        script(tmp_path, "", "if True:"), capture_output=True, text=True, timeout=60
    )
    assert "workers ended before they began" in done.stderr
    assert 'put what starts the program under `if __name__ == "__main__":`' in done.stderr


def test_ctrl_c_reaches_the_program_alone(tmp_path):
    process = subprocess.Popen(
        script(tmp_path, "list(pool.map(f, [60, 60]))"),
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
    )
    with process:
        pid = int(process.stdout.readline())
        time.sleep(0.3)
        os.killpg(process.pid, signal.SIGINT)
        errors = process.stderr.read()
        assert process.wait(20) in (1, -signal.SIGINT, 130)
    assert errors.count("KeyboardInterrupt") == 1 and is_gone(pid)
