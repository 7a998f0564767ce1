"""The steps of a language model for an engine, and the pages they write to."""

from __future__ import annotations

import itertools
import time
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from .. import numpy as rnp
from ..models.llama import Llama
from ..models.lora import Stack, product_sizes
from ..models.steps import Batch, Steps
from ..trace import pytree
from ..transforms.jit.jit import jit
from .costs import ALL, Costs, few_sizes, few_tokens
from .pages import PagePool
from .scheduler import Chunk, Request

# of steps by which costs are measured: texts, tokens of a prompt beside them (among many they cost
# less each than among as few as there are later), those before them, repetitions
TEXTS, TOKENS, BEFORE, TIMES = 8, 16, 512, 5
TINY = 0.01  # the least time that attention is taken for, in that of a token
LEAST_TABLE = 16  # pages: tables of short texts have one size
# of the cpu, measured with SmolLM2 in int8
ONCE = 7.0  # the time of a step without tokens, in that of a token
WRITTEN, READ = 6.6, 3.3  # the time of a product of attention, in that of a product with weights


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


def costs_of(model: Llama, stretch: float) -> Costs:
    """What steps of a `model` cost, and by how much prompts `stretch` them."""
    products = sum(n * m for n, m in product_sizes(model).values())
    attention = 2 * model.heads * model.head_size
    return Costs(ONCE, products / (attention * WRITTEN), products / (attention * READ), stretch)


def measured(
    guess: Costs,
    pool: PagePool,
    texts: int,
    tokens: int,
    run: Callable[[Batch], None],
    clock: Callable[[], float] = time.perf_counter,
) -> Costs:
    """What steps cost by the `clock`, as `run` computes them.

    They have at most so many `texts`, and `tokens` in all; a `guess` stands if there is no room to
    find out. Pages of the `pool` are taken meanwhile.
    """

    def seconds(batch: Batch) -> float:
        start = clock()
        run(batch)
        return clock() - start

    texts = min(texts, TEXTS)
    tokens = min(tokens - texts, TOKENS)
    before = min(BEFORE, pool.available // (texts + 1) * pool.size - tokens)
    if tokens < 1 or before < tokens:
        return guess
    requests = [Request([0], before + tokens) for _ in range(texts + 1)]
    for request in requests:
        request.table = pool.begin([0], before + tokens)
        assert request.table is not None, "there is room for all"
        pool.write(request.table, [0] * (before + tokens))
    prompt, writing = requests[-1], requests[:-1]

    def beside(read: int, written_after: int, read_after: int) -> Batch:
        """A step of all texts, and so many tokens of a prompt."""
        chunks = [Chunk(x, written_after, (0,), True) for x in writing]
        chunks += [Chunk(prompt, read_after, (0,) * read, False)] if read else []
        return batch_of(chunks, [int(chunk.is_last) for chunk in chunks])

    kinds = (0, 0, 0), (0, before, 0), (tokens, 0, 0), (tokens, 0, before)
    batches = [beside(*kind) for kind in kinds]
    rounds = [[seconds(batch) for batch in batches] for _ in range(TIMES)]
    for request in requests:
        if request.table is not None:
            pool.close(request.table)
    writes, far, reads, behind = map(min, zip(*rounds, strict=True))
    token = (reads - writes) / tokens
    if token <= 0:  # another program had the processors
        return guess
    written = before * texts * token / max(far - writes, TINY * token)
    read = before * (tokens + ALL) * token / max(behind - reads, TINY * token)
    return Costs(max(writes / token - texts, 0.0), written, read, guess.stretch)


def batch_of(chunks: Sequence[Chunk], rows: Sequence[int]) -> Batch:
    """The tokens of `chunks` in one line.

    So many `rows` at the end of each ask for a next token. Where that is not one of each, tokens
    that are nowhere fill it up.
    """
    counts = [len(chunk.tokens) for chunk in chunks]
    tables = [chunk.request.table.pages for chunk in chunks if chunk.request.table]
    most = max(LEAST_TABLE, *map(len, tables))
    table = np.zeros((few_sizes(len(chunks)), few_sizes(most)), "int32")
    for row, pages in zip(table, tables, strict=False):
        row[: len(pages)] = pages
    ends = list(itertools.accumulate(counts))
    total = ends[-1] if ends[-1] == len(chunks) else few_tokens(ends[-1])
    line = np.zeros((3, total), "int32")
    line[1] = -1
    line[0, : ends[-1]] = [token for chunk in chunks for token in chunk.tokens]
    line[1, : ends[-1]] = [
        place for chunk in chunks for place in range(chunk.start, chunk.start + len(chunk.tokens))
    ]
    line[2, : ends[-1]] = np.repeat(np.arange(len(chunks)), counts)
    last = [place for end, n in zip(ends, rows, strict=True) for place in range(end - n, end)]
    return Batch(line[0], line[1], line[2], table, np.array(last, "int32"))


def batch_of_nobody(tokens: int, rows: int) -> Batch:
    """A batch of tokens that are nowhere; so many `rows` ask for a next token."""
    line = np.zeros(tokens, "int32")
    tables = np.zeros((few_sizes(rows), LEAST_TABLE), "int32")
    return Batch(line, line - 1, line, tables, line[:rows])


def _poisoned(pages: Any, where: Any) -> Any:
    def written(x: Any) -> Any:
        here = rnp.reshape(where, (-1,) + (1,) * (x.ndim - 1))
        return rnp.where(here, rnp.asarray(0 if x.dtype.kind == "i" else rnp.nan, x.dtype), x)

    return pytree.map(written, pages)
