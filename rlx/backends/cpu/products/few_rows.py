"""Microkernels for few rows of A and columns of B that are contiguous along k.

Both read B once, from end to end, which is all that the speed of memory allows. In long dot
products (`emit_dots`) every register sums along k, in an order of its own. In `emit_columns` blocks
of B are transposed in registers, so that each sum is the same chain of multiply-adds as in any
other tile; words of two numbers of bfloat16 are transposed as one.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from ....ir.record import record
from ..llvm.text import Function, Module, Vector
from ..loops.pairs import add_pairs, pair_of
from ..loops.scalar import horizontal
from ..loops.vectors import transpose
from .kernel import TILE_PARAMETERS, add_product, load, multiplied, multiply_add, store
from .problem import HALVES, Blocking, floor_power

FAR = 1 << 25  # bytes: of a larger B the processor asks for lines too late (measured on Intel)
AHEAD = 256  # bytes of a column

AddStep = Callable[[str, list[str], int], list[str]]  # of a place, sums and lanes to be skipped


def emit_dots(module: Module, name: str, blocking: Blocking) -> None:
    """Emit the tile of all rows and a few columns, in the place of `emit_kernel`'s."""
    problem, tile = blocking.problem, blocking.tile
    f = module.function(name, TILE_PARAMETERS, linkage="internal")
    vector = Vector(problem.accumulator, blocking.dot_lanes)

    def step(p: str, sums: list[str], skipped: int) -> list[str]:
        return _dot_step(f, blocking, vector, p, sums, skipped)

    sums = _in_steps(f, problem.k, vector.lanes, vector, tile.rows * tile.lanes, step)
    for r in range(tile.rows):
        row = sums[r * tile.lanes : (r + 1) * tile.lanes]
        out = f.offset("%out", vector.element, f.emit(f"mul i64 %out_row, {r}"))
        for j, total in enumerate(row):
            store(f, vector.dtype, 1, horizontal(f, "add", vector, total), out, j)
    f.do("ret void")


def _in_steps(
    f: Function, k: int, step: int, vector: Vector, count: int, add: AddStep
) -> list[str]:
    """So many sums over the depth; the last step begins within the one before it."""
    whole = k // step * step
    zeros = [(vector.text, f.constant(vector, 0))] * count
    with f.loop("0", str(whole), str(step), zeros) as loop:
        loop.next = add(loop.index, loop.values, 0)
    return add(str(k - step), loop.values, step - (k - whole)) if whole < k else loop.values


def _dot_step(
    f: Function, blocking: Blocking, vector: Vector, p: str, sums: list[str], skipped: int
) -> list[str]:
    """Add one vector of every product; the first `skipped` lanes were added before."""
    problem, tile = blocking.problem, blocking.tile
    a_type = problem.accumulator if blocking.pack_a else problem.dtype
    a = f.offset("%a", Vector(a_type).element, p)
    b = f.offset("%b", Vector(problem.dtype).element, p)
    columns = [
        _masked(f, vector, load(f, problem.dtype, vector.lanes, b, j * problem.b.column), skipped)
        for j in range(tile.lanes)
    ]
    made = []
    for r in range(tile.rows):
        x = load(f, a_type, vector.lanes, a, r * blocking.a_row)
        x = _masked(f, vector, x, skipped)
        for j, y in enumerate(columns):
            made.append(multiply_add(f, vector, x, y, sums[r * tile.lanes + j]))
    return made


def _masked(f: Function, vector: Vector, x: str, skipped: int) -> str:
    """Zero the first lanes; both factors are, as zero times infinity is not zero."""
    if not skipped:
        return x
    lanes = ", ".join(f"i1 {'false' if i < skipped else 'true'}" for i in range(vector.lanes))
    return f.select(vector, f"<{lanes}>", x, f.constant(vector, 0))


def emit_columns(module: Module, name: str, blocking: Blocking) -> None:
    """Emit the tile of some rows and vectors of columns, as `emit_kernel` does.

    With two vectors, the sums of one do not wait for those of the other.
    """
    problem, tile = blocking.problem, blocking.tile
    f = module.function(name, TILE_PARAMETERS, linkage="internal")
    vector = Vector(problem.accumulator, tile.lanes)
    numbers = 2 if problem.dtype in HALVES else 1  # of k in a word
    words = problem.k // numbers
    step = min(floor_power(words), 64 // problem.itemsize)  # a cache line of each column
    blocks = [_Block(f, blocking, vector, numbers, offset) for offset in tile.offsets]

    def parts(sums: list[str]) -> list[tuple[_Block, list[str]]]:
        """The blocks with their own sums."""
        own = [sums[i : i + tile.rows] for i in range(0, len(sums), tile.rows)]
        return list(zip(blocks, own, strict=True))

    def add(p: str, sums: list[str], skipped: int) -> list[str]:
        places = blocks[0].places(p)
        made = [block.add(places, own, step, skipped) for block, own in parts(sums)]
        return [x for own in made for x in own]

    sums = _in_steps(f, words, step, vector, tile.rows * tile.vectors, add)
    if words * numbers < problem.k:
        sums = [x for block, own in parts(sums) for x in block.add_last(own)]
    for i, total in enumerate(sums):
        v, r = divmod(i, tile.rows)
        out = f.offset("%out", vector.element, f.emit(f"mul i64 %out_row, {r}"))
        store(f, vector.dtype, vector.lanes, total, out, tile.offsets[v])
    f.do("ret void")


@record
class _Block:
    """A vector of columns of B, transposed as it is read, in words of so many numbers of k."""

    f: Function
    blocking: Blocking
    vector: Vector
    numbers: int
    offset: int  # of the first column

    def places(self, p: str) -> tuple[str, str]:
        """Where A and B have the word `p`."""
        f, problem = self.f, self.blocking.problem
        start = f.emit(f"mul i64 {p}, {self.numbers}")
        dtype, _, column = self.left
        place = f.emit(f"mul i64 {start}, {column}")
        kinds = Vector(dtype).element, Vector(problem.dtype).element
        return f.offset("%a", kinds[0], place), f.offset("%b", kinds[1], start)

    @property
    def left(self) -> tuple[str, int, int]:
        """The dtype of A as the kernel sees it, and the strides of its rows and columns."""
        problem = self.blocking.problem
        if self.blocking.pack_a:
            return problem.accumulator, self.blocking.a_row, 1
        return problem.dtype, problem.a.row, problem.a.column

    def add(
        self, places: tuple[str, str], sums: Sequence[str], step: int, skipped: int
    ) -> list[str]:
        """Add a step of words from places of A and B on, but not those that are `skipped`."""
        (a, b), made = places, list(sums)
        some = min(step, self.vector.lanes, 16 // self.blocking.problem.itemsize)
        starts = range(skipped // some * some, step, some)
        for q, row in enumerate(self.rows(b, starts, some), starts.start):
            factors = self.factors(row)
            for r in range(self.blocking.tile.rows) if q >= skipped else ():
                made[r] = self.added(self.left_factors(a, q, r), factors, made[r])
        return made

    def add_last(self, sums: list[str]) -> list[str]:
        """Add the last number of k, which has no neighbor."""
        f, problem, last = self.f, self.blocking.problem, self.blocking.problem.k - 1
        row = f.constant(self.vector, 0)
        for j in range(self.vector.lanes):
            y = load(f, problem.dtype, 1, "%b", last + (self.offset + j) * problem.b.column)
            kind = self.vector.text
            if self.vector.lanes > 1:
                y = f.emit(f"insertelement {kind} {row}, {self.vector.element} {y}, i32 {j}")
            row = y
        (row,) = multiplied(f, self.blocking, self.vector, [row])
        made = []
        dtype, step, column = self.left
        for r, total in enumerate(sums):
            x = f.splat(load(f, dtype, 1, "%a", last * column + r * step), self.vector)
            made.append(add_product(f, self.blocking, self.vector, x, row, total))
        return made

    def factors(self, words: str) -> list[str]:
        """What is multiplied, one after another: words, or the halves of a word, widened."""
        f, vector = self.f, self.vector
        if self.numbers == 1 or self.blocking.in_pairs:
            return [words]
        if self.blocking.problem.dtype == "float16":
            halves = Vector("float16", 2 * vector.lanes)
            x = f.emit(f"bitcast {vector.text} {words} to {halves.text}")
            apart = [f.shuffle(halves, x, "poison", range(i, halves.lanes, 2)) for i in range(2)]
            kind = Vector("float16", vector.lanes).text
            return [f.emit(f"fpext {kind} {x} to {vector.text}") for x in apart]
        bits = vector.with_dtype("int32")
        whole = f.emit(f"bitcast {vector.text} {words} to {bits.text}")
        first = f.emit(f"shl {bits.text} {whole}, {f.constant(bits, 16)}")
        second = f.emit(f"and {bits.text} {whole}, {f.constant(bits, -(1 << 16))}")
        return [f.emit(f"bitcast {bits.text} {x} to {vector.text}") for x in (first, second)]

    def added(self, xs: Sequence[str], ys: Sequence[str], total: str) -> str:
        add = add_pairs if self.blocking.in_pairs else multiply_add
        for x, y in zip(xs, ys, strict=True):
            total = add(self.f, self.vector, x, y, total)
        return total

    def rows(self, b: str, starts: range, count: int) -> list[str]:
        """Rows of B, turned out of words of each column: 16 bytes are the fastest.

        A cache line is read all at once: those of columns a power of two apart crowd into one set
        of the cache, which may hold none of them for long.
        """
        vector = Vector(self.blocking.problem.accumulator, count)
        lines = [
            [self.words(b, start, count, j) for start in starts] for j in range(self.vector.lanes)
        ]
        if self.asks_ahead:
            problem = self.blocking.problem
            for j in range(self.vector.lanes):
                place = (self.offset + j) * problem.b.column
                line = self.f.offset(b, Vector(problem.dtype).element, str(place))
                self.f.prefetch(self.f.offset(line, "i8", str(AHEAD)))
        squares = zip(*lines, strict=True)
        return [row for square in squares for row in transpose(self.f, vector, list(square))]

    @property
    def asks_ahead(self) -> bool:
        """Whether to prefetch columns: two numbers in a word take longer than memory does."""
        problem = self.blocking.problem
        return self.numbers == 1 and problem.k * problem.n * problem.itemsize >= FAR

    def words(self, b: str, first: int, count: int, j: int) -> str:
        """Some words of a column."""
        problem = self.blocking.problem
        place = first * self.numbers + (self.offset + j) * problem.b.column
        if self.numbers == 1:
            return load(self.f, problem.dtype, count, b, place)
        return _words(self.f, problem.dtype, count, b, place)

    def left_factors(self, a: str, q: int, r: int) -> list[str]:
        """What a row of A has at a word of the depth, in all lanes."""
        f, (dtype, row, column) = self.f, self.left
        places = [(q * self.numbers + i) * column + r * row for i in range(self.numbers)]
        if self.blocking.in_pairs and column == 1:
            return [f.splat(_words(f, dtype, 1, a, places[0]), self.vector)]
        found = [load(f, dtype, 1, a, place) for place in places]
        if self.blocking.in_pairs:
            found = [pair_of(f, Vector(self.vector.dtype), *found)]
        return [f.splat(x, self.vector) for x in found]


def _words(f: Function, dtype: str, count: int, pointer: str, index: int) -> str:
    """Words of two numbers of `dtype` each, from the place of a number on."""
    words = Vector("float32", count)
    place = f.offset(pointer, Vector(dtype).element, str(index))
    return f.emit(f"load {words.text}, ptr {place}, align 2")
