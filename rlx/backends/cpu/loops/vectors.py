"""Vectorization: the loop that runs in vectors, lanes, strides and transposition.

Of vectors whose lanes lie r apart in memory, neighbors of each other fill the gaps: elements are
loaded together with those between them, and stored together with the vectors that fill the gaps, so
that memory is used in whole lines.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence

from ....ir.dims import Size, likely
from ....ir.record import record
from ....ir.types import NAMES
from ....lower.lir.expr import INSTRUCTIONS, Apply, Expr, Load, Reduce, walk
from ....lower.lir.index import Index, Variable
from ....lower.lir.program import Scan, Store
from ..llvm.host import Host
from ..llvm.text import Function, Vector
from .scalar import HALVES

SHORT = 8  # rounds
PARTIAL_BYTES = 64  # a vector of the widest processors, so that they lose nothing
SUM_BYTES = 4 * PARTIAL_BYTES  # of sums: an addition takes as long as four vectors of others


def _loads(exprs: Iterable[Expr]) -> list[Load]:
    return [load for expr in exprs for load in expr.loads]


def best_variable(exprs: Iterable[Expr], choices: Iterable[Variable]) -> Variable:
    """The variable to vectorize: the one for which the fewest loads need a gather.

    A load of pairs costs half of one; more, but not as much, lanes that a short loop leaves empty.
    Among equal ones it is the longest, then the last.
    """
    loads = [(e.index, e.index.variables) for e in _loads(exprs)]

    def gathers(variable: Variable) -> float:
        return sum(_gather(i, variable) for i, variables in loads if variable in variables)

    return min(reversed(list(choices)), key=lambda v: (gathers(v), -min(likely(v.extent), 256)))


def _gather(index: Index, along: Variable) -> float:
    """The cost of a load in units of a gather."""
    stride = index.stride_of(along) if index.is_stepped_by(along) else 0
    if stride in (1, -1):
        return 0.75 if likely(along.extent) < SHORT else 0
    return 0.5 if stride in (2, -2) else 1


def choose_lanes(host: Host, exprs: Iterable[Expr], extent: Size, most: int = 4) -> int:
    """The number of lanes to use.

    Cheap code uses a few registers (at most `most`) of them; expensive code one, and so does a
    reduction with many partial sums, each of which takes as many.
    """
    nodes = list(walk(*exprs))
    sums = [e for e in nodes if isinstance(e, Reduce) and is_batch_invariant(host, e)]
    count = max(map(partial_count, sums), default=1)
    most = min(most, max(1, host.vector_registers // 2 // count))
    widest = max((e.dtype.itemsize for e in nodes), default=4)
    widest = max(widest, 4 if any(NAMES[e.dtype] in HALVES for e in nodes) else 1)
    cost = sum(INSTRUCTIONS[e.instruction][0] for e in nodes if isinstance(e, Apply))
    registers = 4 if cost <= 8 else 2 if cost <= 24 else 1
    lanes = host.lanes(widest) * min(registers, most)
    while lanes > 1 and lanes // 2 >= likely(extent):
        lanes //= 2
    return lanes


def is_batch_invariant(host: Host, expr: Reduce | Scan) -> bool:
    """Whether a sum is to have an order that does not depend on the loops around.

    Sums of products that are loops have that of the matrix kernel: one term after another.
    """
    dtype = expr.dtype if isinstance(expr, Reduce) else expr.expr.dtype
    is_rounded = expr.combine in ("add", "mul") and dtype.kind not in "biu"
    return host.batch_invariant and is_rounded


def partial_count(expr: Reduce) -> int:
    """The number of partial sums of a reduction, in the order that is one for all."""
    count, extent = SUM_BYTES // max(expr.dtype.itemsize, 4), expr.loops[-1].extent
    while isinstance(extent, int) and count > 1 and count // 2 >= extent:
        count //= 2
    return count


def lane_mask(lanes: int, count: int) -> str:
    """The constant mask of the first `count` lanes."""
    if lanes == 1:
        return "true"
    return f"<{', '.join('i1 ' + ('true' if i < count else 'false') for i in range(lanes))}>"


def first_lanes(f: Function, lanes: int, count: str) -> str:
    """The mask of the first lanes, as many as an i64 tells when the program runs.

    LLVM may not know it before: where only one lane is left, and its number is narrowed for the
    store, it stores the wide number, beyond what is the lane's.
    """
    vector = Vector("int64", lanes)
    if lanes == 1:
        return "true"
    count = f.emit(f'call i64 asm "", "=r,0"(i64 {count})')
    steps = ", ".join(f"i64 {i}" for i in range(lanes))
    return f.emit(f"icmp slt {vector.text} <{steps}>, {f.splat(count, vector)}")


def rest_and_whole(f: Function, extent: Size, lanes: int) -> tuple[str, str]:
    """What is left of a line after whole vectors, and what is in these."""
    if isinstance(extent, int):
        return str(extent % lanes), str(extent - extent % lanes)
    number = f.number(extent)
    left = f.emit(f"urem i64 {number}, {lanes}")
    return left, f.emit(f"sub i64 {number}, {left}")


def vector_lines(
    f: Function, start: str, stop: str, lanes: int, body: Callable[[str, str | None], None]
) -> None:
    """Emit a loop in steps of `lanes`, and `body` once more with a mask for the rest."""
    if start == "0" and stop.isdigit():
        whole = int(stop) // lanes * lanes
        if whole:
            with f.loop("0", str(whole), str(lanes)) as loop:
                body(loop.index, None)
        left = int(stop) - whole
        if left:
            mask = first_lanes(f, lanes, "1") if left == 1 else lane_mask(lanes, left)
            body(str(whole), mask)
        return
    size = f.emit(f"sub i64 {stop}, {start}")
    left = f.emit(f"urem i64 {size}, {lanes}")
    whole = f.emit(f"sub i64 {stop}, {left}")
    with f.loop(start, whole, str(lanes)) as loop:
        body(loop.index, None)
    with f.when(f.emit(f"icmp ne i64 {left}, 0")):
        body(whole, first_lanes(f, lanes, left))


WIDEST = 16  # vectors that are put together at most


def step_of(index: Index, along: Variable) -> int:
    """The stride between neighboring lanes; 0 if it is unknown."""
    stride = index.stride_of(along) if index.is_stepped_by(along) else 0
    return stride if isinstance(stride, int) else 0


def start_of_group(place: Load | Store, step: int) -> Index | None:
    """The start of the group of `step` numbers around one, if all groups are aligned."""
    index, count = place.index, place.buffer.count
    if not all(isinstance(n, int) for n in (count, index.constant, *(c for _, c in index.terms))):
        return None
    if count % step or any(c % step for _, c in index.terms):
        return None
    return index - index.constant % step


@record
class Pairs:
    """Pairs of contiguous numbers of which each lane takes one."""

    start: Index  # of the pairs
    which: int  # 0 for the first number of each, 1 for the second
    is_backwards: bool  # whether the last pair goes to lane 0
    mask: str | None = None  # lanes to load; `which` is 0 then

    def load(self, f: Function, vector: Vector, address: str, align: int) -> str:
        """Load a vector, with `start` at the address."""
        both = Vector(vector.dtype, 2 * vector.lanes)
        if self.mask is None:
            raw = f.emit(f"load {both.text}, ptr {address}, align {align}")
        else:
            raw = self._load_masked(f, both, address, align)
        places = range(self.which, 2 * vector.lanes, 2)
        return f.shuffle(both, raw, "poison", places[::-1] if self.is_backwards else places)

    def _load_masked(self, f: Function, both: Vector, address: str, align: int) -> str:
        lanes, bits = both.lanes // 2, Vector("bool", both.lanes // 2)
        places = [place for i in range(lanes) for place in (i, lanes)]
        mask = f.shuffle(bits, str(self.mask), "zeroinitializer", places)
        return f.masked("load", both, address, align, mask, "zeroinitializer")


def pairs_of(load: Load, stride: Size | None, lanes: int, mask: str | None) -> Pairs | None:
    """The pairs for lanes with stride 2, or None for other strides."""
    if stride not in (2, -2):
        return None
    if mask is not None:
        return Pairs(load.index, 0, False, mask) if stride == 2 else None
    start = start_of_group(load, 2)
    if start is None:
        return None
    which = 0 if start == load.index else 1
    return Pairs(start if stride == 2 else start - 2 * (lanes - 1), which, stride == -2)


def backwards(f: Function, vector: Vector, x: str) -> str:
    """The lanes in reverse order."""
    return f.shuffle(vector, x, "poison", range(vector.lanes - 1, -1, -1))


def grouped(stores: Sequence[Store], along: Variable) -> list[list[Store]]:
    """Group stores that together fill whole lines of memory."""
    groups: dict[tuple, list[Store]] = {}
    for store in stores:
        step = step_of(store.index, along)
        size = abs(step)
        is_power = (1 < size <= WIDEST and not size & (size - 1)) or step == -1
        start = start_of_group(store, size) if is_power else None
        key = (store,) if start is None else (store.buffer, size, start, step)
        groups.setdefault(key, []).append(store)
    found: list[list[Store]] = []
    for key, group in groups.items():
        places = {store.index.constant for store in group}
        if len(key) > 1 and len(places) == len(group) == key[1]:
            found.append(sorted(group, key=lambda s: s.index.constant))  # type: ignore[arg-type]
        else:
            found += [[store] for store in group]
    return found


def interleaved(f: Function, vector: Vector, parts: Sequence[str]) -> list[str]:
    """Interleave vectors: the first lanes of all, then the second ones, and so on."""
    if len(parts) == 1:
        return list(parts)
    lanes, half = vector.lanes, vector.lanes // 2
    pairs = zip(
        interleaved(f, vector, parts[::2]), interleaved(f, vector, parts[1::2]), strict=True
    )
    result = []
    for first, second in pairs:
        for start in (0, half):
            places = [place for i in range(start, start + half) for place in (i, lanes + i)]
            result.append(f.shuffle(vector, first, second, places))
    return result


def transpose(f: Function, vector: Vector, rows: list[str]) -> list[str]:
    """Give the `vector.lanes` columns of `rows`, each as one long vector.

    Rows a multiple of `vector.lanes` apart are first put side by side, which costs no more than
    loading them; then squares of `vector.lanes` are transposed in all of them at once.
    """
    size, lanes = vector.lanes, vector.lanes
    long = [rows[x::size] for x in range(size)]
    while len(long[0]) > 1:
        double = [*range(2 * lanes)]
        long = [
            [
                f.shuffle(Vector(vector.dtype, lanes), *x[y : y + 2], double)
                for y in range(0, len(x), 2)
            ]
            for x in long
        ]
        lanes *= 2
    made = [x[0] for x in long]
    distance = size // 2
    while distance:
        # One step of the perfect shuffle within every 16 bytes: after all of them the first
        # index, which numbered the vectors, numbers the lanes.
        zips = [
            [
                start + x // 2 + half + (lanes if x % 2 else 0)
                for start in range(0, lanes, size)
                for x in range(size)
            ]
            for half in (0, size // 2)
        ]
        paired = zip(made[: size // 2], made[size // 2 :], strict=True)
        made = [
            f.shuffle(Vector(vector.dtype, lanes), x, y, mask) for x, y in paired for mask in zips
        ]
        distance //= 2
    return made
