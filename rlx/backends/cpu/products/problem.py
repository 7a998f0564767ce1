"""Matrix products as data: problem, register tile, cache blocks."""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Mapping, Sequence
from types import MappingProxyType
from typing import TypeAlias

import numpy as np

from ....ir.record import record, replace
from ....ir.types import as_dtype
from ..llvm.text import LLVM_NAMES, Function, Vector

# -- windows of an image as a matrix that the kernel reads where it lies ---------------------------
#
# A line of such a matrix (a pixel of the result) and its depth (what the window sees) are flat
# numbers. Their digits have strides: of a line those of the batch, the image's line and the place
# in it, of the depth those of the window's line and what follows in it. The lines of a register
# tile are one step of the last digit apart, so a tile must not go over the end of an image's line.


@record
class Digit:
    """A digit of a number: what its step is worth, its count of values, its stride."""

    worth: int
    count: int
    stride: int


@record
class Windows:
    """Where the elements of a matrix lie, by digits of both numbers, slowest first."""

    lines: tuple[Digit, ...]
    depths: tuple[Digit, ...]

    def piece_near(self, depth: int) -> int:
        """The depth near the given one for which all pieces are alike but for their start.

        In a piece only one digit does not take all of its values, and it ends with the depth.
        """
        every = {
            digit.worth * count
            for digit in self.depths
            for count in range(1, digit.count + 1)
            if digit.count % count == 0
        }
        return min(every, key=lambda n: abs(math.log(n / depth)))

    def within(self, piece: int) -> tuple[Digit, ...]:
        """The digits that change within a piece, but for the last one."""
        return tuple(d for d in self.depths[:-1] if d.worth < piece)


def joined(digits: Sequence[Digit]) -> tuple[Digit, ...]:
    """Merge digits that step through memory as one would."""
    made = [digits[-1]]
    for digit in reversed(digits[:-1]):
        last = made[-1]
        if digit.stride == last.count * last.stride:
            made[-1] = Digit(last.worth, digit.count * last.count, last.stride)
        else:
            made.append(digit)
    return tuple(reversed(made))


def place_of(f: Function, digits: Sequence[Digit], number: str) -> str:
    """Where the element with this number lies; the slowest digit is all that is left."""
    total = "0"
    for digit in digits:
        value = number if digit.worth == 1 else f.emit(f"udiv i64 {number}, {digit.worth}")
        if digit is not digits[0]:
            value = f.emit(f"urem i64 {value}, {digit.count}")
        place = f.emit(f"mul i64 {value}, {digit.stride}")
        total = place if total == "0" else f.emit(f"add i64 {total}, {place}")
    return total


LONGEST_ROW = 512  # of A, to be packed whole
FETCHING_TILES = 2  # for each panel of B, so that they have the time to ask for the next
PANELS_AT_ONCE = 4  # of B, of which memory is read row by row
NARROW = 8  # up to so many rows or columns make a product limited by memory
HALVES = ("float16", "bfloat16")
BYTES = ("int8", "uint8")
WIDENED = {**dict.fromkeys(HALVES, "float32"), **dict.fromkeys(BYTES, "int32")}
TILE_ROWS, TILE_BYTES = 16, 64  # of a tile register

Epilogue = Callable[[Function, Vector, str, str, str], str]


@record
class Operand:
    """A strided view of a matrix; strides count elements and may be anything."""

    row: int  # stride; of a computed operand 1 for the axis that runs in memory, 0 for the other
    column: int  # the same
    is_computed: bool = False  # it has no strides: packing computes its elements
    run: int = 0  # neighbors along the depth that follow each other, of a computed operand
    windows: Windows | None = None  # where the elements lie, if that can be told
    is_packed: bool = False  # panels were made before the program runs, piece after piece of k

    @property
    def transposed(self) -> Operand:
        """The view of the transposed matrix."""
        return replace(self, row=self.column, column=self.row)


@record
class Problem:
    """`C[m, n] = A[m, k] @ B[k, n]`, where C has column stride 1."""

    m: int
    n: int
    k: int
    a: Operand
    b: Operand
    c_row: int  # the row stride of C
    dtype: str  # of A and B
    out_dtype: str  # of C
    k_step: int = 1  # pieces of k are best cut at multiples of it
    c_lines: tuple[Digit, ...] = ()  # of a row of C, if rows lie in several lines of an image
    panel_rows: int = 0  # if not 0, panels of B were laid out for products of so many rows

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
        """The dtype of the sums: that of the operands, small ones widened."""
        return WIDENED.get(self.dtype, self.dtype)

    @property
    def itemsize(self) -> int:
        """Bytes of one accumulated number."""
        return np.dtype(self.accumulator).itemsize


def floor_power(x: int) -> int:
    """The largest power of two that is at most `x`."""
    return 1 << (x.bit_length() - 1)


def clipped_offsets(size: int, lanes: int) -> tuple[int, ...]:
    """Offsets of vectors that cover `size` numbers, the last moved back to fit."""
    return tuple(min(start, size - lanes) for start in range(0, size, lanes))


@record
class Tile:
    """The register tile: a block of C of some rows and vectors.

    The last tiles are moved back to end at the edge of the matrix, so that no kernel needs a mask:
    what they share with others is computed twice and stored once.
    """

    m: int  # rows of the whole matrix
    n: int  # its columns
    rows: int
    lanes: int  # of a vector
    vectors: int  # in each row

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


@record
class Blocking:
    """The blocking of a product for caches, with packed panels one tile wide."""

    problem: Problem
    tile: Tile
    pack_a: bool
    pack_b: bool
    depth: int  # the piece of k that is summed at once
    row_panels: int  # of A that are kept packed together
    column_panels: int  # the same of B
    dot_lanes: int = 0  # if not 0, sums run along k in registers of as many lanes
    swapped: bool = False  # the problem is the transposed one: tiles are turned when stored
    uses_tiles: bool = False  # panels lie as tile registers read them
    in_vectors: bool = False  # with `uses_tiles`: sums are in vector registers all the same
    along_rows: bool = False  # tiles follow each other across a panel of A, else down one of B
    reads_windows: bool = False  # the kernel reads the windows of A where they lie
    down: int = 0  # how many parts share the rows; 0: `grid` chooses
    # Each sum goes on from piece to piece: one chain of multiply-adds however k is cut. Else each
    # piece is summed alone, and fewer numbers are added one after another.
    goes_on: bool = False
    turns_columns: bool = False  # B is contiguous along k and transposed in registers
    in_pairs: bool = False  # products of bfloat16 are added in the order of `loops/pairs.py`

    @property
    def kind(self) -> str:
        """The name of the algorithm."""
        if self.dot_lanes:
            return "dots"
        if self.uses_tiles:
            return "groups" if self.in_vectors else "tiles"
        if self.turns_columns:
            return "columns"
        if self.pieces > 1 and not self.pack_b:
            return "streamed"
        return "packed" if self.pack_a or self.pack_b else "small"

    @property
    def keeps_rows(self) -> bool:
        """Whether a packed panel of A holds whole rows, for their runs fill no chunks."""
        is_short = self.pack_a and self.depth == self.problem.k <= LONGEST_ROW
        return is_short and self.problem.a.run % self.tile.lanes != 0

    @property
    def a_chunk(self) -> int:
        """The width of a chunk: a cache line of columns of a panel of A, row by row.

        Copying rows needs no transposition, and the kernel still reads one stream.
        """
        if self.dot_lanes or self.turns_columns or self.keeps_rows:
            return 2 * floor_power(self.problem.k)
        if not self.pack_a or (self.problem.a.row == 1 and self.problem.a.column != 1):
            return 1
        return 64 // self.problem.itemsize

    @property
    def a_row(self) -> int:
        """The stride between the rows of A that the kernel sees."""
        if self.reads_windows:
            return self.windows.lines[-1].stride
        return self.a_chunk if self.pack_a else self.problem.a.row

    @property
    def a_column(self) -> int:
        """The stride between the columns (or chunks of them) of A that the kernel sees."""
        if self.reads_windows:
            return self.windows.depths[-1].stride
        return self.tile.rows * self.a_chunk if self.pack_a else self.problem.a.column

    @property
    def windows(self) -> Windows:
        """The windows that the kernel reads in place."""
        windows = self.problem.a.windows
        assert windows is not None, "it reads none"
        return windows

    @property
    def b_row(self) -> int:
        """The stride between the rows of B that the kernel sees."""
        return self.tile.columns if self.pack_b else self.problem.b.row

    @property
    def b_offsets(self) -> tuple[int, ...]:
        """The offsets of vectors in a row of B as the kernel sees it."""
        if not self.pack_b:
            return self.tile.offsets
        return tuple(range(0, self.tile.columns, self.tile.lanes))

    @property
    def group(self) -> int:
        """How many numbers of an operand have the size of one sum."""
        return self.problem.itemsize // np.dtype(as_dtype(self.problem.dtype)).itemsize

    @property
    def tile_depth(self) -> int:
        """How much of k one tile register holds."""
        return self.group * TILE_BYTES // self.problem.itemsize

    @property
    def tile_blocks(self) -> int:
        """How many tile registers follow each other along the depth of a panel."""
        return -(-self.depth // self.tile_depth)

    @property
    def a_panel(self) -> int:
        """Numbers in one packed panel of A, of the size of the sums."""
        if self.uses_tiles:
            return 2 * TILE_ROWS * self.tile_blocks * TILE_BYTES // self.problem.itemsize
        return self.tile.rows * (-(-self.depth // self.a_chunk) * self.a_chunk)

    @property
    def b_panel(self) -> int:
        """Numbers in one packed panel of B, of the size of the sums."""
        if self.uses_tiles:
            return self.tile.columns * self.tile_blocks * TILE_ROWS
        return self.tile.columns * self.depth

    @property
    def copies_a(self) -> bool:
        """Whether A is packed each time."""
        return self.pack_a and not self.problem.a.is_packed

    @property
    def copies_b(self) -> bool:
        """Whether B is packed each time."""
        return self.pack_b and not self.problem.b.is_packed

    @property
    def fetches(self) -> bool:
        """Whether the kernel prefetches the next panel of B while it uses one.

        Nothing reads panels that were packed early right before, as packing would, and a first
        tile that waits for the memory behind the caches takes as long as three.
        """
        is_given = self.problem.b.is_packed and not self.along_rows
        return is_given and self.tile.row_panels >= FETCHING_TILES

    @property
    def steps(self) -> int:
        """How many rounds the kernel's loop over the depth has."""
        return self.tile_blocks if self.uses_tiles else self.depth

    @property
    def fetched_bytes(self) -> int:
        """Bytes of the next panel that each round prefetches, if all tiles do."""
        return -(-self.b_panel * self.problem.itemsize // (self.steps * self.tile.row_panels))

    @property
    def a_bytes(self) -> int:
        """Memory to pack A into, in whole cache lines."""
        size = self.row_panels * self.a_panel * self.problem.itemsize
        return -(-size // 64) * 64 if self.copies_a else 0

    @property
    def b_bytes(self) -> int:
        """Memory to pack B into, in whole cache lines."""
        size = self.column_panels * self.b_panel * self.problem.itemsize
        return -(-size // 64) * 64 if self.copies_b else 0

    def panels_bytes(self, which: str) -> int:
        """Bytes of all panels of A or B."""
        count, size = self.tile.row_panels, self.a_panel
        if which == "b":
            count, size = self.tile.column_panels, self.b_panel
        return self.pieces * count * size * self.problem.itemsize

    @property
    def keeps_partial(self) -> bool:
        """Whether partial sums are kept in scratch memory, as C cannot hold them."""
        turned = self.swapped or self.problem.out_dtype != self.problem.accumulator
        return self.pieces > 1 and (turned or self.scatters)

    @property
    def scatters(self) -> bool:
        """Whether the rows of a tile are not all as far apart in C."""
        lines = self.problem.c_lines
        return bool(lines) and lines[-1].count % self.tile.rows != 0

    @property
    def partial_row(self) -> int:
        """The stride between the rows of partial sums."""
        return self.problem.n if self.keeps_partial else self.problem.c_row

    @property
    def sum_lines(self) -> tuple[Digit, ...]:
        """The digits of a row of the sums, wherever they are kept."""
        if self.keeps_partial or not self.problem.c_lines:
            return (Digit(1, self.problem.m, self.partial_row),)
        return self.problem.c_lines

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
        tile, best = self.tile, (float("inf"), 0, 1, 1)
        if self.down:
            down = min(self.down, parts, tile.row_panels)
            return down, min(parts // down, tile.column_panels)
        if self.along_rows and not self.pack_b and tile.row_panels >= 8 * parts:
            return parts, 1  # everybody writes one piece of memory
        for down in range(1, min(parts, tile.row_panels) + 1):
            across = min(parts // down, tile.column_panels)
            high, wide = -(-tile.row_panels // down), -(-tile.column_panels // across)
            # In units of one vector multiply-add; a packed vector costs about eight.
            work = high * wide * tile.rows * tile.vectors
            work += 8 * high * tile.rows / tile.lanes * self.copies_a
            work += 8 * wide * tile.vectors * self.copies_b
            lines = high * tile.rows + wide * tile.columns  # of both operands, which a part reads
            best = min(best, (work, lines, down, across))
        return best[2], best[3]

    def shares(self, parts: int) -> list[tuple[int, int, int, int]]:
        """The first and last panels of rows, then of columns, of each part that has work."""
        down, across = self.grid(parts)
        rows = _shares(self.tile.row_panels, down)
        columns = _shares(self.tile.column_panels, across)
        return [(*row, *column) for row in rows for column in columns]


def _shares(count: int, parts: int) -> list[tuple[int, int]]:
    bounds = [count * i // parts for i in range(parts + 1)]
    return list(itertools.pairwise(bounds))


def memory_type(dtype: str) -> str:
    """The LLVM type of one number in memory: a bool is a byte."""
    return "i8" if dtype == "bool" else LLVM_NAMES[dtype]


Tuning: TypeAlias = Mapping[Problem, Blocking]  # how products are computed that were measured
UNTUNED: Tuning = MappingProxyType({})
