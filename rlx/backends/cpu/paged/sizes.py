"""The sizes of a call of `paged_attention`, and where its numbers are kept."""

from __future__ import annotations

import math

import numpy as np

from ....ir.dims import Size, static
from ....ir.record import record
from ....ir.types import NAMES
from ....lower.lir.program import LibraryCall
from ..llvm.host import Host
from ..llvm.text import Vector

BLOCK = 64  # positions whose scores are in memory at a time
SEGMENT = 256  # positions, the fewest that a thread leaves to another
SEGMENTS = 16  # of a text at most
TILE, TILE_BYTES = 32, 128 << 10  # tokens of a text that are computed together
MANY = 3  # of them copy keys and values before they read them


@record(eq=False)
class Sizes:
    """The sizes and dtypes of a call."""

    step: LibraryCall
    tokens: Size
    sequences: Size
    table: Size  # pages of a sequence
    pages: Size
    size: int  # places of a page
    groups: int
    heads: int  # of a group
    width: int  # of a query and a key
    depth: int  # of a value
    query: str  # dtypes
    page: str
    wide: str
    lanes: int  # of a vector
    free: int  # registers for sums

    @classmethod
    def of(cls, step: LibraryCall, host: Host) -> Sizes:
        """Those of a call."""
        q, k_pages, v_pages, tables = step.input_types[:4]
        names = [NAMES[x.dtype] for x in (q, k_pages)]
        heads, groups = static(q.shape[1]), static(k_pages.shape[2])
        wide = "float64" if "float64" in names else "float32"
        return cls(
            step=step,
            tokens=q.shape[0],
            sequences=tables.shape[0],
            table=tables.shape[1],
            pages=k_pages.shape[0],
            size=static(k_pages.shape[1]),
            groups=groups,
            heads=heads // max(groups, 1),
            width=static(q.shape[2]),
            depth=static(v_pages.shape[3]),
            query=names[0],
            page=names[1],
            wide=wide,
            lanes=host.lanes(np.dtype(wide).itemsize),
            free=max(2, host.vector_registers - 6),
        )

    @property
    def is_empty(self) -> bool:
        """Whether there is nothing to compute."""
        return 0 in (self.groups, self.heads, self.depth, self.tokens)

    @property
    def vector(self) -> Vector:
        """The type of a vector in registers."""
        return Vector(self.wide, self.lanes)

    @property
    def vector_bytes(self) -> int:
        """The bytes of a vector."""
        return self.lanes * np.dtype(self.wide).itemsize

    @property
    def run(self) -> int:
        """How many of a vector of positions lie in one page together."""
        return math.gcd(self.size, self.lanes)

    @property
    def window(self) -> int | None:
        """How many positions before its own a token sees; None if all."""
        window: int | None = self.step.attrs["window"]
        return window

    @property
    def scale_dtype(self) -> str | None:
        """The dtype of scales, if pages have some."""
        return NAMES[self.step.input_types[6].dtype] if self.page == "int8" else None

    # -- the state of a token and a group: so many vectors of each kind, in this order -------------

    @property
    def chunks(self) -> int:
        """Vectors of a key."""
        return -(-self.width // self.lanes)

    @property
    def parts(self) -> int:
        """Vectors of a value."""
        return -(-self.depth // self.lanes)

    @property
    def sums(self) -> int:
        """The place of the sums of a segment: of values, then `tops`, then `totals`."""
        return self.heads * self.chunks

    @property
    def tops(self) -> int:
        """The place of the greatest scores behind the sums of values."""
        return self.heads * self.parts

    @property
    def totals(self) -> int:
        """The place of the sums of powers behind the sums of values."""
        return self.tops + self.heads

    @property
    def result(self) -> int:
        """How many vectors all these sums are."""
        return self.totals + self.heads

    @property
    def merged(self) -> int:
        """The place of the sums of all segments so far."""
        return self.sums + self.result

    @property
    def each(self) -> int:
        """How many vectors the state of a token and a group has."""
        return self.merged + self.result

    @property
    def tile(self) -> int:
        """How many tokens of a text, of one group, are computed together."""
        return max(1, min(TILE, TILE_BYTES // (self.each * self.vector_bytes)))

    @property
    def slots(self) -> int:
        """How many states there are at a time."""
        return max(self.tile, self.groups)

    # -- what a part leaves to others --------------------------------------------------------------

    @property
    def piece_bytes(self) -> int:
        """The bytes of all segments of a text."""
        return SEGMENTS * self.groups * self.result * self.vector_bytes
