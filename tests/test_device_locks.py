"""The locks of devices with drivers: between threads, and in forked children."""

from __future__ import annotations

import os
import threading
import time
import warnings
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import numpy as np
import pytest

import rlx
import rlx.numpy as rnp
from rlx.backends import registry
from rlx.backends.locks import DeviceLock

needs_fork = pytest.mark.skipif(not hasattr(os, "fork"), reason="the system has no fork")
X = np.arange(6, dtype=np.float32)


def opened(name: str) -> Any:
    """What has the device open and its lock; skips where there is none."""
    device = rlx.Device(name)
    if not device.is_available():
        pytest.skip(f"{name}: {device.reason}")
    backend: Any = registry.get(name)
    return backend.machine if name == "opencl" else backend.device


class Late:
    """A lock that another thread had just before: it opened the device anew."""

    def __init__(self, lock: DeviceLock, reopen: Callable[[], None]) -> None:
        self.lock, self.reopen = lock, reopen
        self.is_first = True

    def __enter__(self) -> None:
        if self.is_first:
            self.is_first = False
            other = threading.Thread(target=self.reopen)
            other.start()
            other.join()
        self.lock.__enter__()

    def __exit__(self, *error: object) -> None:
        self.lock.__exit__(*error)


@pytest.mark.parametrize("name", ["opencl", "webgpu"])
@pytest.mark.parametrize("uses", ["call", "read"])
def test_a_device_that_another_thread_opens_anew_just_before(name, uses, monkeypatch):
    machine = opened(name)
    double = rlx.jit(lambda x: x * 2, device=name)
    there = double(X)

    def reopen() -> None:
        machine._is_lost = True  # what webgpu notes of a loss
        machine.reopen()

    def times_opened() -> int:
        return machine.session if name == "opencl" else machine.generation

    before = times_opened()

    with monkeypatch.context() as patch:
        patch.setattr(machine, "lock", Late(machine.lock, reopen))
        with pytest.raises(rlx.DeviceLostError, match=r"make the array again|with all that lay"):
            double(there) if uses == "call" else np.asarray(there)
    assert times_opened() == before + 1
    np.testing.assert_array_equal(double(X), X * 2)


def forked(works: Callable[[], bool]) -> int:
    """How a child ends that has 60 seconds: with 0 if all works there."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # Python and JAX warn of threads and fork: the point
        child = os.fork()
    if not child:
        good = False
        try:
            good = works()
        finally:
            os._exit(0 if good else 1)
    until = time.monotonic() + 60
    while time.monotonic() < until:
        done, status = os.waitpid(child, os.WNOHANG)
        if done:
            return os.waitstatus_to_exitcode(status)
        time.sleep(0.01)
    os.kill(child, 9)
    os.waitpid(child, 0)
    return -9


def refuses(run: Callable[[], Any]) -> bool:
    """Whether it says that a forked child cannot use the device."""
    try:
        run()
    except rlx.DeviceLostError as error:
        return "before this process was forked" in str(error) and "spawn" in str(error)
    return False


@needs_fork
@pytest.mark.parametrize("name", ["opencl", "webgpu"])
def test_a_forked_child_uses_the_cpu_and_not_the_device(name):
    lock = opened(name).lock
    double = rlx.jit(lambda x: x * 2, device=name)
    there = double(X)

    def in_child() -> bool:
        calls = (lambda: double(X), lambda: np.asarray(there), lambda: rlx.numpy.array(X).to(name))
        result = rlx.jit(lambda x: x + 1)(X)
        return all(map(refuses, calls)) and bool((np.asarray(result) == X + 1).all())

    assert while_held(lock, lambda: forked(in_child)) == 0
    np.testing.assert_array_equal(there, X * 2)


@needs_fork
@pytest.mark.parametrize("name", ["xla", "mlx"])
def test_a_forked_child_does_not_wait_forever_for_a_library(name):
    if not rlx.Device(name).is_available():
        pytest.skip(rlx.Device(name).reason)
    there = rlx.jit(lambda x: x * 2, device=name)(X)
    calls = (
        lambda: rlx.jit(lambda x: x + 3, device=name)(X),
        lambda: np.asarray(there),
        lambda: rlx.numpy.array(X).to(name),
    )
    assert forked(lambda: all(map(refuses, calls))) == 0


def while_held(lock: DeviceLock, run: Callable[[], int]) -> int:
    """What `run` gives while another thread has a lock."""
    begun, ended = threading.Event(), threading.Event()

    def hold() -> None:
        with lock:
            begun.set()
            ended.wait()

    holder = threading.Thread(target=hold)
    holder.start()
    begun.wait()
    try:
        return run()
    finally:
        ended.set()
        holder.join()


@needs_fork
def test_the_lock_of_a_device_ends_with_its_process():
    lock = DeviceLock("boxes")
    with lock, lock:
        pass
    assert while_held(lock, lambda: forked(lambda: refuses(lock.__enter__))) == 0


@pytest.mark.parametrize("name", ["opencl", "webgpu"])
@pytest.mark.parametrize("where", ["here", "in another thread"])
def test_a_callback_compiles_and_runs_for_the_device_that_calls_it(name, where):
    opened(name)
    given = np.arange(1000, dtype=np.int32)
    other = rlx.jit(lambda x: rnp.cumsum(rnp.sort(x)) * 3, device=name)
    pool = ThreadPoolExecutor(1)

    def called(x: np.ndarray) -> np.ndarray:
        if where == "here":
            return np.asarray(other(x))
        return pool.submit(lambda: np.asarray(other(x))).result(timeout=60)  # or it waits forever

    @rlx.jit(device=name)
    def fn(x):
        sums = rnp.cumsum(x * 2)  # in memory for temporaries, while the callback runs
        return (
            rnp.cumsum(sums)
            + rlx.pure_callback(called, rlx.spec(given.shape, "int32"), x)
            + sums[::-1]
        )

    sums = np.cumsum(given * 2)
    want = np.cumsum(sums) + np.cumsum(given) * 3 + sums[::-1]
    np.testing.assert_array_equal(fn(given), want)


@pytest.mark.parametrize("name", ["opencl", "webgpu"])
def test_a_device_that_is_opened_anew_while_a_callback_runs(name):
    machine = opened(name)

    def called(x: np.ndarray) -> np.ndarray:
        machine._is_lost = True  # what webgpu notes of a loss
        machine.reopen()
        return x

    fn = rlx.jit(lambda x: rlx.pure_callback(called, x, x) * 2, device=name)
    with pytest.raises(rlx.DeviceLostError, match=r"make the array again|with all that lay"):
        fn(X)
