"""Which loop runs in vectors, and how many lanes they have."""

from __future__ import annotations

from collections.abc import Callable, Iterable

from ...ir.dims import Size, likely
from ...ir.types import NAMES
from ...lower.lir.expr import INSTRUCTIONS, Apply, Expr, Load, walk
from ...lower.lir.index import Index, Variable
from .llvm.host import Host
from .llvm.text import Function, Vector
from .scalar import HALVES

SHORT = 8  # rounds


def _loads(exprs: Iterable[Expr]) -> list[Load]:
    return [load for expr in exprs for load in expr.loads]


def best_variable(exprs: Iterable[Expr], choices: Iterable[Variable]) -> Variable:
    """The variable along which the fewest loads need a gather.

    A load of pairs costs half of one; more, but not as much, lanes that a short loop leaves empty.
    Among equal ones it is the longest, then the last.
    """
    loads = [(e.index, e.index.variables) for e in _loads(exprs)]

    def gathers(variable: Variable) -> float:
        return sum(_gather(i, variable) for i, variables in loads if variable in variables)

    return min(reversed(list(choices)), key=lambda v: (gathers(v), -min(likely(v.extent), 256)))


def _gather(index: Index, along: Variable) -> float:
    """What part of a gather a load takes."""
    stride = index.stride_of(along) if index.is_stepped_by(along) else 0
    if stride in (1, -1):
        return 0.75 if likely(along.extent) < SHORT else 0
    return 0.5 if stride in (2, -2) else 1


def choose_lanes(host: Host, exprs: Iterable[Expr], extent: Size, most: int = 4) -> int:
    """How many lanes to use.

    That is a few registers' worth (at most `most`) for cheap code, and one for costly code, or
    where a reduction takes a register for each of its partial sums.
    """
    most = 1 if host.sums_alike else most
    nodes = list(walk(*exprs))
    widest = max((e.dtype.itemsize for e in nodes), default=4)
    widest = max(widest, 4 if any(NAMES[e.dtype] in HALVES for e in nodes) else 1)
    cost = sum(INSTRUCTIONS[e.instruction][0] for e in nodes if isinstance(e, Apply))
    registers = 4 if cost <= 8 else 2 if cost <= 24 else 1
    lanes = host.lanes(widest) * min(registers, most)
    while lanes > 1 and lanes // 2 >= likely(extent):
        lanes //= 2
    return lanes


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


def vector_lines(
    f: Function, start: str, stop: str, lanes: int, body: Callable[[str, str | None], None]
) -> None:
    """A loop in steps of `lanes`, and `body` once more with a mask for the rest.

    Where the bounds are no numbers, nobody knows before the run how much is left.
    """
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
