"""How numbers in blocks lie in memory for products: in tiles of 16 lines.

A tile has the blocks of 32 numbers of its lines one after another. A block has codes, then the
scales of 16 lines, for each group of its numbers, then the minima, if there are any. A word of
codes, of which line after line has one, holds

    codes of 8 bits   numbers 4 z to 4 z + 3 of word z, of eight, as signed bytes
    codes of 4 bits   the same in the lower halves of its bytes, and 16 more in the upper ones

so four lines of a column of bytes are multiplied by four numbers of x at a time. Lines that are
missing in the last tile repeat the last one.
"""

from __future__ import annotations

from ....ir.ops.blocks import FORMATS, BlockFormat
from ....ir.record import record
from ....ir.types import as_dtype
from ..llvm.host import Host

LINES = 16  # of a tile
BLOCK = 32  # numbers
WORD = 4  # numbers that one instruction multiplies and adds


@record
class Packed:
    """The way in which the numbers of a format are packed."""

    format: str
    bits: int  # of a code
    group: int  # numbers that have one scale
    scale: str  # the dtype of scales and minima
    values: tuple[int, ...] = ()  # what codes of 4 bits stand for

    @property
    def name(self) -> str:
        """What the names of its functions end with."""
        return f"{self.format}_{self.bits}_{self.scale}"

    @property
    def source(self) -> BlockFormat:
        """How the numbers lie in a file."""
        return FORMATS[self.format]

    @property
    def groups(self) -> int:
        """The groups of a block."""
        return BLOCK // self.group

    @property
    def words(self) -> int:
        """The words of codes in a block of one line."""
        return BLOCK * self.bits // 32

    @property
    def has_minimum(self) -> bool:
        """Whether numbers are scale * code + minimum."""
        return self.source.minimum is not None

    @property
    def zero(self) -> int | None:
        """The code of 4 bits that stands for 0, if codes less this one are the numbers."""
        zero = -self.values[0] if self.values else 0
        return zero if self.values == tuple(i - zero for i in range(16)) else None

    def scale_place(self, group: int) -> int:
        """The byte of a group's scales in a block."""
        return 4 * LINES * self.words + group * LINES * as_dtype(self.scale).itemsize

    def minimum_place(self, group: int) -> int:
        """The byte of a group's minima in a block."""
        return self.scale_place(self.groups + group)

    @property
    def nbytes(self) -> int:
        """The bytes of a block of all lines."""
        return self.scale_place(self.groups * (2 if self.has_minimum else 1))

    def panel_bytes(self, lines: int, depth: int) -> int:
        """The bytes of so many lines of `depth` blocks."""
        return -(-lines // LINES) * depth * self.nbytes


def has(host: Host, *features: str) -> bool:
    """Whether a processor has all of these features, by LLVM's names."""
    return set(features) <= {name[1:] for name in host.features.split(",") if name[0] == "+"}


def packed_layout(format: str, host: Host) -> Packed:
    """The way to pack numbers of a format for a processor."""
    source = FORMATS[format]
    codes, few = source.codes, sum(bits.count for bits in source.codes.bits) <= 4
    values = codes.values or tuple(i - codes.zero for i in range(16))
    groups = source.scales.bits[0].places.size if source.scales is not None else 1
    # a table of values is read in registers where an instruction does that
    few = few and (not codes.values or has(host, "avx512f", "avx512bw"))
    is_half = source.scales is None and not source.is_power and has(host, "f16c")
    return Packed(
        format,
        4 if few else 8,
        min(BLOCK, source.size // groups),
        "float16" if is_half else "float32",
        values if few else (),
    )
