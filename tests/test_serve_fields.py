"""What answers have in them, to the letter: fields, logarithms, usual lengths, errors."""

from __future__ import annotations

import asyncio
import json
import sys
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from types import SimpleNamespace
from typing import Any

import pytest

import rlx
from rlx.cli.serve import _keys

httpx = pytest.importorskip("httpx", reason="needs the package httpx")
openai = pytest.importorskip("openai", reason="needs the package openai")
pytest.importorskip("uvicorn", reason="needs the package uvicorn")
pytest.importorskip("prometheus_client", reason="needs the package prometheus-client")

from starlette.requests import Request  # noqa: E402
from test_serve_http import chat, model, path, served  # noqa: E402, F401

from rlx.serve import door, preparing  # noqa: E402
from rlx.serve.bad_request import BadRequest  # noqa: E402


@pytest.fixture(scope="module")
def address(model: Any) -> Iterator[str]:  # noqa: F811
    yield from served(model)


@pytest.fixture(scope="module")
def client(address: str) -> Iterator[Any]:
    with closing(openai.OpenAI(base_url=f"{address}/v1", api_key="a", max_retries=0)) as made:
        yield made


def events(address: str, **body: Any) -> list[Any]:
    """The events of a stream, as they came."""
    answer = httpx.post(f"{address}/v1/chat/completions", json={"stream": True, **body})
    assert answer.headers["content-type"].startswith("text/event-stream")
    assert answer.headers["cache-control"] == "no-cache"
    *parts, done, rest = answer.text.split("\n\n")
    assert done == "data: [DONE]" and rest == ""
    return [json.loads(part.removeprefix("data: ")) for part in parts]


def test_parts_of_a_stream_say_what_it_costs_or_null(address):
    ask = {"messages": [{"role": "user", "content": "ab"}], "max_tokens": 3, "seed": 0}
    *parts, last = events(address, **ask, stream_options={"include_usage": True})
    assert all(part["usage"] is None and part["choices"] for part in parts)
    assert last["choices"] == [] and last["usage"]["completion_tokens"] == 3
    assert not any("usage" in part for part in events(address, **ask))


def test_logarithms_are_of_the_bytes_of_tokens(model, client):  # noqa: F811
    found = chat(client, logprobs=True, top_logprobs=20, max_tokens=40)
    rows = found.choices[0].logprobs.content
    written = b"".join(bytes(x.bytes) for x in rows)
    text = found.choices[0].message.content  # a half of a letter at the end waits for the rest
    assert written.decode("utf-8", "replace").startswith(text) and text
    assert any(len(x.bytes) == 1 and x.bytes[0] > 127 for row in rows for x in row.top_logprobs)
    for row in rows:
        assert len({x.token for x in row.top_logprobs}) == len({*map(str, row.top_logprobs)}) == 20
    ask = {"model": "small", "prompt": "ab", "max_tokens": 40, "logprobs": 5, "seed": 2}
    one = client.completions.create(**ask).choices[0]
    parts = [x.choices[0].logprobs for x in client.completions.create(**ask, stream=True)]
    assert [y for x in parts if x for y in x.text_offset] == one.logprobs.text_offset
    assert one.logprobs.text_offset[0] == 0 and len(one.logprobs.text_offset) == 40
    assert all(len(x) in (5, 6) for x in one.logprobs.top_logprobs)


def test_bytes_of_tokens(model):  # noqa: F811
    tokenizer = model.tokenizer
    for text in ("one  two", "é", "日本 ☃", "\n\t\0"):
        ids = tokenizer.encode(text)
        assert b"".join(map(tokenizer.bytes_of, ids)) == text.encode()
    (special, number), *_ = tokenizer.special.items()
    assert tokenizer.bytes_of(number).decode() == special
    assert tokenizer.bytes_of(1 << 20) == tokenizer.bytes_of(-1) == b""


def test_lengths_that_are_not_asked_for(model, client):  # noqa: F811
    ask = {"model": "small", "temperature": 0}
    assert client.completions.create(prompt="ab", **ask).usage.completion_tokens <= 16
    context = model.config.context
    full = client.completions.create(prompt=[70] * (context - 3), **ask)
    assert full.usage.completion_tokens <= 3
    with pytest.raises(openai.BadRequestError, match=f"{context + 1} tokens"):
        client.completions.create(prompt=[70] * (context + 1), **ask)


def test_seeds_have_64_bits(client):
    one, same, other = (chat(client, seed=x).choices[0] for x in (-1, 2**32 - 1, 2**63 - 1))
    assert one.message.content == same.message.content  # the last 32 are what counts
    with pytest.raises(openai.BadRequestError, match="seed must be from"):
        chat(client, seed=2**63)
    assert other.message.content


def test_models_and_routes_that_there_are_not(client):
    assert client.models.retrieve("small").id == "small"
    for ask in (lambda: client.models.retrieve("a/b"), lambda: client.get("/none", cast_to=object)):
        with pytest.raises(openai.NotFoundError) as caught:
            ask()
        assert caught.value.body["message"].startswith("there is no ")
    with pytest.raises(openai.APIStatusError, match="there is no GET /v1/completions") as caught:
        client.get("/completions", cast_to=object)
    assert caught.value.status_code == 405


def test_bodies_that_come_late_or_never(monkeypatch):
    monkeypatch.setattr(door, "MOST_SECONDS", 0.01)
    one = door.Door([], 100)

    async def status(last: dict[str, Any] | None) -> int:
        begun = [{"type": "http.request", "body": b"{", "more_body": True}]

        async def receive() -> Any:
            if begun:
                return begun.pop()
            return last or await asyncio.sleep(20)

        with pytest.raises(BadRequest) as caught:
            await one.body(Request({"type": "http"}, receive), len)
        return caught.value.status

    assert asyncio.run(status(None)) == 408
    assert asyncio.run(status({"type": "http.disconnect"})) == door.LEFT


def come(body: bytes, leaves: asyncio.Event | None = None) -> Any:
    """What gives a body, and then who sent it stays, or leaves."""
    parts = [{"type": "http.request", "body": body}]

    async def receive() -> Any:
        if parts:
            return parts.pop()
        await (asyncio.Event() if leaves is None else leaves).wait()
        return {"type": "http.disconnect"}

    return receive


@pytest.mark.parametrize("size", [door.LARGE - 1, door.LARGE])
def test_large_bodies_are_read_while_the_event_loop_goes_on(size):
    one, goes_on = door.Door([], 1 << 20), threading.Event()
    is_large = size >= door.LARGE

    async def test() -> Any:
        receive = come(b"[1, 2.5, {}]".ljust(size))

        def check(body: Any) -> Any:
            assert goes_on.wait(10 if is_large else 0) == is_large
            if body != [1, 2.5, {}]:
                raise BadRequest("not what was sent")
            return "checked"

        asyncio.get_running_loop().call_later(0.01, goes_on.set)
        return await one.body(Request({"type": "http"}, receive), check)

    turn = sys.getswitchinterval()
    assert asyncio.run(test()) == "checked"
    assert sys.getswitchinterval() == turn


def test_a_large_body_of_who_left_is_not_read():
    one, goes_on = door.Door([], 1 << 20), threading.Event()
    read, small, large = list[Any](), b"1", b"2".ljust(door.LARGE)

    def check(body: Any) -> Any:
        read.append(body)
        return goes_on.wait(10)

    async def test() -> None:
        async def ask(body: bytes, check: Any, leaves: asyncio.Event) -> Any:
            return await one.body(Request({"type": "http"}, come(body, leaves)), check)

        stays, leaves = asyncio.Event(), asyncio.Event()
        first = asyncio.create_task(ask(b"1".ljust(door.LARGE), check, stays))
        others = [asyncio.create_task(ask(large, check, leaves)) for _ in range(64)]
        while not read:
            await asyncio.sleep(0.001)
        assert await ask(small, str, stays) == "1"  # it waits for none of them
        leaves.set()
        for other in others:
            with pytest.raises(BadRequest) as caught:
                await other
            assert caught.value.status == door.LEFT
        goes_on.set()
        assert await first
        assert await ask(large, str, stays) == "2"

    asyncio.run(test())
    assert read == [1]


def test_a_body_has_few_lists_and_objects(address):
    most = door.MOST_PARTS
    for text, status in (
        (b"[" + b"[]," * (most - 1) + b"1]", 400),  # this is no object
        (b"[" + b"[]," * most + b"1]", 413),
        (b'{"a": "' + b'\\"[[{' * most + b'", "b": "\\\\"}', 400),  # it is a text
        (b'{"a": "\\\\", "b": ' + b"[" * most + b"}", 413),
    ):
        answer = httpx.post(f"{address}/v1/completions", content=text)
        assert answer.status_code == status and answer.json()["error"]["message"]


@pytest.mark.parametrize("text", [b"", b" " * door.LARGE], ids=["small", "large"])
def test_deep_bodies_have_one_answer(address, text):
    for depth, what in (
        (door.MOST_DEPTH, "the body must be a JSON object"),
        (door.MOST_DEPTH + 1, "the body has over 256 lists and objects in each other"),
        (970, "the body has over 256 lists and objects in each other"),
    ):
        body = b"[" * depth + b"]" * depth + text
        answer = httpx.post(f"{address}/v1/completions", content=body)
        assert answer.status_code == 400 and answer.json()["error"]["message"] == what


def test_long_texts_hold_no_short_ones_up(model, monkeypatch):  # noqa: F811
    reads, may_read, prompts = threading.Semaphore(0), threading.Event(), model.prompts

    def slow(given: Any) -> Any:
        if given != ("a" * door.LARGE,):
            return prompts(given)
        reads.release()
        may_read.wait(20)
        return prompts(("ab",))

    def ask(at: str, text: str) -> int:
        body = {"prompt": text, "max_tokens": 1}
        return httpx.post(f"{at}/v1/completions", json=body, timeout=60).status_code

    with monkeypatch.context() as patch:
        patch.setattr(model, "prompts", slow)
        for at in served(model):
            with ThreadPoolExecutor(8) as pool:
                posted = [pool.submit(ask, at, "a" * door.LARGE) for _ in range(8)]
                for _ in range(preparing.OF_LARGE):
                    assert reads.acquire(timeout=20)
                assert ask(at, "ab") == 200
                assert not reads.acquire(timeout=0.1)
                may_read.set()
                assert {x.result() for x in posted} == {200}


def test_a_form_that_takes_long_holds_nobody_up(model, monkeypatch):  # noqa: F811
    reads, may_read = threading.Event(), threading.Event()

    def guide(schema: Any = None, regex: Any = None) -> None:
        if schema is not None:
            reads.set()
            may_read.wait(60)

    with monkeypatch.context() as patch:
        patch.setattr(model, "formats", SimpleNamespace(guide=guide, prepare=lambda: None))
        patch.setattr(preparing, "MOST_WAITING", 9)
        for at in served(model):
            slow = {"prompt": "ab", "max_tokens": 1, "structured_outputs": {"json": {}}}
            with ThreadPoolExecutor(8) as pool:
                posted = [pool.submit(httpx.post, f"{at}/v1/completions", json=slow, timeout=60)
                          for _ in range(8)]  # fmt: skip
                assert reads.wait(20)
                plain = httpx.post(f"{at}/v1/completions", json={"prompt": "ab", "max_tokens": 1})
                may_read.set()
                assert {x.result().status_code for x in posted} | {plain.status_code} == {200}


def test_what_forms_need_is_there_before_the_first_request(path):  # noqa: F811
    pytest.importorskip("llguidance")
    fresh = rlx.models.load(path)
    assert "_tokens" not in vars(fresh.formats)
    for _ in served(fresh):
        assert "_tokens" in vars(fresh.formats)


def test_keys_are_none_or_can_be_sent():
    assert _keys(None) == [] and _keys(" a,b ") == ["a", "b"]
    for wrong in ("", ",", "a,,b", "a b", "é"):
        with pytest.raises(rlx.ArgumentError, match="RLX_API_KEYS has a key that no caller"):
            _keys(wrong)


def test_an_application_is_told_what_it_is_given(model):  # noqa: F811
    from rlx.serve import Engine
    from rlx.serve.http import application

    engine = Engine(model, cache="1M")
    for wrong, message in (
        ({"timeout": -1}, "timeout is -1"), ({"timeout": "x"}, "timeout is 'x'"),
        ({"keys": [""]}, "a key is empty"), ({"keys": [3]}, "one of keys is 3"),
        ({"most_bytes": 0}, "most_bytes is 0"), ({"name": 3}, "name is 3"),
        ({"hosts": 3}, "hosts is 3"), ({"engine": model}, "engine is a LanguageModel"),
    ):  # fmt: skip
        with pytest.raises(rlx.RlxError, match=message):
            application(**{"engine": engine, **wrong})
