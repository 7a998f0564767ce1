"""What a server counts, in the text form of Prometheus; no texts of requests."""

from __future__ import annotations

from typing import final

from prometheus_client import (
    CONTENT_TYPE_LATEST,
    CollectorRegistry,
    Counter,
    Gauge,
    generate_latest,
)

from .engine import Engine


@final
class Metrics:
    """The numbers of one server with its `engine`."""

    def __init__(self, engine: Engine) -> None:
        self._registry = CollectorRegistry()
        self._answers = Counter(
            "rlx_http_answers", "Answers by route and status", ["path", "status"],
            registry=self._registry,
        )  # fmt: skip
        scheduler = engine.scheduler
        for name, text, value in (
            ("running", "Requests that run", lambda: len(scheduler.running)),
            ("waiting", "Requests that wait", lambda: len(scheduler.waiting)),
            ("preemptions", "Requests that made room for others", lambda: scheduler.preemptions),
            ("pages", "Pages of the cache", lambda: scheduler.pages.count),
            ("pages_free", "Pages that can be promised", lambda: scheduler.pages.available),
            ("steps", "Steps computed", lambda: engine.steps),
            ("tokens_computed", "Tokens computed", lambda: engine.computed),
            ("tokens_written", "Tokens written", lambda: engine.written),
        ):
            gauge = Gauge(f"rlx_{name}", text, registry=self._registry)
            gauge.set_function(value)

    def count(self, path: str, status: int) -> None:
        """Count an answer of the route `path` with a `status`."""
        self._answers.labels(path, str(status)).inc()

    def text(self) -> tuple[bytes, str]:
        """All numbers as text, and its content type."""
        return generate_latest(self._registry), CONTENT_TYPE_LATEST
