"""Matrix products on a processor: a thread computes a tile alone, in vectors.

Both operands are packed for the tile, a slice of the depth after the other, into memory that stays
in cache: one in blocks of a few rows, whose numbers are each spread over a vector, the other in
blocks of a few vectors of columns. A block of sums stays in registers for a whole slice. If there
are fewer columns than a vector has, rows and columns change their parts.
"""

from __future__ import annotations

import math

from ...ir.record import record
from ...lower.lir.expr import Apply, Expr, accumulated, apply, substitute, walk
from ...lower.lir.index import Quotient, Variable
from ...lower.lir.program import Contraction
from .body import Body, Setting, Written
from .dialect import LocalArray, register
from .geometry import along_groups, size_of
from .parallel import write_stores
from .products import goes_along_depth

ROWS, VECTORS = 6, 2  # of a block: 12 registers for its sums, of 16 that most processors have
MOST_ROWS, MOST_COLUMNS, MOST_DEPTH = 96, 256, 256  # of a tile
Operand = tuple[str, Expr, Variable]


@record
class Side:
    """Rows or columns of a product: what a block and a tile have of them."""

    name: str
    operand: Expr
    variable: Variable
    block: int
    blocks: int  # of a tile
    runs: tuple[Variable, ...] = ()  # of an operand that is computed: which run, and where in it

    @property
    def extent(self) -> int:
        """How many there are in the matrix."""
        return size_of(self.variable)

    @property
    def tile(self) -> int:
        """How many a tile has."""
        return self.block * self.blocks

    @property
    def tiles(self) -> int:
        """How many tiles there are along this side."""
        return -(-self.extent // self.tile)


class _Product:
    """Writes one contraction."""

    def __init__(self, step: Contraction, setting: Setting) -> None:
        self.step, self.dtype, self.kind = step, step.dtype, register(step.dtype)
        self.dialect = setting.dialect
        lhs, rhs = (apply("convert", step.dtype, e) for e in (step.lhs, step.rhs))
        self.lanes = max(1, self.dialect.limits.lanes * 4 // self.kind.itemsize)
        rows, columns = size_of(step.row), size_of(step.column)
        spread, vector = ("row", lhs, step.row), ("column", rhs, step.column)
        self.is_turned = columns < self.lanes and rows > columns
        if self.is_turned:
            spread, vector = vector, spread
        self._choose(spread, vector)
        loops = (*step.batch, step.row, step.column, step.depth)
        operands = [side.operand for side in (self.spread, self.vector)]
        self.body = Body.storing(setting, step.stores, loops, operands)
        self.writer, self._name = self.body.writer, self.body.writer.constant

    def _choose(self, spread: Operand, vector: Operand) -> None:
        """Take the largest tiles whose packed operands fit."""
        few, many = size_of(spread[2]), size_of(vector[2])
        block = min(ROWS, few)
        vectors = 1 if many <= self.lanes else VECTORS
        self.vectors, self.depth = vectors, min(MOST_DEPTH, size_of(self.step.depth))
        wide = self.lanes * vectors
        rows = -(-min(MOST_ROWS, few) // block)
        columns = max(1, min(MOST_COLUMNS, -(-many // wide) * wide) // wide)
        room = self.dialect.limits.local_bytes // self.kind.itemsize
        while self._needs(rows * block, columns * wide) > room:
            if self.depth > 32:
                self.depth //= 2
            elif columns > 1:
                columns //= 2
            elif rows > 1:
                rows //= 2
            else:
                break
        self.spread = self._side(*spread, block, rows)
        self.vector = self._side(*vector, wide, columns)

    def _side(self, name: str, operand: Expr, variable: Variable, block: int, blocks: int) -> Side:
        """A side, whose operand is computed in runs if it changes from one run to the next."""
        depth = self.step.depth
        length = run_of(operand, depth)
        if length < 2 or self.depth % length or size_of(depth) % length:
            return Side(name, operand, variable, block, blocks)
        run, place = Variable(size_of(depth) // length), Variable(length)
        operand = substitute(operand, {depth: run * length + place})
        return Side(name, operand, variable, block, blocks, (run, place))

    def _needs(self, rows: int, columns: int) -> int:
        return self.depth * (rows + columns) + rows * columns

    def write(self) -> Written:
        """The kernel of all tiles."""
        step, spread, vector = self.step, self.spread, self.vector
        count = math.prod(map(size_of, step.batch)) * spread.tiles * vector.tiles
        groups = along_groups(count, self.dialect.limits)
        for name, size in (
            ("spread", self.depth * spread.tile),
            ("vectors", self.depth * vector.tile),
            ("sums", spread.tile * vector.tile),
        ):
            self.body.locals.append(LocalArray(name, self.kind, size))
        with groups.inside(self.writer, "tile"):
            self._places()
            self._sums()
            self._stores()
        return self.body.finish(groups.groups, (1, 1, 1))

    def _least(self, x: str, y: int) -> str:
        index = self.writer.index_dtype
        return self.writer.pair("min", index, f"({x})", self.writer.whole(y))

    def _places(self) -> None:
        """Name where the tile begins, and how much of it lies in the matrix."""
        whole, spread, vector = self.writer.whole, self.spread, self.vector
        self._name("first_column", f"tile % {whole(vector.tiles)} * {whole(vector.tile)}")
        line = f"tile / {whole(vector.tiles)} % {whole(spread.tiles)}"
        self._name("first_row", f"{line} * {whole(spread.tile)}")
        if self.step.batch:
            self._name("batch", f"tile / {whole(vector.tiles * spread.tiles)}")
            self.writer.cut("batch", self.step.batch)
        self._name("rows", self._least(f"{whole(spread.extent)} - first_row", spread.tile))
        self._name("columns", self._least(f"{whole(vector.extent)} - first_column", vector.tile))
        for name, side in (("row", spread), ("column", vector)):
            blocks = f"({name}s + {whole(side.block - 1)}) / {whole(side.block)}"
            self._name(f"{name}_blocks", blocks)

    # -- a slice of the depth --------------------------------------------------------------------

    def _sums(self) -> None:
        writer, dialect, whole = self.writer, self.dialect, self.writer.whole
        index, depth = writer.index_dtype, size_of(self.step.depth)
        head = dialect.loop(index, "start", whole(0), whole(depth), whole(self.depth))
        with writer.block(head, [self.step.depth]):
            rest = whole(self.depth)
            if depth % self.depth:
                rest = self._least(f"{whole(depth)} - start", self.depth)
            self._name("rest", rest)
            self._pack("spread", self.spread, "first_row", "row_blocks")
            self._pack("vectors", self.vector, "first_column", "column_blocks")
            with writer.block(dialect.loop(index, "column", whole(0), "column_blocks")):
                with writer.block(dialect.loop(index, "row", whole(0), "row_blocks")):
                    self._block()

    def _pack(self, name: str, side: Side, first: str, blocks: str) -> None:
        """Pack a slice of an operand, block by block, in the order of its memory."""
        writer, whole, index = self.writer, self.writer.whole, self.writer.index_dtype
        if side.runs:
            self._pack_runs(name, side, first, blocks)
            return
        loops = [("d", "rest"), ("s", whole(side.block))]
        if goes_along_depth(side.operand, side.variable, self.step.depth):
            loops.reverse()
        both = [side.variable, self.step.depth]
        with writer.block(self.dialect.loop(index, "b", whole(0), blocks), both):
            heads = [self.dialect.loop(index, n, whole(0), end) for n, end in loops]
            with writer.block(heads[0], both), writer.block(heads[1], both):
                self._name("at_s", f"{first} + b * {whole(side.block)} + s")
                self._name("at_d", "start + d")
                writer.variables[side.variable] = "at_s"
                writer.variables[self.step.depth] = "at_d"
                place = f"(b * {whole(self.depth)} + d) * {whole(side.block)} + s"
                if side.extent % side.block == 0:
                    writer.line(f"{name}[{place}] = {writer.expr(side.operand)};")
                    return
                zero = self.dialect.literal(self.kind, 0)
                writer.line(self.dialect.variable(self.kind, "number", zero))
                with writer.block(f"if (at_s < {whole(side.extent)}) {{", branch=True):
                    writer.line(f"number = {writer.expr(side.operand)};")
                writer.line(f"{name}[{place}] = number;")

    def _pack_runs(self, name: str, side: Side, first: str, blocks: str) -> None:
        """Compute a slice of an operand run by run, each in a line that is packed then.

        What all numbers of a run share is computed once, the others in vectors. Rows or columns
        beyond the end are the last one again.
        """
        writer, whole = self.writer, self.writer.whole
        (run, place), block = side.runs, whole(side.block)
        length, inner = size_of(place), [side.variable, *side.runs]

        def loop(variable: str, end: str) -> str:
            return self.dialect.loop(writer.index_dtype, variable, whole(0), end)

        with writer.block(loop("b", blocks), inner), writer.block(loop("s", block), inner):
            at = f"({first} + b * {block} + s)"
            self._name("at_s", writer.least(at, whole(side.extent - 1)))
            writer.variables[side.variable] = "at_s"
            with writer.block(loop("n", f"rest / {whole(length)}"), side.runs):
                self._name("run", f"start / {whole(length)} + n")
                writer.variables |= {run: "run", place: "d"}
                writer.line(self.dialect.array(self.kind, "line", length))
                with writer.count_to("d", length, [place]):
                    writer.line(f"line[d] = {writer.expr(side.operand)};")
                with writer.count_to("d", length):
                    at = f"b * {whole(self.depth)} + n * {whole(length)} + d"
                    writer.line(f"{name}[({at}) * {block} + s] = line[d];")

    def _block(self) -> None:
        """Add the slice's products to a block of sums, which stays in registers."""
        writer, dialect, whole = self.writer, self.dialect, self.writer.whole
        lanes, rows, wide = self.lanes, self.spread.block, self.vector.block
        vector = dialect.vector(self.kind, lanes)
        line = f"(row * {whole(rows)} + {{}}) * {whole(self.vector.tile)} + column * {whole(wide)}"
        places = {
            (r, v): f"{line.format(whole(r))} + {whole(v * lanes)}"
            for r in range(rows)
            for v in range(self.vectors)
        }
        index = writer.index_dtype
        for (r, v), place in places.items():
            loaded = dialect.vector_load("sums", place, lanes)
            zero = dialect.spread(self.kind, lanes, dialect.literal(self.kind, 0))
            start = f"(start > {whole(0)}) ? {loaded} : {zero}"
            writer.line(f"{vector} s{r}_{v} = {start};")
        with writer.block(dialect.loop(index, "d", whole(0), "rest")):
            for v in range(self.vectors):
                place = f"(column * {whole(self.depth)} + d) * {whole(wide)} + {whole(v * lanes)}"
                writer.line(
                    f"const {vector} v{v} = {dialect.vector_load('vectors', place, lanes)};"
                )
            for r in range(rows):
                number = f"spread[(row * {whole(self.depth)} + d) * {whole(rows)} + {whole(r)}]"
                factor = dialect.spread(self.kind, lanes, number)
                writer.line(f"const {vector} f{r} = {factor};")
                for v in range(self.vectors):
                    text = dialect.vector_sum(self.kind, f"f{r}", f"v{v}", f"s{r}_{v}")
                    writer.line(f"s{r}_{v} = {text};")
        for (r, v), place in places.items():
            writer.line(dialect.vector_store("sums", place, lanes, f"s{r}_{v}"))

    # -- the end ---------------------------------------------------------------------------------

    def _stores(self) -> None:
        """Store the tile's sums with the epilogue."""
        writer, whole, index = self.writer, self.writer.whole, self.writer.index_dtype
        both = [self.step.row, self.step.column]
        line = self.dialect.loop(index, "r", whole(0), "rows")
        with writer.block(line, [self.spread.variable]):
            self._name("row", "first_row + r")
            writer.variables[self.spread.variable] = "row"
            head = self.dialect.loop(index, "c", whole(0), "columns")
            # as a branch: what is made of the sum must not move out of the loop
            with writer.block(head, both, branch=True):
                self._name("column", "first_column + c")
                writer.variables[self.vector.variable] = "column"
                total = f"sums[r * {whole(self.vector.tile)} + c]"
                writer.given[accumulated(self.dtype)] = total
                write_stores(writer, self.step.stores)


def run_of(operand: Expr, depth: Variable) -> int:
    """The length of runs along the depth that indices of an operand tell, or 0."""
    if not any(isinstance(e, Apply) and e.instruction != "convert" for e in walk(operand)):
        return 0  # it is only read
    indices = [i for e in walk(operand) for index in e.indices for i in index.nested()]
    atoms = [atom for index in indices for atom, _ in index.terms]
    found = [a.divisor for a in atoms if isinstance(a, Quotient) and depth in a.index.variables]
    return min((n for n in found if isinstance(n, int)), default=0)


def write_serial_contraction(step: Contraction, setting: Setting) -> Written:
    """Write a `Contraction` for a processor, in a language that has vectors."""
    return _Product(step, setting).write()
