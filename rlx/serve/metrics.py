"""What a server counts, in the text form of Prometheus; no texts of requests."""

from __future__ import annotations

import functools
from typing import final

from prometheus_client import (
    CONTENT_TYPE_LATEST,
    CollectorRegistry,
    Counter,
    Gauge,
    generate_latest,
)

from ..trace.arguments import instance_of
from .writer import Writer

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


@final
class Metrics:
    """The numbers of one server, and those of its `engine` if it has one."""

    def __init__(self, engine: Writer | None = None) -> None:
        self._registry = CollectorRegistry()
        self._answers = Counter(
            "rlx_http_answers", "Answers by route and status", ["path", "status"],
            registry=self._registry,
        )  # fmt: skip
        if engine is None:
            return
        instance_of("application: engine", engine, Writer, "an engine", "give an Engine or Workers")
        there = engine.numbers()
        for name in (x for x in ABOUT if x in there):
            gauge = Gauge(f"rlx_{name}", ABOUT[name], registry=self._registry)
            gauge.set_function(functools.partial(_number, engine, name))

    def count(self, path: str, status: int) -> None:
        """Count an answer of the route `path` with a `status`."""
        self._answers.labels(path, str(status)).inc()

    def text(self) -> tuple[bytes, str]:
        """All numbers as text, and its content type."""
        return generate_latest(self._registry), CONTENT_TYPE_LATEST


def _number(engine: Writer, name: str) -> float:
    return engine.numbers().get(name, 0.0)
