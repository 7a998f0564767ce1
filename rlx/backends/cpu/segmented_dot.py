"""Products of rows, each with a matrix of its own: see the op `segmented_dot`.

Each row is computed alone. A sum has `TURNS` parts, of every so many products from the first ones
on, so that its order depends on the number of products alone.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from ...ir.dims import Size, likely, static
from ...ir.record import record
from ...ir.types import NAMES
from ...lower.lir.program import LibraryCall
from .llvm.host import Host
from .llvm.text import Function, Module, Vector
from .loops.kernels import Layout
from .loops.numbers import Numbers

TURNS = 4
NANOSECONDS = 0.03  # of one product


@record(eq=False)
class SegmentedDot:
    """The sizes and dtypes of a call."""

    step: LibraryCall
    host: Host
    tokens: Size
    count: Size  # of matrices
    depth: int
    width: int
    row: str  # dtypes
    matrix: str
    wide: str

    @classmethod
    def of(cls, step: LibraryCall, host: Host) -> SegmentedDot:
        """Those of a call."""
        x, w, _ = step.input_types
        names = NAMES[x.dtype], NAMES[w.dtype]
        wide = "float64" if "float64" in names else "float32"
        sizes = static(w.shape[1]), static(w.shape[2])
        return cls(step, host, x.shape[0], w.shape[0], *sizes, *names, wide)

    @property
    def extents(self) -> tuple[Size, ...]:
        """The sizes that the time grows with."""
        return self.tokens, self.depth, self.width

    @property
    def cost(self) -> float:
        """Rough nanoseconds on one thread."""
        return NANOSECONDS * likely(self.tokens) * self.depth * self.width

    @property
    def scratch_bytes(self) -> int:
        """None: sums stay in registers."""
        return 0

    @property
    def has_rest(self) -> bool:
        """Whether something is left to do after all parts."""
        return False

    def emit(self, module: Module, f: Function, layout: Layout, is_shared: bool) -> None:
        """Emit the products of all rows, or of those of a part."""
        if 0 in (self.tokens, self.width):
            return
        pointers = [layout.pointer(f, b) for b in (*self.step.inputs, *self.step.outputs)]
        start, stride = ("%part", "%parts") if is_shared else ("0", "1")
        with f.loop(start, f.number(self.tokens), stride) as loop:
            _Writer(f, self, pointers).write(loop.index)

    def emit_rest(self, f: Function, layout: Layout) -> None:
        """Emit nothing: parts leave nothing."""


class _Writer:
    """Writes the code of one row."""

    def __init__(self, f: Function, product: SegmentedDot, pointers: list[str]) -> None:
        self.f, self.p = f, product
        self.x, self.w, self.index, self.out = pointers
        self.lanes = product.host.lanes(np.dtype(product.wide).itemsize)
        self.vector = Vector(product.wide, self.lanes)
        self.numbers = Numbers(f, product.wide, self.lanes)
        self.most = max(1, (product.host.vector_registers - 8) // (2 * TURNS))  # vectors of columns

    def write(self, token: str) -> None:
        """Write the product of a row."""
        f, p = self.f, self.p
        self.row = f.emit(f"mul i64 {token}, {p.depth}")
        self.target = f.emit(f"mul i64 {token}, {p.width}")
        number = self.numbers.integer(self.index, token)
        last = f.emit(f"sub i64 {f.number(p.count)}, 1")
        number = self.numbers.extreme("smin", number, last)
        is_none = f.emit(f"icmp slt i64 {number}, 0")
        with f.when(is_none):
            self._columns(lambda first, widths: [f.constant(self.vector, 0) for _ in widths])
        with f.when(f.emit(f"xor i1 {is_none}, true")):
            self.matrix = f.emit(f"mul i64 {number}, {p.depth * p.width}")
            self._columns(self._sums)

    def _columns(self, sums: Callable[[str, list[str | None]], list[str]]) -> None:
        """Store sums of all columns, some vectors at a time."""
        f, p, lanes = self.f, self.p, self.lanes
        many = self.most * lanes
        whole = p.width - p.width % many
        with f.loop("0", str(whole), str(many)) as loop:
            self._store(loop.index, sums(loop.index, [None] * self.most))
        masks = [
            self.numbers.mask(i, p.width - whole) for i in range(-(-(p.width - whole) // lanes))
        ]
        if masks:
            self._store(str(whole), sums(str(whole), masks), masks[-1])

    def _store(self, first: str, xs: list[str], mask: str | None = None) -> None:
        f = self.f
        for i, x in enumerate(xs):
            place = f.emit(f"add i64 {f.emit(f'add i64 {self.target}, {first}')}, {i * self.lanes}")
            own = mask if i == len(xs) - 1 else None
            self.numbers.store(x, self.out, place, self.p.row, own)

    def _sums(self, first: str, masks: list[str | None]) -> list[str]:
        """The sums of some vectors of columns."""
        f, p, vector = self.f, self.p, self.vector
        zeros = [(vector.text, f.constant(vector, 0))] * (len(masks) * TURNS)
        rounds = p.depth // TURNS
        with f.loop("0", str(rounds), carried=zeros) as loop:
            start = f.emit(f"mul i64 {loop.index}, {TURNS}")
            loop.next = self._added(loop.values, start, first, masks, TURNS)
        rest = p.depth % TURNS
        totals = self._added(loop.values, str(rounds * TURNS), first, masks, rest)
        made = []
        for i in range(len(masks)):
            parts = totals[i * TURNS : (i + 1) * TURNS]
            while len(parts) > 1:
                pairs = zip(parts[::2], parts[1::2], strict=True)
                parts = [f.emit(f"fadd {vector.text} {x}, {y}") for x, y in pairs]
            made += parts
        return made

    def _added(
        self, totals: list[str], start: str, first: str, masks: list[str | None], count: int
    ) -> list[str]:
        """The parts of sums with the products of `count` numbers of the row."""
        f, p, totals = self.f, self.p, list(totals)
        for turn in range(count):
            k = f.emit(f"add i64 {start}, {turn}")
            x = self.numbers.load(self.x, f.emit(f"add i64 {self.row}, {k}"), p.row, None, 1)
            x = f.splat(x, self.vector)
            line = f.emit(f"add i64 {f.emit(f'mul i64 {k}, {p.width}')}, {self.matrix}")
            line = f.emit(f"add i64 {line}, {first}")
            for i, mask in enumerate(masks):
                place = f.emit(f"add i64 {line}, {i * self.lanes}")
                w = self.numbers.load(self.w, place, p.matrix, mask)
                at = i * TURNS + turn
                totals[at] = f.intrinsic("fma", self.vector, x, w, totals[at])
        return totals
