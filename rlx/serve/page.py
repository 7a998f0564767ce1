"""The page of a server: a conversation, and how the engine is."""

from __future__ import annotations

import base64
import functools
import hashlib
import re
from pathlib import Path

from starlette.responses import HTMLResponse

FILE = Path(__file__).with_name("page.html")


@functools.cache
def page() -> HTMLResponse:
    """The page, which may run its own script alone and ask its own server alone."""
    text = FILE.read_text("utf-8")
    (script,) = re.findall("<script>(.*?)</script>", text, re.DOTALL)
    digest = base64.b64encode(hashlib.sha256(script.encode()).digest()).decode()
    policy = (
        f"default-src 'none'; script-src 'sha256-{digest}'; style-src 'unsafe-inline'; "
        "connect-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
    )
    headers = {"Content-Security-Policy": policy, "X-Content-Type-Options": "nosniff"}
    return HTMLResponse(text, headers=headers)
