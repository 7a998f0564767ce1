"""`rlx chat`: talk with a language model."""

from __future__ import annotations

import argparse
import sys

from ..ir.errors import ArgumentError, BoundsError
from ..models import LanguageModel
from .options import add_model, add_sampling, language_model, sampling, text_of

HELP = "Write, and end with Enter. /new forgets what was said, /exit ends."


def add(parser: argparse.ArgumentParser) -> None:
    """Describe its arguments."""
    add_model(parser)
    parser.add_argument("--system", metavar="TEXT", help="what the model shall be")
    add_sampling(parser, 512)


def run(asked: argparse.Namespace) -> None:
    """Answer lines of standard input until they end."""
    model = language_model(asked)
    if model.template is None:
        raise ArgumentError(
            "chat: the model has no chat template", fix="go on with texts instead: rlx run --raw"
        )
    first = [{"role": "system", "content": asked.system}] if asked.system else []
    is_terminal = sys.stdin.isatty()
    if is_terminal:
        print(HELP)
    said = list(first)
    while True:
        line = _line(is_terminal)
        if line is None or line == "/exit":
            return
        if line == "/new":
            said = list(first)
        elif line:
            said.append({"role": "user", "content": line})
            said.append({"role": "assistant", "content": _answer(model, said, asked)})


def _line(is_terminal: bool) -> str | None:
    try:
        return text_of("chat: a line", lambda: input("> " if is_terminal else "")).strip()
    except EOFError:
        return None


def _answer(model: LanguageModel, said: list[dict[str, str]], asked: argparse.Namespace) -> str:
    """Print the answer as it is written; Ctrl-C ends it, not the talk."""
    pieces: list[str] = []
    ids, context = model.chat_ids(said), model.config.context
    if len(ids) >= context:
        raise BoundsError(
            f"chat: what was said has {len(ids)} tokens, the model's context {context}",
            fix="begin anew, or write /new in time, which forgets what was said",
        )
    try:
        for piece in model.stream(ids, **sampling(asked, context - len(ids))):
            pieces.append(piece)
            print(piece, end="", flush=True)
    except KeyboardInterrupt:
        print(" ...", end="")
    print()
    return "".join(pieces)
