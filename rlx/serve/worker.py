"""An engine in a process of its own: requests come over a channel, tokens go back.

`workers.py` starts it and knows all requests; what is here may die at any moment. Messages are
those of `wire.py`.
"""

from __future__ import annotations

import ctypes
import gc
import signal
import sys
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager, suppress
from typing import Any, final

from ..ir.errors import FileAccessError, RlxError
from ..models.lora import Adapter
from ..workers.process import START, Life, is_orphan
from .engine import Engine, Ticket, Version
from .weight_files import read_weights
from .wire import (
    MOST_BYTES,
    TO_WORKERS,
    Attach,
    Began,
    Cancel,
    Drop,
    Failed,
    Forget,
    News,
    Stop,
    Submit,
    Swap,
    Told,
    from_bytes,
    options_of,
    to_bytes,
)

IDLE = 0.25  # seconds that a worker without work waits for a message at a time
SHORT = 0.002  # where something else is to come
BEAT = 1.0  # seconds between signs of life of one that begins
Asked = tuple[Submit, Future[Any] | None]  # a request, and the form of its text


def serve(connection: Any, life: Life, make: Callable[[], Engine], patience: float) -> None:
    """Serve requests that come over a `connection` until there are no more.

    `make` makes the engine. `life` hears of each step, and that the next one takes less than
    `patience` seconds. A step that raises an error ends the process.
    """
    signal.signal(signal.SIGTERM, signal.SIG_IGN)  # the one who asks finishes what has begun
    with suppress(EOFError, OSError):  # that one has ended
        try:
            with _alive(life):  # large models take their time
                engine = make()
                engine.use(Version(engine.model.without_tokenizer()))
                _settle()
        except Exception as error:
            connection.send_bytes(to_bytes(Failed(error)))
            return
        engine.scheduler.max_waiting = sys.maxsize  # the one who asks bounds them
        pages, most = engine.scheduler.pages, engine.scheduler.max_sequences
        room = engine.adapters.count, engine.adapters.rank
        began = Began(pages.count, pages.size, most, *room, engine.numbers())
        connection.send_bytes(to_bytes(began))
        _Served(connection, life, engine, patience).run()


@contextmanager
def _alive(life: Life) -> Iterator[None]:
    """Give signs of `life` while a block runs."""
    has_ended = threading.Event()

    def run() -> None:
        while not has_ended.wait(BEAT):
            life.beat(START)

    thread = threading.Thread(target=run, daemon=True)
    thread.start()
    try:
        yield
    finally:
        has_ended.set()
        thread.join()


def _settle() -> None:
    """Give memory back that was needed to begin, and let no collection visit what is left.

    It is many objects, as modules and programs: to visit them would hold up streams for 50 ms.
    """
    gc.collect()
    gc.freeze()
    with suppress(AttributeError):  # it is one of glibc's
        ctypes.CDLL(None).malloc_trim(0)


def _there(version: Future[Version] | None) -> Version:
    """The weights of a version; an error if they cannot be had."""
    problem = "they were forgotten" if version is None else version.exception()
    if version is None or problem is not None:
        raise FileAccessError(f"the weights cannot be read: {problem}", fix="swap them in again")
    return version.result()


@final
class _Served:
    """The requests of a worker, and how much of each was told."""

    def __init__(self, connection: Any, life: Life, engine: Engine, patience: float) -> None:
        self._connection, self._life = connection, life
        self._engine, self._patience = engine, patience
        self._tickets: dict[int, Ticket] = {}
        self._told: dict[int, int] = {}
        self._thread = ThreadPoolExecutor(1, "rlx.serve.weights")
        self._versions: dict[int, Future[Version]] = {0: Future()}
        self._versions[0].set_result(engine.version)
        self._readers = ThreadPoolExecutor(1, "rlx.serve.forms")
        self._early: list[Asked] = []  # requests whose weights or forms are not there yet

    def run(self) -> None:
        """Compute until nothing more is needed."""
        is_busy, before = True, self._engine.numbers()
        while not is_orphan():
            while self._connection.poll(0 if is_busy else SHORT if self._early else IDLE):
                message = from_bytes(self._connection.recv_bytes(MOST_BYTES), TO_WORKERS)
                if isinstance(message, Stop):
                    return
                self._handle(message)
                is_busy = True
            self._life.beat(self._patience)
            early, self._early = self._early, []
            for asked in early:
                self._submit(*asked)
            is_busy = self._engine.step()
            told = Told(list(self._news()), self._engine.numbers())
            if told.news or told.numbers != before:
                self._tell(told)
            before = told.numbers

    def _tell(self, told: Told) -> None:
        self._connection.send_bytes(to_bytes(told))

    def _handle(self, message: Submit | Cancel | Attach | Drop | Swap | Forget) -> None:
        match message:
            case Submit():
                self._submit(message, self._form(message))
            case Cancel(number):
                self._early = [x for x in self._early if x[0].number != number]
                ticket = self._tickets.pop(number, None)
                if ticket is not None:  # it may have ended meanwhile
                    self._engine.cancel(ticket)
            case Attach(key, layers):
                self._engine.adapters.attach(key, Adapter(layers))
            case Drop(key):
                self._engine.adapters.drop(key)
            case Swap(version, path):
                self._versions[version] = self._thread.submit(self._read, path)
            case Forget(version):
                self._versions.pop(version, None)

    def _read(self, path: str) -> Version:
        """The weights of a file, ready to compute with; steps go on meanwhile."""
        return self._engine.prepared(read_weights(path, self._engine.model.weights))

    def _form(self, message: Submit) -> Future[Any] | None:
        """The form of a request's text, if it has one, read in a thread: steps go on meanwhile."""
        options = options_of(message.options)
        form = options.get("schema"), options.get("regex")
        guide = self._engine.model.formats.guide
        return None if form == (None, None) else self._readers.submit(guide, *form)

    def _submit(self, message: Submit, form: Future[Any] | None) -> None:
        version = self._versions.get(message.weights)
        if not all(x is None or x.done() for x in (version, form)):
            self._early.append((message, form))
            return
        number, after = message.number, message.after
        sooner = None if after is None else self._tickets.get(after)
        try:
            if form is not None:
                form.result()
            self._engine.use(_there(version))
            ticket = self._engine.submit(
                message.prompt,
                after=sooner,
                timeout=message.timeout,
                adapter=message.adapter,
                **{**options_of(message.options), "stop": ()},  # the one who asks looks for it
            )
        except RlxError as error:
            news = [News(number, [], [], [], "error", error)]
            self._tell(Told(news, self._engine.numbers()))
            return
        for token in message.written:  # it goes on as one that was preempted
            ticket.text.take(token, 0.0, {})
        ticket.request.output.extend(message.written)
        self._tickets[number], self._told[number] = ticket, len(message.written)

    def _news(self) -> Iterator[News]:
        """What is new of each request."""
        for number, ticket in list(self._tickets.items()):
            told, output = self._told[number], ticket.request.output
            if len(output) == told and not ticket.reason:
                continue
            yield News(number, output[told:], *ticket.text.listed(told), ticket.reason, None)
            self._told[number] = len(output)
            if ticket.reason:
                del self._tickets[number], self._told[number]
