"""The steps of a language model for an engine, and the pages they write to."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from typing import Any

import numpy as np

from .. import numpy as rnp
from ..models.lora import Stack
from ..models.steps import Batch, Steps
from ..trace import pytree
from ..transforms.jit.jit import jit
from .scheduler import Chunk


class PagedSteps:
    """The pages of each layer of a model, `count` of them, to which its `steps` write."""

    def __init__(self, steps: Steps, count: int) -> None:
        self._count, self._pages = count, steps.pages(count)
        self._poison = jit(_poisoned, donate_argnames="pages")

    def __call__(self, steps: Steps, batch: Batch, stacks: Sequence[Stack] = ()) -> Any:
        """Compute the tokens of a `batch` by the `steps`, with the `stacks` of their adapters.

        Returns logits of the next tokens, f32[rows, vocabulary].
        """
        logits, self._pages = steps(batch, self._pages, stacks)
        return logits

    def poison(self, pages: Sequence[int]) -> None:
        """Write NaN into some pages, so that whoever reads them is found out."""
        where = np.zeros(self._count, bool)
        where[list(pages)] = True
        self._pages = [self._poison(x, where) for x in self._pages]


def few_sizes(count: int) -> int:
    """A power of two, at least `count`: a call of new sizes takes milliseconds."""
    return 1 << (count - 1).bit_length()


def batch_of(chunks: Sequence[Chunk], rows: Sequence[int]) -> Batch:
    """The tokens of `chunks` in one line.

    So many `rows` at the end of each ask for a next token.
    """
    counts = [len(chunk.tokens) for chunk in chunks]
    tables = [chunk.request.table.pages for chunk in chunks if chunk.request.table]
    table = np.zeros((len(chunks), few_sizes(max(map(len, tables)))), "int32")
    for row, pages in zip(table, tables, strict=True):
        row[: len(pages)] = pages
    ends = itertools.accumulate(counts)
    places = (range(c.start, c.start + len(c.tokens)) for c in chunks)
    last = (range(end - n, end) for end, n in zip(ends, rows, strict=True))
    return Batch(
        np.array([token for chunk in chunks for token in chunk.tokens], "int32"),
        np.array([place for each in places for place in each], "int32"),
        np.repeat(np.arange(len(chunks), dtype="int32"), counts),
        table,
        np.array([place for each in last for place in each], "int32"),
    )


def _poisoned(pages: Any, where: Any) -> Any:
    def written(x: Any) -> Any:
        here = rnp.reshape(where, (-1,) + (1,) * (x.ndim - 1))
        return rnp.where(here, rnp.asarray(0 if x.dtype.kind == "i" else rnp.nan, x.dtype), x)

    return pytree.map(written, pages)
