"""Requests that web pages of others make of a server, which are refused.

A browser sends what any page asks for, to servers of the own machine, too. Two things tell: the
`Host` is the name that the page has for this server, so a name that somebody pointed here (DNS
rebinding) is none of its own; `Sec-Fetch-Site` and `Origin` say whose page it is.
https://www.w3.org/TR/fetch-metadata
"""

from __future__ import annotations

import ipaddress
import urllib.parse
from collections.abc import Collection
from typing import Any, final

from starlette.datastructures import Headers
from starlette.middleware import Middleware
from starlette.responses import JSONResponse

from .bad_request import BadRequest

READING = ("GET", "HEAD", "OPTIONS")  # what they answer, no other page can read
OWN = ("same-origin", "none")  # values of Sec-Fetch-Site; a user who types an address is none
LOCAL = ("localhost", ".localhost")  # the names that stand for this machine everywhere
PORTS = {"http": 80, "https": 443}


@final
class Origins:
    """An ASGI application `app`, for callers that are no pages, and pages of its own.

    Addresses of numbers are its own, and so are `localhost`, the address it listens at, and the
    names of `hosts`; "*" stands for any name.
    """

    def __init__(self, app: Any, hosts: Collection[str] = ()) -> None:
        self._app, self._hosts = app, {host.lower().rstrip(".") for host in hosts}

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        """Answer a request, or refuse it with the status 403."""
        try:
            if scope["type"] == "http":
                self.check(scope["method"], Headers(scope=scope), scope.get("server"))
        except BadRequest as error:
            answer = JSONResponse(error.body(), status_code=error.status)
            await answer(scope, receive, send)
        else:
            await self._app(scope, receive, send)

    def check(self, method: str, headers: Headers, server: Any) -> None:
        """Raise a `BadRequest` for a request of another page.

        It came with a `method` and `headers` to the address `server`.
        """
        given = headers.get("host")
        host, port = _parted(f"//{given or ''}")
        if given is not None and not self._is_own(host, server):  # browsers send one always
            raise BadRequest(
                f"the name {given[:100]!r} is not one of this server's; if it should be, start the "
                f"server with --allow-host {host[:100] or 'NAME'}",
                status=403,
                code="host_not_allowed",
            )
        if method not in READING and not _is_same(headers, host, port):
            raise BadRequest(
                "a web page of another origin may not ask this server",
                status=403,
                code="cross_origin",
            )

    def _is_own(self, host: str, server: Any) -> bool:
        if "*" in self._hosts or host in self._hosts:
            return True
        if host == LOCAL[0] or host.endswith(LOCAL[1]) or (server and host == server[0]):
            return True
        try:
            ipaddress.ip_address(host)
        except ValueError:
            return False
        return True


def guard(keys: Collection[str], hosts: Collection[str]) -> Middleware:
    """What lets requests into an application.

    Where callers need `keys` they may call it by any name, else by those of `hosts`.
    """
    return Middleware(Origins, hosts=("*",) if keys else tuple(hosts))


def _is_same(headers: Headers, host: str, port: int | None) -> bool:
    """Whether a request is of a page of this server, or of no page."""
    site, origin = headers.get("sec-fetch-site"), headers.get("origin")
    if site is not None:
        return site in OWN
    if origin is None:
        return True
    usual = PORTS.get(origin.partition(":")[0])
    theirs, other = _parted(origin)
    return bool(theirs) and (theirs, other or usual) == (host, port or usual)


def _parted(address: str) -> tuple[str, int | None]:
    """The name and port of an address; an empty name if it is none."""
    try:
        found = urllib.parse.urlsplit(address)
        return (found.hostname or "").rstrip("."), found.port
    except ValueError:
        return "", None
