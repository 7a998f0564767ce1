"""Names of tokens in texts, found as llama.cpp does: the longest first.

The library `tokenizers` finds the first in the text; that is the same unless names overlap.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import final


def overlap(users: Iterable[str], special: Iterable[str]) -> bool:
    """Whether names may share letters of a text; runs of one letter may.

    `users` are the names that are found in every text, `special` those that are asked for.

    >>> overlap(["<a>", "<b>"], []), overlap(["ab", "bc"], []), overlap(["a" * 3], ["a" * 5])
    (False, True, False)
    """
    users, special = [x for x in users if x], [x for x in special if x]
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
        found: list[str | int] = [text] if text else []
        for name, token in self._names[with_special].items():
            if name in text:
                found = [x for part in found for x in _cut(part, name, token)]
        return found


def _longest_first(names: Mapping[str, int]) -> dict[str, int]:
    order = sorted(names, key=lambda name: (-len(name.encode()), names[name]))
    return {name: names[name] for name in order if name}


def _cut(part: str | int, name: str, token: int) -> Iterator[str | int]:
    if isinstance(part, int):
        yield part
        return
    for i, text in enumerate(part.split(name)):
        if i:
            yield token
        if text:
            yield text
