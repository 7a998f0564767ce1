"""`rlx serve`: a language model behind OpenAI's HTTP interface."""

from __future__ import annotations

import argparse
import importlib.util
import os
from pathlib import Path

from ..ir.errors import ArgumentError
from ..serve import Engine
from .options import add_model, language_model

NEEDED = ("starlette", "uvicorn", "prometheus_client")
DRAIN = 30  # seconds that answers have to end after SIGTERM


def add(parser: argparse.ArgumentParser) -> None:
    """Describe its arguments."""
    add_model(parser)
    parser.add_argument("--host", default="127.0.0.1", help="the address to listen at (127.0.0.1)")
    parser.add_argument("--port", type=int, default=8000, help="its port (8000)")
    parser.add_argument("--name", help="what the model is called (the name of its file)")
    parser.add_argument(
        "--cache", default="1G", help="memory for keys and values, as 512M or 4G (1G)"
    )
    for name, default, about in (
        ("max-sequences", 16, "answers that are written at the same time"),
        ("step-tokens", 256, "tokens that a step computes at most"),
        ("max-waiting", 256, "requests that may wait; more get the status 429"),
        ("timeout", 600, "seconds that a request may take"),
    ):
        parser.add_argument(
            f"--{name}", type=int, default=default, metavar="N", help=f"{about} ({default})"
        )
    parser.epilog = "RLX_API_KEYS=key,key: callers need one of these keys."


def run(asked: argparse.Namespace) -> None:
    """Serve until interrupted; answers that are being written are finished first."""
    missing = [name for name in NEEDED if importlib.util.find_spec(name) is None]
    if missing:
        raise ArgumentError(
            f"serving needs the packages {', '.join(missing)}", fix='pip install "rlx[serve]"'
        )
    import uvicorn

    from ..serve.http import application

    model = language_model(asked)
    engine = Engine(
        model,
        cache=asked.cache,
        max_sequences=asked.max_sequences,
        step_tokens=asked.step_tokens,
        max_waiting=asked.max_waiting,
    )
    keys = [key for key in os.environ.get("RLX_API_KEYS", "").split(",") if key]
    name = asked.name or Path(asked.model).stem
    app = application(engine, name=name, keys=keys, timeout=asked.timeout)
    print(f"{name} at http://{asked.host}:{asked.port}/v1", flush=True)
    uvicorn.run(
        app,
        host=asked.host,
        port=asked.port,
        log_level="warning",
        timeout_graceful_shutdown=DRAIN,
    )
