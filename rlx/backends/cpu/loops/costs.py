"""The cost model of loops: nanoseconds on one thread, and numbers of threads."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any, TypeAlias

from ....ir.dims import Size, likely
from ....lower.lir.index import Variable
from ....lower.lir.program import Contraction, Kernel, Program, RowGroup, Scan, Scatter, TopK
from ....lower.schedule.loops import reductions
from ..llvm.host import Host
from ..llvm.text import Function, Vector
from .kernels import all_exprs, estimate

NANOSECONDS_PER_PART = 10_000  # at least, so that nothing shorter than 20 us is split
PRODUCT_NANOSECONDS = 5_000  # the time of products is known better than that of loops
BRIEF = 1e-4  # of the time of a program's products
BYTES = 64  # that a thread reads of a large matrix in a nanosecond, at best
Loops: TypeAlias = Kernel | RowGroup | Scan | TopK | Scatter
LOOPS = (Kernel, RowGroup, Scan, TopK, Scatter)


def trip_loops(step: Loops) -> list[Variable]:
    """The loops of a step, those of its reductions included."""
    kernels = (
        step.kernels if isinstance(step, RowGroup) else [step] if isinstance(step, Kernel) else []
    )
    if isinstance(step, TopK):
        return [*step.loops, step.along]
    own = [*step.loops, *(v for k in kernels if k is not step for v in k.loops)]
    return [*own, *(v for r in {r.loops for r in reductions(kernels)} for v in r)]


def splits(step: Loops) -> bool:
    """Whether threads can share the loops."""
    return bool(step.apart if isinstance(step, Scatter) else step.loops)


def product_cost(step: Contraction, host: Host) -> float:
    """Rough nanoseconds of matrix products on one thread."""
    variables = (step.row, step.column, step.depth, *step.batch)
    flops = 2 * math.prod(likely(v.extent) for v in variables)
    # matrices that few rows are multiplied by are read no faster than caches give them
    counts = [
        math.prod(likely(v.extent) for v in variables if v in operand.variables)
        for operand in (step.lhs, step.rhs)
    ]
    nbytes = max(counts) * step.lhs.dtype.itemsize
    return max(flops / (host.lanes(step.dtype.itemsize) * 2 * 2 * 2.0), nbytes / BYTES)


def parts_of(
    f: Function, host: Host, extents: Sequence[Size], cost: float, is_product: bool = False
) -> int | str:
    """The number of threads for so many nanoseconds, at run time for symbolic sizes."""
    least = PRODUCT_NANOSECONDS if is_product else NANOSECONDS_PER_PART
    trips: Any = math.prod(extents, start=1)  # type: ignore[type-var]
    if isinstance(trips, int):
        return max(1, min(host.cores, int(cost / least)))
    per_part = max(1, int(least * likely(trips) / max(cost, 1e-3)))
    wanted = f.emit(f"udiv i64 {f.number(trips)}, {per_part}")
    wanted = f.intrinsic("umin", Vector("int64"), wanted, str(host.cores))
    return f.intrinsic("umax", Vector("int64"), wanted, "1")


def brief(program: Program, host: Host) -> float:
    """Nanoseconds that are negligible beside a program's products."""
    products = (step for step in program.steps if isinstance(step, Contraction))
    return BRIEF * sum(product_cost(step, host) for step in products)


def loops_cost(step: Loops) -> float:
    """Rough nanoseconds on one thread."""
    if isinstance(step, Kernel):
        return estimate(step.loops, all_exprs(step.stores))
    if isinstance(step, RowGroup):
        return sum(estimate((*step.loops, *k.loops), all_exprs(k.stores)) for k in step.kernels)
    loops = (*step.loops, step.along) if isinstance(step, Scan | TopK) else step.loops
    return estimate(loops, [step.expr]) * 4
