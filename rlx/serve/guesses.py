"""Guesses of the next tokens, which one step checks together.

"Fast Inference from Transformers via Speculative Decoding", Leviathan et al., 2023. A step computes
a sequence's next token and some guesses of what follows it; the model then draws a token after each
with the random numbers of its place, and what it drew is kept up to the first that was not guessed.
So texts are those without guesses, bit for bit; right guesses only save steps.
"""

from __future__ import annotations

import operator
import threading
from collections.abc import Callable, Mapping, Sequence
from typing import Any, final
from weakref import WeakKeyDictionary

import numpy as np

from ..ir.errors import AttributeValueError
from ..models.generation import Request as Text
from ..models.language import LanguageModel
from ..models.sampling import Drawn, Sampling, Settled
from .costs import few_sizes
from .scheduler import Chunk, Request, Scheduler
from .steps import PagedSteps, batch_of

GRAM = 3  # tokens that came before, after which a text is guessed to go on as it did then
Row = tuple[Text, Sequence[int]]  # a text, and the guesses that come before the token to be drawn
Guesser = Callable[[Scheduler, Mapping[Request, Text], threading.RLock], None]


def guesser(
    model: LanguageModel, draft: LanguageModel | None, count: int, pages: int, size: int, dtype: str
) -> Guesser | None:
    """Who makes up to `count` guesses for a `model`; None for no guesses.

    It is a `draft` if there is one, else `Repeats`. `pages`, `size` and `dtype` are those of the
    cache. A draft of another vocabulary, and one that makes no guesses, are an
    `AttributeValueError`.
    """
    if draft is None:
        return Repeats(count) if count else None
    ours, theirs = model.config.vocabulary, draft.config.vocabulary
    if ours != theirs:
        raise AttributeValueError(
            f"the draft has {theirs} tokens, the model {ours}",
            fix="give a draft with the vocabulary of the model",
        )
    if not count:
        raise AttributeValueError("a draft makes no guesses", fix="give guesses=4 or so, too")
    return Draft(draft, count, pages, size, dtype)


@final
class Drawing:
    """Draws next tokens on a `device`; settings become arrays once for the same texts."""

    def __init__(self, device: str) -> None:
        self._device = device
        self._last: list[Sampling] = []
        self._settled: Settled | None = None

    def __call__(self, rows: Sequence[Row], logits: Any) -> Drawn:
        """The next token of each row, whose `logits` are f32[rows, vocabulary]."""
        texts = [text for text, _ in rows]
        start = np.array([len(x.prompt) for x in texts], "int32")
        count = start + np.array([len(x.tokens) + len(before) for x, before in rows], "int32")
        looks_back = any(x.sampling.looks_back for x in texts)
        width = few_sizes(int(count.max())) if looks_back else 1
        history = np.zeros((len(rows), width), "int32")
        for row, (text, before) in zip(history, rows if looks_back else (), strict=False):
            tokens = [*text.prompt, *text.tokens, *before]
            row[: len(tokens)] = tokens
        how, is_listed = self._how(texts), any(x.is_listed for x in texts)
        return how.draw(logits, history, start, count, is_listed, self._device)

    def _how(self, texts: Sequence[Text]) -> Settled:
        now, is_free = [x.sampling for x in texts], all(x.guide is None for x in texts)
        if not is_free:
            return Settled(now, [x.mask for x in texts])
        is_same = len(now) == len(self._last) and all(map(operator.is_, now, self._last))
        if self._settled is None or not is_same:
            self._last, self._settled = now, Settled(now)
        return self._settled


@final
class Repeats:
    """Guesses that a text goes on as it did before: up to `count` of them.

    It does so after the same last tokens. "Prompt Lookup Decoding", Saxena, 2023.
    """

    def __init__(self, count: int) -> None:
        self._count = count
        self._known: WeakKeyDictionary[Request, _Places] = WeakKeyDictionary()

    def __call__(
        self, scheduler: Scheduler, texts: Mapping[Request, Text], lock: threading.RLock
    ) -> None:
        """Add guesses to the step of a `scheduler` for `texts`, holding the `lock` of both."""
        with lock:
            for chunk in list(scheduler.chunks):
                if not _is_guessed(chunk, texts):
                    continue
                places = self._known.setdefault(chunk.request, _Places())
                for token in places.guesses(chunk.request.tokens, self._count):
                    if not scheduler.guess(chunk.request, token):
                        break


class _Places:
    """Where each run of tokens of a text was last seen."""

    def __init__(self) -> None:
        self._after: dict[tuple[int, ...], int] = {}
        self._count = GRAM

    def guesses(self, tokens: list[int], count: int) -> list[int]:
        """The tokens that may follow, none if the last ones did not come before."""
        for end in range(self._count, len(tokens)):
            self._after[tuple(tokens[end - GRAM : end])] = end
        self._count = max(self._count, len(tokens))
        place = self._after.get(tuple(tokens[-GRAM:]))
        if place is None:
            return []
        known = list(tokens)
        for i in range(count):
            known.append(known[place + i])
        return known[len(tokens) :]


@final
class Draft:
    """Guesses of a small `model` of the same vocabulary: up to `count` of them.

    Its keys and values lie in `pages` pages of `size` tokens, numbered as those of the large one:
    what is shared, kept and freed there is here, too.
    """

    def __init__(self, model: LanguageModel, count: int, pages: int, size: int, dtype: str) -> None:
        self._count, self._steps = count, model.steps(size, dtype)
        self._pages, self._draw = PagedSteps(self._steps, pages), Drawing(self._steps.device)

    def __call__(
        self, scheduler: Scheduler, texts: Mapping[Request, Text], lock: threading.RLock
    ) -> None:
        """Add guesses to the step of a `scheduler` for `texts`, holding the `lock` of both."""
        with lock:
            fed = list(scheduler.chunks)
            guesses: dict[Request, list[int]] = {
                chunk.request: [] for chunk in fed if _is_guessed(chunk, texts)
            }
        for number in range(self._count + 1):
            with lock:
                fed = [chunk for chunk in fed if chunk.request.table is not None]
                is_more = number < self._count  # the last guesses are only read
                asked = [x.request for x in fed if is_more and x.request in guesses]
                if not fed:
                    return
                batch = batch_of(fed, [int(chunk.request in asked) for chunk in fed])
            logits = self._pages(self._steps, batch)
            rows: list[Row] = [(texts[request], guesses[request]) for request in asked]
            tokens = self._draw(rows, logits).tokens if rows else []
            with lock:
                fed = []
                for request, token in zip(asked, tokens, strict=True):
                    if scheduler.guess(request, token) and request.table is not None:
                        guesses[request].append(token)
                        place = len(request.table.tokens) - 1
                        fed.append(Chunk(request, place, (token,), True))


def _is_guessed(chunk: Chunk, texts: Mapping[Request, Text]) -> bool:
    """Whether guesses make sense: a text of a given form has its own."""
    return chunk.is_last and chunk.request in texts and texts[chunk.request].guide is None
