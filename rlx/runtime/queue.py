"""A thread that runs one job after the other, for calls that nobody waits for yet."""

from __future__ import annotations

import os
import threading
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

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

        with self._lock:
            if self._executor is None or self._process != os.getpid():  # a fork has no threads
                self._executor = ThreadPoolExecutor(1, "rlx")
                self._process = os.getpid()
            return self._executor.submit(job)
