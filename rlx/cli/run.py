"""`rlx run`: what a language model writes after a prompt."""

from __future__ import annotations

import argparse
import sys

from ..ir.errors import ArgumentError
from .options import add_model, add_sampling, language_model, sampling, text_of


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
    if asked.prompt is None:
        prompt = text_of("run: standard input", sys.stdin.read)
    else:
        prompt = text_of("run: the prompt", lambda: asked.prompt)
    model = language_model(asked)
    is_chat = model.template is not None and not asked.raw
    if asked.system and not is_chat:
        raise ArgumentError(
            "run: --system is for answers to a prompt, not for a text that goes on",
            fix="leave out --raw"
            if asked.raw
            else "write it into the prompt: there is no template",
        )
    if is_chat:
        system = [{"role": "system", "content": asked.system}] if asked.system else []
        ids = model.chat_ids([*system, {"role": "user", "content": prompt}])
    else:
        (ids,), _ = model.prompts(prompt)
    for piece in model.stream(ids, **sampling(asked, model.config.context - len(ids))):
        print(piece, end="", flush=True)
    print()
