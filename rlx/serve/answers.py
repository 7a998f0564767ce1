"""Answers of OpenAI's interface: whole ones, and streams of their parts."""

from __future__ import annotations

import asyncio
import json
import secrets
import time
from collections.abc import AsyncIterator, Iterable, Iterator, Mapping, Sequence
from typing import Any, final

from ..ir.errors import DeviceFailure
from ..ir.lazy import lazy
from ..models.generation import Completion
from ..models.language import LanguageModel
from . import openai_api as api
from .bad_request import BadRequest
from .engine import Ticket
from .openai_api import Asked
from .runner import Listener
from .tools import Called, Calls

encoded = json.JSONEncoder(ensure_ascii=False, separators=(",", ":")).encode
DONE, HERE = "data: [DONE]\n\n", "text"


@final
class Answer:
    """The answer to what was `asked`, of a `model` that is called `name`.

    There are `listeners` for each prompt with its samples; `calls` finds calls of tools in what
    they hear, if there are tools.
    """

    def __init__(
        self,
        asked: Asked,
        model: LanguageModel,
        name: str,
        listeners: Sequence[Listener],
        calls: Calls | None,
    ) -> None:
        kind = "chatcmpl" if asked.is_chat else "cmpl"
        given = f"{kind}-{secrets.token_hex(12)}", int(time.time()), name
        self._names = api.Names(*given, asked.is_chat, asked.has_usage)
        self._asked, self._tokenizer, self._listeners = asked, model.tokenizer, listeners
        self._calls = calls

    async def finish(self) -> list[Completion]:
        """Wait for the end of all texts."""
        return await asyncio.gather(*(listener.finish() for listener in self._listeners))

    def whole(self, found: Sequence[Completion], timeout: float) -> dict[str, Any]:
        """The body of the answer with what was `found`.

        A text that failed, or took more than `timeout` seconds, raises a `BadRequest`.
        """
        for listener, completion in zip(self._listeners, found, strict=True):
            if completion.reason == "error":
                raise failure(listener.ticket)
        if any(x.reason == "deadline" for x in found):
            raise BadRequest(f"the answer took more than {timeout:g} s", status=408)
        choices = [self._choice(i, x) for i, x in enumerate(self._best(found))]
        return {**self._names.head(False), "choices": choices, "usage": self._usage(found)}

    def _best(self, found: Sequence[Completion]) -> Iterator[Completion]:
        """Of the samples of each prompt those that the model finds likeliest by the token."""
        count, written = self._asked.samples, self._asked.best_of
        for first in range(0, len(found), written):
            samples = found[first : first + written]
            if count < written:
                samples = sorted(samples, key=_likelihood, reverse=True)[:count]
            yield from samples

    def _choice(self, index: int, found: Completion) -> dict[str, Any]:
        text, calls = (found.text, []) if self._calls is None else self._calls.split(found)
        logprobs = None if self._asked.hides_logprobs else self._logprobs(found, 0, api.Offsets())
        text = self._echo(index) + text
        return api.choice(self._names, index, text, calls, self._end(found, calls), logprobs)

    def _end(self, found: Completion, calls: Sequence[Called]) -> str:
        """Why it ended; a call that was asked for by name is a "stop", as at OpenAI's."""
        is_named = self._calls is not None and self._calls.tools.choice not in ("auto", "required")
        return "tool_calls" if calls and not is_named else found.reason

    def _echo(self, index: int) -> str:
        """The prompt of a choice, if its text is to begin with it."""
        if not self._asked.echo:
            return ""
        prompt = self._asked.prompts[index // self._asked.samples]
        if isinstance(prompt, str):
            return prompt
        if self._tokenizer is None:
            return ""
        end = self._tokenizer.end  # a model may have more tokens, which are no text
        return self._tokenizer.decode([i for i in prompt if i < end], special=True)

    def _logprobs(self, found: Completion, first: int, offsets: api.Offsets) -> Any:
        return api.logprobs_of(self._names, self._tokenizer, found, first, offsets)

    def _usage(self, found: Sequence[Completion]) -> dict[str, int]:
        """What it cost; samples of one prompt share it."""
        firsts = [x for x in self._listeners if x.ticket.request.after is None]
        return api.usage(found, sum(len(x.ticket.request.prompt) for x in firsts))

    # -- streams -----------------------------------------------------------------------------------

    async def events(self) -> AsyncIterator[str]:
        """The parts of a stream, as they come, as server-sent events."""
        choices = [_Choice(self, i, x.ticket) for i, x in enumerate(self._listeners)]
        for choice in choices:
            for part in choice.begin():
                yield event(part)
        async for index, piece in _merged(self._listeners):
            choice = choices[index]
            if piece is not None:
                if found := choice.piece(piece):
                    yield found
            elif choice.ticket.reason == "error":  # as OpenAI's streams say it
                yield event(failure(choice.ticket).body()) + DONE
                return
            else:
                yield "".join(map(event, choice.end()))
        if self._asked.has_usage:
            usage = self._usage([x.ticket.completion() for x in self._listeners])
            yield event({**self._names.head(True), "choices": [], "usage": usage})
        yield DONE


@final
class _Choice:
    """One text of a stream: what was told of it."""

    def __init__(self, answer: Answer, index: int, ticket: Ticket) -> None:
        self.ticket, self._answer, self._index = ticket, answer, index
        self._tokens = self._letters = 0  # that were told
        self._offsets = api.Offsets()

    def begin(self) -> Iterable[dict[str, Any]]:
        """The parts before all others."""
        answer = self._answer
        if answer._names.is_chat:
            yield api.part(answer._names, self._index, None)
        elif answer._asked.echo:
            yield api.part(answer._names, self._index, answer._echo(self._index))

    def piece(self, text: str) -> str:
        """The event for a new piece of text: none where it may be a part of a call."""
        answer = self._answer
        if answer._calls is not None:
            found = self.ticket.completion()
            text = found.text[self._letters : answer._calls.sure(found)]
            self._letters += len(text)
            if not text:
                return ""
        if answer._asked.options["logprobs"] is None:
            before, after = self._around
            return f"{before}{encoded(text)}{after}"
        return event(api.part(answer._names, self._index, text, logprobs=self._logprobs()))

    @lazy
    def _around(self) -> tuple[str, str]:
        """What stands before and behind the text in the event of a piece: always the same."""
        whole = event(api.part(self._answer._names, self._index, HERE))
        before, _, after = whole.rpartition(encoded(HERE))  # names come before
        return before, after

    def end(self) -> Iterable[dict[str, Any]]:
        """The last parts."""
        answer, found = self._answer, self.ticket.completion()
        names, index, calls = answer._names, self._index, list[Called]()
        if answer._calls is not None:
            text, calls = answer._calls.split(found)
            if text[self._letters :]:
                yield api.part(names, index, text[self._letters :], logprobs=self._logprobs())
            if calls:
                yield api.part(names, index, "", calls=calls)
        yield api.part(names, index, None, answer._end(found, calls), self._logprobs())

    def _logprobs(self) -> Any:
        """The logarithms of tokens that were not told yet."""
        found, first = self.ticket.completion(), self._tokens
        self._tokens = len(found.tokens)
        is_new = self._tokens > first
        return self._answer._logprobs(found, first, self._offsets) if is_new else None


async def _merged(listeners: Sequence[Listener]) -> AsyncIterator[tuple[int, str | None]]:
    """The pieces of all texts as they come, with the numbers of these; None is an end."""
    if len(listeners) == 1:
        async for piece in listeners[0].pieces():
            yield 0, piece
        yield 0, None
        return
    news: asyncio.Queue[tuple[int, str | None]] = asyncio.Queue()

    async def follow(index: int, listener: Listener) -> None:
        async for piece in listener.pieces():
            await news.put((index, piece))
        await news.put((index, None))

    tasks = [asyncio.ensure_future(follow(i, x)) for i, x in enumerate(listeners)]
    try:
        left = len(listeners)
        while left:
            index, piece = await news.get()
            left -= piece is None
            yield index, piece
    finally:
        for task in tasks:
            task.cancel()


def event(part: Mapping[str, Any]) -> str:
    """A `part` of a stream as a server-sent event."""
    return f"data: {encoded(part)}\n\n"


def failure(ticket: Ticket) -> BadRequest:
    """What to say of a request that ended by an error: its own, or that of the engine."""
    if ticket.error is not None and not isinstance(ticket.error, DeviceFailure):
        return BadRequest(getattr(ticket.error, "what", str(ticket.error)), code="request_refused")
    return BadRequest("the engine has failed", status=500)


def _likelihood(found: Completion) -> float:
    return sum(found.logprobs) / max(len(found.logprobs), 1)
