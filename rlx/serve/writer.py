"""What everything that continues texts by tickets can do."""

from __future__ import annotations

import abc
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any

from ..ir.errors import QueueFullError
from ..models.language import LanguageModel, Prompts

if TYPE_CHECKING:
    from .adapters import Adapters
    from .engine import Ticket


COUNTERS = frozenset(  # those of `numbers` that never get less
    "preemptions steps tokens_computed tokens_guessed tokens_guessed_right tokens_written "
    "restarts".split()
)


class Writer(abc.ABC):
    """Continues the texts of a `model`: one `Engine`, or many as `Workers`.

    Threads may use it at the same time; steps are computed as long as one of them calls `step`.
    """

    model: LanguageModel
    error: BaseException | None  # why it takes no requests any more
    adapters: Adapters | None = None  # those that requests may choose
    beat: float  # when it last went on, on the clock `time.monotonic`
    count: int = 0  # processes that compute for it when all are there
    most_tokens: int  # of a prompt and its text, in the model and in the cache

    @abc.abstractmethod
    def submit(self, prompt: str | Sequence[int], **options: Any) -> Ticket:
        """Let a `prompt` wait for its turn, with `options`, and return its ticket."""

    @abc.abstractmethod
    def cancel(self, ticket: Ticket) -> None:
        """End the request of a `ticket` where it is."""

    @abc.abstractmethod
    def step(self) -> bool:
        """Go on with all requests; false if there was nothing to do."""

    @abc.abstractmethod
    def numbers(self) -> dict[str, float]:
        """What it has done and what it holds, by name."""

    def states(self) -> list[dict[str, Any]]:
        """Of each process that computes for it what is known; none by default."""
        return []

    def generate(self, prompts: Prompts, **options: Any) -> Any:
        """Continue `prompts`: one text or list of tokens, or several.

        Returns a `Completion` for one and a list for several. `options` and errors are those of
        `submit`.
        """
        listed, is_one = self.model.prompts(prompts)
        tickets: list[Ticket] = []
        try:
            for prompt in listed:
                tickets.append(self._submitted(prompt, options))
            while not all(ticket.reason for ticket in tickets):
                self.step()
        finally:  # an error of one is the end of all
            for ticket in tickets:
                self.cancel(ticket)
        for ticket in tickets:
            if ticket.error is not None:
                raise ticket.error
        found = [ticket.completion() for ticket in tickets]
        return found[0] if is_one else found

    def _submitted(self, prompt: Sequence[int], options: dict[str, Any]) -> Ticket:
        """The ticket of a prompt, as soon as there is room among those who wait."""
        while True:
            try:
                return self.submit(prompt, **options)
            except QueueFullError:
                if not self.step():
                    raise

    def stream(self, prompt: str | Sequence[int], **options: Any) -> Iterator[str]:
        """Yield the text after `prompt` as it is written, with `options` of `submit`.

        A stream that is closed before its end cancels its request.
        """
        ticket = self.submit(prompt, **options)
        pieces = self._pieces(ticket)
        next(pieces)  # begun, it cancels the request when it is dropped
        return pieces

    def _pieces(self, ticket: Ticket) -> Iterator[str]:
        told = 0
        try:
            yield ""
            while True:
                ended = bool(ticket.reason)
                while told < len(ticket.pieces):
                    told += 1
                    yield ticket.pieces[told - 1]
                if ended:
                    break
                self.step()
            if ticket.error is not None:
                raise ticket.error
        finally:
            self.cancel(ticket)
