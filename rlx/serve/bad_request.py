"""A request that is refused, in the words of OpenAI's interface."""

from __future__ import annotations

from typing import Any


class BadRequest(Exception):
    """A request that is refused, with a `status`, a `message`, the wrong `param`."""

    def __init__(
        self, message: str, param: str | None = None, *, status: int = 400, code: str | None = None
    ) -> None:
        super().__init__(message)
        # half a surrogate pair, which JSON can write and UTF-8 cannot, is a question mark
        self.message = message.encode("utf-8", "replace").decode()
        self.param = param and param.encode("utf-8", "replace").decode()
        self.status, self.code = status, code

    def body(self) -> dict[str, Any]:
        """The answer's body."""
        kinds = {401: "authentication_error", 429: "rate_limit_error"}
        kind = kinds.get(self.status, "server_error" if self.status >= 500 else "")
        return {
            "error": {
                "message": self.message,
                "type": kind or "invalid_request_error",
                "param": self.param,
                "code": self.code,
            }
        }
