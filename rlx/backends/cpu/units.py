"""A module in units that are compiled at the same time.

A function goes to one unit whole; what it names of others is declared there. Constants are
repeated where they are named.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import replace

from .code import Function, Module

LEAST = 16_000  # characters of text, some 8 ms of compiling, that pay for a unit of its own
UNITS_PER_THREAD = 4  # so that all threads end at about the same time
NAME = re.compile(r"[@!][\w.]+")


def units(module: Module, threads: int) -> list[str]:
    """The texts of a module's units; all of it where one thread compiles it, or soon."""
    functions = list(module.functions.values())
    sizes = [sum(map(len, f.lines)) for f in functions]
    size = max(LEAST, sum(sizes) // (threads * UNITS_PER_THREAD))
    if threads == 1 or sum(sizes) < 2 * LEAST:
        return [module.text]
    groups: list[list[Function]] = [[]]
    filled = 0
    for f, count in zip(functions, sizes, strict=True):
        if filled >= size:
            groups.append([])
            filled = 0
        groups[-1].append(f)
        filled += count
    return [_unit(module, group) for group in groups]


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
