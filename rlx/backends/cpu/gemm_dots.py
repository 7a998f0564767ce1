"""The register tile of long dot products: every register sums along k.

Few rows against many columns that are contiguous along k: B is read once, from end to end, which
is all that the speed of memory allows.
"""

from __future__ import annotations

from .gemm_kernel import TILE_PARAMETERS, load, multiply_add, store
from .gemm_plan import Blocking
from .llvm.text import Function, Module, Vector


def emit_dots(module: Module, name: str, blocking: Blocking) -> None:
    """Emit the tile of all rows and a few columns, in the place of `emit_kernel`'s."""
    problem, tile = blocking.problem, blocking.tile
    f = module.function(name, TILE_PARAMETERS, linkage="internal")
    k = problem.k
    vector = Vector(problem.accumulator, blocking.dot_lanes)
    whole = k // vector.lanes * vector.lanes
    sums = [f.constant(vector, 0)] * (tile.rows * tile.lanes)
    with f.loop("0", str(whole), str(vector.lanes), [(vector.text, x) for x in sums]) as loop:
        loop.next = _step(f, blocking, vector, loop.index, loop.values, 0)
    sums = loop.values
    if whole < k:
        sums = _step(f, blocking, vector, str(k - vector.lanes), sums, vector.lanes - (k - whole))
    for r in range(tile.rows):
        row = sums[r * tile.lanes : (r + 1) * tile.lanes]
        out = f.offset("%out", vector.element, f.emit(f"mul i64 %out_row, {r}"))
        for j, total in enumerate(row):
            store(f, vector.dtype, 1, _horizontal(f, vector, total), out, j)
    f.do("ret void")


def _step(
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
    mask = Vector("bool", vector.lanes).text
    zero = f.constant(vector, 0)
    return f.emit(f"select {mask} <{lanes}>, {vector.text} {x}, {vector.text} {zero}")


def _horizontal(f: Function, vector: Vector, x: str) -> str:
    """The sum of all lanes."""
    if vector.lanes == 1:
        return x
    kind = "fadd" if vector.is_float else "add"
    name = f"@llvm.vector.reduce.{kind}.{vector.mangled}"
    start = f"{vector.element} 0.0, " if vector.is_float else ""
    starts = f"{vector.element}, " if vector.is_float else ""
    f.declarations.add(f"declare {vector.element} {name}({starts}{vector.text})")
    freely = "reassoc " if vector.is_float else ""
    return f.emit(f"call {freely}{vector.element} {name}({start}{vector.text} {x})")
