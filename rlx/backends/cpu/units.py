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
    waiting: list[Function] = field(default_factory=list)

    def add(self, functions: Sequence[Function]) -> None:
        """Take functions that will not change, nor what they name of the module."""
        for f in functions if self.threads > 1 else ():
            if f.is_plain:
                continue
            self.waiting.append(f)
            if sum(map(_size, self.waiting)) >= LEAST:
                self.give(_unit(self.module, self.waiting))
                self.gone |= {f.name for f in self.waiting}
                self.waiting = []

    def rest(self) -> list[str]:
        """The units of what is left; all in one where one thread compiles it, or soon.

        The longest comes first, so that no thread has a long one when the others are done; then
        that of the functions which need no optimization.
        """
        left = [f for f in self.module.functions.values() if f.name not in self.gone]
        plain, others = [f for f in left if f.is_plain], [f for f in left if not f.is_plain]
        if self.threads == 1 or sum(map(_size, others)) < 2 * LEAST:
            groups = [others] if others else []
        else:
            groups = self._groups(others)
        if not (plain or self.gone) and len(groups) == 1:
            return [self.module.text]
        units = sorted([_unit(self.module, group) for group in groups], key=len, reverse=True)
        return [*units, PLAIN + _unit(self.module, plain)] if plain else units

    def _groups(self, functions: Sequence[Function]) -> list[list[Function]]:
        """Functions in groups of about the same size."""
        sizes = [_size(f) for f in functions]
        size = max(LEAST, sum(sizes) // (self.threads * UNITS_PER_THREAD))
        groups: list[list[Function]] = [[]]
        filled = 0
        for f, count in zip(functions, sizes, strict=True):
            if filled >= size:
                groups.append([])
                filled = 0
            groups[-1].append(f)
            filled += count
        return groups


def _size(f: Function) -> int:
    return sum(map(len, f.lines))


def _unit(module: Module, group: Sequence[Function]) -> str:
    """The text of some functions, with what they name of the module."""
    bodies = "\n\n".join(replace(f, linkage="").text for f in group)
    own = {f.name for f in group}
    named = set(NAME.findall(bodies))
    others = [f for f in module.functions.values() if f"@{f.name}" in named and f.name not in own]
    declarations = module.declarations.union(*(f.declarations for f in group))
    declarations |= {f.declaration for f in others}
    lines = [line for line in module.globals if _is_named(line, named)]
    return "\n".join([*sorted(declarations), *lines]) + f"\n\n{bodies}\n"


def _is_named(line: str, named: set[str]) -> bool:
    """Whether a global line is used: by its name, or by all (attributes)."""
    name = line.split(" ", 1)[0]
    return name in named or name[0] not in "@!"
