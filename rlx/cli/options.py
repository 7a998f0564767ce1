"""Arguments that several verbs take."""

from __future__ import annotations

import argparse
from collections.abc import Callable
from typing import Any

from ..ir.errors import ArgumentError
from ..models import Encoder, LanguageModel, load
from ..models.loading import COMPUTE

NUMBERS = {  # of sampling: kind, what it does
    "temperature": (float, "how random: 0 takes the likeliest token each time (default)"),
    "top_k": (int, "draw from the K likeliest tokens alone"),
    "top_p": (float, "draw from the likeliest tokens that have this much probability together"),
    "min_p": (float, "draw from tokens at least this times as likely as the likeliest"),
    "repetition_penalty": (float, "above 1: tokens that came before get less likely"),
    "presence_penalty": (float, "taken from logits of tokens that were written before"),
    "frequency_penalty": (float, "taken for each time they were"),
    "seed": (int, "of random numbers; the same seed gives the same text"),
}


def add_model(parser: argparse.ArgumentParser) -> None:
    """The model, and how it computes."""
    parser.add_argument("model", help="a GGUF file, or a folder of Hugging Face")
    parser.add_argument(
        "--compute",
        choices=COMPUTE,
        default="exact",
        help="exact: the numbers of the weights; int8: activations in 8 bits, faster",
    )


def add_sampling(parser: argparse.ArgumentParser, most: int) -> None:
    """How tokens are drawn; without another number up to `most`."""
    about = f"at most so many ({most}, or what the model's context has room for)"
    parser.add_argument("--max-tokens", type=int, metavar="N", help=about)
    parser.set_defaults(most_tokens=most)
    parser.add_argument(
        "--stop", action="append", default=[], metavar="TEXT", help="end there; may be repeated"
    )
    for name, (kind, about) in NUMBERS.items():
        flag = f"--{name.replace('_', '-')}"
        letter = {int: "N", float: "X"}[kind]
        parser.add_argument(flag, type=kind, default=None, metavar=letter, help=about)


def sampling(asked: argparse.Namespace, room: int) -> dict[str, Any]:
    """The options of `generate` that were given, with `room` for so many tokens."""
    given = {name: getattr(asked, name) for name in NUMBERS}
    found = {name: value for name, value in given.items() if value is not None}
    most = max(1, min(asked.most_tokens, room)) if asked.max_tokens is None else asked.max_tokens
    return {**found, "max_tokens": most, "stop": asked.stop}


def text_of(what: str, read: Callable[[], str]) -> str:
    """A text from outside, by what reads it; bytes that are none are an error."""
    try:
        text = read()
        text.encode()  # such bytes may have become halves of letters
        return text
    except UnicodeError:
        raise ArgumentError(
            f"{what} is no text in UTF-8",
            fix="convert it: iconv --from-code latin1 --to-code utf-8",
        ) from None


def language_model(asked: argparse.Namespace, *, shared: bool = False) -> LanguageModel:
    """The model that was named, which must write text; `shared` with other processes."""
    model = load(asked.model, compute=asked.compute, shared=shared)
    if isinstance(model, Encoder):
        raise ArgumentError(
            f"{asked.model} is an encoder, which writes no text",
            fix="rlx.models.load(path).encode(texts) gives its vectors",
        )
    return model
