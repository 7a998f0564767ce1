"""SentencePiece's merges, as llama.cpp does them.

Two neighbors are merged that together are a token, whether or not they are tokens themselves: those
of the best score first, and of equal scores the first in the text. The library `tokenizers` merges
tokens alone, in an order of pairs; where that comes to the same it is used, since it is faster.
"""

from __future__ import annotations

import functools
import re
from collections.abc import Iterator, Mapping
from heapq import heapify, heappop, heappush
from typing import final

from ..ir.record import record

SPACE = "▁"  # how SentencePiece writes one
BYTE = re.compile("<0x([0-9A-F]{2})>")  # a token that is a byte
MOST_KEPT, MOST_LETTERS_KEPT = 1 << 14, 64  # parts of texts whose tokens are remembered
Pair = tuple[float, int, int, int]  # the score, negative; the places of both; their letters


@record
class Merges:
    """What can be merged: `pairs`, the best first, and `scores` of what is made.

    `are_ordered` tells whether to merge by the order of the pairs comes to the same.
    """

    pairs: list[tuple[str, str]]
    scores: dict[str, float]
    are_ordered: bool


def merges_of(vocabulary: Mapping[str, int], scores: list[float], unknown: str | None) -> Merges:
    """The merges of a `vocabulary` by the `scores` of its tokens.

    One of them may be the `unknown` one.
    """
    known = {*vocabulary, *(letter for token in vocabulary for letter in token)}
    cut = ((x, x[:i], x[i:]) for x in vocabulary for i in range(1, len(x)))
    found = ((x, left, right) for x, left, right in cut if left in known and right in known)
    halves = [(scores[vocabulary[token]], left, right) for token, left, right in found]
    made = {left + right: score for score, left, right in halves}
    # the library merges no letter that is no token, and takes bytes for neighbors of letters
    lost = {x for x in known if x not in vocabulary}
    odd = lost | {x for x in vocabulary if x == unknown or BYTE.fullmatch(x)}
    is_odd = any(left in odd or right in odd for _, left, right in halves)
    halves.sort(key=lambda one: -one[0])
    pairs = [(left, right) for _, left, right in halves if not {left, right} & lost]
    return Merges(pairs, made, not is_odd and len({*made.values()}) == len(made))


@final
class Pieces:
    """The tokens of texts, by the `scores` of those that merges make.

    What is no token of the `vocabulary` becomes its bytes, or where one of these is no token
    `unknown`. A text is begun with `first`.
    """

    def __init__(
        self,
        scores: Mapping[str, float],
        vocabulary: Mapping[str, int],
        unknown: int | None,
        first: str,
    ) -> None:
        self._scores, self._vocabulary = scores, vocabulary
        self._unknown, self._first = [] if unknown is None else [unknown], first
        self._neighbors = {x[i : i + 2] for x in scores for i in range(len(x) - 1)}
        self._kept = functools.lru_cache(MOST_KEPT)(self._merged)

    def ids(self, text: str) -> list[int]:
        """The tokens of a `text`.

        Half of a surrogate pair is a `UnicodeEncodeError`.
        """
        ids: list[int] = []
        for part in self._parts((self._first + text).replace(" ", SPACE)):
            ids += (self._kept if len(part) <= MOST_LETTERS_KEPT else self._merged)(part)
        return ids

    def _parts(self, text: str) -> Iterator[str]:
        """Cut a text between letters that are side by side in no token."""
        start, neighbors = 0, self._neighbors
        for i in range(1, len(text)):
            if text[i - 1 : i + 1] not in neighbors:
                yield text[start:i]
                start = i
        if text:
            yield text[start:]

    def _merged(self, text: str) -> list[int]:
        pieces, count, scores = list(text), len(text), self._scores
        before, after = list(range(-1, count - 1)), list(range(1, count + 1))

        def pair(left: int, right: int) -> Iterator[Pair]:
            if left < 0 or right == count:
                return
            both = pieces[left] + pieces[right]
            if both in scores:
                yield -scores[both], left, right, len(both)

        waiting = [x for i in range(1, count) for x in pair(i - 1, i)]
        heapify(waiting)
        while waiting:
            _, left, right, size = heappop(waiting)
            is_there = pieces[left] and pieces[right]
            if not is_there or len(pieces[left]) + len(pieces[right]) != size:
                continue  # one of both was merged with another since
            pieces[left], pieces[right] = pieces[left] + pieces[right], ""
            after[left] = after[right]
            if after[left] < count:
                before[after[left]] = left
            for more in (*pair(before[left], left), *pair(left, after[left])):
                heappush(waiting, more)
        return [i for piece in pieces if piece for i in self._of(piece)]

    def _of(self, piece: str) -> list[int]:
        """A token, or those of the bytes of a letter that is none."""
        if (token := self._vocabulary.get(piece)) is not None:
            return [token]
        found = [self._vocabulary.get(f"<0x{byte:02X}>") for byte in piece.encode()]
        return self._unknown if None in found else [x for x in found if x is not None]
