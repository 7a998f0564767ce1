"""Embeddings over HTTP are admitted as completions are: bounded, in turn, given up when left."""

from __future__ import annotations

import asyncio
import threading
from typing import Any

import numpy as np
import pytest

import rlx

httpx = pytest.importorskip("httpx", reason="needs the package httpx")
pytest.importorskip("starlette", reason="needs the package starlette")
pytest.importorskip("prometheus_client", reason="needs the package prometheus-client")


class Slow:
    """An encoder that waits until it may go on, and remembers what it computed."""

    tokenizer, size = None, 2

    def __init__(self) -> None:
        self.computed: list[list[list[int]]] = []
        self.begun, self.goes_on = threading.Semaphore(0), threading.Semaphore(0)

    def encode(self, ids: list[list[int]]) -> Any:
        self.begun.release()
        assert self.goes_on.acquire(timeout=20)
        self.computed.append(ids)
        return rlx.array(np.array([[x[0], len(x)] for x in ids], "float32"))


def asked(test: Any, **limits: Any) -> Slow:
    """Run a test with a client of an application, and the encoder behind it."""
    from rlx.serve.embeddings import encoder_application

    encoder = Slow()
    app = encoder_application(encoder, **limits)  # type: ignore[arg-type]

    async def run() -> None:
        transport = httpx.ASGITransport(app=app)
        async with httpx.AsyncClient(transport=transport, base_url="http://test") as client:

            def ask(*texts: list[int]) -> asyncio.Future[Any]:
                body = {"input": list(texts)}
                return asyncio.ensure_future(client.post("/v1/embeddings", json=body))

            await test(ask, encoder)

    asyncio.run(asyncio.wait_for(run(), 20))
    return encoder


async def begun(encoder: Slow) -> None:
    """Wait until a part is computed."""
    await asyncio.to_thread(encoder.begun.acquire)


def test_more_requests_than_may_wait_are_refused():
    async def test(ask, encoder):
        first = ask([1])
        await begun(encoder)
        second = ask([2])
        await asyncio.sleep(0.05)
        third = await ask([3])
        assert third.status_code == 429 and third.json()["error"]["code"] == "queue_full"
        assert third.headers["retry-after"] == "1"
        encoder.goes_on.release(2)
        for number, answer in enumerate([await first, await second], 1):
            assert answer.json()["data"][0]["embedding"] == [number, 1.0]
        encoder.goes_on.release()
        assert (await ask([4])).status_code == 200  # there is room again

    asked(test, most_waiting=1)


def test_a_long_request_does_not_hold_up_a_short_one():
    async def test(ask, encoder):
        long = ask(*[[i] * 600 for i in range(1, 5)])
        await begun(encoder)
        short = ask([9])
        await asyncio.sleep(0.05)
        encoder.goes_on.release(2)
        assert (await short).json()["data"][0]["embedding"] == [9.0, 1.0]
        assert not long.done()
        encoder.goes_on.release(3)
        found = [x["embedding"] for x in (await long).json()["data"]]
        assert found == [[i, 600.0] for i in range(1, 5)]

    assert len(asked(test).computed) == 5


def test_who_takes_too_long_or_leaves_is_not_computed_any_more():
    from starlette.requests import Request

    from rlx.serve.door import unless_left
    from rlx.serve.embeddings import Embeddings

    async def test(ask, encoder):
        first = ask(*[[i] * 600 for i in range(1, 5)])
        await begun(encoder)
        assert (await first).status_code == 408
        encoder.goes_on.release()

    assert len(asked(test, timeout=0.2).computed) == 1

    async def left():
        encoder = Slow()

        async def receive():
            await begun(encoder)
            return {"type": "http.disconnect"}

        embeddings = Embeddings(encoder, "model", 1, 20.0)  # type: ignore[arg-type]
        work = embeddings.answer(*embeddings.checked({"input": [[i] * 600 for i in range(1, 5)]}))
        assert await unless_left(Request({"type": "http"}, receive), work) is None
        encoder.goes_on.release(5)
        await embeddings.answer(*embeddings.checked({"input": [7]}))
        return encoder.computed

    assert [len(x) for x in asyncio.run(left())] == [1, 1]
