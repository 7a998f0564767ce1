"""Requests on their way through workers, and workers, replaced when they die."""

from __future__ import annotations

import functools
import hashlib
import itertools
import math
import queue
import threading
from collections.abc import Callable, Mapping
from typing import Any, NamedTuple, final

from ..ir.errors import WorkerLostError
from ..workers.pool import FIRST_PAUSE, LONGEST_PAUSE, MOST_STARTS, advice
from ..workers.process import KILLED, STOPPED, Process
from ..workers.rings import Torn
from ..workers.shortage import shortage
from .engine import Ticket
from .weight_files import WeightFiles
from .weights import Handle
from .wire import (
    FROM_WORKERS,
    MOST_BYTES,
    Attach,
    Began,
    Drop,
    Failed,
    Forget,
    Garbled,
    News,
    Submit,
    Swap,
    Told,
    from_bytes,
    options_of,
    options_text,
    to_bytes,
)

OTHERWISE = ("seed", "tenant", "priority")  # options in which requests may differ
ENDS = ("", "stop", "length", "deadline", "cancelled", "error")  # reasons for them; "" is none
LITTLE = 0.25  # how much a death by the deed of others says against a request
IsUsed = Callable[[Handle], bool]


class Heard(NamedTuple):
    """Who hears what becomes of the worker of a lane."""

    begin: Callable[[Lane, Began], None]
    tell: Callable[[Lane, Told], None]
    lose: Callable[[Lane, str], None]  # how it ended


@final
class Job:
    """A request on its way through workers."""

    def __init__(
        self,
        number: int,
        ticket: Ticket,
        options: Mapping[str, Any],
        after: Ticket | None,
        adapter: Handle | None,
        weights: int,
    ) -> None:
        self.number, self.ticket, self.after = number, ticket, after
        self.options = options_text(options)  # whatever becomes of those given
        self.adapter, self.weights = adapter, weights  # pinned; of this version
        self.lane: Lane | None = None
        self.is_fresh = True  # it has no token of the worker it is with
        self.is_suspect = False
        self.killed = 0  # workers that died over it since its last token
        self.blame = 0.0  # for them, 1 for most

    @property
    def key(self) -> bytes:
        """What requests have in common that may kill a worker for the same reason.

        Who asks, how soon, and the random numbers do not belong to it.
        """
        options = {k: x for k, x in options_of(self.options).items() if k not in OTHERWISE}
        adapter = self.adapter and self.adapter.key
        text = repr((self.ticket.request.prompt, options_text(options), adapter))
        return hashlib.sha256(text.encode()).digest()

    def message(self, now: float, after: int | None) -> Submit:
        """What a worker is told of it at a time."""
        request = self.ticket.request
        left = None if request.deadline is None else max(request.deadline - now, 0.0)
        adapter = None if self.adapter is None else self.adapter.key
        given = list(request.prompt), list(request.output), self.options
        return Submit(self.number, *given, left, adapter, after, self.weights)

    def take(self, news: News, vocabulary: int) -> None:
        """Add tokens to its text; news that cannot be true are `Garbled`."""
        request, count = self.ticket.request, len(news.tokens)
        are_right = (
            news.reason in ENDS
            and count <= request.max_tokens - len(request.output)
            and max(len(news.logprobs), len(news.likeliest)) <= count
            and all(0 <= token < vocabulary for token in news.tokens)
        )
        if not are_right:
            raise Garbled("news that cannot be true")
        rows = itertools.zip_longest(news.tokens, news.logprobs, news.likeliest)
        for token, logprob, likeliest in rows:
            if self.ticket.reason:  # a text of `stop`, of which the worker knows nothing
                break
            piece = self.ticket.text.take(token, logprob or 0.0, likeliest or {})
            request.output.append(token)
            self.ticket.tell(piece)
        if news.tokens:
            self.is_fresh = self.is_suspect = False
            self.blame, self.killed = 0.0, 0
        if news.reason:
            self.ticket.error = news.error or self.ticket.error
            self.end(news.reason)

    def end(self, reason: str) -> None:
        """End it, if it has not ended yet."""
        if not self.ticket.reason:
            self.ticket.request.finished = reason
        self.ticket.tell()


@final
class Lane:
    """A worker, which is replaced when it dies, and the thread that hears it.

    `start` starts one that may take so many bytes, which are `memory`.
    """

    def __init__(self, start: Callable[[int | None], Process], memory: int | None) -> None:
        self._start, self._memory = start, memory
        self.process: Process | None = None
        self.is_ready, self.since = False, 0.0  # when it became so
        self.jobs: dict[int, Job] = {}
        self.probe: Job | None = None  # a suspect, which is to have a token before others come
        self.numbers: dict[str, float] = {}
        self.adapters: dict[str, Handle] = {}  # those its worker has, by their keys
        self.weights = {0}  # the versions that it has
        self.failure: Exception | None = None  # why it is not replaced any more
        self._outbox: queue.SimpleQueue[Any] = queue.SimpleQueue()
        self._pause = FIRST_PAUSE

    def run(self, heard: Heard, ends: threading.Event) -> None:
        """Keep a worker for as long as there is a use for it."""
        unborn, has_begun = 0, False
        while self.failure is None:
            self._outbox = queue.SimpleQueue()  # who sets `ends` posts a `Stop` after that
            if ends.is_set():
                return
            how, failure = self._life_of_one(heard)
            unborn, has_begun = unborn + 1, has_begun or self.is_ready
            if failure is None and unborn == MOST_STARTS:
                what = f"{unborn} workers ended before they began: the last one {how}"
                failure = WorkerLostError(what, fix=advice(how))
            if failure is not None and not has_begun:  # else another one will begin sooner or later
                begins = functools.partial(self._begins, ends)
                self.failure = shortage(self._memory, begins) or failure
            heard.lose(self, how)
            ends.wait(self._pause)
            self._pause = min(2 * self._pause, LONGEST_PAUSE)

    def post(self, message: Any) -> None:
        """Send a message, without waiting until it is taken."""
        self._outbox.put(message)

    def give(
        self, job: Job, now: float, after: int | None, is_used: IsUsed, files: WeightFiles
    ) -> None:
        """Let the worker have a job, and the adapter and weights of `files` that it needs.

        It shares the prompt of the request number `after`. What nobody uses makes room.
        """
        if job.weights not in self.weights:
            for version in self.weights - files.needed:
                self.post(Forget(version))
            self.weights = {*(self.weights & files.needed), job.weights}
            self.post(Swap(job.weights, files.path(job.weights)))
        adapter = job.adapter
        if adapter is not None and adapter.key not in self.adapters:
            for key, other in list(self.adapters.items()):
                if not is_used(other):
                    self.post(Drop(key))
                    del self.adapters[key]
            self.adapters[adapter.key] = adapter
            self.post(Attach(adapter.key, adapter.tree))
        job.lane, self.jobs[job.number] = self, job
        self.probe = job if job.is_suspect else None
        self.post(job.message(now, after))

    def empty(self, how: str) -> tuple[list[Job], Job | None]:
        """Take the jobs of a worker that died: all are suspects, and one may be to blame."""
        jobs = list(self.jobs.values())
        fresh = [job for job in jobs if job.is_fresh]
        blamed = self.probe or (fresh[0] if len(fresh) == 1 else None)
        if blamed is not None:
            blamed.killed += 1
            blamed.blame += LITTLE if how.startswith((KILLED, STOPPED)) else 1.0
        for job in jobs:
            job.lane, job.is_fresh, job.is_suspect = None, True, True
        self.jobs, self.probe, self.numbers, self.adapters = {}, None, {}, {}
        self.weights = {0}
        self.is_ready = False
        return jobs, blamed

    def _life_of_one(self, heard: Heard) -> tuple[str, Exception | None]:
        """Start a worker and hear it to its end: how it ended, and why it could not begin."""
        try:
            self.process = process = self._start(self._memory)
        except Exception as error:  # no memory, or no place for a process
            return str(error), error
        outbox, failure = self._outbox, None
        sender = threading.Thread(target=_send, args=(process, outbox), daemon=True)
        sender.start()
        try:
            failure = self._hear(process, heard)
        except Exception as error:  # it has ended, or what it said cannot be understood
            if isinstance(error, Torn) or not isinstance(error, EOFError | OSError):
                process.kill(f"was ended after {type(error).__name__}: {error}")
        outbox.put(None)
        sender.join()
        return process.end(), failure

    def _hear(self, process: Process, heard: Heard) -> Exception:
        """Hear a worker; an error says that nothing more will come.

        Returns the error because of which it could not begin.
        """
        began = _heard(process)
        if isinstance(began, Failed):
            return began.error
        heard.begin(self, began)
        while True:
            heard.tell(self, _heard(process))
            self._pause = FIRST_PAUSE

    def _begins(self, ends: threading.Event, memory: int) -> bool:
        """Whether a worker begins that may take so many bytes."""
        if ends.is_set():
            return False
        try:
            self.process = process = self._start(memory)
        except Exception:  # no memory, or no place for a process
            return False
        try:
            return not isinstance(_heard(process), Failed)
        except Exception:  # it has ended, or what it said cannot be understood
            return False
        finally:
            process.end()


def _heard(process: Process) -> Any:
    found = from_bytes(process.connection.recv_bytes(MOST_BYTES), FROM_WORKERS)
    if not isinstance(found, Failed) and not all(map(math.isfinite, found.numbers.values())):
        raise Garbled("numbers that cannot be true")
    return found


def _send(process: Process, outbox: queue.SimpleQueue[Any]) -> None:
    try:
        while (message := outbox.get()) is not None:
            process.connection.send_bytes(to_bytes(message))
    except Torn as error:
        process.kill(f"was ended after {type(error).__name__}: {error}")
    except OSError:  # who should hear it is dead
        pass
