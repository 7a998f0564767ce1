"""The plan of a matrix product: register tile, packing, blocking, threads.

`alternatives` are other ways with the same bits: they add the terms of a sum in the order of the
chosen way. What may differ is the register tile, what is packed, in which order tiles follow each
other, the blocks of panels, and what each of the threads does. `cpu/tune.py` measures which of them
is fastest.
"""

from __future__ import annotations

import math
from collections.abc import Iterator

from ....ir.record import record, replace
from ....ir.types import as_dtype
from ..llvm.host import Host
from ..llvm.text import Vector
from ..loops.pairs import adds_pairs
from .problem import (
    BYTES,
    HALVES,
    NARROW,
    PANELS_AT_ONCE,
    TILE_BYTES,
    TILE_ROWS,
    UNTUNED,
    WIDENED,
    Blocking,
    Operand,
    Problem,
    Tile,
    Tuning,
    floor_power,
)

WIDE_ROW = 1 << 17  # bytes; of such rows few are fetched ahead at once
PACK_CYCLES = 4  # of a vector of an operand
FEWEST_SUMS = 4  # rows whose sums have to wait for their own last addition
WAY = 4096  # bytes: the first cache takes lines so far apart for one set
SHARERS = 2  # of the columns, whatever the number of threads: the tile decides how k is cut
RUN_CYCLES = 8  # of a new run of windows in place


@record
class GemmPlan:
    """The plan of a product, with what its caller must know."""

    problem: Problem
    blocking: Blocking | None  # None: there is nothing to do
    shares: tuple[tuple[int, int, int, int], ...]  # first, last panel of rows, of columns

    @classmethod
    def of(cls, problem: Problem, host: Host, parts: int = 1, tuning: Tuning = UNTUNED) -> GemmPlan:
        """The fastest way on `host` for at most `parts` threads."""
        if problem.m == 0 or problem.n == 0:
            return cls(problem, None, ())
        blocking = tuning.get(problem) or choose_blocking(problem, host, parts)
        return cls(problem, blocking, tuple(blocking.shares(parts)))

    @property
    def packs(self) -> bool:
        """Whether A or B is packed."""
        return self.blocking is not None and (self.blocking.pack_a or self.blocking.pack_b)

    @property
    def reads_windows(self) -> tuple[bool, bool]:
        """Whether the kernel reads A in place, and whether B."""
        reads = self.blocking is not None and self.blocking.reads_windows
        swapped = self.blocking is not None and self.blocking.swapped
        return reads and not swapped, reads and swapped

    @property
    def scratch_bytes(self) -> int:
        """The scratch memory of all parts, aligned to 64 bytes."""
        return self.blocking.slice_bytes * len(self.shares) if self.blocking else 0

    @property
    def partial(self) -> bool:
        """Whether C keeps partial sums, so that no epilogue may read what it held before."""
        blocking = self.blocking
        return blocking is not None and blocking.pieces > 1 and not blocking.keeps_partial


def choose_blocking(problem: Problem, host: Host, parts: int = 1) -> Blocking:
    """Choose the blocking of a product for the host's caches, and what to pack.

    The number of parts changes the order of the tiles only, and no sum. If the host is
    `batch_invariant`, nothing does: then each sum is one chain of multiply-adds from the first of
    its terms to the last, whatever the tile, what is packed, and how k is cut; only integers may go
    another way. Where the processor adds products of bfloat16 in pairs, the terms of each pair are
    exchanged, so that its instruction and others give the same bits (`loops/pairs.py`).
    """
    choose = _for_given_panels if problem.panel_rows else _fastest
    return replace(choose(problem, host, parts), in_pairs=_in_pairs(problem, host))


def _for_given_panels(problem: Problem, host: Host, parts: int) -> Blocking:
    """The blocking with panels of B that suit another number of rows.

    All blocks of an open number of rows read the same panels: their layout depends on B alone.
    """
    usual = replace(
        problem, m=problem.panel_rows, a=Operand(problem.k, 1), c_row=problem.n, c_lines=(),
        k_step=64 // problem.itemsize, panel_rows=0,
    )  # fmt: skip
    chosen = _fastest(usual, host, 1)
    if chosen.uses_tiles:
        return _tiled(problem, host)
    tile = replace(chosen.tile, m=problem.m, rows=min(problem.m, chosen.tile.rows))
    pack_a = _wants_packing(problem, tile, host)[0]
    return blocked(replace(chosen, problem=problem, tile=tile, pack_a=pack_a), host, parts)


def _fastest(problem: Problem, host: Host, parts: int) -> Blocking:
    """The blocking with any order of sums, or with one that the host has for all."""
    swapped = _is_better_swapped(problem)
    if swapped:
        problem = problem.transposed
    is_narrow = problem.m <= _most_rows(problem, host) and not problem.is_computed
    is_turned = problem.b.row == 1 != problem.b.column and not problem.b.is_packed
    if is_narrow and is_turned and problem.k >= 4:
        return _few_rows(problem, host, swapped)
    if _fits_tiles(problem, host):
        return _tiled(problem, host)
    tile, reads_windows = _tile_for_windows(problem, host)
    size = problem.itemsize
    pack_a, pack_b = _wants_packing(problem, tile, host)
    pack_a = pack_a and not reads_windows
    # A piece of one panel of A and of B is a few times the first cache; the second cache feeds
    # the multiply-adds fast enough, and every cut of k costs a pass over C.
    depth = max(64, 4 * host.l1 // ((tile.columns + tile.rows) * size))
    if problem.out_dtype != problem.accumulator or not (pack_a or pack_b):
        depth = max(problem.k, 1)  # partial sums would not fit in C
    streamed = _streamed_rows(problem, host)
    if streamed:
        pack_b, depth = False, streamed
    pieces = max(1, -(-problem.k // depth))
    depth = max(1, -(-problem.k // pieces))
    if pieces > 1 and reads_windows and problem.a.windows:
        depth = problem.a.windows.piece_near(depth)
    elif pieces > 1:
        whole = math.lcm(64 // size if pack_a else 2, problem.k_step)
        depth = -(-depth // whole) * whole
    blocking = Blocking(
        problem, tile, pack_a, pack_b, depth, tile.row_panels, tile.column_panels, swapped=swapped,
        reads_windows=reads_windows, goes_on=host.batch_invariant,
    )  # fmt: skip
    return blocked(blocking, host, parts)


def blocked(blocking: Blocking, host: Host, parts: int) -> Blocking:
    """The blocking with an order of tiles and blocks of panels that suit the caches."""
    problem, tile, depth = blocking.problem, blocking.tile, blocking.depth
    pack_a, pack_b = blocking.pack_a, blocking.pack_b
    along_rows = _goes_along_rows(blocking, host, parts)
    row_panels, column_panels = tile.row_panels, tile.column_panels
    size = problem.itemsize
    a_bytes, panel = problem.m * depth * size, tile.columns * depth * size
    if pack_b and not along_rows and a_bytes <= host.l2 // 2:
        # A stays in the second cache, and some panels of B while they are used
        column_panels = max(1, min(PANELS_AT_ONCE, (host.l2 * 5 // 8 - a_bytes) // panel))
    else:
        if pack_a or pack_b:
            row_panels = max(1, host.l2 // 4 // (tile.rows * depth * size))
        if pack_b:
            column_panels = max(1, min(host.l3 // 2, 16 << 20) // panel)
    return _evenly(replace(blocking, along_rows=along_rows), row_panels, column_panels)


def _goes_along_rows(blocking: Blocking, host: Host, parts: int) -> bool:
    """Whether tiles go along rows of C, because B fits the second cache.

    A panel of A then stays in the first, and C is written in order. Panels that were packed early
    are not in that cache yet: tiles prefetch the next panel, one after another.
    """
    problem, tile = blocking.problem, blocking.tile
    if problem.b.is_packed:
        return False
    _, across = blocking.grid(parts)
    width = min(problem.n, -(-tile.column_panels // across) * tile.columns)
    line = problem.k * problem.itemsize
    fits = tile.rows * line <= host.l1 and width * line <= host.l2 // 2
    return blocking.pieces == 1 and fits


def _is_better_swapped(problem: Problem) -> bool:
    """Whether to compute the transposed product.

    A narrow result is better low than slim. A computed operand is packed fast as B if its lines run
    in memory, and as A if its depth does; but each element of a transposed result is stored alone.
    """
    a, b = problem.a, problem.b
    if not problem.is_computed:
        return problem.n <= NARROW < problem.k and problem.n < problem.m
    if a.windows or problem.k < 2 * min(problem.m, problem.n):
        return False
    fits = (not a.is_computed or a.column == 1) + (not b.is_computed or b.column == 1)
    fits_swapped = (not b.is_computed or b.row == 1) + (not a.is_computed or a.row == 1)
    return fits_swapped > fits


def _fits_tiles(problem: Problem, host: Host) -> bool:
    """Whether tile registers or grouped vector instructions can multiply these dtypes."""
    has_dtype = problem.dtype in (("bfloat16", *BYTES) if host.has_tiles else host.grouped)
    lines = [problem.n] if problem.b.is_packed and not host.has_tiles else [problem.m, problem.n]
    is_large = min(lines) >= 2 * TILE_ROWS and problem.k >= TILE_BYTES // 2
    has_order = _is_exact(problem) or adds_pairs(host) or not host.batch_invariant
    has_dtype = has_dtype and has_order
    return has_dtype and is_large and not problem.is_computed


def _in_pairs(problem: Problem, host: Host) -> bool:
    """Whether kernels add in the order of `loops/pairs.py`."""
    return problem.dtype == "bfloat16" and adds_pairs(host)


def _is_exact(problem: Problem) -> bool:
    """Whether sums are exact, as those of integers are in any order."""
    return not Vector(problem.accumulator).is_float


def _tiled(problem: Problem, host: Host) -> Blocking:
    """Four tile registers of sums, two of A and two of B at a time; both operands are packed."""
    lanes = TILE_BYTES // problem.itemsize
    tile = Tile(problem.m, problem.n, min(2 * TILE_ROWS, problem.m), lanes, 2)
    blocking = Blocking(problem, tile, True, True, problem.k, 1, 1, uses_tiles=True)
    blocking = replace(blocking, in_vectors=not host.has_tiles)
    panel = blocking.a_panel * problem.itemsize
    column_panels = max(1, min(host.l3 // 2, 16 << 20) // panel)
    return _evenly(blocking, max(1, host.l2 // 4 // panel), column_panels)


def _streamed_rows(problem: Problem, host: Host) -> int:
    """How many rows of a large B to stream at once; 0 for another way.

    Every row is read from end to end, which the processor fetches ahead, and the sums of few rows
    are cheap to keep in memory. The numbers were found by measuring.
    """
    size = problem.k * problem.n * problem.itemsize
    is_rows = problem.b.column == 1 and not (problem.b.is_computed or problem.b.is_packed)
    if size <= host.l2 // 2 or not is_rows or problem.m > 96:
        return 0
    if problem.m == 1 and problem.n * problem.itemsize > WIDE_ROW:
        return 2
    if problem.m < NARROW // 2 or (problem.m <= NARROW and size > host.l3 // 3):
        return 8
    return 32 if problem.m <= 48 else 64


def _most_rows(problem: Problem, host: Host) -> int:
    """Up to how many rows of A columns of B that are contiguous are read in place.

    More of them, whose sums fill half of the registers, cost less than packing B does.
    """
    is_few = host.vector_bytes < 64 or _is_exact(problem)
    return NARROW if is_few else host.vector_registers // 2


def _few_rows(problem: Problem, host: Host, swapped: bool) -> Blocking:
    """Few rows of A against contiguous columns of B, by dot products or in turned blocks.

    More rows read more numbers of A for each dot product. The numbers were found by measuring.
    """
    crowds = not _holds_lines(problem, host, host.lanes(problem.itemsize))
    a_bytes = problem.m * problem.k * problem.itemsize
    is_fast = problem.m >= 7 and (not crowds or a_bytes > host.l1)
    if _in_pairs(problem, host):
        is_fast = problem.m >= (7 if crowds else 3)
    is_fast = problem.m > NARROW or (is_fast and _most_rows(problem, host) > NARROW)
    is_turned = is_fast or (host.batch_invariant and not _is_exact(problem))
    return (_columns if is_turned else _dots)(problem, host, swapped)


def _dots(problem: Problem, host: Host, swapped: bool) -> Blocking:
    """Few rows of A against many contiguous columns of B, which is read once."""
    sums = host.vector_registers * 3 // 4
    columns = floor_power(max(1, min(8, sums // problem.m, problem.n)))
    tile = Tile(problem.m, problem.n, problem.m, columns, 1)
    pack_a = problem.a.column != 1
    panels = tile.row_panels, tile.column_panels
    lanes = min(host.lanes(problem.itemsize), floor_power(problem.k))
    return Blocking(problem, tile, pack_a, False, problem.k, *panels, lanes, swapped)


def _columns(problem: Problem, host: Host, swapped: bool) -> Blocking:
    """Like `_dots`, with each sum in order from its first term to the last."""
    lanes = min(host.lanes(problem.itemsize), floor_power(problem.n))
    # The sums of few rows wait for each other, those of pairs longer, and other sums do not. Words
    # of two numbers wait twice.
    waits = problem.m <= FEWEST_SUMS or _in_pairs(problem, host)
    fits = _holds_lines(problem, host, 2 * lanes) or problem.dtype in HALVES
    vectors = 2 if waits and fits and problem.n >= 2 * lanes else 1
    groups = -(-problem.m * 2 * vectors // host.vector_registers)
    tile = Tile(problem.m, problem.n, -(-problem.m // groups), lanes, vectors)
    pack_a = problem.dtype in HALVES and not _in_pairs(problem, host)  # widened once and for all
    return Blocking(
        problem, tile, pack_a, False, problem.k, tile.row_panels, tile.column_panels,
        swapped=swapped, goes_on=True, turns_columns=True,
    )  # fmt: skip


def _holds_lines(problem: Problem, host: Host, columns: int) -> bool:
    """Whether the first cache holds a line of each of so many columns of B.

    Lines a power of two apart crowd into few of its sets.
    """
    spread = _spread(problem.b.column * as_dtype(problem.dtype).itemsize)
    return columns * min(spread, WAY) <= host.l1


def _evenly(blocking: Blocking, rows: int, columns: int) -> Blocking:
    """The blocking with equal blocks of at most so many panels of rows and of columns."""
    tile = blocking.tile
    totals = (tile.row_panels, rows), (tile.column_panels, columns)
    row_panels, column_panels = (-(-total // -(-total // most)) for total, most in totals)
    return replace(blocking, row_panels=row_panels, column_panels=column_panels)


def _wants_packing(problem: Problem, tile: Tile, host: Host) -> tuple[bool, bool]:
    """Whether to pack A, and whether to pack B.

    In place is faster as long as the second cache holds B and what the tiles read again and again
    does not crowd into a few sets of the caches; and what is used only a few times is not copied.
    """
    k, size = problem.k, problem.itemsize
    if k == 0:
        return problem.a.is_computed, problem.b.is_computed
    a_bytes, b_bytes = k * problem.m * size, k * problem.n * size
    if problem.b.column != 1 and tile.lanes > 1:
        pack_b = True
    elif tile.row_panels < 4 or b_bytes <= host.l1:
        pack_b = False
    else:
        # The lines of one panel of B that the second cache can hold at once.
        room = host.l2 // 2 * tile.columns * size // _spread(problem.b.row * size)
        pack_b = b_bytes > host.l2 // 3 or k * tile.columns * size > room
    if tile.column_panels < 4:
        pack_a = False
    elif problem.a.column == 1:
        pack_a = _crowds(problem, tile, host) or a_bytes > 4 * host.l2
    else:
        pack_a = a_bytes > 2 * host.l1
    if problem.dtype in WIDENED:  # packing widens them once and for all
        pack_a = pack_a or tile.column_panels >= 3
        pack_b = pack_b or tile.row_panels >= 3
    is_given = [x.is_computed or x.is_packed for x in (problem.a, problem.b)]
    return pack_a or is_given[0], pack_b or is_given[1]


def _crowds(problem: Problem, tile: Tile, host: Host) -> bool:
    """Whether rows of a tile of A in place conflict in the first cache."""
    if problem.a.column != 1 or problem.k < 64 or problem.m <= NARROW:
        return False
    return problem.a.row * problem.itemsize % WAY == 0 and tile.rows > _rows_at_once(host)


def _rows_at_once(host: Host) -> int:
    """How many rows of A may share a set of the first cache and leave room for B."""
    return max(1, host.l1 // WAY * 2 // 3)


def _spread(stride: int) -> int:
    """The largest power of two that divides a stride in bytes, at least a line."""
    return min(max(stride & -stride, 64), 1 << 20)


def _tile_for_windows(problem: Problem, host: Host) -> tuple[Tile, bool]:
    """The register tile, and whether to read windows of A in place.

    All rows of the tile then lie in one line of the image.
    """
    cost, tile = choose_tile(problem, host)
    windows = problem.a.windows
    if problem.dtype != problem.accumulator or problem.k == 0:
        return tile, False
    if windows is None:
        return _low_enough(problem, host, cost, tile), False
    period = math.gcd(windows.lines[-1].count, *(line.count for line in problem.c_lines[-1:]))
    fitting_cost, fitting = choose_tile(problem, host, period)
    runs = problem.k // windows.depths[-1].count
    fitting_cost += RUN_CYCLES * runs * fitting.row_panels * fitting.column_panels
    cost += PACK_CYCLES * problem.m * problem.k / tile.lanes
    return (fitting, True) if fitting_cost < cost else (tile, False)


def _low_enough(problem: Problem, host: Host, cost: float, tile: Tile) -> Tile:
    """The tile, or a lower one if that saves threads from packing all of A each.

    The choice assumes two threads at least: sums must not depend on their number.
    """
    if not _crowds(problem, tile, host) or problem.a.is_packed:
        return tile
    low_cost, low = choose_tile(problem, host, most=_rows_at_once(host))
    packing = 2 * PACK_CYCLES * problem.m * problem.k / tile.lanes
    return low if low_cost < cost + packing else tile


def choose_tile(
    problem: Problem, host: Host, period: int = 0, most: int = 64
) -> tuple[float, Tile]:
    """The register tile with the fewest cycles for the whole matrix, and these.

    The tile has at most `most` rows. If there is a period, the height of the tile divides it.
    """
    best: tuple[float, Tile] | None = None
    for cost, tile in every_tile(problem, host, period, most):
        if best is None or cost <= best[0]:
            best = cost, tile
    assert best is not None
    return best


def every_tile(
    problem: Problem, host: Host, period: int = 0, most: int = 64
) -> Iterator[tuple[float, Tile]]:
    """All register tiles, each with its cycles for the whole matrix."""
    m, n, k = problem.m, problem.n, max(problem.k, 1)
    lanes = min(host.lanes(problem.itemsize), floor_power(n))
    registers = -(-n // lanes)
    widest = 16 if m == 1 else 6
    for vectors in range(1, min(widest, registers) + 1):
        # One register holds the broadcast number of A, `vectors` hold the row of B.
        for rows in range(1, min(m, most, (host.vector_registers - 1 - vectors) // vectors) + 1):
            if period % rows:
                continue
            tile = Tile(m, n, rows, lanes, vectors)
            panels = tile.row_panels * tile.column_panels
            if tile.row_panels == 1:  # the threads share the columns
                panels = -(-panels // SHARERS) * SHARERS
            yield panels * _tile_cycles(rows, vectors, k), tile


def _tile_cycles(rows: int, vectors: int, k: int) -> float:
    """Cycles of one tile.

    The core does two loads and two multiply-adds at once, with a latency of four. The additions
    were fitted to measurements on AVX-512.
    """
    sums = rows * vectors
    step = max(sums / 2, 0.65 * (rows + vectors), 4) + 1 + 0.1 * vectors
    return k * step + 2 * sums + 10


TILES = 4  # other register tiles
WORSE = 1.3  # times the cycles of the best tile, by the model, and no more


def alternatives(plan: GemmPlan, host: Host, parts: int) -> list[Blocking]:
    """Candidate plans for at most `parts` threads, the chosen one first."""
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
    """Candidates with other register tiles, for which early panels are packed, too."""
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
    """Candidates with one operand more, or one less, packed."""
    problem = chosen.problem
    if chosen.pieces > 1 or chosen.reads_windows:
        return
    if not (problem.a.is_computed or problem.a.is_packed):
        yield replace(chosen, pack_a=not chosen.pack_a)
    is_readable = problem.b.column == 1 or chosen.tile.lanes == 1
    if is_readable and not (problem.b.is_computed or problem.b.is_packed):
        yield replace(chosen, pack_b=not chosen.pack_b)


def _blocks(chosen: Blocking) -> Iterator[Blocking]:
    """Candidates with half of the panels of an operand kept at once."""
    if chosen.copies_a and chosen.row_panels > 1:
        yield replace(chosen, row_panels=-(-chosen.row_panels // 2))
    if chosen.copies_b and chosen.column_panels > 1:
        yield replace(chosen, column_panels=-(-chosen.column_panels // 2))


def _sharings(chosen: Blocking, parts: int) -> Iterator[Blocking]:
    """Candidates whose threads share the rows only, or the columns only."""
    grid = chosen.grid(parts)
    for down in (1, parts):
        other = replace(chosen, down=down)
        if other.grid(parts) != grid:
            yield other
