"""Job queues, threads that run asynchronous calls in order."""

from __future__ import annotations

import atexit
import functools
import os
import threading
import time
import weakref
from collections.abc import Callable, Generator, Iterable, Sequence
from contextvars import Context, ContextVar, copy_context
from typing import TYPE_CHECKING, Any, NoReturn, TypeAlias, final

import numpy as np

from ..ir.errors import ArgumentError
from ..ir.tracebacks import hide_frames
from ..trace import pytree
from ..trace.arguments import wrong
from ..trace.array import Array

if TYPE_CHECKING:
    from concurrent.futures import Future
    from queue import SimpleQueue

    from .streams import Stream

    _Job: TypeAlias = tuple[Future[Any], Callable[[], Any]]

AT_EXIT = 1.0  # seconds that the end of the process waits for jobs


class Queue:
    """A queue that starts jobs in order, on one thread or several.

    Threads start with the first jobs. The end of the process waits for jobs a second at most. A job
    that waits for a later one on the same thread runs those up to it.

    >>> Queue().submit(lambda: 2 + 3).result()
    5
    """

    def __init__(self, threads: int = 1) -> None:
        self._threads = threads
        self._begin()
        _queues.add(self)

    def _begin(self) -> None:
        self._lock = threading.Lock()
        self._started, self._process = 0, os.getpid()
        self._pending: weakref.WeakSet[Future[Any]] = weakref.WeakSet()

    def submit(self, job: Callable[[], Any]) -> Future[Any]:
        """Run a job after those before it; its result or its error is in the future."""
        from queue import SimpleQueue

        if self._process != os.getpid():  # a forked child has no threads, and locks may be taken
            self._begin()
        with self._lock:
            if not self._started:
                self._jobs: SimpleQueue[_Job | None] = SimpleQueue()
                weakref.finalize(self, self._jobs.put, None)
            future = _future_class()(self._jobs if self._threads == 1 else None)
            if self._started < self._threads:
                # nobody waits for the thread, so the end of the process does not either
                threading.Thread(target=_work, args=(self._jobs,), name="rlx", daemon=True).start()
                self._started += 1
            self._pending.add(future)
            self._jobs.put((future, job))
        return future

    def wait(self, seconds: float) -> None:
        """Wait until all jobs have ended, so many seconds at most."""
        pending = list(self._pending) if self._process == os.getpid() else []
        if not pending:
            return
        from concurrent.futures import wait

        wait(pending, seconds)


@functools.cache
def _future_class() -> type[Any]:
    from concurrent.futures import Future  # 4 ms that few programs need

    class JobFuture(Future):
        """The result of a job of the queue `jobs`, unless several threads work on it."""

        def __init__(self, jobs: SimpleQueue[_Job | None] | None) -> None:
            super().__init__()
            self._jobs = jobs

        def result(self, timeout: float | None = None) -> Any:
            _run_until(self, self._jobs)
            return super().result(timeout)

        def exception(self, timeout: float | None = None) -> BaseException | None:
            _run_until(self, self._jobs)
            return super().exception(timeout)

    return JobFuture


_own = threading.local()  # `jobs`: the queue that the thread works on


def _run_until(future: Future[Any], jobs: SimpleQueue[_Job | None] | None) -> None:
    """On the thread that would run a job later: run those before it and the job now."""
    if jobs is None or getattr(_own, "jobs", None) is not jobs:
        return
    while not future.done():
        if jobs.empty():
            raise ArgumentError(
                "a call waits for its own end, or for that of a call that waits for it",
                fix="ask for the result outside of the call",
            )
        taken = jobs.get()
        if taken is None:  # nothing comes after the queue's end
            jobs.put(None)
            return
        if taken[0].set_running_or_notify_cancel():
            Context().run(_run, *taken)


def _work(jobs: SimpleQueue[_Job | None]) -> None:
    _own.jobs = jobs
    while (taken := jobs.get()) is not None:
        future, job = taken
        if future.set_running_or_notify_cancel():
            _run(future, job)
        del taken, future, job  # not kept while it waits for the next one
    jobs.put(None)  # for the others


def _run(future: Future[Any], job: Callable[[], Any]) -> None:
    try:
        result = job()
    except BaseException as error:  # it comes out where the result is asked for
        future.set_exception(error)
    else:
        future.set_result(result)


_queues: weakref.WeakSet[Queue] = weakref.WeakSet()


@atexit.register
def _give_time() -> None:
    """Let jobs end that need a moment only."""
    until = time.monotonic() + AT_EXIT
    for queue in list(_queues):
        queue.wait(max(0.0, until - time.monotonic()))


@final
class Pending:
    """The pending result of a call on another thread, which can be awaited, too."""

    def __init__(self, future: Future[Any], place: Any = None) -> None:
        self._future = future
        self.place = place  # the queue or stream that makes the call; None if it did not begin

    @classmethod
    def failed(cls, error: BaseException) -> Pending:
        """A call that did not begin."""
        from concurrent.futures import Future

        future: Future[Any] = Future()
        future.set_exception(error)
        return cls(future)

    def result(self, timeout: float | None = None) -> Any:
        """Wait for the result and give it, or raise the error of the call.

        If it takes more than `timeout` seconds that is a `TimeoutError`; a `timeout` that is no
        number is an `ArgumentError`.
        """
        return self._future.result(seconds("result: timeout", timeout))

    def exception(self, timeout: float | None = None) -> BaseException | None:
        """Wait for the call's end; gives its error, or None."""
        return self._future.exception(seconds("exception: timeout", timeout))

    def done(self) -> bool:
        """Whether the call has ended."""
        return self._future.done()

    def cancel(self) -> bool:
        """Give the call up if it has not begun; tells whether that was so."""
        return self._future.cancel()

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> NoReturn:
        raise ArgumentError(
            "a result that is pending is no array yet",
            fix="wait for it, y.result(), or give it to run_async of a jitted function",
        )

    def __await__(self) -> Generator[Any, None, Any]:
        import asyncio  # loaded where an event loop runs, and 20 ms to import elsewhere

        return asyncio.wrap_future(self._future).__await__()


def seconds(what: str, timeout: Any) -> float | None:
    """Check how long to wait; None is for ever, and no number an error about `what`."""
    if timeout is None:
        return None
    is_real = isinstance(timeout, int | float | np.integer | np.floating)
    if not is_real or isinstance(timeout, bool) or timeout != timeout:
        fix = "give a number of seconds, or None to wait for the end"
        raise wrong(what, timeout, "a number of seconds", fix)
    return float(timeout) if timeout < threading.TIMEOUT_MAX else None


# -- where calls are made --------------------------------------------------------------------------

HELD = (np.ndarray, Array)  # the copy of an `Array` shares its memory until one is assigned to
entered: ContextVar[tuple[Stream, ...]] = ContextVar("rlx.streams", default=())


def current(usual: Queue) -> Queue | Stream:
    """What runs calls here: the stream of the block, or else a `usual` queue."""
    streams = entered.get()
    return streams[-1] if streams else usual


def started(usual: Queue, job: Callable[[], Any]) -> Pending:
    """Run a job in the stream of the block, or else in a `usual` queue."""
    place = current(usual)
    return Pending(place.submit(job), place)


def later(call: Callable[..., Any], args: Any, kwargs: Any) -> Pending | None:
    """A call that needs results of others, made when they are there; or None.

    Without a stream it is made where the first of them is. What is assigned to its arrays meanwhile
    does not show.
    """
    needed = [x for x in pytree.leaves((args, kwargs)) if isinstance(x, Pending)]
    if not needed:
        return None
    failed = next((x for x in needed if x.place is None), None)
    if failed is not None:
        return failed
    kept = pytree.map(lambda x: x.copy() if isinstance(x, HELD) else x, (args, kwargs))
    context = copy_context()

    def made() -> Any:
        args, kwargs = pytree.map(lambda x: x.result() if isinstance(x, Pending) else x, kept)
        return call(*args, **kwargs)

    return started(needed[0].place, lambda: context.run(made))


# -- many calls -----------------------------------------------------------------------------------

MOST_AT_ONCE = 8  # calls; each has temporaries of its own
WORTH_A_THREAD = 1e-4  # seconds of a call: shorter ones hardly let the interpreter go
_alongside = Queue(min(os.cpu_count() or 1, MOST_AT_ONCE))


def run_all(
    jobs: Sequence[Callable[[], Any]], on_threads: bool, return_errors: bool = False
) -> list[Any]:
    """Run jobs, perhaps `on_threads`; gives their results in order.

    All of them run to the end. The error of the first that failed is raised, or with
    `return_errors` each is its result.

    >>> run_all([lambda: 1, lambda: 2], on_threads=True)
    [1, 2]
    """
    began = time.perf_counter()
    ends = [_ended(job) for job in jobs[:1]]
    is_short = time.perf_counter() - began < WORTH_A_THREAD
    run = _on_threads if on_threads and not is_short else _in_turn
    ends += run(jobs[1:])
    failed = next((error for _, error in ends if error is not None), None)
    if failed is not None and not return_errors:
        raise failed
    return [result if error is None else error for result, error in ends]


def failing(error: Exception) -> Callable[[], NoReturn]:
    """A job that could not begin: it raises the error."""
    hide_frames(error)

    def job() -> NoReturn:
        raise error

    return job


def given_calls(name: str, calls: Iterable[Any]) -> list[Any]:
    """The calls a user gives, in a list."""
    if isinstance(calls, str | dict) or not isinstance(calls, Iterable):
        raise ArgumentError(
            f"{name} was given a {type(calls).__name__}, not a list of calls",
            fix=f"give one tuple of arguments for each call: {name}([(x0, y0), (x1, y1)])",
        )
    return list(calls)


def _ended(job: Callable[[], Any]) -> tuple[Any, Exception | None]:
    try:
        return job(), None
    except Exception as error:
        return None, error


def _in_turn(jobs: Sequence[Callable[[], Any]]) -> list[tuple[Any, Exception | None]]:
    return [_ended(job) for job in jobs]


def _on_threads(jobs: Sequence[Callable[[], Any]]) -> list[tuple[Any, Exception | None]]:
    pending = [_alongside.submit(lambda job=job: _ended(job)) for job in jobs]
    # what has not begun is made here: the threads may all wait for such calls of their own
    return [
        _ended(job) if each.cancel() else each.result()
        for job, each in zip(jobs, pending, strict=True)
    ]
