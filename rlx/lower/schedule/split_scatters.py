"""Long scatters to few places in pieces, each into a copy of its own."""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from ...ir.dims import likely
from ...ir.types import Type
from ..lir.expr import Expr, apply, const, load, reduce, substitute
from ..lir.index import Index, Variable, as_index, is_long, is_within
from ..lir.program import Buffer, Kernel, Scatter, Step, Store
from .elements import identity
from .split_reductions import instruction

LONG = 1 << 15  # updates: less is done before threads would be awake
MOST = 16  # pieces
SPARSE = 2  # updates for each element of a copy, at least
NEAR, COPIES = 1 << 11, 4  # places so few that neighboring updates often meet: then in copies apart


def split_scatters(steps: Sequence[Step]) -> list[Step]:
    """Split long scatters: threads fill copies, which are combined at the end.

    The number of copies does not depend on the machine, so neither do the results.

    before: `scatter i < 40000: add b2[ids[i]] with b0[i]`; after: `kernel i < 8000: b3[i] = 0`,
    `scatter i < 8, j < 5000: add b3[i*1000 + ids[i*5000 + j]] with b0[i*5000 + j]`, then
    `kernel i < 1000: b2[i] = b2[i] + sum(j < 8: b3[j*1000 + i])`.
    """
    names = (f"copy{i}" for i in itertools.count())
    return [new for step in steps for new in _split(step, names)]


def _split(step: Step, names: Iterator[str]) -> Iterator[Step]:
    pieces = _pieces(step) if isinstance(step, Scatter) else 1
    if pieces < 2:
        yield step
        return
    assert isinstance(step, Scatter)
    target, first = step.buffer, step.loops[0]
    dtype = target.number_dtype
    near = COPIES if target.count <= NEAR and len(step.loops) == 1 else 1
    count = pieces * near
    copies = Buffer(next(names), Type(dtype, (count, target.count)), "temporary")
    nothing = const(dtype, _nothing(step.combine, dtype))
    every = Variable(copies.size)
    yield Kernel((every,), (Store(copies, as_index(every), nothing),), step.source)
    piece, within = Variable(pieces), Variable(first.extent // pieces)
    copy = piece * near + within % near if near > 1 else as_index(piece)
    moved = _over(step, first, piece * within.extent + within, within)
    index = moved.index + copy * target.count
    yield replace(
        moved, loops=(piece, *moved.loops), buffer=copies, index=index, apart=(piece, *moved.apart)
    )
    rest = Variable(first.extent % pieces)
    if rest.extent:
        yield _over(step, first, as_index(rest) + pieces * within.extent, rest)
    one, place = Variable(count), Variable(target.count)
    parts = load(copies, one * target.count + place)
    total = reduce(step.combine, (one,), nothing, parts)
    loops = (place,) if is_long(place) else ()
    before = load(target, as_index(place))
    after = apply(instruction(step.combine, dtype), dtype, before, total)
    yield Kernel(loops, (Store(target, as_index(place), after),), step.source)


def _pieces(step: Scatter) -> int:
    """How many pieces to make of a scatter: 1 if it stays whole."""
    sizes = [v.extent for v in step.loops]
    if step.combine == "set" or not all(isinstance(n, int) for n in sizes):
        return 1
    updates, size = math.prod(map(likely, sizes)), step.buffer.count
    if not isinstance(size, int) or updates < LONG or any(is_wide(v) for v in step.apart):
        return 1
    dtype = step.expr.dtype
    if dtype.kind not in "iuf" or (dtype.kind == "f" and dtype.itemsize < 4):
        return 1  # complex numbers have parts; half floats are rounded at each step
    first = sizes[0]
    assert isinstance(first, int)
    most = min(MOST, updates // (SPARSE * size), first // 2)
    return 1 << max(0, most.bit_length() - 1)


def _nothing(combine: str, dtype: np.dtype) -> Any:
    """What changes no number when combined with it: -0.0 keeps the sign of 0, too."""
    return -0.0 if combine == "add" and dtype.kind == "f" else identity(combine, dtype)


def is_wide(variable: Variable) -> bool:
    """Whether threads can share a loop whose rounds write to different places."""
    return isinstance(variable.extent, int) and variable.extent >= 128


def _over(step: Scatter, old: Variable, index: Index, new: Variable) -> Scatter:
    """The scatter with another loop for its first one."""
    table = {old: index}
    memo: dict[Expr, Expr] = {}

    def inner(expr: Expr) -> Expr:
        return substitute(expr, table, memo=memo)

    bounds = tuple((i.substitute(table, inner), low, high) for i, low, high in step.bounds)
    return replace(
        step,
        loops=((new,) if is_long(new) else ()) + step.loops[1:],
        index=step.index.substitute(table, inner),
        bounds=bounds,
        expr=inner(step.expr),
        apart=tuple(v for v in step.apart if v is not old),
    )


def loops_apart(loops: Sequence[Variable], place: Index) -> tuple[Variable, ...]:
    """The loops of which different rounds always write to different places.

    A place is `stride * variable` and what lies between the strides or is a multiple of the whole
    loop: it tells the round.
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
