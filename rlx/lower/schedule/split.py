"""Split long reductions and scatters into pieces; whole sums into parts."""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterable, Iterator, Sequence

import numpy as np

from ...ir.dims import likely
from ...ir.record import replace
from ...ir.types import Type, neutral
from ..lir.access import reads, rebind
from ..lir.expr import (
    Expr,
    Load,
    Reduce,
    accumulated,
    apply,
    const,
    load,
    reduce,
    substitute,
    unconditional,
    walk,
)
from ..lir.index import Index, Variable, as_index, is_long, is_within
from ..lir.program import Buffer, Contraction, Kernel, Scatter, Step, Store
from .elements import flatten
from .merge import merge_kernels
from .traffic import is_far

FEW = 16  # fewer results than this leave threads idle
PIECES = 64  # of a reduction to few results
MOST_PARTS = 1 << 12  # of a sum whose parts another kernel sums
COLUMNS = 32  # that one thread sums side by side in vectors, or more
LONG = 1 << 19  # elements: less is done before threads would be awake
LARGE = 1 << 20  # elements: less stays in a cache, where any order is as good
ROWS = 64  # summed at once for many columns: so many places a processor can foresee
TALL = 1 << 10  # rows: so many places it has the addresses of
FAR = 1 << 11  # bytes from row to row: further than it foresees


def split_reductions(steps: Sequence[Step], batch_invariant: bool = False) -> list[Step]:
    """Split long reductions into partial ones and a kernel that combines them.

    The number of parts does not depend on the machine, so neither do the results. If the target is
    `batch_invariant`, it does not depend on the number of reductions either.

    before: `kernel: b1[0] = sum(i < 640003: b0[i])`; after: `kernel i < 64: b2[i] =
    sum(j < 10000: b0[i*10000 + j])`, then `kernel: b1[0] = sum(i < 64: b2[i]) + sum(i < 3:
    b0[i + 640000])`.
    """
    names = (f"part{i}" for i in itertools.count())
    return [new for step in steps for new in _split(step, names, batch_invariant)]


def _split(step: Step, names: Iterator[str], batch_invariant: bool) -> Iterator[Step]:
    """The step, after the kernels of the partial reductions that it combines."""
    if isinstance(step, Contraction) and not batch_invariant and (lines := _lines_at_once(step)):
        yield from _row_in_pieces(step, lines, next(names))
        return
    if not isinstance(step, Kernel):
        yield step
        return
    parts: list[Step] = []
    while (halves := _halved(step, names, batch_invariant)) is not None:
        part, step = halves
        parts.append(part)
    for part in merge_kernels(parts) if parts else ():
        yield from _split(part, names, batch_invariant)
    yield step


def _halved(
    step: Kernel, names: Iterator[str], batch_invariant: bool
) -> tuple[Kernel, Kernel] | None:
    """Split the first reduction: the kernel of its pieces, and the one that combines."""
    for found in _plain_reductions(s.expr for s in step.stores):
        pieces = _pieces([] if batch_invariant else _outer(step, found), found)
        if pieces is not None:
            part, total = _halves(step, found, *pieces, next(names))
            return part, Kernel(step.loops, _replaced(step.stores, found, total), step.source)
    return None


def _lines_at_once(step: Contraction) -> int:
    """How many lines of a matrix one piece of a row's product reads; 0 for all.

    Such a product is bound by memory, which is fastest in order.
    """
    rhs, size = step.rhs, step.depth.extent
    if step.batch or step.row.extent != 1 or not step.is_static or not isinstance(rhs, Load):
        return 0
    far = rhs.index.stride_of(step.depth) * rhs.dtype.itemsize
    if rhs.dtype != step.dtype or step.rhs_panels or rhs.index.stride_of(step.column) != 1:
        return 0
    if far < FAR or size * far < 4 * LARGE:
        return 0
    fitting = (n for n in (ROWS, ROWS // 2) if n * far <= LARGE and size % n == 0)
    return next(fitting, 0)


def _row_in_pieces(step: Contraction, lines: int, name: str) -> list[Step]:
    """Split the product of a row and a matrix into pieces of some lines.

    before: `contraction i < 1, j < 512, k < 4096: ... b2[j] = accumulated`; after: `contraction
    p < 64, i < 1, j < 512, k < 64: ... part0[p*512 + j] = accumulated`, then `kernel j < 512:
    b2[j] = sum(p < 64: part0[p*512 + j])`.
    """
    count, width = step.depth.extent // lines, step.column.extent
    piece, within, one = Variable(count), Variable(lines), Variable(count)
    table, column = {step.depth: piece * lines + within}, as_index(step.column)
    buffer = Buffer(name, Type(step.dtype, (count, width)), "temporary")
    lhs, rhs = (substitute(e, table) for e in (step.lhs, step.rhs))
    store = Store(buffer, piece * width + column, accumulated(step.dtype))
    parts = replace(step, batch=(piece,), depth=within, lhs=lhs, rhs=rhs, stores=(store,))
    each = load(buffer, one * width + column)
    total = reduce("add", (one,), const(step.dtype, 0), each)
    stores = _replaced(step.stores, accumulated(step.dtype), total)
    return [parts, Kernel((step.column,), stores, step.source)]


def _replaced(stores: Sequence[Store], old: Expr, new: Expr) -> tuple[Store, ...]:
    """Stores with one expression in the place of another."""
    memo = {old: new}
    return tuple(Store(s.buffer, s.index, substitute(s.expr, {}, memo=memo)) for s in stores)


def _plain_reductions(exprs: Iterable[Expr]) -> Iterator[Reduce]:
    """Unconditional reductions without inner ones."""
    for expr in unconditional(exprs):
        if isinstance(expr, Reduce) and not any(isinstance(e, Reduce) for e in walk(expr.body)):
            yield expr


def _pieces(outer: Sequence[Variable], found: Reduce) -> tuple[Variable, int] | None:
    """The loop to split, and the number of its rounds in one piece."""
    sizes = {v: v.extent for v in (*outer, *found.loops) if isinstance(v.extent, int)}
    if len(sizes) < len(outer) + len(found.loops):
        return None
    trips = math.prod(sizes.values())
    length, longest = max(((sizes[v], v) for v in found.loops), key=lambda pair: pair[0])
    if trips < LONG or length < TALL:
        return None
    row = _row_bytes(found, outer[-1], longest) if outer else 0
    if trips >= LARGE and row >= FAR:
        return longest, ROWS
    at_once = min(COLUMNS, sizes[outer[-1]]) if row else 1
    if math.prod(sizes[v] for v in outer) // at_once < FEW:
        return longest, length // PIECES
    return None


def _outer(kernel: Kernel, found: Reduce) -> list[Variable]:
    """The loops that a reduction depends on."""
    return [v for v in kernel.loops if v in found.variables]


def _row_bytes(found: Reduce, along: Variable, down: Variable) -> int:
    """The bytes from row to row, if a sum goes down columns whose neighbors lie in other sums."""
    loads = [e for e in found.loads if e.index.stride_of(along) == 1]
    return max((likely(e.index.stride_of(down)) * e.dtype.itemsize for e in loads), default=0)


def _halves(
    kernel: Kernel, found: Reduce, variable: Variable, size: int, name: str
) -> tuple[Kernel, Expr]:
    """The kernel of a reduction's pieces, and the reduction in terms of them."""
    outer = _outer(kernel, found)
    count = variable.extent // size
    places = [as_index(v) for v in outer]
    shape = (count, *(v.extent for v in outer))
    buffer = Buffer(name, Type(found.dtype, shape), "temporary")
    piece, within, rest = Variable(count), Variable(size), Variable(variable.extent % size)
    each = _over(found, variable, piece * size + within, within)
    store = Store(buffer, flatten([as_index(piece), *places], shape), each)
    one = Variable(count)
    parts = load(buffer, flatten([as_index(one), *places], shape))
    total = reduce(found.combine, (one,), found.init, parts)
    if rest.extent:
        last = _over(found, variable, as_index(rest) + count * size, rest)
        total = apply(instruction(found.combine, found.dtype), found.dtype, total, last)
    return Kernel((piece, *outer), (store,), kernel.source), total


def _over(found: Reduce, variable: Variable, index: Index, new: Variable) -> Expr:
    """The reduction with one loop replaced."""
    loops = tuple(new if v is variable else v for v in found.loops)
    body = substitute(found.body, {variable: index})
    return reduce(found.combine, tuple(v for v in loops if is_long(v)), found.init, body)


def instruction(combine: str, dtype: np.dtype) -> str:
    """The instruction that combines two numbers."""
    if dtype.kind == "b":
        return {"max": "or", "min": "and", "add": "or", "mul": "and"}.get(combine, combine)
    return combine


# -- sums of whole arrays, taken together with those of their rows or columns ----------------------


def nest_sums(steps: Sequence[Step]) -> list[Step]:
    """Reduction nesting: sum a large array by the parts that another kernel sums.

    Both kernels then read it at once, when they are merged.

    before: `kernel: b1[0] = add over i < 99999, j < 64: b0[i*64 + j]` and `kernel j < 64: b2[j] =
    add over i < 99999: b0[i*64 + j]`; after: the first is `kernel j < 64: rows0[j] = add over i <
    99999: b0[i*64 + j]` and `kernel: b1[0] = add over j < 64: rows0[j]`.
    """
    far = [s for s in steps if isinstance(s, Kernel) and any(is_far(b.nbytes) for b in reads(s))]
    others = [(sum, kernel) for kernel in far if kernel.loops for sum in _sums(kernel)]
    if not others or all(kernel.loops for kernel in far):
        return [*steps]
    names = (f"rows{i}" for i in itertools.count())
    made: list[Step] = []
    for step in steps:
        if isinstance(step, Kernel) and not step.loops:
            made += _nested(step, others, names)
        else:
            made.append(step)
    return made


def _sums(kernel: Kernel) -> list[Reduce]:
    return list(_plain_reductions(s.expr for s in kernel.stores))


def _nested(
    step: Kernel, others: Sequence[tuple[Reduce, Kernel]], names: Iterator[str]
) -> Iterator[Kernel]:
    """The kernel of a sum, after that of its parts if another kernel reads the same."""
    for total in _sums(step):
        kept = next((k for other, kernel in others if (k := _kept(total, other, kernel))), None)
        if kept:
            part, whole = _parts(step, total, kept, next(names))
            yield part
            step = replace(step, stores=_replaced(step.stores, total, whole))
    yield step


def _kept(total: Reduce, other: Reduce, kernel: Kernel) -> list[Variable] | None:
    """The loops of a sum that stand for those of a kernel that sums the same array in parts."""
    if any(not isinstance(v.extent, int) for v in total.loops):
        return None
    for ours, theirs in itertools.product(_far_loads(total), _far_loads(other)):
        if ours.buffer is not theirs.buffer or ours.index.constant != theirs.index.constant:
            continue
        known = {(ours.index.stride_of(v), v.extent): v for v in total.loops}
        inner, outer = (
            [(theirs.index.stride_of(v), v.extent) for v in loops]
            for loops in (other.loops, kernel.loops)
        )
        is_same = {*inner, *outer} == {*known} and len(inner) + len(outer) == len(total.loops)
        if is_same and math.prod(size for _, size in outer) <= MOST_PARTS:
            return [known[step] for step in outer]
    return None


def _far_loads(sum: Reduce) -> list[Load]:
    return [e for e in sum.loads if is_far(e.buffer.nbytes) and e.index.is_affine]


def _parts(
    kernel: Kernel, total: Reduce, kept: Sequence[Variable], name: str
) -> tuple[Kernel, Expr]:
    """The kernel of a sum's parts, and the sum in terms of them."""
    shape = tuple(v.extent for v in kept)
    buffer = Buffer(name, Type(total.dtype, shape), "temporary")
    each, every = (tuple(map(Variable, shape)) for _ in range(2))
    rest = tuple(v for v in total.loops if v not in kept)
    body = substitute(total.body, dict(zip(kept, map(as_index, each), strict=True)))
    part = reduce(total.combine, rest, total.init, body)
    places = [flatten([as_index(v) for v in loops], shape) for loops in (each, every)]
    store = Store(buffer, places[0], part)
    whole = reduce(total.combine, every, total.init, load(buffer, places[1]))
    return Kernel(each, (store,), kernel.source), whole


# -- long scatters to few places in pieces, each into a copy of its own ----------------------------


MANY_UPDATES = 1 << 15  # updates: less is done before threads would be awake
MOST = 16  # pieces
SPARSE = 2  # updates for each element of a copy, at least
NEAR, COPIES = 1 << 11, 4  # places so few that neighboring updates often meet: then in copies apart


def split_scatters(steps: Sequence[Step]) -> list[Step]:
    """Privatize long scatters: threads fill copies, which are combined at the end.

    The number of copies does not depend on the machine, so neither do the results.

    before: `scatter i < 40000: add b2[ids[i]] with b0[i]`; after: `kernel i < 8000: b3[i] = 0`,
    `scatter i < 8, j < 5000: add b3[i*1000 + ids[i*5000 + j]] with b0[i*5000 + j]`, then
    `kernel i < 1000: b2[i] = b2[i] + sum(j < 8: b3[j*1000 + i])`.
    """
    names = (f"copy{i}" for i in itertools.count())
    return [new for step in steps for new in _split_scatter(step, names)]


def _split_scatter(step: Step, names: Iterator[str]) -> Iterator[Step]:
    pieces = _scatter_pieces(step) if isinstance(step, Scatter) else 1
    if pieces < 2:
        yield step
        return
    assert isinstance(step, Scatter)
    target, first = step.buffer, step.loops[0]
    dtype = target.number_dtype
    near = COPIES if target.count <= NEAR and len(step.loops) == 1 else 1
    count = pieces * near
    copies = Buffer(next(names), Type(dtype, (count, target.count)), "temporary")
    nothing = const(dtype, neutral(step.combine, dtype))
    every = Variable(copies.size)
    yield Kernel((every,), (Store(copies, as_index(every), nothing),), step.source)
    piece, within = Variable(pieces), Variable(first.extent // pieces)
    copy = piece * near + within % near if near > 1 else as_index(piece)
    moved = _scatter_over(step, first, piece * within.extent + within, within)
    index = moved.index + copy * target.count
    yield replace(
        moved, loops=(piece, *moved.loops), buffer=copies, index=index, apart=(piece, *moved.apart)
    )
    rest = Variable(first.extent % pieces)
    if rest.extent:
        yield _scatter_over(step, first, as_index(rest) + pieces * within.extent, rest)
    one, place = Variable(count), Variable(target.count)
    parts = load(copies, one * target.count + place)
    total = reduce(step.combine, (one,), nothing, parts)
    loops = (place,) if is_long(place) else ()
    before = load(target, as_index(place))
    after = apply(instruction(step.combine, dtype), dtype, before, total)
    yield Kernel(loops, (Store(target, as_index(place), after),), step.source)


def _scatter_pieces(step: Scatter) -> int:
    """How many pieces to make of a scatter: 1 if it stays whole."""
    sizes = [v.extent for v in step.loops]
    if step.combine == "set" or not all(isinstance(n, int) for n in sizes):
        return 1
    updates, size = math.prod(map(likely, sizes)), step.buffer.count
    if not isinstance(size, int) or updates < MANY_UPDATES or any(is_wide(v) for v in step.apart):
        return 1
    dtype = step.expr.dtype
    if dtype.kind not in "iuf" or (dtype.kind == "f" and dtype.itemsize < 4):
        return 1  # complex numbers have parts; half floats are rounded at each step
    first = sizes[0]
    assert isinstance(first, int)
    most = min(MOST, updates // (SPARSE * size), first // 2)
    return 1 << max(0, most.bit_length() - 1)


def is_wide(variable: Variable) -> bool:
    """Whether a loop is long enough to be shared among threads."""
    return isinstance(variable.extent, int) and variable.extent >= 128


def _scatter_over(step: Scatter, old: Variable, index: Index, new: Variable) -> Scatter:
    """The scatter with its first loop replaced."""
    loops = ((new,) if is_long(new) else ()) + step.loops[1:]
    apart = tuple(v for v in step.apart if v is not old)
    return replace(rebind(step, {old: index}), loops=loops, apart=apart)


def loops_apart(loops: Sequence[Variable], place: Index) -> tuple[Variable, ...]:
    """Loops of which different rounds always write to different places.

    The index is `stride * variable` plus less than a stride, or plus multiples of the whole loop,
    so it tells the round.
    """
    return tuple(v for v in loops if _is_apart(v, place))


def _is_apart(variable: Variable, place: Index) -> bool:
    stride = place.stride_of(variable)
    if not isinstance(stride, int) or stride < 1 or not place.is_stepped_by(variable):
        return False
    whole = stride * variable.extent
    others = [(a, c) for a, c in place.terms if a is not variable]
    if not all(isinstance(n, int) for n in (whole, place.constant, *(c for _, c in others))):
        return False
    within = Index(tuple((a, c) for a, c in others if c % whole), place.constant % whole)
    return is_within(within, stride)
