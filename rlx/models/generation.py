"""Continue prompts, many at a time.

The tokens of a prompt go through the model once, then one token a text and step.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np

from ..io.tokenizer import Tokenizer
from ..ir.record import record
from .formats import Guide
from .sampling import Sampling, Settled
from .steps import CHUNK, PAGE, Batch, Steps, chunk

MOST_ROWS = 16  # prompts that are continued at the same time


@record
class Completion:
    """What a model wrote after a prompt.

    `text` is without what ended it, `tokens` without a token that ends texts; `reason` is "stop" if
    such a token or a text of `stop` ended it, else "length". `prompt_tokens` counts those of the
    prompt. If they were asked for, `logprobs` are the logarithms of the tokens' probabilities, and
    `likeliest` has for each place its likeliest tokens with theirs.
    """

    text: str
    tokens: list[int]
    reason: str
    prompt_tokens: int
    logprobs: list[float]
    likeliest: list[dict[int, float]]


class Request:
    """A prompt that is being continued, until an end, a stop text or a limit."""

    def __init__(
        self,
        prompt: Sequence[int],
        limit: int,
        sampling: Sampling,
        ends: frozenset[int],
        text: StoppedText,
        listed: int | None,
        guide: Guide | None = None,
    ) -> None:
        self.guide = guide  # the form of the text
        self.prompt, self.limit, self.sampling = list(prompt), limit, sampling
        self._ends, self._text, self._listed = ends, text, listed
        self.tokens: list[int] = []
        self._logprobs: list[float] = []
        self._likeliest: list[dict[int, float]] = []
        self.reason = "" if limit else "length"

    def take(self, token: int, logprob: float, likeliest: dict[int, float]) -> str:
        """Add a drawn token; the text that is sure by now."""
        if token in self._ends:
            self.reason = "length" if self.guide and self.guide.has_failed else "stop"
            return self._text.rest()
        if self.guide is not None:
            self.guide.take(token)
        if self._listed is not None:
            self._logprobs.append(logprob)
            self._likeliest.append(dict(list(likeliest.items())[: self._listed]))
        self.tokens.append(token)  # after them: another thread may ask for a completion
        piece = self._text.add(token)
        if self._text.is_stopped:
            self.reason = "stop"
        elif len(self.tokens) == self.limit:
            self.reason = "length"
            piece += self._text.rest()
        return piece

    def completion(self) -> Completion:
        """What was written."""
        text, tokens = self._text.whole, list(self.tokens)
        lists = self._logprobs[: len(tokens)], self._likeliest[: len(tokens)]
        return Completion(text, tokens, self.reason, len(self.prompt), *lists)

    def listed(self, first: int) -> tuple[list[float], list[dict[int, float]]]:
        """Logarithms and likeliest tokens, if asked for, from token `first` on."""
        return self._logprobs[first:], self._likeliest[first:]

    @property
    def mask(self) -> np.ndarray | None:
        """The tokens that are allowed next, as bits; None for all."""
        return None if self.guide is None else self.guide.mask()

    @property
    def is_listed(self) -> bool:
        """Whether the likeliest tokens are asked for."""
        return bool(self._listed)


class StoppedText:
    """The text of tokens as they come, up to the first of some stop texts.

    What may be the beginning of one waits until it is known.
    """

    def __init__(self, tokenizer: Tokenizer | None, stops: Sequence[str]) -> None:
        self._fed: deque[int] = deque()
        self._pieces = (
            None if tokenizer is None else tokenizer.stream(iter(self._fed.popleft, None))
        )
        self._count = 0 if tokenizer is None else tokenizer.end
        self._stops, self._waiting = tuple(stops), ""
        self.whole, self.is_stopped = "", False

    def add(self, token: int) -> str:
        """Add a token; the text that is sure by now."""
        if (
            self._pieces is None or token >= self._count
        ):  # some models have more, which mean nothing
            return ""
        self._fed.append(token)
        piece = next(self._pieces)
        if not self._stops:
            self.whole += piece
            return piece
        self._waiting += piece
        found = [i for i in map(self._waiting.find, self._stops) if i >= 0]
        if found:
            self._waiting, self.is_stopped = self._waiting[: min(found)], True
            return self.rest()
        return self._sure(len(self._waiting) - self._begun())

    def rest(self) -> str:
        """What waited, when no more will come."""
        return self._sure(len(self._waiting))

    def _sure(self, count: int) -> str:
        piece, self._waiting = self._waiting[:count], self._waiting[count:]
        self.whole += piece
        return piece

    def _begun(self) -> int:
        """How many letters at the end may begin a stop text."""
        most = max(map(len, self._stops), default=1) - 1
        for count in range(min(most, len(self._waiting)), 0, -1):
            if any(stop.startswith(self._waiting[-count:]) for stop in self._stops):
                return count
        return 0


def run(steps: Steps, requests: Sequence[Request]) -> Iterator[tuple[Request, str]]:
    """Continue requests; yield each whenever it got a token, and its sure text."""
    waiting = deque(request for request in requests if request.limit)
    if waiting:
        yield from _Rows(steps, waiting).run()


class _Rows:
    """Requests that are continued together, each in a row of the tables of pages."""

    def __init__(self, steps: Steps, waiting: deque[Request]) -> None:
        self._steps, self._waiting = steps, waiting
        rows = min(MOST_ROWS, len(waiting))
        most = -(-max(len(x.prompt) + x.limit for x in waiting) // PAGE)
        self._pages: Any = steps.pages(rows * most)
        self._tables = np.arange(rows * most, dtype="int32").reshape(rows, most)
        self._tokens = np.zeros((rows, most * PAGE), "int32")
        self._free, self._active = list(range(rows)), dict[int, Request]()

    def run(self) -> Iterator[tuple[Request, str]]:
        """Continue all, first those for which there is a row."""
        while self._waiting or self._active:
            while self._waiting and self._free:
                request, row = self._waiting.popleft(), self._free.pop()
                logits = self._read(request, row)
                self._active[row] = request
                yield from self._drawn([row], logits)
            if self._active:
                rows = list(self._active)
                yield from self._drawn(rows, self._written(rows))

    def _read(self, request: Request, row: int) -> Any:
        """Logits after a prompt."""
        prompt, logits = request.prompt, None
        self._tokens[row, : len(prompt)] = prompt
        for first in range(0, len(prompt), CHUNK):
            batch = chunk(prompt[first : first + CHUNK], first, row, self._tables)
            logits, self._pages = self._steps(batch, self._pages)
        return logits

    def _written(self, rows: Sequence[int]) -> Any:
        """Logits after the last tokens of some rows."""
        places = self._counts(rows) - 1
        row = np.array(rows, "int32")
        batch = Batch(
            self._tokens[row, places],
            places,
            row,
            self._tables,
            np.arange(len(rows), dtype="int32"),
        )
        logits, self._pages = self._steps(batch, self._pages)
        return logits

    def _drawn(self, rows: Sequence[int], logits: Any) -> Iterator[tuple[Request, str]]:
        """Draw a token for each of some rows; rows of those that ended get free."""
        requests = [self._active[row] for row in rows]
        start, count = np.array([len(x.prompt) for x in requests], "int32"), self._counts(rows)
        settled = Settled([x.sampling for x in requests], [x.mask for x in requests])
        listed = any(x.is_listed for x in requests)
        drawn = settled.draw(logits, self._tokens[rows], start, count, listed)
        for i, (row, request) in enumerate(zip(rows, requests, strict=True)):
            piece = request.take(drawn.tokens[i], *drawn.of(i))
            if request.reason:
                self._free.append(row)
                del self._active[row]
            else:
                self._tokens[row, count[i]] = drawn.tokens[i]
            yield request, piece

    def _counts(self, rows: Sequence[int]) -> np.ndarray:
        """How many tokens each row has."""
        found = (self._active[row] for row in rows)
        return np.array([len(x.prompt) + len(x.tokens) for x in found], "int32")
