"""An HTTP server with the interface of OpenAI: an ASGI application."""

from __future__ import annotations

import asyncio
import contextlib
import secrets
import time
from collections.abc import AsyncIterator, Callable, Iterator, Sequence
from functools import partial
from os import PathLike
from typing import Any, final

from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import JSONResponse, PlainTextResponse, Response, StreamingResponse
from starlette.routing import Route

from ..ir.errors import QueueFullError, RlxError
from ..ir.files import as_path
from ..models.encoder import Encoder
from ..models.pooled import Pooled
from ..trace.arguments import name_of, names_of
from ..workers.pool import seconds
from . import adapter_routes, openai_api as api
from .answers import Answer
from .door import LEFT, Door, application_of, unless_left
from .embeddings import embedding_route
from .metrics import Metrics
from .openai_api import Asked, BadRequest
from .page import page
from .preparing import Preparation
from .runner import Listener, Runner
from .tools import Calls, Tools
from .writer import Writer

OLD = 30.0  # seconds without a step, after which the server says that it is ill
WELL = ("ok", "degraded")  # states in which it computes; in the latter with fewer workers


@final
class Server:
    """What the routes of an application share.

    `engine` computes, `name` is that of the model, callers come through the `door`, a request takes
    at most `timeout` seconds. Callers may load adapters of the folder `adapters`.
    """

    def __init__(
        self,
        engine: Writer,
        name: str,
        door: Door,
        timeout: float,
        adapters: str | PathLike[str] | None,
    ) -> None:
        self.engine, self.name, self.timeout = engine, name, timeout
        self.door, self.runner = door, Runner(engine)
        self._folder = None if adapters is None else as_path(adapters)
        self.is_ready, self.preparation = True, Preparation(engine)

    async def submit(self, request: Request, asked: Asked, tenant: str) -> list[Listener] | None:
        """Submit what is `asked` for by a `tenant`: each prompt with its samples.

        Returns who hears of them, or None if who sent the `request` leaves before that. Raises a
        `BadRequest` for what the engine refuses.
        """
        made: list[Listener] = []
        try:
            work = self.preparation.prompts(asked, request.state.is_large)
            prompts = await unless_left(request, work)
            if prompts is None:
                return None
            for prompt in prompts:
                for listener in self._samples(prompt, asked, tenant):
                    made.append(listener)  # one by one: an error cancels those before it
        except QueueFullError as error:
            self._cancel(made)
            raise BadRequest(error.what, status=429, code="queue_full") from None
        except RlxError as error:
            self._cancel(made)
            raise BadRequest(f"{error.what}; {error.fix}") from None
        return made

    def _samples(self, prompt: Sequence[int], asked: Asked, tenant: str) -> Iterator[Listener]:
        """One request for each sample of a prompt; the others share what the first computes."""
        after, options = None, asked.options_for(prompt, self.engine.most_tokens)
        start = options.get("seed", secrets.randbits(32))
        for number in range(asked.best_of):
            seed = (start + number) % 2**32
            how = {"tenant": tenant, "timeout": self.timeout, "after": after}
            how["adapter"] = None if asked.model in (None, self.name) else asked.model
            listener = self.runner.submit(prompt, **how, **{**options, "seed": seed})
            after = after or listener.ticket
            yield listener

    def _calls(self, tools: Tools) -> Calls:
        """What finds calls of tools in the answers of the model."""
        model = self.engine.model
        if model.template is None or model.tokenizer is None:
            raise BadRequest("this model has no chat template, and so no tools", "tools")
        return Calls.of(tools, model.template, model.tokenizer.special)

    def _cancel(self, listeners: Sequence[Listener]) -> None:
        for listener in listeners:
            self.engine.cancel(listener.ticket)

    # -- what goes out -----------------------------------------------------------------------------

    async def answer(self, request: Request, is_chat: bool) -> Response:
        """The answer to a `request` for a chat, or else for completions."""
        if not self.is_ready:
            raise BadRequest("the server is shutting down", status=503)
        if self.engine.error is not None:  # nobody would compute it
            raise BadRequest("the engine has failed", status=503)
        tenant = self.door.tenant(request)
        asked = await self.door.body(request, partial(api.asked, is_chat=is_chat))
        self._check_model(asked.model)
        calls = None if asked.tools is None else self._calls(asked.tools)
        listeners = await self.submit(request, asked, tenant)
        if listeners is None:
            return Response(status_code=LEFT)
        answer = Answer(asked, self.engine.model, asked.model or self.name, listeners, calls)
        if asked.is_stream:
            return _Stream(answer.events(), lambda: self._cancel(listeners))
        found = await unless_left(request, answer.finish())
        if found is None:  # it costs no more
            self._cancel(listeners)
            return Response(status_code=LEFT)
        return JSONResponse(answer.whole(found, self.timeout))

    # -- models and adapters -----------------------------------------------------------------------

    def models(self) -> dict[str, Any]:
        """The model and its adapters, as a list of OpenAI's."""
        others = [api.model_entry(name, self.name) for name in self.engine.adapters or ()]
        return {"object": "list", "data": [api.model_entry(self.name), *others]}

    def one_model(self, name: str) -> dict[str, Any]:
        """The entry of the model or adapter `name`; raises a `BadRequest`."""
        self._check_model(name)
        return api.model_entry(name, None if name == self.name else self.name)

    async def load(self, request: Request) -> Response:
        """Attach the adapter that a `request` asks for."""
        self.door.tenant(request)
        body = await self.door.body(request, adapter_routes.names)
        told = await adapter_routes.load(self.engine.adapters, self._folder, body, self.name)
        return PlainTextResponse(told)

    async def unload(self, request: Request) -> Response:
        """Drop the adapter that a `request` names."""
        self.door.tenant(request)
        body = await self.door.body(request, adapter_routes.names)
        return PlainTextResponse(adapter_routes.unload(self.engine.adapters, self._folder, body))

    def _check_model(self, name: str | None) -> None:
        if name not in (None, self.name) and name not in (self.engine.adapters or ()):
            raise api.no_model(name)

    # -- how it is ---------------------------------------------------------------------------------

    def health(self) -> tuple[bool, dict[str, Any]]:
        """Whether steps go on, and what is known of it."""
        age, states = time.monotonic() - self.engine.beat, self.engine.states()
        status, numbers = self._status(age, len(states)), self.engine.numbers()
        return status in WELL, {
            "status": status,
            "seconds_since_step": None if status == "replacing" else round(age, 3),
            "running": numbers.get("running", 0),
            "waiting": numbers.get("waiting", 0),
            # without the numbers of processes: who asks needs no key
            "workers": [{k: x for k, x in w.items() if k != "pid"} for w in states],
        }

    def _status(self, age: float, workers: int) -> str:
        """In a word how it is, so many seconds after the last step, with so many workers."""
        if self.engine.error is None and workers < self.engine.count:
            if not workers:
                return "replacing"  # who waits is served as soon as one is there
            if age < OLD:
                return "degraded"
        return "ok" if self.engine.error is None and age < OLD else "failed"


def application(
    engine: Writer,
    *,
    name: str = "model",
    keys: Sequence[str] = (),
    most_bytes: int = 1 << 20,
    timeout: float = 600.0,
    adapters: str | PathLike[str] | None = None,
    encoder: Encoder | Pooled | None = None,
    hosts: Sequence[str] = (),
) -> Starlette:
    """An ASGI application that serves an `engine` with OpenAI's interface.

    `name` is what the model is called; with `keys`, callers need one of them. A body has at most
    `most_bytes`, a request takes at most `timeout` seconds. Callers may load the `adapters` of a
    folder, no others. An `encoder` answers for embeddings under the same name. Without `keys`, who
    asks must call the server by its address, `localhost`, or a name of `hosts`, "*" for any; web
    pages of other origins are refused in any case. Steps are computed in a thread from the
    application's start to its end. What is of another kind is an `ArgumentError`.
    """
    name, hosts = name_of("application: name", name), names_of("application: hosts", hosts)
    door = Door(keys, most_bytes)
    server = Server(engine, name, door, seconds("application: timeout", timeout), adapters)

    @contextlib.asynccontextmanager
    async def lifespan(_: Starlette) -> AsyncIterator[None]:
        await server.preparation.begin()
        server.runner.start()
        yield
        server.is_ready = False
        server.preparation.close()
        await asyncio.to_thread(server.runner.stop)

    async def chat(request: Request) -> Response:
        return await server.answer(request, is_chat=True)

    async def completions(request: Request) -> Response:
        return await server.answer(request, is_chat=False)

    async def models(request: Request) -> Response:
        door.tenant(request)
        return JSONResponse(server.models())

    async def one_model(request: Request) -> Response:
        door.tenant(request)
        return JSONResponse(server.one_model(request.path_params["name"]))

    routes = [
        Route("/v1/chat/completions", chat, methods=["POST"]),
        Route("/v1/completions", completions, methods=["POST"]),
        Route("/v1/load_lora_adapter", server.load, methods=["POST"]),
        Route("/v1/unload_lora_adapter", server.unload, methods=["POST"]),
        Route("/v1/models", models),
        Route("/v1/models/{name:path}", one_model),
        *_state_routes(server),
    ]
    if encoder is not None:
        how = {"timeout": timeout, "is_open": lambda: server.is_ready}
        routes.append(embedding_route(encoder, name, door, **how))
    return application_of(routes, Metrics(engine), keys, hosts, lifespan=lifespan)


def _state_routes(server: Server) -> list[Route]:
    """The routes that tell how a server is, and the page that shows it."""

    async def health(_: Request) -> Response:
        is_well, told = server.health()
        return JSONResponse(told, status_code=200 if is_well else 503)

    async def ready(_: Request) -> Response:
        is_ready = server.is_ready and server.health()[0]
        return JSONResponse({"ready": is_ready}, status_code=200 if is_ready else 503)

    async def shown(_: Request) -> Response:
        return page()

    plain = {"/": shown, "/health": health, "/ready": ready}
    return [Route(path, handler) for path, handler in plain.items()]


@final
class _Stream(StreamingResponse):
    """Events; at their end, or when the caller leaves, even at once, `leave` is called."""

    def __init__(self, events: AsyncIterator[str], leave: Callable[[], None]) -> None:
        # nor does a proxy keep events until there are many
        headers = {"Cache-Control": "no-cache", "X-Accel-Buffering": "no"}
        super().__init__(events, media_type="text/event-stream", headers=headers)
        self._leave = leave

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        try:
            await super().__call__(scope, receive, send)
        finally:
            self._leave()
