"""The loop nests of a step, for cost models: work, trip counts and traffic."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Sequence

from ...ir.dims import likely
from ...ir.record import record
from ...ir.types import NAMES
from .access import reads, writes
from .expr import Expr, Load, Reduce
from .index import Index, Variable
from .program import (
    Buffer,
    Chain,
    Contraction,
    Kernel,
    LibraryCall,
    RowGroup,
    Scan,
    Scatter,
    Sort,
    Step,
    Store,
    TopK,
)

NEAR = 1 << 20  # bytes that stay in a cache while loops go over them again


@record
class Nest:
    """A loop nest, and the work that it does."""

    loops: tuple[Variable, ...]
    exprs: tuple[Expr, ...] = ()
    places: tuple[tuple[Buffer, Index], ...] = ()  # where it stores them
    # of its other work: operations of "product float32" and so on or of a "direct" or "iterative"
    # factorization, elements of a "scan", comparisons of a "sort"
    kind: str = ""
    count: float = 0.0  # of this kind of work

    @property
    def trips(self) -> int:
        """The trip count of the innermost loop, with likely numbers for symbolic sizes."""
        return trips(self.loops)

    @property
    def roots(self) -> tuple[Expr, ...]:
        """The evaluated expressions, those for places included."""
        return (*self.exprs, *(e for _, index in self.places for e in index.loads))


def trips(loops: Iterable[Variable]) -> int:
    """The trip count of nested loops."""
    return math.prod(likely(variable.extent) for variable in loops)


def nests(step: Step, outer: tuple[Variable, ...] = ()) -> Iterator[Nest]:
    """The loop nests of a step within `outer` loops; none of steps that run programs."""
    match step:
        case Kernel():
            yield _stored((*outer, *step.loops), step.stores)
        case RowGroup():
            for kernel in step.kernels:
                yield from nests(kernel, (*outer, *step.loops))
        case Chain():
            for each in step.steps:
                yield from nests(each, (*outer, *step.loops))
        case Contraction():
            loops = (*outer, *step.batch, step.row, step.column)
            count = 2.0 * trips((*loops, step.depth))
            yield _stored(loops, step.stores, f"product {NAMES[step.lhs.dtype]}", count)
        case Scan():
            loops = (*outer, *step.loops, step.along)
            yield Nest(loops, (step.expr,), ((step.buffer, step.index),), "scan", trips(loops))
        case TopK():
            yield Nest((*outer, *step.loops, step.along), (step.expr,))
        case Scatter():
            loops, place = (*outer, *step.loops), (step.buffer, step.index)
            yield Nest(loops, (step.expr,), (place,), "scatter", trips(loops))
        case Sort():
            moved = 1 if step.places is None else 2  # a number alone, or with its place
            length = likely(step.length)
            count = moved * likely(step.rows) * length * math.log2(max(length, 2))
            yield Nest((), (), (), "sort", count)
        case LibraryCall():
            if not step.is_wanted:
                yield Nest((), (), (), "library", float(trips(outer)))
            if step.op.rules.library_work is not None:
                kind, operations = step.op.rules.library_work
                count = operations(*step.input_types, **step.attrs)
                yield Nest((), (), (), kind, float(trips(outer) * count))


def _stored(
    loops: tuple[Variable, ...], stores: Sequence[Store], kind: str = "", count: float = 0.0
) -> Nest:
    exprs = tuple(s.expr for s in stores)
    return Nest(loops, exprs, tuple((s.buffer, s.index) for s in stores), kind, count)


def traffic(step: Step) -> Iterator[tuple[Buffer, int]]:
    """The buffers a step reads, those it writes, and how many bytes of each.

    No more counts than the loops can reach: a lookup reads some rows of a table. What loops read
    again counts again unless it stays in a cache; what several nests of a step read stays there.
    """
    fetched: dict[Buffer, list[int]] = {}
    for nest in nests(step):
        loads = [each for root in nest.roots for each in _loads(root, nest.loops)]
        stores = [(buffer, index, nest.loops) for buffer, index in nest.places]
        for buffer, index, loops in dict.fromkeys((*loads, *stores)):
            fetched.setdefault(buffer, []).append(_fetched(buffer, index, loops))
    for buffer in (*reads(step), *writes(step)):
        parts, whole = fetched.get(buffer, []), likely(buffer.nbytes)
        yield buffer, max(min(whole, sum(parts)), *parts) if parts else whole


Loops = tuple[Variable, ...]


def _loads(root: Expr, loops: Loops) -> Iterator[tuple[Buffer, Index, Loops]]:
    """The loads of an expression with the loops around each, contiguous ones last."""
    waiting, seen = [(root, loops)], set[tuple[int, Loops]]()
    while waiting:
        expr, loops = waiting.pop()
        if (id(expr), loops) in seen:  # a part of several others
            continue
        seen.add((id(expr), loops))
        if isinstance(expr, Reduce):
            loops = (*loops[:-1], *expr.loops, *loops[-1:])
        if isinstance(expr, Load):
            yield expr.buffer, expr.index, loops
        waiting += [(part, loops) for part in expr.parts if expr.loads]


def _fetched(buffer: Buffer, index: Index, loops: Loops) -> int:
    """The bytes that loops fetch, given that inner loops reuse what stays in cache."""
    size, rounds = likely(buffer.size), 1
    for place, loop in enumerate(loops):
        inner = [v for v in loops[place:] if v in index.variables]
        span = 1 + sum(abs(likely(index.stride_of(v))) * (likely(v.extent) - 1) for v in inner)
        reached = min(size, trips(inner), span if index.is_affine else size)
        if reached * buffer.dtype.itemsize <= NEAR:
            break
        rounds *= likely(loop.extent)
    else:
        reached = 1
    count = rounds * reached
    return buffer.dtype.itemsize * (count if index.is_affine else min(size, count))


def is_dense(load: Load, along: Sequence[Variable]) -> bool:
    """Whether some loop reads contiguous memory, or all loops read one number."""
    strides = [load.index.stride_of(loop) for loop in along]
    steady = all(load.index.is_stepped_by(loop) for loop in along)
    return steady and (1 in strides or not any(strides))
