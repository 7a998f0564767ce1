"""The register tile of few rows by columns that are contiguous along k.

Long dot products (`gemm_dots.py`) add in an order of their own. Here a block of B is turned in
registers, so that each sum is the same chain of multiply-adds as in any other tile, and B is still
read once, from end to end.
"""

from __future__ import annotations

from .gemm_kernel import TILE_PARAMETERS, load, multiply_add, store
from .gemm_plan import Blocking, floor_power
from .llvm.text import Function, Module, Vector
from .loops.vectors import transpose


def emit_columns(module: Module, name: str, blocking: Blocking) -> None:
    """Emit the tile of all rows and a vector of columns, as `emit_kernel` does."""
    problem, tile = blocking.problem, blocking.tile
    f = module.function(name, TILE_PARAMETERS, linkage="internal")
    vector = Vector(problem.accumulator, tile.lanes)
    step = min(floor_power(problem.k), tile.lanes)
    whole = problem.k // step * step
    sums = [f.constant(vector, 0)] * tile.rows
    with f.loop("0", str(whole), str(step), [(vector.text, x) for x in sums]) as loop:
        loop.next = _block(f, blocking, step, loop.index, loop.values, 0)
    sums = loop.values
    if whole < problem.k:  # the last block begins within the one before it
        skipped = step - (problem.k - whole)
        sums = _block(f, blocking, step, str(problem.k - step), sums, skipped)
    for r, total in enumerate(sums):
        out = f.offset("%out", vector.element, f.emit(f"mul i64 %out_row, {r}"))
        store(f, vector.dtype, vector.lanes, total, out)
    f.do("ret void")


def _block(
    f: Function, blocking: Blocking, step: int, p: str, sums: list[str], skipped: int
) -> list[str]:
    """Add `step` products to each sum but the first ones, which were added before."""
    problem, tile = blocking.problem, blocking.tile
    vector = Vector(problem.accumulator, tile.lanes)
    b = f.offset("%b", Vector(problem.dtype).element, p)
    place = f.emit(f"mul i64 {p}, {problem.a.column}")
    a = f.offset("%a", Vector(problem.dtype).element, place)
    some = min(step, 16 // problem.itemsize)
    made = list(sums)
    for q in range(skipped, step):
        if q % some == 0 or q == skipped:
            rows = _rows(f, blocking, b, q // some * some, some)
        for r in range(tile.rows):
            x = load(f, problem.dtype, 1, a, q * problem.a.column + r * problem.a.row)
            made[r] = multiply_add(f, vector, f.splat(x, vector), rows[q % some], made[r])
    return made


def _rows(f: Function, blocking: Blocking, b: str, first: int, count: int) -> list[str]:
    """Some rows of B, turned out of as many numbers of each column: 16 bytes are the fastest."""
    problem, lanes = blocking.problem, blocking.tile.lanes
    places = [first + j * problem.b.column for j in range(lanes)]
    lines = [load(f, problem.dtype, count, b, place) for place in places]
    return transpose(f, Vector(problem.accumulator, count), lines)
