"""What a server counts, in the text form of Prometheus; no texts of requests."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any, final

from prometheus_client import CONTENT_TYPE_LATEST, CollectorRegistry, Counter, generate_latest
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric
from prometheus_client.registry import Collector
from starlette.requests import Request
from starlette.responses import Response

from ..trace.arguments import instance_of
from .writer import COUNTERS, Writer

ABOUT = {
    "running": "Requests that run",
    "waiting": "Requests that wait",
    "preemptions": "Requests that made room for others",
    "pages": "Pages of the cache",
    "pages_free": "Pages that can be promised",
    "steps": "Steps computed",
    "tokens_computed": "Tokens computed",
    "tokens_guessed": "Guesses of next tokens",
    "tokens_guessed_right": "Guesses that were right",
    "tokens_written": "Tokens written",
    "workers": "Processes that compute",
    "restarts": "Processes that died and were replaced",
}
OTHER = "other"  # the path of answers to requests that no route takes
FAILED = 500  # the status of an answer where the server itself is wrong


@final
class Metrics:
    """The numbers of one server, and those of its `engine` if it has one."""

    def __init__(self, engine: Writer | None = None) -> None:
        self._registry = CollectorRegistry()
        self._answers = Counter(
            "rlx_http_answers", "Answers by route and status", ["path", "status"],
            registry=self._registry,
        )  # fmt: skip
        if engine is not None:
            instance_of(
                "application: engine", engine, Writer, "an engine", "give an Engine or Workers"
            )
            self._registry.register(_Numbers(engine))

    def count(self, path: str, status: int) -> None:
        """Count an answer of the route `path` with a `status`."""
        self._answers.labels(path, str(status)).inc()

    def text(self) -> tuple[bytes, str]:
        """All numbers as text, and its content type."""
        return generate_latest(self._registry), CONTENT_TYPE_LATEST

    async def answer(self, _: Request) -> Response:
        """The answer of the route that tells them."""
        text, kind = self.text()
        return Response(text, media_type=kind)


@final
class _Numbers(Collector):
    """The numbers of an `engine`, all of the same moment."""

    def __init__(self, engine: Writer) -> None:
        self._engine = engine

    def collect(self) -> Iterator[Metric]:
        there = self._engine.numbers()
        for name in (x for x in ABOUT if x in there):
            kind = CounterMetricFamily if name in COUNTERS else GaugeMetricFamily
            yield kind(f"rlx_{name}", ABOUT[name], value=there[name])


@final
class Counted:
    """An ASGI application `app` whose answers `metrics` count, by `paths` of routes.

    A path that ends with "/" stands for all that begin with it.
    """

    def __init__(self, app: Any, metrics: Metrics, paths: Iterable[str]) -> None:
        self._app, self._metrics, self._paths = app, metrics, frozenset(paths)
        self._beginnings = [x for x in self._paths if x.endswith("/") and x != "/"]

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        """Answer a request, and count the answer when it begins."""
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        path, is_told = self._path(scope["path"]), False

        async def told(message: Any) -> None:
            nonlocal is_told
            if message["type"] == "http.response.start":
                is_told = True
                self._metrics.count(path, message["status"])
            await send(message)

        try:
            await self._app(scope, receive, told)
        except Exception:  # whoever called this one answers
            if not is_told:
                self._metrics.count(path, FAILED)
            raise

    def _path(self, given: str) -> str:
        if given in self._paths:
            return given
        return next((x for x in self._beginnings if given.startswith(x)), OTHER)
