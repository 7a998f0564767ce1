"""A kernel while it is written, and what it is in the end."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence

import numpy as np

from ...ir.errors import UnsupportedOp
from ...ir.record import field, record
from ...lower.lir.expr import Expr, walk
from ...lower.lir.index import Index, Variable
from ...lower.lir.program import Buffer, Store
from .dialect import INT32, INT64, Dialect, LocalArray, Parameter, Signature
from .geometry import Axes, Grid
from .scalars import Functions, Scalars


@record
class Written:
    """A kernel's lines, and what it is bound to."""

    signature: Signature
    lines: tuple[str, ...]
    called: tuple[str, ...]  # functions
    buffers: tuple[Buffer, ...]
    groups: Axes  # of threads
    numbers: tuple[int, ...] = ()  # values of `signature.numbers`


@record
class Setting:
    """What all kernels of a program share."""

    dialect: Dialect
    functions: Functions
    moved: Callable[[Buffer], bool]  # whether a buffer begins at an offset in its memory


@record(frozen=False)
class Body:
    """A kernel while it is written, and the buffers it is bound to, in order."""

    writer: Scalars
    buffers: tuple[Buffer, ...]
    locals: list[LocalArray] = field(default_factory=list)

    @classmethod
    def of(
        cls,
        setting: Setting,
        exprs: Iterable[Expr],
        indices: Iterable[Index],
        loops: Sequence[Variable],
        written: Sequence[Buffer],
        read: Sequence[Buffer] = (),
    ) -> Body:
        """A kernel of these expressions and indices that writes some buffers.

        Besides what it loads it may read other buffers.
        """
        indices = tuple(indices)
        roots = [*exprs, *(e for index in indices for e in index.loads)]
        loaded = {load.buffer for root in roots for load in root.loads}
        buffers = tuple(sorted(loaded.union(written, read), key=lambda b: b.serial))
        places = [*indices, *_indices(roots)]
        sizes = [*(v.extent for v in loops), *(b.count for b in buffers)]
        dtype = index_dtype(places, sizes, setting.dialect)  # type: ignore[arg-type]
        writer = Scalars(setting.dialect, setting.functions, roots, dtype)
        for number, b in enumerate(buffers):
            parameter = Parameter(f"b{number}", b.number_dtype, b in written, setting.moved(b))
            writer.parameters[b] = parameter
        return cls(writer, buffers)

    @classmethod
    def storing(
        cls,
        setting: Setting,
        stores: Sequence[Store],
        loops: Sequence[Variable],
        exprs: Iterable[Expr] = (),
        read: Sequence[Buffer] = (),
    ) -> Body:
        """A kernel of stores, and of what else it computes and reads."""
        exprs, indices = [*exprs, *(s.expr for s in stores)], [s.index for s in stores]
        return cls.of(setting, exprs, indices, loops, [s.buffer for s in stores], read)

    def finish(
        self,
        groups: Axes,
        threads: Axes,
        numbers: dict[str, int] | None = None,
    ) -> Written:
        """The kernel with all its lines, for so many groups and threads."""
        numbers = numbers or {}
        parameters = tuple(self.writer.parameters[b] for b in self.buffers)
        signature = Signature(parameters, tuple(numbers), tuple(self.locals), threads)
        lines, called = tuple(self.writer.lines), tuple(self.writer.called)
        assert len(self.writer.scopes) == 1, "all blocks are closed"
        return Written(signature, lines, called, self.buffers, groups, tuple(numbers.values()))

    def finish_on(self, grid: Grid, numbers: dict[str, int] | None = None) -> Written:
        """The kernel with all its lines, on a grid."""
        return self.finish(grid.groups, grid.threads, numbers)


def _indices(roots: Sequence[Expr]) -> Iterator[Index]:
    for expr in walk(*roots):
        yield from expr.indices


def index_dtype(indices: Iterable[Index], sizes: Iterable[int], dialect: Dialect) -> np.dtype:
    """The dtype that holds all of these."""
    nested = (part for index in indices for part in index.nested())
    is_short = all(n < 2**31 for n in sizes) and all(i.fits_32_bits for i in nested)
    if is_short:
        return INT32
    if not dialect.has_wide_index:
        raise UnsupportedOp(
            f"{dialect.name} has no 64-bit integers to find elements of arrays as large as these",
            fix="cut the arrays into parts, or run this function on another device",
        )
    return INT64
