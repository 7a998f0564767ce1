"""What a server says of itself, and that nobody waits for the long text of another."""

from __future__ import annotations

import asyncio
import math
import threading
import time
from types import SimpleNamespace
from typing import Any

import pytest

import rlx
from rlx.models.generation import Completion
from rlx.serve import lanes, wire
from rlx.serve.writer import Writer

httpx = pytest.importorskip("httpx", reason="needs the package httpx")
pytest.importorskip("starlette", reason="needs the package starlette")
pytest.importorskip("prometheus_client", reason="needs the package prometheus-client")


class Many(Writer):
    """So many workers, of which some are there; its model reads texts when it may."""

    def __init__(self, count: int, there: int, age: float = 0.0) -> None:
        self.count, self.beat, self.error = count, time.monotonic() - age, None
        self._there = there
        self.reads, self.may_read = threading.Event(), threading.Event()
        formats = SimpleNamespace(guide=lambda *_: None)
        self.model: Any = SimpleNamespace(formats=formats, prompts=self.prompts)

    def prompts(self, given: Any) -> Any:
        self.reads.set()
        assert self.may_read.wait(60)
        raise rlx.BoundsError("this one is too long", fix="shorten it")

    def numbers(self) -> dict[str, float]:
        return {"steps": 3.0, "of_its_own": 1.0}

    def states(self) -> list[dict[str, Any]]:
        return [{"pid": i, "running": 1, "seconds_since_step": 0.1} for i in range(self._there)]

    def submit(self, prompt: Any, **options: Any) -> Any:
        raise AssertionError("nobody asks")

    def cancel(self, ticket: Any) -> None:
        raise AssertionError("nobody asks")

    def step(self) -> bool:
        return False


def client(writer: Writer) -> Any:
    from rlx.serve.http import application

    transport = httpx.ASGITransport(app=application(writer))
    return httpx.AsyncClient(transport=transport, base_url="http://localhost")


def told(writer: Writer) -> tuple[Any, list[int]]:
    async def ask() -> Any:
        async with client(writer) as one:
            return [await one.get(f"/{path}") for path in ("health", "ready", "metrics")]

    answers = asyncio.run(ask())
    assert "rlx_steps_total 3.0" in answers[2].text and "of_its_own" not in answers[2].text
    return answers[0].json(), [x.status_code for x in answers]


@pytest.mark.parametrize(
    "count, there, age, error, status, code",
    [
        (0, 0, 0.0, None, "ok", 200),
        (0, 0, 40.0, None, "failed", 503),
        (2, 2, 0.0, None, "ok", 200),
        (2, 1, 0.0, None, "degraded", 200),
        (2, 1, 40.0, None, "failed", 503),
        (1, 0, 40.0, None, "replacing", 503),
        (1, 0, 0.0, rlx.WorkerLostError("none is left", fix="make others"), "failed", 503),
        (1, 1, 0.0, ValueError("a step"), "failed", 503),
    ],
)
def test_health_says_how_it_is(count, there, age, error, status, code):
    writer = Many(count, there, age)
    writer.error = error
    found, codes = told(writer)
    assert found["status"] == status and codes == [code, code, 200]
    assert found["workers"] == [{"running": 1, "seconds_since_step": 0.1}] * there
    assert (found["seconds_since_step"] is None) == (status == "replacing")


def test_numbers_of_a_worker_that_cannot_be_true_end_it():
    def heard(number: float) -> Any:
        told = wire.to_bytes(wire.Told([], {"running": number}))
        pipe = SimpleNamespace(recv_bytes=lambda _: told)
        return lanes._heard(SimpleNamespace(connection=pipe))  # type: ignore[arg-type]

    assert heard(2.0).numbers == {"running": 2.0}
    for number in (math.nan, math.inf, -math.inf):
        with pytest.raises(wire.Garbled, match="cannot be true"):
            heard(number)


def test_logarithms_that_json_has_not_are_those_of_no_probability():
    from rlx.serve import openai_api as api

    tokenizer = SimpleNamespace(bytes_of=lambda token: str(token).encode())
    found = Completion("ab", [5, 6], "stop", 1, [math.nan, -0.5], [{5: -math.inf}, {6: -0.5}])
    given = tokenizer, found, 0, api.Offsets()
    chat = api.logprobs_of(api.Names("id", 0, "m", True, False), *given)["content"]
    assert [x["logprob"] for x in chat] == [-9999.0, -0.5]
    assert chat[0]["top_logprobs"][0]["logprob"] == -9999.0
    plain = api.logprobs_of(api.Names("id", 0, "m", False, False), *given)
    assert plain["token_logprobs"] == [-9999.0, -0.5]
    assert plain["top_logprobs"] == [{"5": -9999.0}, {"6": -0.5}]


def test_nobody_waits_while_the_long_text_of_another_is_read():
    writer = Many(0, 0)

    async def ask() -> Any:
        async with client(writer) as one:
            long = asyncio.ensure_future(one.post("/v1/completions", json={"prompt": "a " * 9}))
            while not writer.reads.is_set():
                await asyncio.sleep(0.001)
            health = await one.get("/health")  # and it is still being read
            writer.may_read.set()
            return health, await long

    health, long = asyncio.run(ask())
    assert health.status_code == 200
    assert long.status_code == 400 and "this one is too long" in long.text


def test_metrics_count_all_answers_and_are_of_the_right_kinds():
    writer = Many(2, 2)

    async def ask() -> str:
        from rlx.serve.http import application

        app = application(writer)
        transport = httpx.ASGITransport(app=app, raise_app_exceptions=False)
        async with httpx.AsyncClient(transport=transport, base_url="http://localhost") as one:
            await one.post("/v1/completions", content=b"{")
            await one.get("/v1/models/a/b")
            await one.get(f"/{'x' * 99}")
            await one.delete("/v1/completions")
            await one.get("/health", headers={"Host": "elsewhere.example"})
            writer.may_read.set()
            writer.prompts = writer.model.prompts = lambda _: 1 / 0  # type: ignore[method-assign]
            failed = await one.post("/v1/completions", json={"prompt": "a"})
            assert failed.status_code == 500 and "has failed" in failed.text
            return (await one.get("/metrics")).text

    found = {}
    for line in asyncio.run(ask()).splitlines():
        name, _, value = line.rpartition(" ")
        found[name] = value
    answers = {k: x for k, x in found.items() if k.startswith("rlx_http_answers_total{")}
    assert answers == {
        f'rlx_http_answers_total{{path="{path}",status="{status}"}}': "1.0"
        for path, status in (
            ("/v1/completions", 400), ("/v1/models/", 404), ("other", 404),
            ("/v1/completions", 405), ("/health", 403), ("/v1/completions", 500),
        )
    }  # fmt: skip
    assert found["# TYPE rlx_steps_total"] == "counter" and found["rlx_steps_total"] == "3.0"
