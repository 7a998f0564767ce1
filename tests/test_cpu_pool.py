"""The pool of native workers: every part once, whoever calls, from wherever."""

import ctypes
import math
import os
import subprocess
import sys
import threading
import time
import warnings

import numpy as np
import pytest
from machine_code import load

from rlx.backends.cpu.llvm import machine
from rlx.backends.cpu.llvm.host import cores, host, processor_share
from rlx.backends.cpu.llvm.text import Module
from rlx.backends.cpu.runtime import pool


def build() -> machine.Library:
    """`count(context, parts)` counts each part; `nest` does so in parallel in each part."""
    module = Module()
    signature = [("ptr", "%context"), ("i64", "%part"), ("i64", "%parts")]
    kernel = module.function("kernel", signature)
    with kernel.loop("0", "200", carried=[("i64", "%part")]) as work:  # some time passes
        work.next[0] = kernel.emit(f"mul i64 {work.values[0]}, 3")
    place = kernel.offset("%context", "i64", "%part")
    kernel.emit(f"atomicrmw add ptr {place}, i64 1 monotonic")
    kernel.do("ret void")

    outer = module.function("outer", signature)
    start = outer.emit("mul i64 %part, %parts")
    pool.parallel(outer, "@kernel", outer.offset("%context", "i64", start), "%parts")
    outer.do("ret void")

    for name, inner in [("count", "@kernel"), ("nest", "@outer")]:
        f = module.function(name, [("ptr", "%context"), ("i64", "%parts")])
        pool.parallel(f, inner, "%context", "%parts")
        f.do("ret void")
    return load(module.text, symbols=pool.symbols())


def run(name: str, library: machine.Library, parts: int, size: int, times: int = 1) -> np.ndarray:
    call = ctypes.CFUNCTYPE(None, ctypes.c_void_p, ctypes.c_int64)(library.address(name))
    counts = np.zeros(size, np.int64)
    place = counts.__array_interface__["data"][0]
    for _ in range(times):
        call(place, parts)
    return counts


@pytest.fixture(scope="module")
def library() -> machine.Library:
    return build()


@pytest.mark.parametrize("parts", [0, 1, 2, 3, 7, 64, 1000])
def test_every_part_runs_once(library, parts):
    expected = np.where(np.arange(1001) < parts, 50, 0)
    np.testing.assert_array_equal(run("count", library, parts, 1001, 50), expected)


def test_jobs_one_after_the_other(library):
    assert (run("count", library, 4, 4, 20000) == 20000).all()


def test_jobs_after_a_pause(library):
    for _ in range(20):
        time.sleep(0.002)
        assert (run("count", library, 3, 3) == 1).all()


def test_a_job_inside_a_job(library):
    assert (run("nest", library, 8, 64, 100) == 100).all()


def test_several_threads_call_at_once(library):
    failures = []

    def work() -> None:
        for parts in range(1, 200):
            if not (run("count", library, parts % 9 + 1, parts % 9 + 1, 5) == 5).all():
                failures.append(parts)

    threads = [threading.Thread(target=work) for _ in range(6)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(20)
    assert not any(thread.is_alive() for thread in threads)
    assert not failures


def test_idle_workers_sleep(library):
    sleepers = ctypes.c_int32.from_address(pool._library().address("sleepers"))
    for _ in range(3):
        run("count", library, 8, 8, 100)
        for _ in range(1000):
            if sleepers.value == host().cores - 1:
                break
            time.sleep(0.005)
        assert sleepers.value == host().cores - 1


@pytest.mark.skipif(not hasattr(os, "fork"), reason="the system has no fork")
def test_a_forked_child_has_a_pool_of_its_own(library):
    run("count", library, 8, 8, 10)
    for _ in range(5):
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # Python and JAX warn of threads and fork: the point
            child = os.fork()
        if child == 0:
            good = (run("count", library, 8, 8, 1000) == 1000).all()
            os._exit(0 if good else 1)
        assert (run("count", library, 8, 8, 100) == 100).all()
        assert os.waitpid(child, 0)[1] == 0


PROGRAM = """
import os, sys, time
sys.path.insert(0, {tests!r})
{before}
import test_cpu_pool as test
library = test.build()
threads = lambda: len(os.listdir("/proc/self/task")) if os.path.exists("/proc/self/task") else -1
before = threads()
assert (test.run("count", library, 7, 7, 300) == 300).all()
time.sleep({pause})
assert (test.run("count", library, 7, 7, 300) == 300).all()
assert (test.run("nest", library, 5, 25, 30) == 30).all()
print(threads() - before)
{after}
"""


def started(*, before: str = "", pause: float = 0.0, after: str = "", threads: int = 3) -> int:
    """Run a program with a pool in a process of its own; give how many threads it started."""
    program = PROGRAM.format(
        tests=os.path.dirname(__file__), before=before, pause=pause, after=after
    )
    environment = os.environ | {"RLX_NUM_THREADS": str(threads)}
    done = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, env=environment, timeout=60
    )
    assert (done.returncode, done.stderr) == (0, "")
    return int(done.stdout)


GROUPS = {
    "none": ({}, math.inf),
    "no limit": ({"proc/self/cgroup": "0::/a", "sys/fs/cgroup/a/cpu.max": "max 100000"}, math.inf),
    "a limit": ({"proc/self/cgroup": "0::/a", "sys/fs/cgroup/a/cpu.max": "150000 100000"}, 1.5),
    "of the parent": (
        {
            "proc/self/cgroup": "0::/a/b",
            "sys/fs/cgroup/a/cpu.max": "300000 100000",
            "sys/fs/cgroup/a/b/cpu.max": "max 100000",
        },
        3.0,
    ),
    "in a container": (
        {"proc/self/cgroup": "0::/../x", "sys/fs/cgroup/cpu.max": "200000 100000"}, 2.0,
    ),
    "of the first kind": (
        {
            "proc/self/cgroup": "4:memory:/m\n3:cpu,cpuacct:/c",
            "sys/fs/cgroup/cpu/c/cpu.cfs_quota_us": "50000",
            "sys/fs/cgroup/cpu/c/cpu.cfs_period_us": "100000",
        },
        0.5,
    ),
    "of the first kind, without a limit": (
        {
            "proc/self/cgroup": "3:cpu,cpuacct:/",
            "sys/fs/cgroup/cpu/cpu.cfs_quota_us": "-1",
            "sys/fs/cgroup/cpu/cpu.cfs_period_us": "100000",
        },
        math.inf,
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", GROUPS)
def test_the_share_of_a_control_group_counts(name, tmp_path, monkeypatch):
    files, share = GROUPS[name]
    for place, text in files.items():
        (tmp_path / place).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / place).write_text(text)
    assert processor_share(tmp_path) == share
    monkeypatch.delenv("RLX_NUM_THREADS", raising=False)
    monkeypatch.setattr("rlx.backends.cpu.llvm.host.processor_share", lambda: share)
    monkeypatch.setattr(os, "sched_getaffinity", lambda process: range(4), raising=False)
    assert cores() == min(4, math.ceil(share) if share < 4 else 4)
    monkeypatch.setenv("RLX_NUM_THREADS", " 7 ")
    assert cores() == 7


LINUX = pytest.mark.skipif(not sys.platform.startswith("linux"), reason="counts threads in /proc")


@LINUX
@pytest.mark.parametrize("threads", [1, 2, 5])
def test_the_number_of_threads_is_as_asked(threads):
    assert started(threads=threads) == threads - 1


@LINUX
def test_sleeping_workers_do_not_hold_up_the_exit():
    assert started(pause=0.01, after="time.sleep(0.02)") == 2  # else it runs into the timeout


@LINUX
def test_exit_in_a_thread_that_computes():
    after = (
        "import threading\n"
        "def work():\n"
        "    while True:\n"
        "        test.run('count', library, 7, 7)\n"
        "threading.Thread(target=work, daemon=True).start()\n"
        "time.sleep(0.02)\n"
    )
    assert started(after=after) == 2


@LINUX
def test_waiting_on_conditions_instead_of_futexes():
    before = (
        "import types\n"
        "from rlx.backends.cpu.runtime import pool\n"
        "pool.sys = types.SimpleNamespace(platform='other')\n"
    )
    assert started(before=before, pause=0.01) == 2
