"""Heads of HTTP requests, bounded: httptools reads, and waits, without an end."""

from __future__ import annotations

import asyncio

from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol

MOST_HEAD = 1 << 16  # bytes that are no body, in a row; h11 takes as many
MOST_SECONDS = 60.0  # that a head may take to come


class BoundedHeads(HttpToolsProtocol):
    """A connection that is closed where a head has no end or is late, or trailers."""

    _count = 0  # bytes since the last of a body, or the last whole head
    _late: asyncio.TimerHandle | None = None  # while a head is to come

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        """Somebody has come."""
        super().connection_made(transport)
        self._late = self.loop.call_later(MOST_SECONDS, transport.close)

    def connection_lost(self, exc: Exception | None) -> None:
        """They have left."""
        self._in_time()
        super().connection_lost(exc)

    def on_message_begin(self) -> None:
        """A head begins to come: the first one, or another one on the same connection."""
        super().on_message_begin()
        self._in_time()
        what = f"The head of a request took more than {MOST_SECONDS:g} seconds."
        self._late = self.loop.call_later(MOST_SECONDS, self.send_400_response, what)

    def _in_time(self) -> None:
        if self._late is not None:
            self._late.cancel()

    def data_received(self, data: bytes) -> None:
        """Take what came."""
        self._count += len(data)
        super().data_received(data)
        transport: asyncio.Transport = self.transport
        if self._count > MOST_HEAD and not transport.is_closing():
            self.send_400_response(f"The head of a request has more than {MOST_HEAD} bytes.")

    def on_headers_complete(self) -> None:
        """A head has come."""
        self._count = 0
        self._in_time()
        super().on_headers_complete()

    def on_body(self, body: bytes) -> None:
        """A part of a body has come."""
        self._count = 0
        super().on_body(body)

    def on_message_complete(self) -> None:
        """A request has come."""
        self._count = 0
        super().on_message_complete()
