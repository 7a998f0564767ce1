"""An engine that continues many texts at a time, each as if it were alone.

A step computes tokens of all running sequences together: the next token of those that write, and a
part of a prompt of those that read (`scheduler.py`), with keys and values in pages (`pages.py`).
What a request gets has the same bits alone, among others, in whatever chunks its prompt came, with
its prefix found in the cache, and after it was preempted.
"""

from __future__ import annotations

import itertools
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import replace
from typing import Any, final

import numpy as np

from ..ir.errors import AttributeValueError, DeviceFailure, StructureError
from ..ir.types import as_dtype
from ..models.generation import Completion, Request as Text
from ..models.language import LanguageModel, language_model
from ..models.sampling import Drawn, Sampling, Settled
from ..models.steps import Batch, Steps
from ..trace.arguments import bytes_of, callable_of, count_of, flag, instance_of
from ..trace.array_arguments import known_real
from ..trace.axes import integer, number
from .adapters import Adapters
from .costs import few_tokens
from .guesses import Drawing, guesser
from .pace import Pace
from .pages import PagePool
from .scheduler import Chunk, Request, Scheduler
from .steps import PagedSteps, batch_of, batch_of_nobody, costs_of, measured
from .weights import Handle, signature
from .writer import Writer

Weights = tuple[Steps, Handle | None]  # with the adapter
Asked = list[tuple["Ticket", Sequence[int]]]  # who asks for next tokens, with guesses of them
Taken = dict[Request, list[int]]  # the tokens that each got


@final
class Ticket:
    """A request to an engine: what it wrote so far, and whether it has ended.

    An engine makes it of a `text` that is continued and of the `request` to its scheduler. Its
    `listener` is called whenever there are news, by the thread that computes. One that raises an
    error ends its own request, which keeps the `error`.
    """

    def __init__(
        self, text: Text, request: Request, listener: Callable[[], None] | None = None
    ) -> None:
        self.text, self.request, self._listener = text, request, listener
        self.pieces: list[str] = []  # of the text, as they became sure
        self.error: Exception | None = None  # why it ended before its time, if that is known
        self._reason = text.reason  # known when all pieces are there

    @property
    def has_listener(self) -> bool:
        """Whether somebody hears of news without asking."""
        return self._listener is not None

    @property
    def reason(self) -> str:
        """How it ended: "stop", "length", "deadline", "cancelled", "error"; "" before."""
        return self._reason or self.request.finished or ""

    def completion(self) -> Completion:
        """What was written so far."""
        return replace(self.text.completion(), reason=self.reason)

    def tell(self, piece: str = "") -> None:
        """Add a `piece` of text, and call the listener."""
        if piece:
            self.pieces.append(piece)
        self._reason = self.text.reason
        if self._listener is None:
            return
        try:
            self._listener()
        except Exception as error:
            self.error, self._listener = error, None

    def __repr__(self) -> str:
        return f"Ticket({self.request!r})"


@final
class Version:
    """The weights of a `model` that requests are computed with, and a number for them."""

    _numbers = itertools.count()

    def __init__(self, model: LanguageModel) -> None:
        self.model, self.number = model, next(self._numbers)


def check_weights(model: LanguageModel, weights: Any) -> None:
    """Raise a `StructureError` for `weights` that cannot stand for those of a `model`."""
    before, after = signature(model.weights), signature(weights)
    if before != after:
        raise StructureError(
            f"the new weights are {after}, the old ones {before}",
            fix="give arrays of the same structure, shapes and dtypes, or make another engine",
        )


def check_ticket(name: str, given: Any) -> None:
    """Check that an argument of a `name` is a ticket."""
    instance_of(name, given, Ticket, "a ticket", "give what submit gave")


def check_own(is_own: bool) -> None:
    """Raise an `AttributeValueError` if a ticket that has not ended is not one's own."""
    if not is_own:
        raise AttributeValueError(
            "cancel: the ticket is of another engine", fix="cancel it where it was submitted"
        )


def check_linked(after: Any, listener: Any) -> None:
    """Check what a request may wait for, and who hears of it; None is nobody."""
    if after is not None:
        check_ticket("submit: after", after)
    if listener is not None:
        callable_of("submit: listener", listener)


def time_limit(given: Any) -> float | None:
    """Check the seconds that a request may take; None for any number."""
    found = None if given is None else float(number("submit: timeout", given))
    if found != found:
        raise AttributeValueError("submit: timeout is nan", fix="give seconds, or None")
    return found


def tenant_of(given: Any) -> str:
    """Check the name of a tenant."""
    return instance_of("submit: tenant", given, str, "a text", "give a text")


@final
class Engine(Writer):
    """Continues many texts at a time, each with the bits it gets alone.

    `model` computes; `cache` is the memory for keys and values, in bytes or as text ("256M"), taken
    at once; a page has `page_size` tokens, held as `dtype`, a float or int8, by default
    `model.page_dtype`. A step computes at most `step_tokens` tokens of at most `max_sequences`
    texts. While texts are written, it reads of prompts what makes it about `stretch` times as long
    as if it wrote all texts; a higher one reads them sooner, and texts come less smoothly. At most
    `max_waiting` requests wait for their turn. There is room for `adapters` of a rank up to
    `adapter_rank`, attached by `engine.adapters.attach`. A step may check `guesses` of what follows
    a text, so many for each, by a `draft`, a small model of the same vocabulary, or else by what
    the text repeats: texts stay the same, bit for bit, in fewer steps. With `poison`, pages that
    are given back are filled with NaN. `clock` tells seconds. Numbers that mean nothing, and a
    cache without room for a page, are an `AttributeValueError`. Threads may use an engine at the
    same time; one of them computes.
    """

    adapters: Adapters

    def __init__(
        self,
        model: LanguageModel,
        *,
        cache: int | str = "256M",
        page_size: int = 16,
        max_sequences: int = 16,
        step_tokens: int = 256,
        stretch: float = 1.6,
        max_waiting: int = 1024,
        dtype: Any = None,
        adapters: int = 0,
        adapter_rank: int = 16,
        guesses: int = 0,
        draft: LanguageModel | None = None,
        poison: bool = False,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self.model = language_model("Engine: model", model)
        if draft is not None:
            language_model("Engine: draft", draft)
        self._clock = callable_of("Engine: clock", clock)
        size, name = (
            count_of("page_size", page_size, 1),
            as_dtype(model.page_dtype if dtype is None else dtype).name,
        )
        each = sum(_page_bytes(x, size, name) for x in (model, draft) if x is not None)
        count = bytes_of("cache", cache) // each
        if not count:
            raise AttributeValueError(
                f"a cache of {cache} has no room for a page of {size} tokens",
                fix=f"give {each} bytes or more",
            )
        self.scheduler = Scheduler(
            PagePool(count, size),
            step_tokens=step_tokens,
            max_sequences=max_sequences,
            max_waiting=max_waiting,
            costs=costs_of(model.config, _stretch(stretch)),
        )
        self.most_tokens = min(model.config.context, count * size)
        self.adapters = Adapters(model, adapters, adapter_rank)
        self._kind = size, name, self.adapters.room  # of its steps
        self._steps = model.steps(*self._kind)
        self.version = Version(model)  # of the weights
        self._pages = PagedSteps(self._steps, count)
        self._guess = guesser(model, draft, count_of("guesses", guesses), count, size, name)
        self._draw, self._poisons = Drawing(self._steps.device), flag("poison", poison)
        self.steps = self.computed = self.written = 0  # steps, tokens computed, tokens written
        self.guessed = self.right = 0  # guesses, and how many of them were right
        self.error: BaseException | None = None  # what ended it
        self.beat = time.monotonic()  # when `step` was last done
        self._pace: Pace | None = None  # once costs are measured
        self._tickets: dict[Request, Ticket] = {}
        self._weights: dict[Request, Weights] = {}  # those each began with
        self._turn = threading.Lock()  # of the thread that computes a step
        self._lock = threading.RLock()  # of the bookkeeping, held for moments

    def submit(
        self,
        prompt: str | Sequence[int],
        *,
        priority: int = 0,
        tenant: str = "",
        adapter: str | None = None,
        timeout: float | None = None,
        after: Ticket | None = None,
        listener: Callable[[], None] | None = None,
        **options: Any,
    ) -> Ticket:
        """Let a `prompt` wait for its turn, and return its ticket; `step` goes on with it.

        Of those who wait, a higher `priority` comes first, then the `tenant` who was served least;
        tenants do not share the prefixes of their prompts. `adapter` is the name of an attached
        one, which it keeps to its end. After `timeout` seconds it ends where it is. One with the
        prompt of the ticket `after` waits until that is computed, to share it. `listener` is called
        whenever there are news. The other `options` are those of `LanguageModel.generate`, and so
        are the errors; a prompt that the cache can never hold and an unknown adapter are an
        `AttributeValueError`, one too many a `QueueFullError`, any after a step that raised an
        error a `DeviceFailure`.
        """
        if self.error is not None:
            raise _ended(self.error)
        check_linked(after, listener)
        text = self.model.text(prompt, **options)
        seconds = time_limit(timeout)
        with self._lock, ExitStack() as undo:
            handle = None if adapter is None else self.adapters.take(adapter)
            if handle is not None:
                undo.callback(handle.release)
            request = Request(
                text.prompt,
                max(text.limit, 1),
                priority=integer("submit: priority", priority),
                tenant=tenant_of(tenant),
                root=repr((tenant, handle and handle.key, self.version.number)).encode(),
                stop_tokens=self.model.ends,
                deadline=None if seconds is None else self._clock() + seconds,
                after=None if after is None else after.request,
            )
            ticket = Ticket(text, request, listener)
            if not text.reason:  # with max_tokens=0 it has ended before it began
                self.scheduler.submit(request)
                self._tickets[request] = ticket
                self._weights[request] = self._steps, handle
                undo.pop_all()
        return ticket

    def swap_weights(self, weights: Mapping[str, Any]) -> None:
        """Compute with other `weights` from now on, without a compile.

        Steps go on meanwhile. They have the structure, shapes and dtypes of those of the model, or
        it is a `StructureError`. Requests that were submitted before go on with the old ones, which
        are dropped after them; no prefix is shared between the two. `model` is another one then,
        and the one that was given stays as it is.
        """
        self.use(self.prepared(weights))

    def prepared(self, weights: Mapping[str, Any]) -> Version:
        """Other `weights`, ready for `use`; a `StructureError` if they do not fit."""
        check_weights(self.model, weights)
        return Version(self.model.with_weights(weights))

    def use(self, version: Version) -> None:
        """Compute requests that come from now on with the weights of a `version`."""
        with self._lock:
            self.version, self.model = version, version.model
            self._steps = version.model.steps(*self._kind, device=self._steps.device)

    def cancel(self, ticket: Ticket) -> None:
        """End the request of a `ticket` where it is.

        One of another engine is an `AttributeValueError`.
        """
        check_ticket("cancel: ticket", ticket)
        with self._lock:
            if not ticket.reason:
                check_own(ticket.request in self._tickets)
                self.scheduler.cancel(ticket.request)
                self._forget_ended()

    def step(self) -> bool:
        """Compute one step of all requests; false if there was nothing to do.

        A step that raises an error ends all requests, and the engine: what its pages hold is not
        known then, and any further step is a `DeviceFailure`.
        """
        with self._turn:
            if self.error is not None:
                raise _ended(self.error)
            try:
                is_busy = self._step()
                self.beat = time.monotonic()
                return is_busy
            except BaseException as error:
                self._fail(error)
                raise

    def _step(self) -> bool:
        start = time.perf_counter()
        with self._lock:
            self.scheduler.plan(self._clock())
            self._forget_ended()
        if self._guess is not None:
            with self._lock:
                texts = {request: ticket.text for request, ticket in self._tickets.items()}
            self._guess(self.scheduler, texts, self._lock)
        with self._lock:
            chunks = [x for x in self.scheduler.chunks if x.request.table is not None]
            stale = self.scheduler.pages.take_stale()
            groups: dict[Steps, list[Chunk]] = {}
            for chunk in chunks:
                groups.setdefault(self._weights[chunk.request][0], []).append(chunk)
            batches = [(steps, *self._batch(group)) for steps, group in groups.items()]
            stacks = self.adapters.stacks
        if self._poisons and stale:
            self._pages.poison(stale)
        drawn: list[tuple[Asked, Drawn]] = []
        for steps, batch, asked in batches:
            logits = self._pages(steps, batch, stacks)
            if asked:
                rows = [(t.text, g[:i]) for t, g in asked for i in range(len(g) + 1)]
                drawn.append((asked, self._draw(rows, logits)))
        with self._lock:
            self.steps += bool(chunks)
            self.computed += sum(len(chunk.tokens) for chunk in chunks)
            sampled: Taken = {}
            for asked, found in drawn:
                sampled |= self._taken(asked, found)
            self.scheduler.complete(sampled)
            self._forget_ended()
            if self._pace is not None and len(batches) == 1:  # not of old weights and new ones
                seconds, costs = time.perf_counter() - start, self.scheduler.costs
                self.scheduler.costs = self._pace.mended(costs, chunks, seconds)
        return bool(chunks)

    def _batch(self, chunks: Sequence[Chunk]) -> tuple[Batch, Asked]:
        """The tokens of chunks with their adapters, and the tickets that ask for next tokens."""
        batch = batch_of(chunks, [chunk.guesses + 1 if chunk.is_last else 0 for chunk in chunks])
        if self.adapters.count:
            places = [self.adapters.place(self._weights[chunk.request][1]) for chunk in chunks]
            chosen = np.full(len(batch.ids), -1, "int32")
            each = np.repeat(places, [len(chunk.tokens) for chunk in chunks])
            chosen[: len(each)] = each
            batch = batch._replace(chosen=chosen)
        asked: Asked = [
            (self._tickets[chunk.request], chunk.tokens[len(chunk.tokens) - chunk.guesses :])
            for chunk in chunks
            if chunk.is_last
        ]
        return batch, asked

    def _fail(self, error: BaseException) -> None:
        """End all requests, and take no others."""
        with self._lock:
            self.error = error
            for ticket in list(self._tickets.values()):
                ticket.error = _ended(error)
                self.scheduler.cancel(ticket.request, "error")
            self._forget_ended()

    def warm_up(self) -> None:
        """Compute steps of all usual sizes for nobody, before requests come.

        They need not wait then for what is made when a size comes for the first time, and the
        memory that steps take is taken. What steps cost is measured, and mended by those that come,
        so that prompts hold up texts as `stretch` says.
        """
        most, tokens = self.scheduler.max_sequences, self.scheduler.step_tokens
        # all ways to draw, since memory is taken as it is written to
        how = Sampling(1.0, top_k=1, min_p=0.5, frequency_penalty=0.5, logit_bias={0: 1.0})
        others = {few_tokens(n) for n in range(most + 1, tokens + 1)}
        device = self._steps.device
        with self._turn:
            for count, rows in [*((n, n) for n in range(1, most + 1)), *((n, 1) for n in others)]:
                logits = self._computed(batch_of_nobody(count, rows))
                zeros = np.zeros((rows, 1), "int32")
                begins = zeros[:, 0]
                Settled([how] * rows).draw(logits, zeros, begins, begins + 1, True, device)
            if self.steps:  # pages hold something
                return
            with self._lock:
                found = self.scheduler.costs, self.scheduler.pages
                self.scheduler.costs = measured(
                    *found, most, tokens, lambda batch: self._computed(batch).host()
                )
                self._pace = Pace()

    def _computed(self, batch: Batch) -> Any:
        """The logits of a batch without adapters."""
        chosen = np.full(len(batch.ids), -1, "int32") if self.adapters.count else None
        return self._pages(self._steps, batch._replace(chosen=chosen), self.adapters.stacks)

    def numbers(self) -> dict[str, float]:
        """What it has done and what it holds, by name."""
        scheduler = self.scheduler
        return {
            "running": len(scheduler.running),
            "waiting": len(scheduler.waiting),
            "preemptions": scheduler.preemptions,
            "pages": scheduler.pages.count,
            "pages_free": scheduler.pages.available,
            "steps": self.steps,
            "tokens_computed": self.computed,
            "tokens_written": self.written,
            "tokens_guessed": self.guessed,
            "tokens_guessed_right": self.right,
        }

    def _taken(self, asked: Sequence[tuple[Ticket, Sequence[int]]], drawn: Drawn) -> Taken:
        """Tell tickets their tokens up to the first wrong guess, which are given back.

        Whose text has ended hears nothing more.
        """
        found, row = {}, 0
        for ticket, guesses in asked:
            tokens = drawn.tokens[row : row + len(guesses) + 1]
            right = 0
            while right < len(guesses) and guesses[right] == tokens[right]:
                right += 1
            taken = 0
            while taken <= right and not ticket.reason:
                ticket.tell(ticket.text.take(tokens[taken], *drawn.of(row + taken)))
                taken += 1
            self.written += taken
            found[ticket.request] = tokens[:taken]
            self.guessed, self.right = self.guessed + len(guesses), self.right + right
            row += len(guesses) + 1
        return found

    def _forget_ended(self) -> None:
        for request, ticket in list(self._tickets.items()):
            why = ticket.text.reason or ("" if ticket.error is None else "error")
            if why and request.finished is None:  # by a text of `stop`, or a listener
                self.scheduler.cancel(request, why)
        for request in self.scheduler.take_ended():
            _, adapter = self._weights.pop(request)
            if adapter is not None:
                adapter.release()
            self._tickets.pop(request).tell()


def _stretch(given: Any) -> float:
    found = known_real("stretch", given)
    if found >= 1:
        return found
    raise AttributeValueError(f"stretch is {found:g}", fix="use a number from 1 on")


def _ended(error: BaseException) -> DeviceFailure:
    """What requests hear after a step that raised an `error`."""
    made = DeviceFailure(
        f"the engine has ended: a step raised {type(error).__name__}",
        fix="make another engine; the first error says why",
    )
    made.__cause__ = error
    return made


def _page_bytes(model: LanguageModel, size: int, name: str) -> int:
    """The bytes of a page of `size` tokens in all layers of a model."""
    c = model.config
    scale = 4 if name == "int8" else 0
    return 2 * c.layers * size * c.kv_heads * (c.head_size * as_dtype(name).itemsize + scale)
