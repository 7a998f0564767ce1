"""Matrix products: a group computes a tile, a thread a block of it.

The threads of a group read a slice of both operands into memory that they share. Where that is
slow, each reads what it needs by itself, for a larger block.
"""

from __future__ import annotations

import math

from ...ir.record import record
from ...lower.lir.expr import Expr, accumulated, apply
from ...lower.lir.index import Variable, as_index
from ...lower.lir.program import Buffer, Contraction
from .body import Body, Setting, Written
from .dialect import LocalArray, register
from .geometry import Grid, along_groups, size_of
from .parallel import write_stores
from .scalars import Scalars

SIDE = 16  # threads of a group along rows and along columns, where there are so many
BLOCK = 4  # rows and columns of a thread
TILE = SIDE * BLOCK  # for more rows libraries, which read matrices, are faster
ALONE = (8, 4)  # the same of one that shares nothing
DEPTH = 16  # of what a group reads at once


@record
class Tile:
    """One side of a matrix: threads of a group, what each computes, tiles."""

    threads: int
    block: int
    tiles: int

    @classmethod
    def of(cls, extent: int, side: int, most: int) -> Tile:
        """Tiles for so many rows or columns, a few of them for each thread of a side."""
        threads = min(side, 1 << (extent - 1).bit_length())
        block = min(most, -(-extent // threads))
        return cls(threads, block, -(-extent // (threads * block)))

    @property
    def size(self) -> int:
        """The rows or columns of a tile."""
        return self.threads * self.block


class _Product:
    """Writes one contraction."""

    def __init__(self, step: Contraction, setting: Setting) -> None:
        self.step, self.dtype = step, step.dtype
        self.lhs, self.rhs = (apply("convert", step.dtype, e) for e in (step.lhs, step.rhs))
        loops = (*step.batch, step.row, step.column, step.depth)
        self.body = Body.storing(setting, step.stores, loops, [self.lhs, self.rhs])
        self.writer, self.dialect = self.body.writer, setting.dialect
        limits = setting.dialect.limits
        self.shares = limits.shares
        side = next(n for n in (SIDE, 8, 4, 2, 1) if n * n <= limits.threads)
        blocks, sides = ((BLOCK, BLOCK), (side, side)) if self.shares else (ALONE, (1, 8))
        both = zip((step.row, step.column), sides, blocks, strict=True)
        self.rows, self.columns = (Tile.of(size_of(v), n, most) for v, n, most in both)
        self.depth = min(DEPTH, size_of(step.depth))
        self.threads = self.rows.threads * self.columns.threads

    def write(self) -> Written:
        """The kernel of all tiles."""
        step, rows, columns = self.step, self.rows, self.columns
        count = math.prod(map(size_of, step.batch)) * rows.tiles * columns.tiles
        groups = along_groups(count, self.dialect.limits)
        for name, tile in (("left", rows), ("right", columns)) if self.shares else ():
            array = LocalArray(name, register(self.dtype), self.depth * tile.size)
            self.body.locals.append(array)
        with groups.inside(self.writer, "tile"):
            self._places()
            self._sums()
            self._stores()
        return self.body.finish(groups.groups, (self.threads, 1, 1))

    def _places(self) -> None:
        """Name where the group and the thread are."""
        writer, rows, columns = self.writer, self.rows, self.columns
        whole = writer.whole
        writer.constant("thread", writer.as_index("thread", 0))
        writer.constant("x", f"thread % {whole(columns.threads)}")
        writer.constant("y", f"thread / {whole(columns.threads)}")
        writer.constant("first_column", f"tile % {whole(columns.tiles)} * {whole(columns.size)}")
        line = f"tile / {whole(columns.tiles)} % {whole(rows.tiles)}"
        writer.constant("first_row", f"{line} * {whole(rows.size)}")
        if self.step.batch:
            writer.constant("batch", f"tile / {whole(columns.tiles * rows.tiles)}")
            writer.cut("batch", self.step.batch)

    def _sums(self) -> None:
        """Add up the block's products; each sum has a name, as loops may stay loops."""
        writer, dialect, kind = self.writer, self.dialect, register(self.dtype)
        for name in self._names():
            writer.line(dialect.variable(kind, name, dialect.literal(kind, 0)))
        if not self.shares:
            self._sums_alone()
            return
        head = dialect.loop(
            writer.index_dtype,
            "start",
            writer.whole(0),
            writer.size(self.step.depth),
            writer.whole(self.depth),
        )
        with writer.block(head, [self.step.depth]):
            self._read("left", self.lhs, self.step.row, self.rows, "first_row")
            self._read("right", self.rhs, self.step.column, self.columns, "first_column")
            writer.line(dialect.barrier())
            with writer.count_to("d", self.depth):
                left = self._shared("left", self.rows, "y")
                self._products(left, self._shared("right", self.columns, "x"))
            writer.line(dialect.barrier())

    def _names(self) -> list[str]:
        """The names of the block's sums, a row after the other."""
        rows, columns = range(self.rows.block), range(self.columns.block)
        return [f"sum{r}_{c}" for r in rows for c in columns]

    def _shared(self, name: str, tile: Tile, thread: str) -> list[str]:
        """Name the numbers of the thread's rows or columns in the slice that is at hand."""
        writer, whole = self.writer, self.writer.whole
        names = [f"{name}{n}" for n in range(tile.block)]
        for n, each in enumerate(names):
            place = f"d * {whole(tile.size)} + {whole(n * tile.threads)} + {thread}"
            writer.constant(each, f"{name}[{place}]", self.dtype)
        return names

    def _sums_alone(self) -> None:
        """Add up the products of what the thread reads itself."""
        step = self.step
        rows = self._within("row", step.row, self.rows, "y")
        columns = self._within("column", step.column, self.columns, "x")
        with self.writer.loop(step.depth):
            left = [self._number(self.lhs, step.row, row) for row in rows]
            right = [self._number(self.rhs, step.column, column) for column in columns]
            self._products(left, right)

    def _within(self, name: str, side: Variable, tile: Tile, thread: str) -> list[str]:
        """Name the thread's rows or columns; those beyond the end are the last one again."""
        writer = self.writer
        names = [f"{name}{n}" for n in range(tile.block)]
        for n, each in enumerate(names):
            place = f"first_{name} + {writer.whole(n * tile.threads)} + {thread}"
            if tile.tiles * tile.size != size_of(side):
                last = writer.whole(size_of(side) - 1)
                place = writer.least(f"({place})", last)
            writer.constant(each, place)
        return names

    def _number(self, operand: Expr, side: Variable, place: str) -> str:
        """Name an operand's number at a row or column."""
        writer, name = self.writer, f"of_{place}"
        writer.variables[side] = place
        writer.line(self.dialect.variable(register(self.dtype), name))
        with writer.block("{", [side, self.step.depth], branch=True):
            writer.line(f"{name} = {writer.expr(operand)};")
        return name

    def _read(self, name: str, operand: Expr, side: Variable, tile: Tile, first: str) -> None:
        """Read a tile of an operand, 0 beyond it; neighbors by neighbors."""
        writer, step, whole = self.writer, self.step, self.writer.whole
        count = tile.size * self.depth
        head = self.dialect.loop(
            writer.index_dtype, "n", "thread", whole(count), whole(self.threads)
        )
        along_depth = goes_along_depth(operand, side, step.depth)
        fast, many = ("d", self.depth) if along_depth else ("s", tile.size)
        slow = "s" if along_depth else "d"
        with writer.block(head, [side, step.depth]):
            writer.constant(fast, f"n % {whole(many)}")
            writer.constant(slow, f"n / {whole(many)}")
            bounds = []
            for variable, text, size in (
                (side, f"{first} + s", tile.tiles * tile.size),
                (step.depth, "start + d", -(-size_of(step.depth) // self.depth) * self.depth),
            ):
                place = writer.variables[variable] = f"at_{text[-1]}"
                writer.constant(place, text)
                if size != size_of(variable):
                    bounds.append(f"{place} < {writer.size(variable)}")
            place = f"d * {whole(tile.size)} + s"
            if not bounds:
                writer.line(f"{name}[{place}] = {writer.expr(operand)};")
                return
            kind = register(self.dtype)
            writer.line(self.dialect.variable(kind, "number", self.dialect.literal(kind, 0)))
            with writer.block(f"if ({' && '.join(bounds)}) {{", branch=True):
                writer.line(f"number = {writer.expr(operand)};")
            writer.line(f"{name}[{place}] = number;")

    def _products(self, left: list[str], right: list[str]) -> None:
        """Multiply some rows' numbers by some columns'."""
        pairs = [(x, y) for x in left for y in right]
        for total, (x, y) in zip(self._names(), pairs, strict=True):
            text = product_sum(self.writer, self.dtype, x, y, total)
            self.writer.line(f"{total} = {text};")

    def _stores(self) -> None:
        """Store the block, as far as it lies in the matrix."""
        writer, step, whole = self.writer, self.step, self.writer.whole
        rows, columns = self.rows, self.columns
        both = [step.row, step.column]
        names = self._names()
        writer.line(self.dialect.array(register(self.dtype), "sums", len(names)))
        for n, name in enumerate(names):
            writer.line(f"sums[{whole(n)}] = {name};")
        with writer.count_to("r", rows.block, both), writer.count_to("c", columns.block, both):
            bounds = []
            for variable, name, text, tile in (
                (step.row, "row", f"first_row + r * {whole(rows.threads)} + y", rows),
                (
                    step.column,
                    "column",
                    f"first_column + c * {whole(columns.threads)} + x",
                    columns,
                ),
            ):
                writer.variables[variable] = name
                writer.constant(name, text)
                if tile.tiles * tile.size != size_of(variable):
                    bounds.append(f"{name} < {writer.size(variable)}")
            writer.given[accumulated(self.dtype)] = f"sums[r * {whole(columns.block)} + c]"
            # a branch either way: what is made of the sum must not move out of the loops
            head = f"if ({' && '.join(bounds)}) {{" if bounds else "{"
            with writer.block(head, both, branch=True):
                write_stores(writer, step.stores)


def goes_along_depth(operand: Expr, side: Variable, depth: Variable) -> bool:
    """Whether neighbors in an operand's memory are neighbors along the depth."""
    if not operand.loads:
        return False
    index = max(operand.loads, key=lambda e: (e.buffer.nbytes, e.serial)).index
    return index.stride_of(depth) == 1 if index.is_affine else index.stride_of(side) != 1


def write_contraction(step: Contraction, setting: Setting) -> Written:
    """Write a `Contraction` with its prologues and epilogue."""
    return _Product(step, setting).write()


def write_epilogue(step: Contraction, sums: Buffer, setting: Setting) -> Written:
    """Write what is done with the sums of a `Contraction`, which lie in a buffer."""
    loops = tuple(v for v in (*step.batch, step.row, step.column) if v.extent != 1)
    body = Body.storing(setting, step.stores, loops, read=[sums])
    writer, place = body.writer, as_index(0)
    for variable in loops:
        place = place * size_of(variable) + variable
    grid = Grid.of(loops, setting.dialect.limits)
    with grid.inside(writer):
        value = writer.loaded(writer.parameters[sums], writer.index(place))
        writer.constant("total", value, step.dtype)
        writer.given[accumulated(step.dtype)] = "total"
        write_stores(writer, step.stores)
    return body.finish_on(grid)


def product_sum(writer: Scalars, dtype: object, x: str, y: str, total: str) -> str:
    """total + x * y, rounded once where the language can."""
    kind = register(dtype)  # type: ignore[arg-type]
    if kind.kind == "f":
        return writer.call("fma", [kind, kind, kind], kind, [x, y, total])
    product = writer.pair("mul", kind, x, y)
    return writer.pair("add", kind, total, product)
