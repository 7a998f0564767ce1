"""Requests whose heads have no end."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

uvicorn = pytest.importorskip("uvicorn", reason="needs the package uvicorn")
pytest.importorskip("httptools", reason="needs the package httptools")

FIRST = b"POST / HTTP/1.1\r\nHost: localhost\r\n"
CHUNKED = FIRST + b"Transfer-Encoding: chunked\r\n\r\n1\r\na\r\n"
LONG = 1 << 20


async def echo(scope: Any, receive: Any, send: Any) -> None:
    count, more = 0, True
    while more:
        message = await receive()
        count, more = count + len(message.get("body", b"")), message.get("more_body", False)
    await send({"type": "http.response.start", "status": 200, "headers": []})
    await send({"type": "http.response.body", "body": f"{count} bytes".encode()})


async def answer(*parts: bytes, ends: bool = True) -> bytes:
    from rlx.serve.heads import BoundedHeads

    config = uvicorn.Config(echo, port=0, http=BoundedHeads, lifespan="off", log_level="critical")
    server = uvicorn.Server(config)
    running = asyncio.ensure_future(server.serve())
    while not server.started:
        await asyncio.sleep(0.001)
    port = server.servers[0].sockets[0].getsockname()[1]
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    found = b""
    try:
        for part in parts:
            writer.write(part)
            await writer.drain()
        if ends:
            writer.write_eof()
        found = await reader.read()
    except ConnectionError:
        pass
    writer.close()
    server.should_exit = True
    await running
    return found


@pytest.mark.parametrize(
    "parts",
    [
        (b"GET /" + b"a" * LONG + b" HTTP/1.1\r\nHost: localhost",),
        (FIRST + b"x: ", *[b"a" * 5000] * (LONG // 5000)),
        (FIRST, *[b"x: %s\r\n" % (b"a" * 5000)] * (LONG // 5000)),
        (CHUNKED + b"0\r\n", *[b"x: %s\r\n" % (b"a" * 5000)] * (LONG // 5000)),
    ],
    ids=["path", "header", "headers", "trailers"],
)
def test_a_head_without_an_end_is_refused(parts):
    assert b"200 OK" not in asyncio.run(answer(*parts, b"\r\n\r\n"))


@pytest.mark.parametrize(
    "head, body",
    [
        (b"Content-Length: %d\r\n" % LONG, b"a" * LONG),
        (b"x: %s\r\nContent-Length: 3\r\n" % (b"a" * 50000), b"abc"),
    ],
    ids=["long body", "long head"],
)
def test_long_bodies_and_heads_come_in(head, body):
    found = asyncio.run(answer(FIRST + head + b"Connection: close\r\n\r\n", body))
    assert b"200 OK" in found and b"%d bytes" % len(body) in found


@pytest.mark.parametrize("begun", [b"", FIRST, CHUNKED + b"0\r\n\r\n" + FIRST])
def test_a_late_head_is_no_longer_awaited(begun, monkeypatch):
    from rlx.serve import heads

    monkeypatch.setattr(heads, "MOST_SECONDS", 0.05)
    found = asyncio.run(asyncio.wait_for(answer(begun, ends=False), 20))
    assert (b"took more than" in found) == bool(begun)
