"""Who may call a server, what they may send, and what they hear when they may not."""

from __future__ import annotations

import asyncio
import hashlib
import hmac
import json
from collections.abc import Awaitable, Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any, TypeVar, final

from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.middleware import Middleware
from starlette.requests import ClientDisconnect, Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route

from ..backends.locks import short_turns
from ..ir.errors import ArgumentError
from ..trace.arguments import count_of, names_of
from .bad_request import BadRequest
from .bodies import MOST_DEPTH, MOST_PARTS, depth_of, parts_of
from .metrics import Counted, Metrics
from .origins import guard

LEFT = 499  # the status of an answer to someone who has left
HAS_LEFT = "the caller has left"
RETRY = "1"  # seconds after which one may try again
MOST_SECONDS = 60.0  # that a body may take to come
LARGE = 1 << 15  # bytes of a body that may take 2 ms to read: a thread does, streams go on
Result = TypeVar("Result")


@final
class Door:
    """What routes share: `keys`, and at most `most_bytes` of a body."""

    def __init__(self, keys: Sequence[str], most_bytes: int) -> None:
        self._most_bytes = count_of("application: most_bytes", most_bytes, 1)
        given = names_of("application: keys", keys)
        if not all(key.strip() for key in given):  # which anybody has
            raise ArgumentError("application: a key is empty", fix="give keys that are texts")
        self._reader = ThreadPoolExecutor(1, "rlx.serve.bodies")
        self._keys = [hashlib.sha256(key.strip().encode()).digest() for key in given]

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

    async def body(self, request: Request, check: Callable[[Any], Result]) -> Result:
        """What `check` makes of the JSON of a `request`.

        `request.state.is_large` tells of it afterwards. Other texts, long and slow ones raise a
        `BadRequest`, as `check` may.
        """
        try:
            async with asyncio.timeout(MOST_SECONDS):
                given = await self._bytes(request)
        except TimeoutError:
            what = f"the body took more than {MOST_SECONDS:g} s"
            raise BadRequest(what, status=408) from None
        except ClientDisconnect:
            raise BadRequest(HAS_LEFT, status=LEFT) from None
        request.state.is_large = len(given) >= LARGE
        if not request.state.is_large:
            return check(_json(given))
        work = asyncio.get_running_loop().run_in_executor(self._reader, _large, given, check)
        found = await unless_left(request, work)  # one that waits for its turn is dropped
        if found is None:
            raise BadRequest(HAS_LEFT, status=LEFT)
        return found

    async def _bytes(self, request: Request) -> bytes:
        parts, size = [], 0
        async for part in request.stream():
            size += len(part)
            if size > self._most_bytes:
                raise BadRequest(f"the body is over {self._most_bytes} bytes", status=413)
            parts.append(part)
        return b"".join(parts)


async def _refused(request: Request, error: Any) -> Response:
    """The answer to a request that is refused."""
    headers = {"Retry-After": RETRY} if error.status in (429, 503) else None
    return JSONResponse(error.body(), status_code=error.status, headers=headers)


async def _no_route(request: Request, error: Any) -> Response:
    """The answer to a request that no route takes, in the words of the interface."""
    what = f"there is no {request.method} {request.url.path[:100]}"
    made = BadRequest(what, status=error.status_code, code="unknown_url")
    return JSONResponse(made.body(), status_code=made.status, headers=error.headers)


async def _failed(request: Request, error: Exception) -> Response:
    """The answer where the server itself is wrong; the error goes on to its log."""
    return JSONResponse(BadRequest("the server has failed", status=500).body(), status_code=500)


ERRORS: dict[Any, Any] = {BadRequest: _refused, HTTPException: _no_route, Exception: _failed}


def application_of(
    routes: Sequence[Route], metrics: Metrics, keys: Sequence[str], hosts: Sequence[str], **how: Any
) -> Starlette:
    """An application of `routes` and one for `metrics`, which count all answers.

    Without `keys`, callers must use an address of the server, or a name of `hosts`. `how` are other
    arguments of the application.
    """
    routes = [*routes, Route("/metrics", metrics.answer)]
    paths = [route.path.partition("{")[0] for route in routes]
    middleware = [Middleware(Counted, metrics=metrics, paths=paths), guard(keys, hosts)]
    return Starlette(routes=routes, middleware=middleware, exception_handlers=ERRORS, **how)


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


def _large(given: bytes, check: Callable[[Any], Result]) -> Result:
    """What `check` makes of a large body, while other threads have their turns."""
    # what is called between two numbers or objects is Python, in which others have their turns
    calls = {"parse_int": _whole, "parse_float": _broken, "object_hook": _object}
    with short_turns:
        return check(_json(given, **calls))


def _whole(digits: str) -> int:
    return int(digits)


def _broken(digits: str) -> float:
    return float(digits)


def _object(made: dict[str, Any]) -> dict[str, Any]:
    return made


def _json(given: bytes, **how: Any) -> Any:
    if parts_of(given) > MOST_PARTS:
        raise BadRequest(f"the body has over {MOST_PARTS} lists and objects", status=413)
    if depth_of(given) > MOST_DEPTH:
        raise BadRequest(f"the body has over {MOST_DEPTH} lists and objects in each other")
    try:
        return json.loads(given.decode("utf-8-sig"), parse_constant=_no_constant, **how)
    except ValueError:
        raise BadRequest("the body is not JSON") from None


def _no_constant(text: str) -> Any:
    raise ValueError(f"{text} is no JSON")
