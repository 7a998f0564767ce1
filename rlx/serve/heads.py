"""Heads of HTTP requests, bounded: httptools reads them without an end."""

from __future__ import annotations

import asyncio

from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol

MOST_HEAD = 1 << 16  # bytes that are no body, in a row; h11 takes as many


class BoundedHeads(HttpToolsProtocol):
    """A connection that is closed where a head, or what is no body, has no end."""

    _count = 0  # bytes since the last of a body, or the last whole head

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
        super().on_headers_complete()

    def on_body(self, body: bytes) -> None:
        """A part of a body has come."""
        self._count = 0
        super().on_body(body)

    def on_message_complete(self) -> None:
        """A request has come."""
        self._count = 0
        super().on_message_complete()
