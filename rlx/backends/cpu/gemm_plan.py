"""Matrix products as data: problem, register tile, cache blocks, grid of parts."""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable
from dataclasses import dataclass, replace

import numpy as np

from .code import LLVM_NAMES, Function, Vector
from .host import Host

NARROW = 8  # up to so many rows or columns make a product limited by memory
HALVES = ("float16", "bfloat16")

Epilogue = Callable[[Function, Vector, str, str, str], str]


@dataclass(frozen=True)
class Operand:
    """A strided view of a matrix; strides count elements and may be anything.

    If it `is_computed` it has no strides: packing computes its elements, and of the two numbers the
    one of the axis that runs in memory is 1, the other 0.
    """

    row: int
    column: int
    is_computed: bool = False

    @property
    def transposed(self) -> Operand:
        """The view of the transposed matrix."""
        return Operand(self.column, self.row, self.is_computed)


@dataclass(frozen=True)
class Problem:
    """`C[m, n] = A[m, k] @ B[k, n]`; C has column stride 1 and row stride `c_row`.

    Pieces of k are best cut at multiples of `k_step`.
    """

    m: int
    n: int
    k: int
    a: Operand
    b: Operand
    c_row: int
    dtype: str
    out_dtype: str
    k_step: int = 1

    @property
    def transposed(self) -> Problem:
        """The same product as C^T = B^T @ A^T."""
        return replace(self, m=self.n, n=self.m, a=self.b.transposed, b=self.a.transposed)

    @property
    def is_computed(self) -> bool:
        """Whether an operand is computed as it is packed."""
        return self.a.is_computed or self.b.is_computed

    @property
    def accumulator(self) -> str:
        """The dtype of the sums: that of the operands, half floats in float32."""
        return "float32" if self.dtype in HALVES else self.dtype

    @property
    def itemsize(self) -> int:
        """Bytes of one accumulated number."""
        return np.dtype(self.accumulator).itemsize


def floor_power(x: int) -> int:
    """The largest power of two that is at most `x`."""
    return 1 << (x.bit_length() - 1)


def clipped_offsets(size: int, lanes: int) -> tuple[int, ...]:
    """Where vectors begin that cover `size` numbers, the last moved back to fit."""
    return tuple(min(start, size - lanes) for start in range(0, size, lanes))


@dataclass(frozen=True)
class Tile:
    """The block of C that lives in registers: `rows` rows of some vectors.

    Tiles stand side by side every `columns` columns and every `rows` rows; the last ones are
    moved back to end at the edge of the matrix, so that no kernel needs a mask. What two tiles
    share is computed twice and stored once.
    """

    m: int
    n: int
    rows: int
    lanes: int
    vectors: int

    @property
    def columns(self) -> int:
        """Columns of all vectors, as they lie in packed memory."""
        return self.lanes * self.vectors

    @property
    def width(self) -> int:
        """Columns of C that one tile covers."""
        return min(self.columns, self.n)

    @property
    def offsets(self) -> tuple[int, ...]:
        """The first columns of the vectors, which overlap in a narrower matrix."""
        return clipped_offsets(self.width, self.lanes)

    @property
    def row_panels(self) -> int:
        """How many tiles stand one below the other."""
        return -(-self.m // self.rows)

    @property
    def column_panels(self) -> int:
        """How many tiles stand side by side."""
        return -(-self.n // self.columns)

    @property
    def has_row_edge(self) -> bool:
        """Whether the last tiles below are moved back."""
        return self.m % self.rows != 0

    @property
    def has_column_edge(self) -> bool:
        """Whether the last tiles to the right are moved back."""
        return self.n > self.columns and self.n % self.columns != 0


def choose_tile(problem: Problem, host: Host) -> Tile:
    """The register tile that needs the fewest cycles for the whole matrix."""
    m, n, k = problem.m, problem.n, max(problem.k, 1)
    lanes = min(host.lanes(problem.itemsize), floor_power(n))
    registers = -(-n // lanes)
    best: tuple[float, Tile] | None = None
    widest = 12 if m == 1 else 6
    for vectors in range(1, min(widest, registers) + 1):
        # One register holds the broadcast number of A, `vectors` hold the row of B.
        for rows in range(1, min(m, (host.vector_registers - 1 - vectors) // vectors) + 1):
            tile = Tile(m, n, rows, lanes, vectors)
            cost = tile.row_panels * tile.column_panels * _tile_cycles(rows, vectors, k)
            if best is None or cost <= best[0]:
                best = cost, tile
    assert best is not None
    return best[1]


def _tile_cycles(rows: int, vectors: int, k: int) -> float:
    """Cycles of one tile.

    The core does two loads and two multiply-adds at once, with a latency of four. The additions
    were fitted to measurements on AVX-512.
    """
    sums = rows * vectors
    step = max(sums / 2, 0.65 * (rows + vectors), 4) + 1 + 0.2 * vectors
    return k * step + 2 * sums + 10


@dataclass(frozen=True)
class Blocking:
    """How a product is cut for the caches; packing is into panels one tile wide.

    `depth` is the piece of k that is summed at once; `row_panels` of A and `column_panels` of B
    are kept packed together. With `dot_lanes` the sums run along k in registers of as many lanes.
    A `swapped` problem is the transposed one: its tiles are turned when they are stored.
    """

    problem: Problem
    tile: Tile
    pack_a: bool
    pack_b: bool
    depth: int
    row_panels: int
    column_panels: int
    dot_lanes: int = 0
    swapped: bool = False

    @property
    def kind(self) -> str:
        """The name of the algorithm."""
        if self.dot_lanes:
            return "dots"
        if self.pieces > 1 and not self.pack_b:
            return "streamed"
        return "packed" if self.pack_a or self.pack_b else "small"

    @property
    def a_chunk(self) -> int:
        """How many columns of a packed panel of A lie row by row.

        A chunk is a cache line wide: copying rows needs no transposition, and the kernel still
        reads one stream.
        """
        if self.dot_lanes:  # whole rows
            return 2 * floor_power(self.problem.k)
        if not self.pack_a or (self.problem.a.row == 1 and self.problem.a.column != 1):
            return 1
        return 64 // self.problem.itemsize

    @property
    def a_row(self) -> int:
        """The stride between the rows of A that the kernel sees."""
        return self.a_chunk if self.pack_a else self.problem.a.row

    @property
    def a_column(self) -> int:
        """The stride between the columns (or chunks of them) of A that the kernel sees."""
        return self.tile.rows * self.a_chunk if self.pack_a else self.problem.a.column

    @property
    def b_row(self) -> int:
        """The stride between the rows of B that the kernel sees."""
        return self.tile.columns if self.pack_b else self.problem.b.row

    @property
    def b_offsets(self) -> tuple[int, ...]:
        """Where the vectors of B that the kernel sees lie in a row."""
        if not self.pack_b:
            return self.tile.offsets
        return tuple(range(0, self.tile.columns, self.tile.lanes))

    @property
    def a_panel(self) -> int:
        """Numbers in one packed panel of A."""
        return self.tile.rows * (-(-self.depth // self.a_chunk) * self.a_chunk)

    @property
    def b_panel(self) -> int:
        """Numbers in one packed panel of B."""
        return self.tile.columns * self.depth

    @property
    def a_bytes(self) -> int:
        """Packed memory for A, in whole cache lines."""
        size = self.row_panels * self.a_panel * self.problem.itemsize
        return -(-size // 64) * 64 if self.pack_a else 0

    @property
    def b_bytes(self) -> int:
        """Packed memory for B, in whole cache lines."""
        size = self.column_panels * self.b_panel * self.problem.itemsize
        return -(-size // 64) * 64 if self.pack_b else 0

    @property
    def keeps_partial(self) -> bool:
        """Whether partial sums are kept in scratch memory, as C cannot hold them."""
        turned = self.swapped or self.problem.out_dtype != self.problem.accumulator
        return self.pieces > 1 and turned

    @property
    def partial_row(self) -> int:
        """The stride between the rows of partial sums."""
        return self.problem.n if self.keeps_partial else self.problem.c_row

    @property
    def partial_bytes(self) -> int:
        """Scratch memory for partial sums, in whole cache lines."""
        size = self.problem.m * self.problem.n * self.problem.itemsize
        return -(-size // 64) * 64 if self.keeps_partial else 0

    @property
    def slice_bytes(self) -> int:
        """Scratch memory of one part, in whole cache lines."""
        return -(-(self.a_bytes + self.b_bytes + self.partial_bytes) // 64) * 64

    @property
    def pieces(self) -> int:
        """Into how many pieces k is cut."""
        return max(1, -(-self.problem.k // self.depth))

    @property
    def shortest(self) -> int:
        """The length of the shortest piece of k."""
        return self.problem.k - (self.pieces - 1) * self.depth

    def grid(self, parts: int) -> tuple[int, int]:
        """How many of at most `parts` parts share the rows and the columns."""
        tile, best = self.tile, (float("inf"), 1, 1)
        for down in range(1, min(parts, tile.row_panels) + 1):
            across = min(parts // down, tile.column_panels)
            high, wide = -(-tile.row_panels // down), -(-tile.column_panels // across)
            # In units of one vector multiply-add; a packed vector costs about eight.
            work = high * wide * tile.rows * tile.vectors
            work += 8 * high * tile.rows / tile.lanes * self.pack_a
            work += 8 * wide * tile.vectors * self.pack_b
            best = min(best, (work, down, across))
        return best[1], best[2]

    def shares(self, parts: int) -> list[tuple[int, int, int, int]]:
        """The first and last panels of rows, then of columns, of each part that has work."""
        down, across = self.grid(parts)
        rows = _shares(self.tile.row_panels, down)
        columns = _shares(self.tile.column_panels, across)
        return [(*row, *column) for row in rows for column in columns]


def _shares(count: int, parts: int) -> list[tuple[int, int]]:
    bounds = [count * i // parts for i in range(parts + 1)]
    return list(itertools.pairwise(bounds))


@dataclass(frozen=True)
class GemmPlan:
    """How a product is computed, and what its caller must know.

    `blocking` is None without work. `shares` has the first and last panels of rows, then of
    columns, of each part.
    """

    problem: Problem
    blocking: Blocking | None
    shares: tuple[tuple[int, int, int, int], ...]

    @classmethod
    def of(cls, problem: Problem, host: Host, parts: int = 1) -> GemmPlan:
        """The fastest way on `host` for at most `parts` threads."""
        if problem.m == 0 or problem.n == 0:
            return cls(problem, None, ())
        blocking = choose_blocking(problem, host)
        return cls(problem, blocking, tuple(blocking.shares(parts)))

    @property
    def kind(self) -> str:
        """The name of the algorithm."""
        return self.blocking.kind if self.blocking else "empty"

    @property
    def packs(self) -> bool:
        """Whether A or B is copied first."""
        return self.blocking is not None and (self.blocking.pack_a or self.blocking.pack_b)

    @property
    def flops(self) -> int:
        """Multiplications and additions."""
        return 2 * self.problem.m * self.problem.n * self.problem.k

    @property
    def scratch_bytes(self) -> int:
        """What all parts together need; the memory is aligned to 64 bytes."""
        return self.blocking.slice_bytes * len(self.shares) if self.blocking else 0

    @property
    def partial(self) -> bool:
        """Whether C keeps partial sums, so that no epilogue may read what it held before."""
        blocking = self.blocking
        return blocking is not None and blocking.pieces > 1 and not blocking.keeps_partial


def choose_blocking(problem: Problem, host: Host) -> Blocking:
    """Cut a product for the host's caches and decide what is worth packing."""
    swapped = _is_better_swapped(problem)
    if swapped:
        problem = problem.transposed
    is_narrow = problem.m <= NARROW and not problem.is_computed
    if is_narrow and problem.b.row == 1 != problem.b.column and problem.k >= 4:
        return _dots(problem, host, swapped)
    tile = choose_tile(problem, host)
    size = problem.itemsize
    pack_a, pack_b = _wants_packing(problem, tile, host)
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
    if pieces > 1:
        whole = math.lcm(64 // size if pack_a else 1, problem.k_step)
        depth = -(-depth // whole) * whole
    row_panels, column_panels = tile.row_panels, tile.column_panels
    if pack_b:
        row_panels = max(1, host.l2 // 4 // (tile.rows * depth * size))
        column_panels = max(1, min(host.l3 // 2, 16 << 20) // (tile.columns * depth * size))
    panels = _even(tile.row_panels, row_panels), _even(tile.column_panels, column_panels)
    return Blocking(problem, tile, pack_a, pack_b, depth, *panels, swapped=swapped)


def _is_better_swapped(problem: Problem) -> bool:
    """Whether to compute the transposed product.

    A narrow result is better low than slim. A computed operand is packed fast as B if its lines run
    in memory, and as A if its depth does; but each element of a transposed result is stored alone.
    """
    a, b = problem.a, problem.b
    if not problem.is_computed:
        return problem.n <= NARROW < problem.k and problem.n < problem.m
    if problem.k < 2 * min(problem.m, problem.n):
        return False
    fits = (not a.is_computed or a.column == 1) + (not b.is_computed or b.column == 1)
    fits_swapped = (not b.is_computed or b.row == 1) + (not a.is_computed or a.row == 1)
    return fits_swapped > fits


def _streamed_rows(problem: Problem, host: Host) -> int:
    """How many rows of a large B to read side by side; 0 for another way.

    Every row is read from end to end, which the processor fetches ahead, and the sums of few rows
    are cheap to keep in memory. The numbers were found by measuring.
    """
    in_cache = problem.k * problem.n * problem.itemsize <= host.l2 // 2
    if in_cache or problem.is_computed or problem.b.column != 1 or problem.m > 96:
        return 0
    return 8 if problem.m <= NARROW else 32 if problem.m <= 48 else 64


def _dots(problem: Problem, host: Host, swapped: bool) -> Blocking:
    """Few rows of A against many contiguous columns of B, which is read once."""
    sums = host.vector_registers * 3 // 4
    columns = floor_power(max(1, min(8, sums // problem.m, problem.n)))
    tile = Tile(problem.m, problem.n, problem.m, columns, 1)
    pack_a = problem.a.column != 1
    panels = tile.row_panels, tile.column_panels
    lanes = min(host.lanes(problem.itemsize), floor_power(problem.k))
    return Blocking(problem, tile, pack_a, False, problem.k, *panels, lanes, swapped)


def _even(total: int, most: int) -> int:
    """The size of equal blocks of at most `most` that make up `total`."""
    blocks = -(-total // most)
    return -(-total // blocks)


def _wants_packing(problem: Problem, tile: Tile, host: Host) -> tuple[bool, bool]:
    """Whether A and B are copied into panels.

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
        crowded = problem.a.row * size % 4096 == 0 and k >= 64 and problem.m > NARROW
        pack_a = crowded or a_bytes > 4 * host.l2
    else:
        pack_a = a_bytes > 2 * host.l1
    if problem.dtype in HALVES:  # packing widens them once and for all
        pack_a = pack_a or tile.column_panels >= 3
        pack_b = pack_b or tile.row_panels >= 3
    pack_a, pack_b = pack_a or problem.a.is_computed, pack_b or problem.b.is_computed
    return pack_a, pack_b


def _spread(stride: int) -> int:
    """The largest power of two that divides a stride in bytes, at least a line."""
    return min(max(stride & -stride, 64), 1 << 20)


def memory_type(dtype: str) -> str:
    """The LLVM type of one number in memory: a bool is a byte."""
    return "i8" if dtype == "bool" else LLVM_NAMES[dtype]
