"""Embeddings of OpenAI's interface: requests become vectors, by turns."""

from __future__ import annotations

import asyncio
import base64
import json
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any, final

import numpy as np
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route

from ..ir.errors import RlxError
from ..models.encoder import Encoder
from ..models.pooled import Pooled
from ..models.prompts import tokens_of
from ..workers.pool import seconds
from .door import LEFT, Door, application_of, unless_left
from .metrics import Metrics
from .openai_api import BadRequest, are_tokens, model_entry, no_model

MOST_TEXTS = 2048  # of a request, as at OpenAI's
MOST_WAITING = 256  # requests
LONGEST = 600.0  # seconds that a request may take
PART = 1024  # tokens of a request that are computed before others have their turn
KNOWN = {"input", "model", "encoding_format", "dimensions", "user"}


@final
class Embeddings:
    """Answers requests by an `encoder`, whose model is called `name`.

    A thread computes a part of each in turn. At most `most_waiting` requests wait, and each takes
    at most `timeout` seconds.
    """

    def __init__(
        self, encoder: Encoder | Pooled, name: str, most_waiting: int, timeout: float
    ) -> None:
        self._encoder, self._name = encoder, name
        self._most, self._timeout = most_waiting, timeout
        self._thread = ThreadPoolExecutor(1, "rlx.embeddings")
        self._asked = 0  # requests without an answer: one is computed, the others wait

    async def answer(self, texts: list[Any], is_packed: bool) -> bytes:
        """The JSON that answers for `texts`, in base64 if it `is_packed`."""
        if self._asked > self._most:
            what = f"{self._most} requests wait already"
            raise BadRequest(what, status=429, code="queue_full")
        self._asked += 1
        try:
            async with asyncio.timeout(self._timeout):
                vectors, count = await self._vectors(texts, is_packed)
        except TimeoutError:
            what = f"the answer took more than {self._timeout:g} s"
            raise BadRequest(what, status=408) from None
        except RlxError as error:
            raise BadRequest(f"{error.what}; {error.fix}", "input") from None
        finally:
            self._asked -= 1
        data = [
            f'{{"object":"embedding","index":{index},"embedding":{vector}}}'
            for index, vector in enumerate(vectors)
        ]
        usage = {"prompt_tokens": count, "total_tokens": count}
        rest = json.dumps({"model": self._name, "usage": usage})
        return f'{{"object":"list","data":[{",".join(data)}],{rest[1:]}'.encode()

    async def _vectors(self, texts: list[Any], is_packed: bool) -> tuple[list[str], int]:
        """The vectors as JSON, and how many tokens they cost."""
        loop = asyncio.get_running_loop()
        ids, _ = await asyncio.to_thread(tokens_of, "input", texts, self._encoder.tokenizer)
        found: list[str] = []
        for part in _parts(ids):
            found += await loop.run_in_executor(self._thread, self._encoded, part, is_packed)
        return found, sum(map(len, ids))

    def _encoded(self, ids: list[list[int]], is_packed: bool) -> list[str]:
        """Vectors as JSON, one by one: to write all at once would hold up streams for a second."""
        write = _packed if is_packed else _listed
        return [write(vector) for vector in self._encoder.encode(ids).host()]

    def checked(self, body: Any) -> tuple[list[Any], bool]:
        """The texts in a `body`, and whether vectors are asked for in base64.

        A wrong one raises a `BadRequest`.
        """
        if not isinstance(body, dict):
            raise BadRequest("the body must be a JSON object")
        for name in body.keys() - KNOWN:
            raise BadRequest(f"unrecognized request argument: {name[:100]}", name[:100])
        for name in ("model", "user"):
            if not isinstance(body.get(name), str | None):
                raise BadRequest(f"{name} must be a text", name)
        if body.get("model") not in (None, self._name):
            raise no_model(body["model"])
        kind = body.get("encoding_format")
        if kind not in (None, "float", "base64"):
            raise BadRequest("encoding_format must be float or base64", "encoding_format")
        if body.get("dimensions") not in (None, self._encoder.size):
            what = f"dimensions can only be {self._encoder.size}, those of the model"
            raise BadRequest(what, "dimensions")
        return _texts(body.get("input")), kind == "base64"


def embedding_route(
    encoder: Encoder | Pooled,
    name: str,
    door: Door,
    *,
    most_waiting: int = MOST_WAITING,
    timeout: float = LONGEST,
    is_open: Callable[[], bool] = lambda: True,
) -> Route:
    """The route of the vectors of an `encoder` called `name`, behind a `door`.

    At most `most_waiting` requests wait, and each takes at most `timeout` seconds; none begins
    while it is not `is_open`.
    """
    embeddings = Embeddings(encoder, name, most_waiting, timeout)

    async def embed(request: Request) -> Response:
        if not is_open():
            raise BadRequest("the server is shutting down", status=503)
        door.tenant(request)
        asked = await door.body(request, embeddings.checked)
        found = await unless_left(request, embeddings.answer(*asked))
        return (
            Response(status_code=LEFT)
            if found is None
            else Response(found, media_type="application/json")
        )

    return Route("/v1/embeddings", embed, methods=["POST"])


def encoder_application(
    encoder: Encoder | Pooled,
    *,
    name: str = "model",
    keys: Sequence[str] = (),
    most_bytes: int = 1 << 20,
    most_waiting: int = MOST_WAITING,
    timeout: float = LONGEST,
    hosts: Sequence[str] = (),
) -> Starlette:
    """An ASGI application that serves vectors of an `encoder`, as OpenAI does.

    `name` is what the model is called; with `keys`, callers need one of them. A body has at most
    `most_bytes`, at most `most_waiting` requests wait for their turn, and each takes at most
    `timeout` seconds. `hosts` are names by which callers without keys may call it, besides its
    addresses and `localhost`; "*" for any.
    """
    timeout = seconds("encoder_application: timeout", timeout)
    door = Door(keys, most_bytes)

    async def models(request: Request) -> Response:
        door.tenant(request)
        return JSONResponse({"object": "list", "data": [model_entry(name)]})

    async def one_model(request: Request) -> Response:
        door.tenant(request)
        if request.path_params["name"] != name:
            raise no_model(request.path_params["name"])
        return JSONResponse(model_entry(name))

    async def health(_: Request) -> Response:
        return JSONResponse({"status": "ok"})

    async def ready(_: Request) -> Response:
        return JSONResponse({"ready": True})

    routes = [
        embedding_route(encoder, name, door, most_waiting=most_waiting, timeout=timeout),
        Route("/v1/models", models),
        Route("/v1/models/{name:path}", one_model),
        Route("/health", health),
        Route("/ready", ready),
    ]
    return application_of(routes, Metrics(), keys, hosts)


def _texts(given: Any) -> list[Any]:
    texts = [given] if isinstance(given, str) or are_tokens(given) else given
    if not isinstance(texts, list) or not 0 < len(texts) <= MOST_TEXTS:
        raise BadRequest(f"input must be a text, or a list of up to {MOST_TEXTS}", "input")
    if not all(isinstance(x, str) or are_tokens(x) for x in texts):
        raise BadRequest("input must be texts or lists of tokens", "input")
    return texts


def _parts(texts: list[list[int]]) -> Iterator[list[list[int]]]:
    """Texts in parts, none of which has over `PART` tokens if it has more than one text."""
    part: list[list[int]] = []
    for text in texts:
        if part and sum(map(len, part)) + len(text) > PART:
            yield part
            part = []
        part.append(text)
    yield part


def _packed(vector: np.ndarray) -> str:
    return f'"{base64.b64encode(vector.astype("<f4").tobytes()).decode()}"'


def _listed(vector: np.ndarray) -> str:
    return json.dumps(vector.tolist(), allow_nan=False, separators=(",", ":"))
