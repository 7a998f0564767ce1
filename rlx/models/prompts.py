"""Texts and lists of tokens as models take them."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np

from ..io.tokenizer import Tokenizer
from ..ir.errors import ArgumentError, BoundsError
from ..trace.arguments import members
from ..trace.axes import integer

Prompts = str | Sequence[str] | Sequence[int] | Sequence[Sequence[int]]


def tokens_of(verb: str, given: Any, tokenizer: Tokenizer | None) -> tuple[list[list[int]], bool]:
    """The tokens of each prompt, and whether the one `given` stood by itself.

    Prompts are texts or lists of tokens. `verb` names the function in errors. Raises an
    `ArgumentError` for what is neither, and for texts without a `tokenizer`.
    """
    if isinstance(given, str):
        return [_tokens(verb, given, tokenizer)], True
    items = members(f"{verb}: prompts", given)
    if all(issubclass(kind, int | np.integer) for kind in set(map(type, items))):
        return [_tokens(verb, items, tokenizer)], True
    return [_tokens(verb, x, tokenizer) for x in items], False


def _tokens(verb: str, given: Any, tokenizer: Tokenizer | None) -> list[int]:
    if not isinstance(given, str):
        items = members(f"{verb}: a prompt", given)
        if set(map(type, items)) == {int}:  # as of nearly all, and there may be thousands
            return list(items)
        return [integer(f"{verb}: a token", x) for x in items]
    if tokenizer is None:
        raise ArgumentError(
            f"{verb}: the model has no tokenizer",
            fix="give numbers of tokens, or put tokenizer.json into the model's folder",
        )
    return tokenizer.encode(given, add_special=True)


def check_tokens(verb: str, tokens: Iterable[int], vocabulary: int) -> None:
    """Refuse tokens that a model of a `vocabulary` has not, in the name of `verb`."""
    for token in tokens:
        if not 0 <= token < vocabulary:
            raise BoundsError(
                f"{verb}: there is no token {token}", fix=f"give numbers from 0 to {vocabulary - 1}"
            )
