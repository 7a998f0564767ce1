"""Continue prompts, many at a time.

The tokens of a prompt go through the model once, then one token a row and step.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np

from .. import numpy as rnp
from ..io.tokenizer import Tokenizer
from ..ir.record import record
from .sampling import Sampling, Settled
from .steps import CHUNK, ROUND, Steps

MOST_ROWS = 16  # prompts that are continued at the same time


@record
class Completion:
    """What a model wrote after a prompt.

    `text` and `tokens` are without what ended them; `reason` is "stop" if the model or a text of
    `stop` ended it, else "length". `prompt_tokens` counts those of the prompt. If they were asked
    for, `logprobs` are the logarithms of the tokens' probabilities, and `likeliest` has for each
    place its likeliest tokens with theirs.
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
    ) -> None:
        self.prompt, self.limit, self.sampling = list(prompt), limit, sampling
        self._ends, self._text, self._listed = ends, text, listed
        self.tokens: list[int] = []
        self._logprobs: list[float] = []
        self._likeliest: list[dict[int, float]] = []
        self.reason = "" if limit else "length"

    def take(self, token: int, logprob: float, likeliest: dict[int, float]) -> str:
        """Add a drawn token; the text that is sure by now."""
        if token in self._ends:
            self.reason = "stop"
            return self._text.rest()
        self.tokens.append(token)
        if self._listed is not None:
            self._logprobs.append(logprob)
            self._likeliest.append(dict(list(likeliest.items())[: self._listed]))
        piece = self._text.add(token)
        if self._text.is_stopped:
            self.reason = "stop"
        elif len(self.tokens) == self.limit:
            self.reason = "length"
            piece += self._text.rest()
        return piece

    def completion(self) -> Completion:
        """What was written."""
        return Completion(
            self._text.whole,
            self.tokens,
            self.reason,
            len(self.prompt),
            self._logprobs,
            self._likeliest,
        )

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
        self._stops, self._waiting = tuple(stops), ""
        self.whole, self.is_stopped = "", False

    def add(self, token: int) -> str:
        """Add a token; the text that is sure by now."""
        if self._pieces is None:
            return ""
        self._fed.append(token)
        self._waiting += next(self._pieces)
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
    for first in range(0, len(requests), MOST_ROWS):
        yield from _run_together(steps, [x for x in requests[first : first + MOST_ROWS] if x.limit])


def _run_together(steps: Steps, active: list[Request]) -> Iterator[tuple[Request, str]]:
    """Continue so many that they fit in one batch."""
    if not active:
        return
    places = max(len(x.prompt) + x.limit for x in active)
    places = -(-places // ROUND) * ROUND
    begun = [_begin(steps, x.prompt, places) for x in active]
    logits = rnp.concatenate([x for x, _ in begun])
    cache = _joined([cache for _, cache in begun])
    history = np.zeros((len(active), places), "int32")
    for row, request in enumerate(active):
        history[row, : len(request.prompt)] = request.prompt
    start = np.array([len(x.prompt) for x in active], "int32")
    count, settled = start.copy(), Settled([x.sampling for x in active])
    is_listed = any(x.is_listed for x in active)
    while True:
        drawn = settled.draw(logits, history, start, count, is_listed)
        for row, (request, token) in enumerate(zip(active, drawn.tokens, strict=True)):
            if request.reason:  # it ended before, and is computed along with the others
                continue
            yield request, request.take(token, *drawn.of(row))
        if all(x.reason for x in active):
            return
        history[np.arange(len(active)), count] = drawn.tokens
        going = np.array([not x.reason for x in active])
        logits, cache = steps(np.array(drawn.tokens, "int32")[:, None], count, cache)
        count = count + going


def _begin(steps: Steps, prompt: Sequence[int], places: int) -> tuple[Any, Any]:
    """Logits after a prompt, and the cache, of one row."""
    cache, logits = steps.cache(1, places), None
    for first in range(0, len(prompt), CHUNK):
        ids = np.array([prompt[first : first + CHUNK]], "int32")
        logits, cache = steps(ids, np.array([first], "int32"), cache)
    return logits, cache


def _joined(caches: Sequence[Any]) -> Any:
    """The caches of rows as one."""
    if len(caches) == 1:
        return caches[0]
    layers = zip(*caches, strict=True)
    return [tuple(rnp.concatenate(x) for x in zip(*layer, strict=True)) for layer in layers]
