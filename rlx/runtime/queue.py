"""A thread that runs one job after the other, for calls that nobody waits for yet."""

from __future__ import annotations

import os
import threading
from collections.abc import Callable, Generator
from typing import TYPE_CHECKING, Any, final

if TYPE_CHECKING:
    from concurrent.futures import Future, ThreadPoolExecutor


class Queue:
    """Runs jobs in the order they came, on a thread that starts with the first.

    >>> Queue().submit(lambda: 2 + 3).result()
    5
    """

    def __init__(self) -> None:
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
                self._executor = ThreadPoolExecutor(1, "rlx")
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
