"""A cache and a language model of hashes: what a step writes and reads can be checked exactly.

The numbers of a token are a hash of its root and of all tokens up to it; the next token follows
from what the pages hold, so a page that is read by the wrong sequence, too early, or after it was
given away makes another text.
"""

from __future__ import annotations

import hashlib
import random
from collections.abc import Sequence

from rlx.serve.pages import PagePool
from rlx.serve.scheduler import Request, Scheduler

POISON = b"poison"
VOCABULARY = 50


def numbers(root: bytes, tokens: Sequence[int]) -> bytes:
    """What the cache holds for the last of some tokens."""
    return hashlib.sha256(repr((root, list(tokens))).encode()).digest()


def next_token(held: bytes) -> int:
    return held[0] % VOCABULARY


def alone(request: Request) -> list[int]:
    """What a request writes when nobody else is there."""
    tokens, output = list(request.prompt), []
    while len(output) < request.max_tokens:
        output.append(next_token(numbers(request.root, [*tokens, *output])))
        if output[-1] in request.stop_tokens:
            break
    return output


class Memory:
    """The pages themselves."""

    def __init__(self, pool: PagePool) -> None:
        self.pool = pool
        self.pages = [[POISON] * pool.size for _ in range(pool.count)]

    def poison(self) -> None:
        for page in self.pool.take_stale():
            self.pages[page] = [POISON] * self.pool.size

    def write(self, table, start: int) -> None:
        for place in range(start, len(table.tokens)):
            page, offset = table.pages[place // self.pool.size], place % self.pool.size
            self.pages[page][offset] = numbers(table.root, table.tokens[: place + 1])

    def read(self, table) -> list[bytes]:
        """What a sequence finds in its pages."""
        size = self.pool.size
        return [self.pages[table.pages[i // size]][i % size] for i in range(len(table.tokens))]

    def check(self, table) -> None:
        expected = [numbers(table.root, table.tokens[: i + 1]) for i in range(len(table.tokens))]
        assert self.read(table) == expected


def run_step(
    scheduler: Scheduler, memory: Memory, now: float = 0.0, draw: random.Random | None = None
) -> bool:
    """One step of the model of hashes; false if there is nothing to do.

    With `draw` it makes guesses, of which some are right.
    """
    scheduler.plan(now)
    for chunk in list(scheduler.chunks):
        while draw is not None and chunk.request.table is not None and draw.random() < 0.5:
            tokens = chunk.request.table.tokens
            right = next_token(numbers(chunk.request.root, tokens))
            token = draw.choice([right, right, 0, 1])
            if not scheduler.guess(chunk.request, token):
                break
    chunks = scheduler.chunks
    assert sum(len(c.tokens) for c in chunks) <= scheduler.step_tokens
    assert len({c.request for c in chunks}) == len(chunks)
    memory.poison()
    for chunk in chunks:
        memory.write(chunk.request.table, chunk.start)
    sampled = {}
    for chunk in chunks:
        memory.check(chunk.request.table)
        if chunk.is_last:
            held = memory.read(chunk.request.table)
            first = len(held) - chunk.guesses
            drawn = [next_token(x) for x in held[first - 1 :]]
            guesses = held and chunk.request.table.tokens[first:]
            right = next((i for i, x in enumerate(guesses) if x != drawn[i]), len(guesses))
            sampled[chunk.request] = drawn[: right + 1]
    scheduler.complete(sampled)
    return bool(chunks)
