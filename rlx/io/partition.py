"""Names of tokens in texts, found as llama.cpp does: the longest first.

The library `tokenizers` finds the first in the text; that is the same unless names overlap.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import final

MOST_LETTERS = 1 << 24  # of all beginnings of names that are compared


def overlap(users: Iterable[str], special: Iterable[str]) -> bool:
    """Whether names may share letters of a text; runs of one letter may.

    `users` are the names that are found in every text, `special` those that are asked for. Of very
    long ones, whose beginnings would take much memory, it is assumed.

    >>> overlap(["<a>", "<b>"], []), overlap(["ab", "bc"], []), overlap(["aa", "aaa"], [])
    (False, True, False)
    """
    users, special = [x for x in users if x], [x for x in special if x]
    if sum(len(x) ** 2 for x in (*users, *special)) > MOST_LETTERS:
        return True
    every, others = [*users, *special], "\0".join(special)
    if any(x in others for x in users):
        return True
    begins: dict[str, set[bool]] = {}
    for x in every:
        for i in range(1, len(x)):
            begins.setdefault(x[:i], set()).add(len({*x}) == 1)
    for x in every:
        is_run = len({*x}) == 1
        for i in range(1, len(x)):
            if begins.get(x[i:], set()) - ({True} if is_run else set()):
                return True
    return False


@final
class Partition:
    """Finds tokens by their names: of `users` in every text, `special` if asked."""

    def __init__(self, users: Mapping[str, int], special: Mapping[str, int]) -> None:
        self._names = {False: _longest_first(users), True: _longest_first({**users, **special})}

    def parts(self, text: str, with_special: bool) -> list[str | int]:
        """The tokens whose names a `text` has, and the texts between them."""
        names = self._names[with_special]
        found: list[str | int] = []
        end = 0
        for start, name in sorted(_places(text, names).items()):
            found += [text[end:start], names[name]] if start > end else [names[name]]
            end = start + len(name)
        return [*found, text[end:]] if end < len(text) else found


def _longest_first(names: Mapping[str, int]) -> dict[str, int]:
    order = sorted(names, key=lambda name: (-len(name.encode()), names[name]))
    return {name: names[name] for name in order if name}


def _places(text: str, names: Iterable[str]) -> dict[int, str]:
    """Where names are in a text, of those that share letters the first of `names`."""
    places: dict[int, str] = {}
    taken = bytearray(len(text))  # 1 for letters of the names so far
    letters = {*text}  # most names begin as no part of most texts does
    for name in names:
        start = text.find(name) if name[0] in letters else -1
        while start >= 0:
            end = start + len(name)
            last = taken.rfind(1, start, end)
            if last < 0:
                places[start], taken[start:end] = name, b"\1" * len(name)
            start = text.find(name, end if last < 0 else last + 1)
    return places
