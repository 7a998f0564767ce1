"""`rlx serve`: a language model behind OpenAI's HTTP interface."""

from __future__ import annotations

import argparse
import contextlib
import functools
import gc
import importlib.util
import os
from pathlib import Path
from typing import Any

from ..ir.config import KEYS
from ..ir.errors import ArgumentError
from ..models import Encoder, LanguageModel, Pooled, load
from ..models.pooled import POOLINGS
from ..serve import Engine, Workers
from .options import add_model, language_model

NEEDED = ("starlette", "uvicorn", "prometheus_client")
MOST_PORT = 65535
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
        ("workers", 0, "processes that compute, each with such a cache; 0: this one does"),
    ):
        parser.add_argument(
            f"--{name}", type=int, default=default, metavar="N", help=f"{about} ({default})"
        )
    parser.add_argument(
        "--memory", metavar="BYTES",
        help="what a worker may take beyond what it begins with, as 4G; one that needs more is "
        "replaced (no bound)",
    )  # fmt: skip
    parser.add_argument(
        "--stretch", type=float, default=1.6, metavar="X",
        help="how much longer prompts may make a step in which answers are written (1.6)",
    )  # fmt: skip
    parser.add_argument(
        "--adapter", action="append", default=[], metavar="NAME=PATH",
        help="an adapter (LoRA) that callers choose as a model; may be repeated",
    )  # fmt: skip
    parser.add_argument(
        "--adapters-from", metavar="FOLDER",
        help="the folder whose adapters callers may load while it serves",
    )  # fmt: skip
    parser.add_argument(
        "--allow-host", action="append", default=[], metavar="NAME",
        help="a name by which callers without keys reach the server, besides its addresses and "
        "localhost; * for any; may be repeated",
    )  # fmt: skip
    parser.add_argument(
        "--draft", metavar="MODEL",
        help="a small model of the same vocabulary for --guesses; without, what the text repeats",
    )  # fmt: skip
    parser.add_argument(
        "--pooling", choices=POOLINGS,
        help="embeddings of a language model: the mean of its states, or the last",
    )  # fmt: skip
    for name, default, about in (
        ("max-adapters", 8, "adapters that there is room for, if there are any"),
        ("adapter-rank", 16, "their greatest rank"),
        ("guesses", 0, "next tokens that a step guesses and checks: same texts, fewer steps"),
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
    if not 0 <= asked.port <= MOST_PORT:  # systems take the rest of another one
        raise ArgumentError(f"--port is {asked.port}", fix=f"give 1 to {MOST_PORT}, or 0 for any")
    if asked.timeout <= 0:
        raise ArgumentError(f"--timeout is {asked.timeout}", fix="give a number of seconds above 0")
    if asked.memory is not None and not asked.workers:
        raise ArgumentError("--memory bounds workers, and there are none", fix="give --workers")
    import uvicorn

    model = load(asked.model, compute=asked.compute)
    name = asked.name or Path(asked.model).stem
    keys = _keys(os.environ.get(KEYS))
    with contextlib.ExitStack() as stack:
        app = _application(asked, model, name, keys, stack)
        gc.collect()
        gc.freeze()  # to visit so many objects later would hold up streams for 50 ms
        print(f"{name} at http://{asked.host}:{asked.port}/v1", flush=True)
        uvicorn.run(
            app,
            host=asked.host,
            port=asked.port,
            log_level="warning",
            timeout_graceful_shutdown=DRAIN,
            http=_protocol(),
        )


def _keys(given: str | None) -> list[str]:
    """The keys of which callers need one; none if the variable is not set."""
    if given is None:
        return []
    keys = [key.strip() for key in given.split(",")]
    if not all(key and key.isascii() and key.isprintable() and " " not in key for key in keys):
        raise ArgumentError(  # rather than be open to all
            f"{KEYS} has a key that no caller can send", fix=f"set {KEYS}=key,key, or unset it"
        )
    return keys


def _protocol() -> Any:
    """What reads requests: httptools, if it is there."""
    if importlib.util.find_spec("httptools") is None:
        return "h11"
    from ..serve.heads import BoundedHeads

    return BoundedHeads


def engine(asked: argparse.Namespace) -> Engine:
    """The engine of a worker process."""
    return _engine(asked, language_model(asked, shared=True))


def _application(
    asked: argparse.Namespace, model: Any, name: str, keys: list[str], stack: contextlib.ExitStack
) -> Any:
    """What serves a `model`: an encoder gives vectors, a language model texts, and vectors too."""
    from ..serve.embeddings import encoder_application
    from ..serve.http import application

    hosts = [*asked.allow_host, asked.host]
    if isinstance(model, Encoder):
        how = {"most_waiting": asked.max_waiting, "timeout": asked.timeout}
        how["hosts"] = hosts
        return encoder_application(model, name=name, keys=keys, **how)
    writer: Engine | Workers
    if asked.workers:
        make = functools.partial(engine, asked)
        bounds = {"max_waiting": asked.max_waiting, "memory": asked.memory}
        workers = Workers(model, make, asked.workers, **bounds)
        writer = stack.enter_context(workers)
    else:
        writer = _engine(asked, model)
    for given in asked.adapter:
        label, _, path = given.partition("=")
        if not label or not path:
            raise ArgumentError(f"--adapter is {given!r}", fix="give --adapter NAME=PATH")
        writer.adapters.attach(label, path)
    return application(
        writer,
        name=name,
        keys=keys,
        timeout=asked.timeout,
        adapters=asked.adapters_from,
        hosts=hosts,
        encoder=Pooled(model, asked.pooling) if asked.pooling else None,
    )


def _engine(asked: argparse.Namespace, model: LanguageModel) -> Engine:
    """An engine for a `model`, as it was `asked` for, ready for requests."""
    made = Engine(
        model,
        cache=asked.cache,
        max_sequences=asked.max_sequences,
        step_tokens=asked.step_tokens,
        stretch=asked.stretch,
        max_waiting=asked.max_waiting,
        adapters=asked.max_adapters if asked.adapter or asked.adapters_from else 0,
        adapter_rank=asked.adapter_rank,
        guesses=asked.guesses,
        draft=load(asked.draft, compute=asked.compute) if asked.draft else None,
    )
    made.warm_up()
    return made
