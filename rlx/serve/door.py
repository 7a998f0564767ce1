"""Who may call a server, what they may send, and what they hear when they may not."""

from __future__ import annotations

import asyncio
import hashlib
import hmac
import json
from collections.abc import Awaitable, Callable, Sequence
from typing import Any, TypeVar, final

from starlette.requests import Request
from starlette.responses import JSONResponse, Response

from .metrics import Metrics
from .openai_api import BadRequest

LEFT = 499  # the status of an answer to someone who has left
RETRY = "1"  # seconds after which one may try again
Result = TypeVar("Result")
Handler = Callable[[Request], Awaitable[Response]]


@final
class Door:
    """What routes share: `keys`, at most `most_bytes` of a body, `metrics`."""

    def __init__(self, keys: Sequence[str], most_bytes: int, metrics: Metrics) -> None:
        self.metrics, self._most_bytes = metrics, most_bytes
        self._keys = [hashlib.sha256(key.encode()).digest() for key in keys]

    def tenant(self, request: Request) -> str:
        """Who calls: a hash of the key, empty where none is needed. Raises a `BadRequest`."""
        if not self._keys:
            return ""
        kind, _, key = request.headers.get("authorization", "").partition(" ")
        given = hashlib.sha256(key.strip().encode()).digest()
        known = [hmac.compare_digest(given, each) for each in self._keys]
        if kind.lower() != "bearer" or not any(known):
            raise BadRequest("wrong or missing API key", status=401, code="invalid_api_key")
        return given.hex()

    async def body(self, request: Request) -> Any:
        """The JSON of a `request`; other texts and long ones raise a `BadRequest`."""
        parts, size = [], 0
        async for part in request.stream():
            size += len(part)
            if size > self._most_bytes:
                raise BadRequest(f"the body is over {self._most_bytes} bytes", status=413)
            parts.append(part)
        try:
            return json.loads(b"".join(parts), parse_constant=_no_constant)
        except (ValueError, RecursionError):
            raise BadRequest("the body is not JSON") from None

    def counted(self, handler: Handler) -> Handler:
        """A handler of a route whose refusals are answers, and whose answers are counted."""

        async def answered(request: Request) -> Response:
            try:
                response = await handler(request)
            except BadRequest as error:
                headers = {"Retry-After": RETRY} if error.status in (429, 503) else None
                response = JSONResponse(error.body(), status_code=error.status, headers=headers)
            self.metrics.count(request.url.path, response.status_code)
            return response

        return answered


async def unless_left(request: Request, work: Awaitable[Result]) -> Result | None:
    """The result of some `work` for a `request`.

    None if the caller leaves before that; the work is cancelled then.
    """
    task, gone = asyncio.ensure_future(work), asyncio.ensure_future(_left(request))
    try:
        await asyncio.wait([task, gone], return_when=asyncio.FIRST_COMPLETED)
        return task.result() if task.done() else None
    finally:
        task.cancel()
        gone.cancel()
        await asyncio.wait([task])


async def _left(request: Request) -> None:
    """Wait until the caller leaves."""
    while (await request.receive())["type"] != "http.disconnect":
        pass


def _no_constant(text: str) -> Any:
    raise ValueError(f"{text} is no JSON")
