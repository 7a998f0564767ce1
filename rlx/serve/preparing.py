"""What is done for a request before the engine has it: forms and texts are read.

Both take long where texts are long, so they are done in threads, and streams go on meanwhile. Forms
have threads of their own: reading a hostile one takes a second, and nobody else waits for it. So
have texts of large bodies: many of them at once hold up no small request.
"""

from __future__ import annotations

import asyncio
from concurrent.futures import ThreadPoolExecutor
from typing import final

from .bad_request import BadRequest
from .openai_api import Asked
from .writer import Writer

MOST_WAITING = 256  # requests
OF_FORMS, OF_TEXTS, OF_LARGE = 2, 4, 2  # threads


@final
class Preparation:
    """Makes requests ready for an `engine`, some at a time."""

    def __init__(self, engine: Writer) -> None:
        self._engine = engine
        self._forms = ThreadPoolExecutor(OF_FORMS, "rlx.serve.forms")
        self._texts = ThreadPoolExecutor(OF_TEXTS, "rlx.serve.texts")
        self._large = ThreadPoolExecutor(OF_LARGE, "rlx.serve.large")
        self._count = 0

    async def begin(self) -> None:
        """Get ready for the first form, for which streams would have to wait."""
        await asyncio.get_running_loop().run_in_executor(
            self._forms, self._engine.model.formats.prepare
        )

    async def prompts(self, asked: Asked, is_large: bool) -> list[list[int]]:
        """The tokens of each prompt that is `asked` by a large or small body.

        The form is ready then, too.

        Raises the errors of both, and a `BadRequest` if too many requests wait.
        """
        if self._count >= MOST_WAITING:
            what = f"{MOST_WAITING} requests wait already"
            raise BadRequest(what, status=429, code="queue_full")
        loop, options = asyncio.get_running_loop(), asked.options
        form = options.get("schema"), options.get("regex")
        self._count += 1
        try:
            if form != (None, None):
                guide = self._engine.model.formats.guide
                await loop.run_in_executor(self._forms, guide, *form)
            threads = self._large if is_large else self._texts
            return await loop.run_in_executor(threads, self._tokens, asked)
        finally:
            self._count -= 1

    def close(self) -> None:
        """Prepare no further request."""
        for threads in (self._forms, self._texts, self._large):
            threads.shutdown(wait=False, cancel_futures=True)

    def _tokens(self, asked: Asked) -> list[list[int]]:
        model = self._engine.model
        if not asked.is_chat:
            return model.prompts(asked.prompts)[0]
        tools = None if asked.tools is None else asked.tools.given
        return [model.chat_ids(messages, tools=tools) for messages in asked.prompts]
