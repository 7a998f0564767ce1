"""Other ways to compute a matrix product than the chosen one, with the same bits.

They add the terms of a sum in the order of the chosen way: what may differ is the register tile,
what is packed, in which order tiles follow each other, the blocks of panels, and what each of the
threads does. `tune.py` measures which is fastest.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import replace

from .gemm_choice import GemmPlan, blocked, every_tile
from .gemm_plan import Blocking
from .llvm.host import Host

TILES = 4  # other register tiles
WORSE = 1.3  # times the cycles of the best tile, by the model, and no more


def alternatives(plan: GemmPlan, host: Host, parts: int) -> list[Blocking]:
    """Ways that may be faster for at most `parts` threads; the chosen one comes first."""
    chosen = plan.blocking
    if chosen is None or chosen.dot_lanes or chosen.turns_columns:
        return []
    found = [chosen]
    if not chosen.uses_tiles:
        found += [blocked(x, host, parts) for x in (*_tiles(chosen, host), *_packings(chosen))]
        found.append(replace(chosen, along_rows=not chosen.along_rows))
    found += [*_blocks(chosen), *_sharings(chosen, parts)]
    return list(dict.fromkeys(found))


def _tiles(chosen: Blocking, host: Host) -> Iterator[Blocking]:
    """With other register tiles; panels that are packed early are made for them, too."""
    problem, tile = chosen.problem, chosen.tile
    period = 0
    if chosen.reads_windows:
        lines = [chosen.windows.lines[-1], *problem.c_lines[-1:]]
        period = math.gcd(*(line.count for line in lines))
    every = sorted(every_tile(problem, host, period), key=lambda pair: pair[0])
    near = [other for cost, other in every if cost <= WORSE * every[0][0] and other != tile]
    for other in near[:TILES]:
        yield replace(chosen, tile=other)


def _packings(chosen: Blocking) -> Iterator[Blocking]:
    """With one operand more, or one less, copied into panels."""
    problem = chosen.problem
    if chosen.pieces > 1 or chosen.reads_windows:
        return
    if not (problem.a.is_computed or problem.a.is_packed):
        yield replace(chosen, pack_a=not chosen.pack_a)
    is_readable = problem.b.column == 1 or chosen.tile.lanes == 1
    if is_readable and not (problem.b.is_computed or problem.b.is_packed):
        yield replace(chosen, pack_b=not chosen.pack_b)


def _blocks(chosen: Blocking) -> Iterator[Blocking]:
    """With half of the panels of an operand kept at once."""
    if chosen.copies_a and chosen.row_panels > 1:
        yield replace(chosen, row_panels=-(-chosen.row_panels // 2))
    if chosen.copies_b and chosen.column_panels > 1:
        yield replace(chosen, column_panels=-(-chosen.column_panels // 2))


def _sharings(chosen: Blocking, parts: int) -> Iterator[Blocking]:
    """With threads that share the rows only, or the columns only."""
    grid = chosen.grid(parts)
    for down in (1, parts):
        other = replace(chosen, down=down)
        if other.grid(parts) != grid:
            yield other
