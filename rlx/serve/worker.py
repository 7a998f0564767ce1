"""An engine in a process of its own: requests come over a pipe, tokens go back.

`workers.py` starts it and knows all requests; what is here may die at any moment.
"""

from __future__ import annotations

import signal
import sys
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from typing import Any, NamedTuple, final

from ..ir.errors import RlxError
from ..models.lora import Adapter
from ..workers.process import Life, is_orphan
from .engine import Engine, Ticket

IDLE = 0.25  # seconds that a worker without work waits for a message at a time


class Submit(NamedTuple):
    """A request for a worker."""

    number: int  # of the request
    prompt: Sequence[int]
    written: Sequence[int]  # its tokens so far, by other workers
    options: Mapping[str, Any]  # of `Engine.submit`
    after: int | None  # the request whose prompt it shares


class Cancel(NamedTuple):
    """A request that is no longer needed."""

    number: int


class Attach(NamedTuple):
    """An adapter for requests that come."""

    key: str
    adapter: Adapter


class Drop(NamedTuple):
    """An adapter that no request needs any more."""

    key: str


class Stop(NamedTuple):
    """Nothing more is needed."""


class Began(NamedTuple):
    """A worker is ready: its pages, their size, and how many texts share a step."""

    pages: int
    size: int
    sequences: int
    adapters: int  # that there is room for
    rank: int
    numbers: dict[str, float]  # of the engine


class Failed(NamedTuple):
    """A worker cannot begin."""

    error: Exception


class News(NamedTuple):
    """What became of a request."""

    number: int
    tokens: list[int]
    logprobs: list[float]
    likeliest: list[dict[int, float]]
    reason: str  # how it ended; "" before
    error: Exception | None = None  # why it was refused


class Told(NamedTuple):
    """What a step made, and the numbers of the engine after it."""

    news: list[News]
    numbers: dict[str, float]


def serve(connection: Any, life: Life, make: Callable[[], Engine], patience: float) -> None:
    """Serve requests that come over a `connection` until there are no more.

    `make` makes the engine. `life` hears of each step, and that the next one takes less than
    `patience` seconds. A step that raises an error ends the process.
    """
    signal.signal(signal.SIGTERM, signal.SIG_IGN)  # the one who asks finishes what has begun
    with suppress(EOFError, OSError):  # that one has ended
        try:
            engine = make()
        except Exception as error:
            connection.send(Failed(_sendable(error)))
            return
        engine.scheduler.max_waiting = sys.maxsize  # the one who asks bounds them
        pages, most = engine.scheduler.pages, engine.scheduler.max_sequences
        room = engine.adapters.count, engine.adapters.rank
        connection.send(Began(pages.count, pages.size, most, *room, engine.numbers()))
        _Served(connection, life, engine, patience).run()


def _sendable(error: Exception) -> Exception:
    return (
        error if isinstance(error, RlxError) else RuntimeError(f"{type(error).__name__}: {error}")
    )


@final
class _Served:
    """The requests of a worker, and how much of each was told."""

    def __init__(self, connection: Any, life: Life, engine: Engine, patience: float) -> None:
        self._connection, self._life = connection, life
        self._engine, self._patience = engine, patience
        self._tickets: dict[int, Ticket] = {}
        self._told: dict[int, int] = {}

    def run(self) -> None:
        """Compute until nothing more is needed."""
        is_busy, before = True, self._engine.numbers()
        while not is_orphan():
            while self._connection.poll(0 if is_busy else IDLE):
                message = self._connection.recv()
                if isinstance(message, Stop):
                    return
                self._handle(message)
                is_busy = True
            self._life.beat(self._patience)
            is_busy = self._engine.step()
            told = Told(list(self._news()), self._engine.numbers())
            if told.news or told.numbers != before:
                self._connection.send(told)
            before = told.numbers

    def _handle(self, message: Submit | Cancel | Attach | Drop) -> None:
        match message:
            case Submit():
                self._submit(message)
            case Cancel(number):
                ticket = self._tickets.pop(number, None)
                if ticket is not None:  # it may have ended meanwhile
                    self._engine.cancel(ticket)
            case Attach(key, adapter):
                self._engine.adapters.attach(key, adapter)
            case Drop(key):
                self._engine.adapters.drop(key)

    def _submit(self, message: Submit) -> None:
        number, prompt, written, options, after = message
        sooner = None if after is None else self._tickets.get(after)
        try:
            ticket = self._engine.submit(prompt, after=sooner, **options)
        except RlxError as error:
            news = [News(number, [], [], [], "error", error)]
            self._connection.send(Told(news, self._engine.numbers()))
            return
        for token in written:  # it goes on as one that was preempted
            ticket.text.take(token, 0.0, {})
        ticket.request.output.extend(written)
        self._tickets[number], self._told[number] = ticket, len(written)

    def _news(self) -> Any:
        """What is new of each request."""
        for number, ticket in list(self._tickets.items()):
            told, output = self._told[number], ticket.request.output
            if len(output) == told and not ticket.reason:
                continue
            found = ticket.completion()
            yield News(
                number, output[told:], found.logprobs[told:], found.likeliest[told:], ticket.reason
            )
            self._told[number] = len(output)
            if ticket.reason:
                del self._tickets[number], self._told[number]
