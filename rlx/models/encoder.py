"""Encoders: texts become vectors, near ones for near meanings."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

from .. import numpy as rnp
from ..io.tokenizer import Tokenizer
from ..ir.errors import ArgumentError, BoundsError
from ..ir.lazy import lazy
from ..trace.arguments import flag
from ..trace.array import Array
from ..transforms.jit.compiled import Compiled
from .bert import Bert, encode
from .prompts import Prompts, check_tokens, tokens_of
from .steps import bound

MOST_TOKENS = 4096  # of a batch, with those that fill up its texts


class Encoder:
    """A model that turns texts into vectors; `rlx.models.load` opens one.

    `config` has the sizes, `weights` is the tree of arrays that `rlx.models.bert` computes with,
    `tokenizer` may be None; `check` is called before weights are read, and raises if a mapped file
    was cut off.
    """

    def __init__(
        self,
        config: Bert,
        weights: Mapping[str, Any],
        tokenizer: Tokenizer | None = None,
        *,
        check: Callable[[], None] = lambda: None,
    ) -> None:
        self.config, self.weights, self.tokenizer = config, weights, tokenizer
        self._check_file = check

    def __repr__(self) -> str:
        c = self.config
        return f"Encoder({c.layers} layers, {c.size} features, {c.heads} heads, {c.pooling})"

    @property
    def size(self) -> int:
        """How many numbers a vector has."""
        return self.config.size

    def encode(self, texts: Prompts, *, truncate: bool = False) -> Array:
        """The vectors of `texts` or lists of tokens: f32[count, size], of one f32[size].

        A text has the same bits alone and among others. With `truncate` the end of a text that has
        more tokens than the model's context is left out; without it is a `BoundsError`. What is
        neither a text nor tokens of the model is an `ArgumentError` or `BoundsError`.
        """
        listed, is_one = tokens_of("encode", texts, self.tokenizer)
        ids = [self._fitting(x, flag("encode: truncate", truncate)) for x in listed]
        found = np.empty((len(ids), self.config.size), np.float32)
        order, first = sorted(range(len(ids)), key=lambda i: -len(ids[i])), 0
        self._check_file()
        while first < len(order):
            longest = len(ids[order[first]])
            rows = order[first : first + max(1, MOST_TOKENS // longest)]
            batch = np.zeros((len(rows), longest), "int32")
            for row, i in zip(batch, rows, strict=True):
                row[: len(ids[i])] = ids[i]
            counts = np.array([len(ids[i]) for i in rows], "int32")
            found[rows] = self._compiled(batch, counts).host()
            first += len(rows)
        return rnp.asarray(found[0] if is_one else found)

    def _fitting(self, ids: list[int], truncate: bool) -> list[int]:
        if not ids:
            raise ArgumentError("encode: a text has no tokens", fix="give one token at least")
        check_tokens("encode", ids, self.config.vocabulary)
        most = self.config.context
        if len(ids) > most and not truncate:
            raise BoundsError(
                f"encode: a text has {len(ids)} tokens, the model's context {most}",
                fix="split the text, or leave its end out with truncate=True",
            )
        return ids if len(ids) <= most else [*ids[: most - 1], ids[-1]]

    @lazy
    def _compiled(self) -> Compiled:
        sizes = {"ids": {0: "rows", 1: "tokens"}, "counts": {0: "rows"}}
        given = rnp.zeros((2, 3), "int32"), rnp.ones((2,), "int32")
        return bound(self._traced, sizes, self.weights, *given)

    def _traced(self, weights: Any, ids: Any, counts: Any) -> Any:
        return encode(self.config, weights, ids, counts)
