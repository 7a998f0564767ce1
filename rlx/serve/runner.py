"""A thread that computes an engine's steps, for tasks of asyncio."""

from __future__ import annotations

import asyncio
import threading
from collections import deque
from collections.abc import AsyncIterator
from typing import Any, final

from .engine import Ticket
from .writer import Writer

BEAT = 0.5  # seconds that the thread waits for work at a time


@final
class Runner:
    """Computes the steps of an `engine` in a thread of its own.

    It does so from `start` to `stop`.
    """

    def __init__(self, engine: Writer) -> None:
        self.engine = engine
        self._work = threading.Event()
        self._stops = False
        self._heard: deque[Listener] = deque()  # those to whom there is something to tell
        self._is_due = False  # whether the event loop will look at them
        self._loop: asyncio.AbstractEventLoop | None = None
        self._thread = threading.Thread(target=self._run, name="rlx.serve", daemon=True)

    def start(self) -> None:
        """Begin to compute."""
        self._thread.start()

    def stop(self) -> None:
        """Compute no further step; what is running stays where it is."""
        self._stops = True
        self._work.set()
        self._thread.join()

    def submit(self, prompt: Any, **options: Any) -> Listener:
        """Submit a `prompt` with the `options` of `Engine.submit`, whose errors it raises.

        Returns who hears what comes of it; called in a task of asyncio.
        """
        self._loop = asyncio.get_running_loop()
        listener = Listener(self)
        listener.ticket = self.engine.submit(prompt, listener=listener.hear, **options)
        self._work.set()
        return listener

    def _run(self) -> None:
        while not self._stops:
            try:
                is_busy = self.engine.step()
            except BaseException:  # the engine knows it, and has told all who wait
                return
            finally:
                self._tell_soon()
            if not is_busy:
                self._work.wait(BEAT)
                self._work.clear()

    def heard(self, listener: Listener) -> None:
        """Let the event loop tell a `listener`, of what a step says once after the step.

        Each call to the loop wakes its thread, which takes turns with this one.
        """
        self._heard.append(listener)
        if threading.current_thread() is not self._thread:
            self._tell_soon()

    def _tell_soon(self) -> None:
        loop = self._loop
        if self._heard and not self._is_due and loop is not None and not loop.is_closed():
            self._is_due = True
            loop.call_soon_threadsafe(self._tell)

    def _tell(self) -> None:
        self._is_due = False  # who is heard from now on asks again
        while self._heard:
            self._heard.popleft().tell()


@final
class Listener:
    """A task that waits for what becomes of its ticket; a `runner` makes it."""

    ticket: Ticket

    def __init__(self, runner: Runner) -> None:
        self._runner = runner
        self._news = asyncio.Event()

    def hear(self) -> None:
        """Say, from any thread, that there is something new."""
        self._runner.heard(self)

    def tell(self) -> None:
        """Say in the event loop that there is something new."""
        self._news.set()

    async def pieces(self) -> AsyncIterator[str]:
        """The pieces of text, as they are written; who leaves early cancels the request."""
        told = 0
        try:
            while True:
                self._news.clear()
                ended, pieces = self.ticket.reason, self.ticket.pieces
                while told < len(pieces):
                    told += 1
                    yield pieces[told - 1]
                if ended:
                    return
                await self._news.wait()
        finally:
            self._runner.engine.cancel(self.ticket)

    async def finish(self) -> Any:
        """Wait for the end, and return the `Completion`."""
        async for _ in self.pieces():
            pass
        return self.ticket.completion()
