"""Vectors of texts from the states of a language model."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from .. import nn, numpy as rnp
from ..ir.errors import ArgumentError, BoundsError
from ..trace.arguments import choice, flag
from ..trace.array import Array
from ..transforms.jit.jit import jit
from .language import LanguageModel
from .prompts import Prompts, check_tokens, tokens_of
from .steps import PAGE, Batch, device_options

MOST_TOKENS = 1024  # of texts that are computed together
POOLINGS = ("mean", "last")


class Pooled:
    """A language `model` that turns texts into vectors, as an `Encoder` does.

    A vector is the mean of the states of a text's tokens after the last norm, or with
    `pooling="last"` that of the last token; models that were trained for vectors say which. With
    `normalize` its length is 1.
    """

    def __init__(
        self, model: LanguageModel, pooling: str = "mean", *, normalize: bool = True
    ) -> None:
        self.model, self.tokenizer = model, model.tokenizer
        self._pooling = choice("Pooled: pooling", pooling, POOLINGS)
        self._normalizes = flag("Pooled: normalize", normalize)
        self._norm = jit(
            lambda x, weight: nn.rms_norm(x, weight, eps=model.config.epsilon),
            dynamic={"x": {0: "tokens"}},
            **device_options(),
        )

    def __repr__(self) -> str:
        return f"Pooled({self.model!r}, {self._pooling})"

    @property
    def size(self) -> int:
        """How many numbers a vector has."""
        return self.model.config.size

    def encode(self, texts: Prompts, *, truncate: bool = False) -> Array:
        """The vectors of `texts` or lists of tokens: f32[count, size], of one f32[size].

        A text has the same bits alone and among others. With `truncate` the end of a text that has
        more tokens than the model's context is left out; without it is a `BoundsError`. What is
        neither a text nor tokens of the model is an `ArgumentError` or `BoundsError`.
        """
        listed, is_one = tokens_of("encode", texts, self.tokenizer)
        most = self.model.config.context
        if flag("encode: truncate", truncate):
            listed = [ids[:most] for ids in listed]
        for ids in listed:
            self._check(ids)
        found = np.empty((len(listed), self.size), np.float32)
        order, first = sorted(range(len(listed)), key=lambda i: len(listed[i])), 0
        while first < len(order):
            last, total = first + 1, len(listed[order[first]])
            while last < len(order) and total + len(listed[order[last]]) <= MOST_TOKENS:
                total += len(listed[order[last]])
                last += 1
            rows = order[first:last]
            found[rows] = self._vectors([listed[i] for i in rows])
            first = last
        return rnp.asarray(found[0] if is_one else found)

    def _vectors(self, texts: Sequence[Sequence[int]]) -> np.ndarray:
        """The vectors of texts that are computed together."""
        steps, counts = self.model.steps(), [len(ids) for ids in texts]
        needed = [-(-count // PAGE) for count in counts]
        tables, firsts = np.zeros((len(texts), max(needed)), "int32"), np.cumsum([0, *needed])
        for row, first, count in zip(tables, firsts, needed, strict=False):
            row[:count] = np.arange(first, first + count)
        ids = np.concatenate(texts).astype("int32")
        positions = np.concatenate([np.arange(count, dtype="int32") for count in counts])
        sequence = np.repeat(np.arange(len(texts), dtype="int32"), counts)
        batch = Batch(ids, positions, sequence, tables, np.zeros(0, "int32"))
        states, _ = steps.states(batch, steps.pages(int(firsts[-1])))
        states = self._norm(states, self.model.weights["norm"]).host()
        made = []
        for part in np.split(states, np.cumsum(counts)[:-1]):
            vector = part[-1] if self._pooling == "last" else part.mean(0, dtype=np.float64)
            made.append(vector / np.linalg.norm(vector) if self._normalizes else vector)
        return np.array(made, np.float32)

    def _check(self, ids: Sequence[int]) -> None:
        most = self.model.config.context
        if len(ids) > most:
            raise BoundsError(
                f"encode: a text has {len(ids)} tokens, the model's context {most}",
                fix="split the text, or leave its end out with truncate=True",
            )
        if not ids:
            raise ArgumentError("encode: a text has no tokens", fix="give one token at least")
        check_tokens("encode", ids, self.model.config.vocabulary)
