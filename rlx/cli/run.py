"""`rlx run`: what a language model writes after a prompt."""

from __future__ import annotations

import argparse
import sys

from .options import add_model, add_sampling, language_model, sampling


def add(parser: argparse.ArgumentParser) -> None:
    """Describe its arguments."""
    add_model(parser)
    parser.add_argument("prompt", nargs="?", help="the prompt; without it, standard input")
    parser.add_argument("--system", metavar="TEXT", help="what the model shall be")
    parser.add_argument(
        "--raw", action="store_true", help="go on with the text itself, not with an answer to it"
    )
    add_sampling(parser, 256)


def run(asked: argparse.Namespace) -> None:
    """Print what is written, as it is written."""
    prompt = sys.stdin.read() if asked.prompt is None else asked.prompt
    model = language_model(asked)
    options = sampling(asked)
    ids: str | list[int] = prompt
    if model.template is not None and not asked.raw:
        system = [{"role": "system", "content": asked.system}] if asked.system else []
        ids = model.chat_ids([*system, {"role": "user", "content": prompt}])
    for piece in model.stream(ids, **options):
        print(piece, end="", flush=True)
    print()
