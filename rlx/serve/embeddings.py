"""Embeddings of OpenAI's interface: texts become vectors, one request at a time."""

from __future__ import annotations

import asyncio
import base64
from collections.abc import Sequence
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
from .door import Door
from .metrics import Metrics
from .openai_api import BadRequest, are_tokens, model_entry

MOST_TEXTS = 2048  # of a request, as at OpenAI's
KNOWN = {"input", "model", "encoding_format", "dimensions", "user"}


@final
class Embeddings:
    """Answers requests by an `encoder`, whose model is called `name`.

    Requests are computed in a thread, one after the other.
    """

    def __init__(self, encoder: Encoder | Pooled, name: str) -> None:
        self._encoder, self._name = encoder, name
        self._turn = asyncio.Lock()

    async def answer(self, body: Any) -> dict[str, Any]:
        """The answer to the `body` of a request; a wrong one raises a `BadRequest`."""
        if not isinstance(body, dict):
            raise BadRequest("the body must be a JSON object")
        texts, is_packed = self._checked(body)
        async with self._turn:
            vectors, count = await asyncio.to_thread(self._vectors, texts)
        data = [
            {
                "object": "embedding",
                "index": index,
                "embedding": _packed(vector) if is_packed else vector.tolist(),
            }
            for index, vector in enumerate(vectors)
        ]
        usage = {"prompt_tokens": count, "total_tokens": count}
        return {"object": "list", "data": data, "model": self._name, "usage": usage}

    def _vectors(self, texts: list[Any]) -> tuple[np.ndarray, int]:
        """The vectors, and how many tokens they cost."""
        try:
            ids, _ = tokens_of("input", texts, self._encoder.tokenizer)
            return self._encoder.encode(ids).host(), sum(map(len, ids))
        except RlxError as error:
            raise BadRequest(f"{error.what}; {error.fix}", "input") from None

    def _checked(self, body: dict[str, Any]) -> tuple[list[Any], bool]:
        """The texts, and whether vectors are asked for in base64."""
        for name in body.keys() - KNOWN:
            raise BadRequest(f"unrecognized request argument: {name[:100]}", name[:100])
        for name in ("model", "user"):
            if not isinstance(body.get(name), str | None):
                raise BadRequest(f"{name} must be a text", name)
        if body.get("model") not in (None, self._name):
            what = f"there is no model {str(body['model'])[:100]!r}"
            raise BadRequest(what, "model", status=404, code="model_not_found")
        kind = body.get("encoding_format")
        if kind not in (None, "float", "base64"):
            raise BadRequest("encoding_format must be float or base64", "encoding_format")
        if body.get("dimensions") not in (None, self._encoder.size):
            what = f"dimensions can only be {self._encoder.size}, those of the model"
            raise BadRequest(what, "dimensions")
        return _texts(body.get("input")), kind == "base64"


def embedding_route(encoder: Encoder | Pooled, name: str, door: Door) -> Route:
    """The route of the vectors of an `encoder` called `name`, behind a `door`."""
    embeddings = Embeddings(encoder, name)

    async def embed(request: Request) -> Response:
        door.tenant(request)
        return JSONResponse(await embeddings.answer(await door.body(request)))

    return Route("/v1/embeddings", door.counted(embed), methods=["POST"])


def encoder_application(
    encoder: Encoder | Pooled,
    *,
    name: str = "model",
    keys: Sequence[str] = (),
    most_bytes: int = 1 << 20,
) -> Starlette:
    """An ASGI application that serves vectors of an `encoder`, as OpenAI does.

    `name` is what the model is called; with `keys`, callers need one of them. A body has at most
    `most_bytes`.
    """
    door = Door(keys, most_bytes, Metrics())

    async def models(request: Request) -> Response:
        door.tenant(request)
        return JSONResponse({"object": "list", "data": [model_entry(name)]})

    async def health(_: Request) -> Response:
        return JSONResponse({"status": "ok"})

    async def ready(_: Request) -> Response:
        return JSONResponse({"ready": True})

    async def metrics(_: Request) -> Response:
        text, kind = door.metrics.text()
        return Response(text, media_type=kind)

    routes = [
        embedding_route(encoder, name, door),
        Route("/v1/models", door.counted(models)),
        Route("/health", health),
        Route("/ready", ready),
        Route("/metrics", metrics),
    ]
    return Starlette(routes=routes)


def _texts(given: Any) -> list[Any]:
    texts = [given] if isinstance(given, str) or are_tokens(given) else given
    if not isinstance(texts, list) or not 0 < len(texts) <= MOST_TEXTS:
        raise BadRequest(f"input must be a text, or a list of up to {MOST_TEXTS}", "input")
    if not all(isinstance(x, str) or are_tokens(x) for x in texts):
        raise BadRequest("input must be texts or lists of tokens", "input")
    return texts


def _packed(vector: np.ndarray) -> str:
    return base64.b64encode(vector.astype("<f4").tobytes()).decode()
