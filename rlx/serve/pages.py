"""Pages of a cache of keys and values: who owns which, and which are shared.

Bookkeeping without arrays, so that it can be checked by itself. The cache of a model is `count`
pages of `size` tokens. A sequence has a `Table` of pages; a full page is known by a hash of all
tokens up to its end and of the `root` it began from (the tenant, the adapter, the weights), so a
sequence that begins with the same tokens from the same root takes the page instead of computing it
again. Such a page is never written again, so nothing has to be copied when sequences part. The idea
of pages is that of "Efficient Memory Management for Large Language Model Serving with
PagedAttention", Kwon et al., 2023.

Memory is promised before it is used: `begin` takes a sequence only if all pages it can ever need
are free or can be freed, so a sequence that has begun never lacks one.
"""

from __future__ import annotations

import hashlib
from collections import OrderedDict
from collections.abc import Sequence
from typing import final

import numpy as np

from ..ir.errors import AttributeValueError
from ..trace.arguments import count_of


@final
class Table:
    """The pages of a sequence in the order of its tokens, which began from `root`."""

    def __init__(self, root: bytes) -> None:
        self.root = root
        self.pages: list[int] = []
        self.tokens: list[int] = []  # those that the pages hold, or will after this step
        self.keys: list[bytes] = []  # of its full pages that others can find
        self.promised = 0  # pages it may still take
        self.is_open = True

    def __repr__(self) -> str:
        return f"Table({len(self.tokens)} tokens in pages {self.pages}, {self.promised} promised)"


@final
class PagePool:
    """All pages of a cache: given to sequences, shared by those with a common prefix.

    `count` pages hold `size` tokens each; both are whole numbers from 1 on, anything else is an
    `AttributeValueError` or `DtypeError`. A pool belongs to one thread.

    >>> pool = PagePool(8, size=4)
    >>> first = pool.begin([1, 2, 3, 4, 5], most=8)
    >>> pool.write(first, [1, 2, 3, 4, 5])
    >>> pool.commit(first)  # the numbers are in the cache now
    >>> second = pool.begin([1, 2, 3, 4, 9], most=8)
    >>> second.tokens, second.pages == first.pages[:1]
    ([1, 2, 3, 4], True)
    """

    def __init__(self, count: int, size: int) -> None:
        self.count = count_of("count of PagePool", count, 1)
        self.size = count_of("size of PagePool", size, 1)
        self._users = [0] * self.count
        self._empty = list(range(self.count))[::-1]  # pages that hold nothing
        self._idle: OrderedDict[int, None] = (
            OrderedDict()
        )  # known pages without users, oldest first
        self._known: dict[bytes, int] = {}  # the page that holds a prefix, by its key
        self._content: dict[int, tuple[bytes, bytes]] = {}  # a known page's key and tokens
        self._promised = 0
        self._stale: list[int] = []

    @property
    def available(self) -> int:
        """How many pages could be promised now."""
        return len(self._empty) + len(self._idle) - self._promised

    def needed(self, most: int) -> int:
        """The number of pages that hold `most` tokens."""
        return -(-most // self.size)

    def begin(self, tokens: Sequence[int], most: int, root: bytes = b"") -> Table | None:
        """The table of a sequence that begins with `tokens` and never has over `most`.

        It holds the pages of the longest prefix known from the same `root`, but never the last
        token: whoever asks wants to know what follows it. None if the pages it may need are not
        there now. `most` below the number of tokens is an `AttributeValueError`.
        """
        if most < len(tokens):
            raise AttributeValueError(
                f"a sequence of {len(tokens)} tokens cannot have {most} at most",
                fix=f"give most={len(tokens)} or more",
            )
        shared, keys = self._shared(tokens, root)
        promised = self.needed(most) - len(shared)
        if promised + sum(page in self._idle for page in shared) > self.available:
            return None
        table = Table(root)
        table.pages, table.keys = shared, keys
        table.tokens = list(tokens[: len(shared) * self.size])
        table.promised = promised
        self._promised += promised
        for page in shared:
            self._use(page)
        return table

    def write(self, table: Table, tokens: Sequence[int]) -> None:
        """Append `tokens` to the sequence of `table`; the step then computes them.

        Its pages grow as they must. More tokens than `most` of its `begin`, or a sequence that has
        ended, are an `AttributeValueError`.
        """
        self._check(table)
        missing = self.needed(len(table.tokens) + len(tokens)) - len(table.pages)
        if missing > table.promised:
            raise AttributeValueError(
                f"{len(tokens)} tokens more need {missing} pages, {table.promised} were promised",
                fix="begin the sequence with a greater most",
            )
        for _ in range(missing):
            page = self._empty.pop() if self._empty else self._evicted()
            self._users[page] = 1
            table.pages.append(page)
        table.promised -= missing
        self._promised -= missing
        table.tokens += tokens

    def commit(self, table: Table) -> None:
        """Say that all tokens of `table` are in the cache: others find its full pages.

        A sequence that has ended is an `AttributeValueError`.
        """
        self._check(table)
        if len(table.keys) == len(table.tokens) // self.size:
            return
        key = table.keys[-1] if table.keys else _root_key(table.root)
        for place in range(len(table.keys), len(table.tokens) // self.size):
            text = _text(table.tokens[place * self.size : (place + 1) * self.size])
            key = _key(key, text)
            table.keys.append(key)
            if key not in self._known:
                self._known[key] = table.pages[place]
                self._content[table.pages[place]] = key, text

    def cut(self, table: Table, length: int) -> None:
        """Take back the tokens of `table` after the first `length`: a guess was wrong.

        Pages that others can find stay: a `length` before their end, or a sequence that has ended,
        is an `AttributeValueError`.
        """
        self._check(table)
        least = len(table.keys) * self.size
        if not least <= length <= len(table.tokens):
            raise AttributeValueError(
                f"a sequence of {len(table.tokens)} tokens cannot be cut to {length}",
                fix=f"cut it to {least} to {len(table.tokens)}: pages before are shared",
            )
        del table.tokens[length:]
        while len(table.pages) > self.needed(length):
            self._leave(table.pages.pop())
            table.promised += 1
            self._promised += 1

    def close(self, table: Table) -> None:
        """End the sequence of `table`.

        What others can find stays until its pages are needed. A second time is an
        `AttributeValueError`.
        """
        self._check(table)
        table.is_open = False
        self._promised -= table.promised
        for page in reversed(table.pages):  # the end of a prefix is forgotten before its beginning
            self._leave(page)
        table.pages, table.promised = [], 0

    def take_stale(self) -> list[int]:
        """The pages whose numbers belong to nobody any more, each told once.

        Whoever writes NaN there before the next step makes it impossible to read them unseen.
        """
        stale, self._stale = self._stale, []
        return stale

    def _shared(self, tokens: Sequence[int], root: bytes) -> tuple[list[int], list[bytes]]:
        """The known pages of a prefix, and their keys."""
        pages: list[int] = []
        keys: list[bytes] = []
        key = _root_key(root)
        for start in range(0, len(tokens) - self.size, self.size):
            text = _text(tokens[start : start + self.size])
            key = _key(key, text)
            page = self._known.get(key)
            if page is None or self._content[page] != (key, text):
                break
            pages.append(page)
            keys.append(key)
        return pages, keys

    def _use(self, page: int) -> None:
        self._idle.pop(page, None)
        self._users[page] += 1

    def _leave(self, page: int) -> None:
        self._users[page] -= 1
        if self._users[page]:
            return
        if page in self._content:
            self._idle[page] = None
        else:
            self._empty.append(page)
            self._stale.append(page)

    def _evicted(self) -> int:
        page, _ = self._idle.popitem(last=False)
        self._drop(page)
        return page

    def _drop(self, page: int) -> None:
        """Forget what a page holds."""
        key, _ = self._content.pop(page)
        del self._known[key]
        self._stale.append(page)

    def _check(self, table: Table) -> None:
        if not table.is_open:
            raise AttributeValueError("the sequence has ended", fix="begin another one")


def _text(tokens: Sequence[int]) -> bytes:
    return np.asarray(tokens, "<i8").tobytes()


def _root_key(root: bytes) -> bytes:
    return hashlib.sha256(b"root" + root).digest()


def _key(before: bytes, text: bytes) -> bytes:
    return hashlib.sha256(before + text).digest()
