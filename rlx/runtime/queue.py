"""A thread that runs one job after the other, for calls that nobody waits for yet."""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Callable, Generator, Iterable, Sequence
from typing import TYPE_CHECKING, Any, NoReturn, final

from ..ir.builder import user_source
from ..ir.errors import ArgumentError
from ..ir.tracebacks import hide_frames

if TYPE_CHECKING:
    from concurrent.futures import Future, ThreadPoolExecutor


class Queue:
    """Begins jobs in the order they came, on a thread or several.

    Threads start with the first job.

    >>> Queue().submit(lambda: 2 + 3).result()
    5
    """

    def __init__(self, threads: int = 1) -> None:
        self._threads = threads
        self._lock = threading.Lock()
        self._executor: ThreadPoolExecutor | None = None
        self._process = 0

    def submit(self, job: Callable[[], Any]) -> Future[Any]:
        """Run a job after those before it; its result or its error is in the future."""
        from concurrent.futures import ThreadPoolExecutor  # 3 ms that few programs need

        if self._process not in (0, os.getpid()):  # a forked child has no thread, and a lock that
            self._lock, self._process, self._executor = threading.Lock(), 0, None  # may be taken
        with self._lock:
            if self._executor is None:
                self._executor = ThreadPoolExecutor(self._threads, "rlx")
                self._process = os.getpid()
            return self._executor.submit(job)


@final
class Pending:
    """A call that runs, or waits for its turn, on another thread.

    It can be awaited, too.
    """

    def __init__(self, future: Future[Any]) -> None:
        self._future = future

    @classmethod
    def failed(cls, error: BaseException) -> Pending:
        """A call that did not begin."""
        from concurrent.futures import Future

        future: Future[Any] = Future()
        future.set_exception(error)
        return cls(future)

    def result(self, timeout: float | None = None) -> Any:
        """Wait for the result and give it, or raise the error of the call.

        If it takes more than `timeout` seconds that is a `TimeoutError`.
        """
        return self._future.result(timeout)

    def exception(self, timeout: float | None = None) -> BaseException | None:
        """Wait for the call's end; gives its error, or None."""
        return self._future.exception(timeout)

    def done(self) -> bool:
        """Whether the call has ended."""
        return self._future.done()

    def cancel(self) -> bool:
        """Give the call up if it has not begun; tells whether that was so."""
        return self._future.cancel()

    def __await__(self) -> Generator[Any, None, Any]:
        import asyncio  # loaded where an event loop runs, and 20 ms to import elsewhere

        return asyncio.wrap_future(self._future).__await__()


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
            where=str(user_source()),
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
    return [each.result() for each in pending]
