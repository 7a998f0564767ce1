"""A module in units that are compiled at the same time.

The first are while the last are written. A function goes to one unit whole; what it names of others
is declared there. Constants are repeated where they are named.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace

from .code import Function, Module
from .machine import PLAIN

LEAST = 16_000  # characters of text, some 8 ms of compiling, that pay for a unit of its own
UNITS_PER_THREAD = 4  # so that all threads end at about the same time
NAME = re.compile(r"[@!][\w.]+")


@dataclass
class Units:
    """Gives the texts of a module's units away.

    Functions that are complete go as soon as they fill a unit, the others at the end.
    """

    module: Module
    threads: int
    give: Callable[[str], None]
    gone: set[str] = field(default_factory=set)
    waiting: tuple[list[Function], list[Function]] = field(default_factory=lambda: ([], []))

    def add(self, functions: Sequence[Function]) -> None:
        """Take functions that will not change, nor what they name of the module."""
        for f in functions if self.threads > 1 else ():
            group = self.waiting[f.is_plain]
            group.append(f)
            if _work(group) >= LEAST:
                self.give(self._unit(group))
                self.gone |= {f.name for f in group}
                group.clear()

    def rest(self) -> list[str]:
        """The units of what is left; all in one where one thread compiles it, or soon.

        The longest comes first, so that no thread has a long one when the others are done.
        """
        left = [f for f in self.module.functions.values() if f.name not in self.gone]
        plain, others = [f for f in left if f.is_plain], [f for f in left if not f.is_plain]
        is_whole = self.threads == 1 or _work(others) < 2 * LEAST
        if is_whole and not (plain or self.gone):
            return [self.module.text]
        groups = [others] if is_whole else self._groups(others)
        groups = sorted([*groups, plain], key=_work, reverse=True)
        return [self._unit(group) for group in groups if group]

    def _groups(self, functions: Sequence[Function]) -> list[list[Function]]:
        """Functions in groups of about the same size."""
        size = max(LEAST, _work(functions) // (self.threads * UNITS_PER_THREAD))
        groups: list[list[Function]] = [[]]
        for f in functions:
            if _work(groups[-1]) >= size:
                groups.append([])
            groups[-1].append(f)
        return groups

    def _unit(self, group: Sequence[Function]) -> str:
        """The text of some functions, with what they name of the module."""
        bodies = "\n\n".join(replace(f, linkage="").text for f in group)
        functions, own = self.module.functions.values(), {f.name for f in group}
        named = set(NAME.findall(bodies))
        others = [f for f in functions if f"@{f.name}" in named and f.name not in own]
        declarations = self.module.declarations.union(*(f.declarations for f in group))
        declarations |= {f.declaration for f in others}
        lines = [line for line in self.module.globals if _is_named(line, named)]
        text = "\n".join([*sorted(declarations), *lines]) + f"\n\n{bodies}\n"
        return PLAIN + text if all(f.is_plain for f in group) else text


def _work(functions: Sequence[Function]) -> int:
    """Characters of text; without optimization they take half the time or less."""
    return sum(sum(map(len, f.lines)) // (2 if f.is_plain else 1) for f in functions)


def _is_named(line: str, named: set[str]) -> bool:
    """Whether a global line is used: by its name, or by all (attributes)."""
    name = line.split(" ", 1)[0]
    return name in named or name[0] not in "@!"
