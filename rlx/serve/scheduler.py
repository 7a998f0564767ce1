"""What a step of a language model computes: decodes first, then chunks of prompts.

Pure bookkeeping, like `pages.py`: no arrays, no clock, no threads. A step has a budget of tokens.
Each running sequence that only lacks its next token gets it; what is left of the budget goes to
prompts, in chunks, and beside those who write only as much as does not hold them up. Continuous
batching is that of "Orca: A Distributed Serving System for Transformer-Based Generative Models", Yu
et al., 2022; chunks are those of "SARATHI", Agrawal et al., 2023.

A sequence is its tokens, and how many of them are in the cache. A prompt, a token to be decoded and
a sequence that was preempted are the same: tokens that are not in the cache yet.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from typing import final

from ..ir.errors import AttributeValueError, QueueFullError
from ..ir.record import record, replace
from ..trace.arguments import count_of
from .costs import NO_LIMIT, Costs
from .pages import PagePool, Table

BESIDE = 31  # steps in a row with prompts beside texts: what these take alone is seen now and then


@final
class Request:
    """One sequence: its prompt, what it may cost, and how far it is.

    `prompt` are its tokens, one at least; `max_tokens` how many may follow, from 1 on. Of those who
    wait, the highest `priority` comes first, then the `tenant` that was served least. `root` is
    what its prefix belongs to (tenant, adapter, weights), `stop_tokens` end it, and at `deadline`
    (the scheduler's clock) it ends wherever it is. One with the same prompt as `after` waits until
    that is in the cache, and shares it. Numbers that mean nothing are an
    `AttributeValueError` or `ArgumentError`.
    """

    def __init__(
        self,
        prompt: Sequence[int],
        max_tokens: int,
        *,
        priority: int = 0,
        tenant: str = "",
        root: bytes = b"",
        stop_tokens: Collection[int] = (),
        deadline: float | None = None,
        after: Request | None = None,
    ) -> None:
        if not prompt:
            raise AttributeValueError("an empty prompt", fix="give one token at least")
        self.prompt = tuple(prompt)
        self.max_tokens = count_of("max_tokens", max_tokens, 1)
        self.priority, self.tenant, self.root = priority, tenant, root
        self.stop_tokens = frozenset(stop_tokens)
        self.deadline, self.after = deadline, after
        self.output: list[int] = []
        self.table: Table | None = None  # while it runs
        self.finished: str | None = None  # "stop", "length", "deadline", "cancelled" or "error"
        self.arrival = -1

    @property
    def tokens(self) -> list[int]:
        """The prompt and what was written so far."""
        return [*self.prompt, *self.output]

    def part(self, start: int, end: int) -> tuple[int, ...]:
        """Some of the tokens, without a copy of all."""
        behind = start - len(self.prompt), end - len(self.prompt)
        if behind[0] >= 0:
            return tuple(self.output[behind[0] : behind[1]])
        return (*self.prompt[start:end], *self.output[: max(behind[1], 0)])

    @property
    def most(self) -> int:
        """How many tokens can ever be in the cache: the last one written never is."""
        return len(self.prompt) + self.max_tokens - 1

    @property
    def has_begun(self) -> bool:
        """Whether its prompt has been computed, or it has ended."""
        return bool(self.output) or self.finished is not None

    @property
    def lacking(self) -> int:
        """How many tokens are not in the cache yet; the last of them tells the next token."""
        return len(self.prompt) + len(self.output) - (len(self.table.tokens) if self.table else 0)

    def __repr__(self) -> str:
        state = self.finished or ("running" if self.table else "waiting")
        return f"Request({len(self.prompt)} + {len(self.output)} tokens, {state})"


def check_fits(pages: PagePool, request: Request) -> None:
    """Check that a cache of these `pages` can hold a `request`.

    Raises an `AttributeValueError` if it never can.
    """
    if pages.needed(request.most) > pages.count:
        raise AttributeValueError(
            f"a prompt of {len(request.prompt)} tokens and max_tokens={request.max_tokens} "
            f"need room for {request.most} tokens, the cache has {pages.count * pages.size}",
            fix="shorten the prompt, lower max_tokens, or give the cache more memory",
        )


@record
class Chunk:
    """`tokens` of one `request` that a step computes."""

    request: Request
    start: int  # the position of the first
    tokens: tuple[int, ...]
    is_last: bool  # whether the next token follows from them
    guesses: int = 0  # how many of them, at the end, are guesses of what follows


@final
class Scheduler:
    """Who runs, who waits, and what a step computes.

    `pages` is the pool of the cache; a step has at most `step_tokens` tokens of at most
    `max_sequences` sequences, and at most `max_waiting` requests wait. Each is a whole number from
    1 on, and a step has room for a token of each sequence: anything else is an `ArgumentError` or
    `AttributeValueError`. `costs` bound what of prompts stands beside tokens that are written, if
    only one of them; each 32nd step in a row has none, and tells what the others are compared with.
    A scheduler belongs to one thread.

    >>> scheduler = Scheduler(PagePool(8, size=4), step_tokens=4, max_sequences=2)
    >>> request = scheduler.submit(Request([1, 2, 3, 4, 5], max_tokens=2))
    >>> [(c.start, c.tokens, c.is_last) for c in scheduler.plan(now=0.0)]
    [(0, (1, 2, 3, 4), False)]
    >>> scheduler.complete({})
    >>> [(c.start, c.tokens, c.is_last) for c in scheduler.plan(now=1.0)]
    [(4, (5,), True)]
    >>> scheduler.complete({request: [7]})
    >>> chunks = scheduler.plan(now=2.0)
    >>> scheduler.complete({request: [8]})
    >>> scheduler.take_ended(), request.output
    ([Request(5 + 2 tokens, length)], [7, 8])
    """

    def __init__(
        self,
        pages: PagePool,
        *,
        step_tokens: int,
        max_sequences: int,
        max_waiting: int = 1024,
        costs: Costs = NO_LIMIT,
    ) -> None:
        self.pages = pages
        self.step_tokens = count_of("step_tokens", step_tokens, 1)
        self.max_sequences = count_of("max_sequences", max_sequences, 1)
        self.max_waiting = count_of("max_waiting", max_waiting, 1)
        self.costs = costs
        if step_tokens < max_sequences:
            raise AttributeValueError(
                f"a step of {step_tokens} tokens has no room for one of {max_sequences} sequences",
                fix=f"give step_tokens={max_sequences} or more",
            )
        self.running: list[Request] = []  # in the order of their admission
        self.waiting: list[Request] = []
        self.preemptions = 0
        self._beside = 0  # steps in a row
        self._served: dict[str, float] = {}  # tokens computed for each tenant that has requests
        self._arrivals = 0
        self._chunks: list[Chunk] = []
        self._ended: list[Request] = []

    @property
    def is_idle(self) -> bool:
        """Whether nothing runs and nothing waits."""
        return not self.running and not self.waiting

    def submit(self, request: Request) -> Request:
        """Let a `request` wait for its turn; it is given back.

        One that the cache can never hold is an `AttributeValueError` with both numbers, and so is
        one that was submitted before; one more than `max_waiting` is a `QueueFullError`.
        """
        if request.arrival >= 0:
            raise AttributeValueError(
                f"{request!r} was submitted before", fix="make another Request of its prompt"
            )
        check_fits(self.pages, request)
        if len(self.waiting) >= self.max_waiting:
            raise QueueFullError(
                f"{len(self.waiting)} requests wait already", fix="try again later"
            )
        if not any(r.tenant == request.tenant for r in (*self.running, *self.waiting)):
            least = min(self._served.values(), default=0.0)  # waiting elsewhere earns nothing
            self._served[request.tenant] = least
        request.arrival = self._arrivals
        self._arrivals += 1
        self.waiting.append(request)
        return request

    def cancel(self, request: Request, reason: str = "cancelled") -> None:
        """End a `request` for a `reason`, wherever it is.

        One that has ended stays as it ended.
        """
        if request.finished is None:
            self._finish(request, reason)

    def plan(self, now: float) -> list[Chunk]:
        """What the next step computes; `complete` says afterwards what came of it.

        `now` is the time on the clock of the deadlines. The tokens of all chunks are at most
        `step_tokens`; no sequence has two chunks. An empty list: there is nothing to do. A step
        that is not complete is an `AttributeValueError`.
        """
        if self._chunks:
            raise AttributeValueError("the last step is not complete", fix="call complete first")
        for request in [*self.running, *self.waiting]:
            if request.deadline is not None and now >= request.deadline:
                self._finish(request, "deadline")
        self._admit()
        self._chunks = [self._chunk(request, count) for request, count in self._shares()]
        return self._chunks

    @property
    def chunks(self) -> Sequence[Chunk]:
        """What the step computes that was planned and is not complete."""
        return self._chunks

    def guess(self, request: Request, token: int) -> bool:
        """Let the step that is planned also compute a guess of what follows a last chunk.

        False if there is no room for the `token` in the step, or for a text of the `request` that
        goes on after it.
        """
        place = next((i for i, x in enumerate(self._chunks) if x.request is request), None)
        if place is None or request.table is None or not self._chunks[place].is_last:
            return False
        is_full = sum(len(chunk.tokens) for chunk in self._chunks) >= self.step_tokens
        if is_full or len(request.table.tokens) >= request.most:
            return False
        chunk = self._chunks[place]
        self.pages.write(request.table, [token])
        self._served[request.tenant] += 1
        grown = (*chunk.tokens, token)
        self._chunks[place] = replace(chunk, tokens=grown, guesses=chunk.guesses + 1)
        return True

    def complete(self, sampled: Mapping[Request, Sequence[int]]) -> None:
        """Take what the step made: `sampled` are the next tokens of each last chunk.

        They are one, and one more for each guess that was right: the model drew it there. Requests
        that were cancelled meanwhile need none.
        """
        chunks, self._chunks = self._chunks, []
        for chunk in chunks:
            request = chunk.request
            if request.table is None:  # cancelled while the step ran
                continue
            tokens = sampled[request] if chunk.is_last else ()
            if chunk.guesses:
                wrong = chunk.guesses + 1 - len(tokens)
                self.pages.cut(request.table, len(request.table.tokens) - wrong)
            self.pages.commit(request.table)
            for token in tokens:
                if request.finished is None:
                    self._append(request, token)

    def take_ended(self) -> list[Request]:
        """The requests that ended since this was last asked; `finished` says how."""
        ended, self._ended = self._ended, []
        return ended

    def _append(self, request: Request, token: int) -> None:
        request.output.append(token)
        if token in request.stop_tokens:
            self._finish(request, "stop")
        elif len(request.output) == request.max_tokens:
            self._finish(request, "length")

    def _admit(self) -> None:
        """Let those who wait begin, as long as there is room for all they may need."""
        if len(self.running) == self.max_sequences:
            least = min(r.priority for r in self.running)
            if all(r.priority <= least for r in self.waiting):
                return
        while ready := [r for r in self.waiting if r.after is None or r.after.has_begun]:
            request = min(ready, key=self._turn)
            while not self._begin(request):
                lesser = [r for r in self.running if r.priority < request.priority]
                if not self._would_fit(request, lesser):
                    return
                self._preempt(min(lesser, key=lambda r: (r.priority, -r.arrival)))

    def _would_fit(self, request: Request, lesser: list[Request]) -> bool:
        """Whether a request may begin in the place of lesser ones."""
        tables = [r.table for r in lesser if r.table is not None]
        room = self.pages.available + sum(len(t.pages) + t.promised for t in tables)
        return bool(lesser) and room >= self.pages.needed(request.most)

    def _turn(self, request: Request) -> tuple[int, float, int]:
        return -request.priority, self._served[request.tenant], request.arrival

    def _begin(self, request: Request) -> bool:
        if len(self.running) == self.max_sequences:
            return False
        request.table = self.pages.begin(request.tokens, request.most, request.root)
        if request.table is None:
            return False
        self.waiting.remove(request)
        self.running.append(request)
        return True

    def _preempt(self, request: Request) -> None:
        """Make room: the tokens are kept, and computed again when its turn comes."""
        assert request.table is not None
        self.pages.close(request.table)
        request.table = None
        self.running.remove(request)
        self.waiting.append(request)
        self.preemptions += 1

    def _shares(self) -> list[tuple[Request, int]]:
        """How many tokens each running sequence gets: decodes first, then by priority."""
        writing: list[Request] = []
        reading: list[Request] = []
        for request in self.running:
            (writing if request.lacking == 1 else reading).append(request)
        shares = [(r, 1) for r in writing]
        self._beside = self._beside + 1 if writing and reading else 0
        if not reading or self._beside > BESIDE:
            self._beside = 0
            return shares
        before = sum(map(_length, writing))
        room = self.costs.room(len(writing), before, len(reading))
        taken = len(writing)
        for request in sorted(reading, key=self._turn):
            most, before = min(self.step_tokens - taken, request.lacking), _length(request)
            count = self.costs.share(room, taken, most, before)
            if len(shares) == len(writing):
                count = max(count, 1)  # or a prompt might never end
            if count:
                shares.append((request, count))
                room = max(room - self.costs.price(taken, count, before), 0.0)
                taken += count
        return shares

    def _chunk(self, request: Request, count: int) -> Chunk:
        table = request.table
        assert table is not None
        start, is_last = len(table.tokens), count == request.lacking
        tokens = request.part(start, start + count)
        self.pages.write(table, tokens)
        self._served[request.tenant] += count
        return Chunk(request, start, tokens, is_last)

    def _finish(self, request: Request, reason: str) -> None:
        request.finished = reason
        self._ended.append(request)
        (self.waiting if request.table is None else self.running).remove(request)
        if request.table is not None:
            self.pages.close(request.table)
            request.table = None
        if not any(r.tenant == request.tenant for r in (*self.running, *self.waiting)):
            del self._served[request.tenant]


def _length(request: Request) -> int:
    """How many tokens of a request that runs are in the cache."""
    return len(request.table.tokens) if request.table else 0
