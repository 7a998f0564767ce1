"""Engines in processes of their own, and requests that outlive them.

Each worker is an engine with a cache of its own (`worker.py`); the weights are the same memory.
Here are the requests, what each has written, and the texts. When a worker dies, its requests go on
with others, at the next token and with the same bits: all that a token depends on is the prompt,
the tokens before it, and the seed.

A request may be what kills workers. After a death each request of the worker is a suspect: one at a
time of them is given to a worker, until it has its next token. It is to blame if that worker dies
first, or another one where it alone has no token yet. It is refused when it is to blame for two
deaths in a row, without a token between them, and for one more for each of the last minutes that
nobody is to blame for, and each other request that is to blame for some: workers that are killed
from outside die at any moment, so also soon after they were given a suspect. SIGKILL and SIGSTOP,
which come from there, count a quarter. Who is to blame for a death waits for a worker that has
lived for a while: few do while workers are killed. So who kills alone is known after two deaths,
who does so in company after four, and innocent ones go on.
"""

from __future__ import annotations

import itertools
import threading
import time
from collections import Counter, deque
from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack
from typing import Any, Self, final

from ..ir.errors import DeviceFailure, QueueFullError, WorkerLostError
from ..models.language import LanguageModel
from ..trace.arguments import bytes_of, callable_of, count_of
from ..trace.axes import integer
from ..workers.pool import MOST_KILLS, pickled, processors, seconds
from ..workers.process import ENDED, SOON, Process, check_memory
from .adapters import Adapters
from .engine import (
    Engine,
    Ticket,
    check_linked,
    check_own,
    check_ticket,
    check_weights,
    tenant_of,
    time_limit,
)
from .lanes import Heard, Job, Lane
from .pages import PagePool
from .scheduler import Request, check_fits
from .weight_files import WeightFiles
from .weights import Handle
from .wire import Began, Cancel, Stop, Told
from .worker import serve
from .writer import COUNTERS, Writer

OF_REQUESTS = ("priority", "tenant", "adapter")  # options that are not those of the text
MOMENT = 0.1  # seconds that `step` waits for news
MOST_REFUSED = 1024  # requests that are remembered because they killed workers
CALM = 1.0  # seconds that a worker has lived before it is given who may have killed others
WHILE = 300.0  # seconds for which deaths that others are to blame for speak for a request


@final
class Workers(Writer):
    """Engines in processes, which continue texts as one `Engine` does, and may die.

    There are `count` of them. `make` is a function of a module, or one that pickle takes, that
    makes the engine of a worker; `model` has the tokenizer and the sizes of that engine's model,
    and computes nothing here. Load models with `shared=True`, so that all workers map the same
    weights. At most `max_waiting` requests wait for their turn. A worker may take `memory` bytes,
    or a text such as "4G", beyond those it begins with; one whose step takes more than `patience`
    seconds is killed. `threads` are those of each for the `cpu` device (None: the processors,
    shared out).

    A dead worker is replaced, and its requests go on with the others, at the next token and with
    the same bits. A request that kills two workers, and more if workers die without it, too, ends
    with the reason "error", and `generate` raises its `WorkerLostError`; it is refused when it
    comes again. `adapters` are those that requests may choose, as many as the engines have room
    for. Workers that cannot begin are a `WorkerLostError`, or the error of `make`. Use it in a
    `with` block, or `close` it.
    """

    adapters: Adapters

    def __init__(
        self,
        model: LanguageModel,
        make: Callable[[], Engine],
        count: int = 2,
        *,
        max_waiting: int = 1024,
        memory: int | str | None = None,
        patience: float = 60.0,
        threads: int | None = None,
    ) -> None:
        self.model = model
        self.count = count_of("Workers: count", count, 1, 256)
        self._max_waiting = count_of("max_waiting", max_waiting, 1)
        bound = None if memory is None else bytes_of("Workers: memory", memory)
        check_memory(bound)
        self._memory = bound
        given = callable_of("Workers: make", make), seconds("Workers: patience", patience)
        pickled(make, "Workers: make")
        each = max(1, processors() // count) if threads is None else threads
        each = count_of("Workers: threads", each, 1)

        def start(memory: int | None) -> Process:
            return Process(serve, *given, memory=memory, threads=each)

        self.error: BaseException | None = None  # why there are no workers any more
        self.ends = threading.Event()
        self.restarts = 0
        self._past: Counter[str] = Counter()  # what workers that died had counted
        self._began: Began | None = None
        self._numbers = itertools.count()
        self._jobs: dict[Ticket, Job] = {}
        self._pending: deque[Job] = deque()  # those that no worker has
        self._refused: dict[bytes, int] = {}  # how many workers died over each
        self._deaths: deque[tuple[float, int | None]] = deque()  # the last ones: who is to blame
        self._files = WeightFiles()
        self._news = threading.Condition(threading.RLock())
        self._swap = threading.Lock()  # held by who writes weights
        self._lanes = [Lane(start, bound) for _ in range(count)]
        heard = Heard(self._begin, self._hear, self._lose), self.ends
        self._threads = [
            threading.Thread(target=lane.run, args=heard, name="rlx.serve", daemon=True)
            for lane in self._lanes
        ]
        for thread in self._threads:
            thread.start()
        with self._news:
            while self._began is None and self.error is None:
                self._news.wait()
        if self._began is None:
            raise self.error or DeviceFailure("the workers were closed", fix="make others")
        self._pages = PagePool(self._began.pages, self._began.size)
        self.most_tokens = min(model.config.context, self._began.pages * self._began.size)
        self.adapters = Adapters(model, self._began.adapters, self._began.rank)

    def submit(
        self,
        prompt: str | Sequence[int],
        *,
        timeout: float | None = None,
        after: Ticket | None = None,
        listener: Callable[[], None] | None = None,
        **options: Any,
    ) -> Ticket:
        """Give a `prompt` to a worker, and return its ticket.

        `timeout`, `after`, `listener`, other `options` and errors are those of `Engine.submit`; a
        request that has killed two workers is a `WorkerLostError`.
        """
        self._check_open()
        check_linked(after, listener)
        made = self._ticket(prompt, timeout, after, listener, options)
        name = options.pop("adapter", None)
        with self._news, ExitStack() as undo:
            handle = None if name is None else self.adapters.take(name)
            if handle is not None:
                undo.callback(handle.release)
            job = Job(next(self._numbers), made, options, after, handle, self._files.current)
            self._check_room(job)
            if not made.reason:
                undo.pop_all()
                self._jobs[made] = job
                self._pending.append(job)
                self._give_all()
        return made

    def _ticket(
        self,
        prompt: str | Sequence[int],
        timeout: float | None,
        after: Ticket | None,
        listener: Callable[[], None] | None,
        options: Mapping[str, Any],
    ) -> Ticket:
        """A ticket for a prompt; what the engine of a worker would refuse is refused."""
        others = {name: x for name, x in options.items() if name not in OF_REQUESTS}
        text = self.model.text(prompt, **others)
        limit = time_limit(timeout)
        request = Request(
            text.prompt,
            max(text.limit, 1),
            priority=integer("submit: priority", options.get("priority", 0)),
            tenant=tenant_of(options.get("tenant", "")),
            deadline=None if limit is None else time.monotonic() + limit,
            after=None if after is None else after.request,
        )
        return Ticket(text, request, listener)

    def _check_open(self) -> None:
        if self.error is not None:
            raise DeviceFailure(
                "there are no workers any more", fix="make others; the first error says why"
            ) from self.error

    def _check_room(self, job: Job) -> None:
        """Raise an error if there is no room for a request."""
        if self._refused and (killed := self._refused.get(job.key)):
            raise _refusal(killed, self._memory)
        check_fits(self._pages, job.ticket.request)
        assert self._began is not None
        room = self._began.sequences * sum(lane.is_ready for lane in self._lanes)
        waiting = len(self._jobs) - room
        if waiting >= self._max_waiting:
            raise QueueFullError(f"{waiting} requests wait already", fix="try again later")

    def swap_weights(self, weights: Mapping[str, Any]) -> None:
        """Compute with other `weights` from now on, as `Engine.swap_weights`.

        They are written to a file that all workers map. Steps go on meanwhile. Weights of another
        structure than those of the model are a `StructureError`.
        """
        self._check_open()
        check_weights(self.model, weights)
        with self._swap:
            file = self._files.write(weights)
            with self._news:
                self._files.use(file)
                self._files.keep({x.weights for x in self._jobs.values()})

    def cancel(self, ticket: Ticket) -> None:
        """End the request of a `ticket`; another engine's is an `AttributeValueError`."""
        check_ticket("cancel: ticket", ticket)
        with self._news:
            job = self._jobs.get(ticket)
            check_own(job is not None or bool(ticket.reason))
            if job is not None:
                self._end(job, "cancelled")
                self._give_all()

    def step(self) -> bool:
        """Wait a moment for news; false if there is nothing to wait for."""
        with self._news:
            now = time.monotonic()
            for job in list(self._pending):  # the others are with workers, who look at their clocks
                deadline = job.ticket.request.deadline
                if deadline is not None and now >= deadline:
                    job.end("deadline")
                    self._forget(job)
            if not self._jobs:
                return False
            self._give_all()
            self._news.wait(MOMENT)
            return True

    def close(self) -> None:
        """End the workers, and what they have not finished."""
        self.ends.set()
        with self._news:
            for lane in self._lanes:
                lane.post(Stop())
        for lane, thread in zip(self._lanes, self._threads, strict=True):
            thread.join(SOON)
            if thread.is_alive() and lane.process is not None:
                lane.process.kill(ENDED)  # in the middle of a long step
            thread.join()
        with self._news:
            self._fail(DeviceFailure("the workers were closed", fix="make others"))
            self._files.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    # -- how it is ---------------------------------------------------------------------------------

    @property
    def beat(self) -> float:
        """When a worker last went on, on the clock `time.monotonic`."""
        with self._news:
            return max((process.life.last for process in self._processes()), default=0.0)

    def numbers(self) -> dict[str, float]:
        """The numbers of all workers together, and of the workers."""
        with self._news:
            found = dict.fromkeys(self._began.numbers if self._began else (), 0.0)
            found |= {"workers": float(sum(lane.is_ready for lane in self._lanes))}
            found |= {"restarts": float(self.restarts)}
            for numbers in (self._past, *(lane.numbers for lane in self._lanes)):
                for name, value in numbers.items():
                    found[name] = found.get(name, 0.0) + value
            found["waiting"] = found.get("waiting", 0.0) + len(self._pending)
            return found

    def states(self) -> list[dict[str, Any]]:
        """Of each worker its process, its requests, and the seconds since its last step."""
        now = time.monotonic()
        with self._news:
            return [
                {
                    "pid": process.pid,
                    "running": len(lane.jobs),
                    "seconds_since_step": round(now - process.life.last, 3),
                }
                for lane in self._lanes
                if lane.is_ready and (process := lane.process) is not None
            ]

    def _processes(self) -> list[Process]:
        return [x.process for x in self._lanes if x.is_ready and x.process is not None]

    # -- what lanes tell ---------------------------------------------------------------------------

    def _begin(self, lane: Lane, began: Began) -> None:
        """Take a lane's worker into use: it is ready."""
        with self._news:
            self._began, lane.is_ready, lane.numbers = began, True, began.numbers
            lane.since = time.monotonic()
            self._give_all()
            self._news.notify_all()

    def _hear(self, lane: Lane, told: Told) -> None:
        """Take what a step of a lane's worker made."""
        with self._news:
            lane.numbers, is_awaited = told.numbers, False
            for news in told.news:
                job = lane.jobs.get(news.number)
                if job is None:  # it was cancelled
                    continue
                job.take(news, self.model.config.vocabulary)
                if lane.probe is job and not job.is_suspect:
                    lane.probe = None
                if job.ticket.reason:
                    if not news.reason:  # a text of `stop` has come
                        lane.post(Cancel(job.number))
                    self._forget(job)
                elif job.ticket.error is not None:  # of its listener
                    self._end(job, "error")
                is_awaited |= bool(job.ticket.reason) or not job.ticket.has_listener
            self._give_all()
            if is_awaited:  # to wake who needs not know takes as long as to tell a token
                self._news.notify_all()

    def _lose(self, lane: Lane, how: str) -> None:
        """Take the requests of a lane whose worker died, to give them to others."""
        with self._news:
            was_ready = lane.is_ready
            self.restarts += was_ready
            self._past.update({k: x for k, x in lane.numbers.items() if k in COUNTERS})
            jobs, blamed = lane.empty(how)
            if was_ready:
                self._count_death(blamed)
            if blamed is not None and blamed.blame >= MOST_KILLS + self._deaths_without(blamed):
                self._refuse(blamed, how)
                jobs.remove(blamed)
            jobs.sort(key=lambda job: job.blame)  # innocent ones go on first
            self._pending.extendleft(reversed(jobs))
            self._give_all()
            lost = [x.failure for x in self._lanes if x.failure is not None]
            if len(lost) == self.count:
                self._fail(lost[0])
            self._news.notify_all()

    def _count_death(self, blamed: Job | None) -> None:
        """Remember for a while that a worker died, and the request that is to blame for it."""
        now = time.monotonic()
        while self._deaths and self._deaths[0][0] < now - WHILE:
            self._deaths.popleft()
        self._deaths.append((now, None if blamed is None else blamed.number))

    def _deaths_without(self, job: Job) -> int:
        """How many workers died lately for nobody's sake, and requests other workers died for."""
        blamed = [x for _, x in self._deaths]
        return blamed.count(None) + len({*blamed} - {None, job.number})

    def _refuse(self, job: Job, how: str) -> None:
        while len(self._refused) >= MOST_REFUSED:
            del self._refused[next(iter(self._refused))]
        self._refused[job.key] = job.killed
        job.ticket.error = _refusal(job.killed, self._memory, f": the last one {how}")
        job.end("error")
        self._forget(job)

    def _fail(self, error: Exception) -> None:
        """End all requests, and take no others."""
        self.error = self.error or error
        for job in list(self._jobs.values()):
            job.ticket.error = error
            job.end("error")
            self._forget(job)

    def _end(self, job: Job, reason: str) -> None:
        """End a request before its time, wherever it is."""
        if job.lane is not None:
            job.lane.post(Cancel(job.number))
        job.end(reason)
        self._forget(job)

    def _forget(self, job: Job) -> None:
        """Be done with a request that has ended."""
        self._jobs.pop(job.ticket, None)
        lane, job.lane = job.lane, None
        if job in self._pending:
            self._pending.remove(job)
        if job.adapter is not None:
            job.adapter.release()
            job.adapter = None
        if job.weights != self._files.current:
            self._files.keep({x.weights for x in self._jobs.values()})
        if lane is not None:
            lane.jobs.pop(job.number, None)
            lane.probe = None if lane.probe is job else lane.probe

    def _give_all(self) -> None:
        """Give the requests that no worker has to those that are open for them."""
        now = time.monotonic()
        for job in list(self._pending):
            after = self._jobs.get(job.after) if job.after is not None else None
            lane = self._lane(job, now, None if after is None else after.lane)
            if lane is None:
                continue
            self._pending.remove(job)
            first = None if after is None else after.number
            lane.give(job, now, first, self._is_used, self._files)

    def _is_used(self, adapter: Handle) -> bool:
        return adapter.pins > 0 or self.adapters.has(adapter)

    def _lane(self, job: Job, now: float, wanted: Lane | None) -> Lane | None:
        """The lane that is to have a request: the wanted one, or that with the fewest."""
        least = CALM if job.blame else 0.0
        found = [
            x for x in self._lanes if x.is_ready and x.probe is None and now - x.since >= least
        ]
        return wanted if wanted in found else min(found, key=lambda x: len(x.jobs), default=None)


def _refusal(killed: int, memory: int | None, how: str = "") -> WorkerLostError:
    more = "" if memory is None else f"give the workers more memory than {memory} bytes, or "
    return WorkerLostError(
        f"{killed} workers died over the request{how}",
        fix=f"{more}report it with its prompt and options; other requests go on",
    )
