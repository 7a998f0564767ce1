"""Matrix products: a group computes a tile, a thread a block of it."""

from __future__ import annotations

import math
from dataclasses import dataclass

from ...lower.lir.expr import Expr, Load, accumulated, apply
from ...lower.lir.index import Variable, as_index
from ...lower.lir.program import Buffer, Contraction
from .body import Body, Setting, Written
from .dialect import LocalArray, register
from .geometry import Grid, along_groups
from .parallel import write_stores
from .scalars import Scalars

SIDE = 16  # threads of a group along rows and along columns, where there are so many
BLOCK = 4  # rows and columns of a thread
DEPTH = 16  # of what a group reads at once


@dataclass(frozen=True)
class Tile:
    """One side of a matrix: threads of a group, what each computes, tiles."""

    threads: int
    block: int
    tiles: int

    @classmethod
    def of(cls, extent: int, most: int) -> Tile:
        """Tiles for so many rows or columns, of a group that may have so many threads."""
        side = SIDE
        while side * side > most:
            side //= 2
        threads = min(side, 1 << (extent - 1).bit_length())
        block = min(BLOCK, -(-extent // threads))
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
        stores = step.stores
        self.body = Body.of(
            setting,
            [self.lhs, self.rhs, *(s.expr for s in stores)],
            [s.index for s in stores],
            loops,
            [s.buffer for s in stores],
        )
        self.writer, self.dialect = self.body.writer, setting.dialect
        most = setting.dialect.limits.threads
        self.rows, self.columns = (Tile.of(_size(v), most) for v in (step.row, step.column))
        self.depth = min(DEPTH, _size(step.depth))
        self.threads = self.rows.threads * self.columns.threads

    def write(self) -> Written:
        """The kernel of all tiles."""
        step, rows, columns = self.step, self.rows, self.columns
        count = math.prod(map(_size, step.batch)) * rows.tiles * columns.tiles
        groups = along_groups(count, self.dialect.limits)
        for name, tile in (("left", rows), ("right", columns)):
            array = LocalArray(name, register(self.dtype), self.depth * tile.size)
            self.body.locals.append(array)
        with groups.inside(self.writer, "tile"):
            self._places()
            self._sums()
            self._stores()
        return self.body.finish(groups.groups, (self.threads, 1, 1))

    def _name(self, name: str, text: str) -> None:
        writer = self.writer
        writer.line(self.dialect.constant(writer.index_dtype, name, text))

    def _places(self) -> None:
        """Name where the group and the thread are."""
        writer, rows, columns = self.writer, self.rows, self.columns
        whole = writer.whole
        self._name("thread", writer.as_index("thread", 0))
        self._name("x", f"thread % {whole(columns.threads)}")
        self._name("y", f"thread / {whole(columns.threads)}")
        self._name("first_column", f"tile % {whole(columns.tiles)} * {whole(columns.size)}")
        line = f"tile / {whole(columns.tiles)} % {whole(rows.tiles)}"
        self._name("first_row", f"{line} * {whole(rows.size)}")
        if self.step.batch:
            self._name("batch", f"tile / {whole(columns.tiles * rows.tiles)}")
            writer.cut("batch", self.step.batch)

    def _sums(self) -> None:
        """Add up the block's products, a slice of the depth after the other."""
        writer, dialect, kind = self.writer, self.dialect, register(self.dtype)
        count = self.rows.block * self.columns.block
        writer.line(dialect.array(kind, "sums", count))
        with writer.count_to("n", count):
            writer.line(f"sums[n] = {dialect.literal(kind, 0)};")
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
                self._products()
            writer.line(dialect.barrier())

    def _read(self, name: str, operand: Expr, side: Variable, tile: Tile, first: str) -> None:
        """Read a tile of an operand, 0 beyond it; neighbors by neighbors."""
        writer, step, whole = self.writer, self.step, self.writer.whole
        count = tile.size * self.depth
        head = self.dialect.loop(
            writer.index_dtype, "n", "thread", whole(count), whole(self.threads)
        )
        load = next(iter(operand.loads), None)
        along_depth = isinstance(load, Load) and load.index.stride_of(step.depth) == 1
        fast, many = ("d", self.depth) if along_depth else ("s", tile.size)
        slow = "s" if along_depth else "d"
        with writer.block(head, [side, step.depth]):
            self._name(fast, f"n % {whole(many)}")
            self._name(slow, f"n / {whole(many)}")
            bounds = []
            for variable, text, size in (
                (side, f"{first} + s", tile.tiles * tile.size),
                (step.depth, "start + d", -(-_size(step.depth) // self.depth) * self.depth),
            ):
                place = writer.variables[variable] = f"at_{text[-1]}"
                self._name(place, text)
                if size != _size(variable):
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

    def _products(self) -> None:
        """Multiply a column of the left tile by a line of the right one."""
        writer, dialect, kind, whole = (
            self.writer,
            self.dialect,
            register(self.dtype),
            self.writer.whole,
        )
        rows, columns = self.rows, self.columns
        writer.line(dialect.array(kind, "line", columns.block))
        with writer.count_to("c", columns.block):
            place = f"d * {whole(columns.size)} + c * {whole(columns.threads)} + x"
            writer.line(f"line[c] = right[{place}];")
        with writer.count_to("r", rows.block):
            place = f"d * {whole(rows.size)} + r * {whole(rows.threads)} + y"
            writer.line(dialect.constant(kind, "factor", f"left[{place}]"))
            with writer.count_to("c", columns.block):
                total = f"sums[r * {whole(columns.block)} + c]"
                text = product_sum(writer, self.dtype, "factor", "line[c]", total)
                writer.line(f"{total} = {text};")

    def _stores(self) -> None:
        """Store the block, as far as it lies in the matrix."""
        writer, step, whole = self.writer, self.step, self.writer.whole
        rows, columns = self.rows, self.columns
        both = [step.row, step.column]
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
                self._name(name, text)
                if tile.tiles * tile.size != _size(variable):
                    bounds.append(f"{name} < {writer.size(variable)}")
            writer.given[accumulated(self.dtype)] = f"sums[r * {whole(columns.block)} + c]"
            # a branch either way: what is made of the sum must not move out of the loops
            head = f"if ({' && '.join(bounds)}) {{" if bounds else "{"
            with writer.block(head, both, branch=True):
                write_stores(writer, step.stores)


def write_contraction(step: Contraction, setting: Setting) -> Written:
    """Write a `Contraction` with its prologues and epilogue."""
    return _Product(step, setting).write()


def write_epilogue(step: Contraction, sums: Buffer, setting: Setting) -> Written:
    """Write what is done with the sums of a `Contraction`, which lie in a buffer."""
    stores = step.stores
    loops = tuple(v for v in (*step.batch, step.row, step.column) if v.extent != 1)
    exprs, indices = [s.expr for s in stores], [s.index for s in stores]
    body = Body.of(setting, exprs, indices, loops, [s.buffer for s in stores], [sums])
    writer, place = body.writer, as_index(0)
    for variable in loops:
        place = place * _size(variable) + variable
    grid = Grid.of(loops, setting.dialect.limits)
    with grid.inside(writer):
        kind = register(step.dtype)
        value = writer.loaded(writer.parameters[sums], writer.index(place))
        writer.line(setting.dialect.constant(kind, "total", value))
        writer.given[accumulated(step.dtype)] = "total"
        write_stores(writer, stores)
    return body.finish_on(grid)


def product_sum(writer: Scalars, dtype: object, x: str, y: str, total: str) -> str:
    """total + x * y, rounded once where the language can."""
    kind = register(dtype)  # type: ignore[arg-type]
    if kind.kind == "f":
        return writer.call("fma", [kind, kind, kind], kind, [x, y, total])
    product = writer.call("mul", [kind, kind], kind, [x, y])
    return writer.call("add", [kind, kind], kind, [total, product])


def _size(variable: Variable) -> int:
    assert isinstance(variable.extent, int), "sizes are numbers here"
    return variable.extent
