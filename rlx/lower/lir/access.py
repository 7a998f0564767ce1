"""Reads and writes of steps."""

from __future__ import annotations

import itertools
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import TypeVar

from ...ir.lazy import lazy
from ...ir.record import replace
from .expr import Expr, Load, load, substitute, walk
from .index import Index, Variable
from .program import (
    BranchStep,
    Buffer,
    Chain,
    Contraction,
    Copy,
    Kernel,
    LibraryCall,
    RepeatStep,
    RowGroup,
    Scan,
    Scatter,
    Sort,
    Step,
    Store,
    TopK,
    WhileStep,
)


def loaded_buffers(exprs: Iterable[Expr], indices: Iterable[Index] = ()) -> list[Buffer]:
    """The buffers that expressions and indices load from, oldest first."""
    roots = [*exprs, *(e for index in indices for e in index.loads)]
    found = {load.buffer for root in roots for load in root.loads}
    return sorted(found, key=lambda buffer: buffer.serial)


def _stores_read(stores: Iterable[Store]) -> list[Buffer]:
    stores = tuple(stores)
    return loaded_buffers((s.expr for s in stores), (s.index for s in stores))


def reads(step: Step) -> tuple[Buffer, ...]:
    """The buffers a step reads, each once; temporaries of row groups are included."""
    known = vars(step)  # a step does not change, and every pass asks for them again and again
    if "reads" not in known:
        known["reads"] = tuple(dict.fromkeys(_reads(step)))
    return known["reads"]


def _reads(step: Step) -> Iterator[Buffer]:
    if isinstance(step, Kernel):
        yield from _stores_read(step.stores)
    elif isinstance(step, RowGroup):
        for kernel in step.kernels:
            yield from _stores_read(kernel.stores)
    elif isinstance(step, Scan):
        yield from loaded_buffers([step.expr], [step.index])
    elif isinstance(step, TopK):
        yield from loaded_buffers([step.expr], [step.index])
    elif isinstance(step, Sort):
        yield step.numbers
    elif isinstance(step, Scatter):
        yield from loaded_buffers([step.expr], [step.index, *(b[0] for b in step.bounds)])
        yield step.buffer
    elif isinstance(step, Contraction):
        sides = (step.lhs, step.lhs_panels), (step.rhs, step.rhs_panels)
        yield from loaded_buffers(e for e, panels in sides if panels is None)
        yield from (panels for _, panels in sides if panels is not None)
        yield from _stores_read(step.stores)
    elif isinstance(step, Chain):
        for each in step.steps:
            yield from _reads(each)
    elif isinstance(step, LibraryCall):
        yield from step.inputs
    elif isinstance(step, Copy):
        yield step.origin
    elif isinstance(step, BranchStep):
        yield from (step.selector, *step.inputs)
    elif isinstance(step, WhileStep):
        yield from (*step.condition_constants, *step.body_constants)
        yield from (c.initial for c in step.carries)
    elif isinstance(step, RepeatStep):
        yield from (*step.constants, *(c.initial for c in step.carries), *step.slices)


def times(steps: Iterable[Step]) -> Iterator[int]:
    """Times of steps, equal for steps that may run at the same time."""
    return itertools.accumulate(not (isinstance(s, Contraction) and s.joins) for s in steps)


def writes(step: Step) -> tuple[Buffer, ...]:
    """The buffers a step writes, scratch memory included, each once."""
    known = vars(step)
    if "writes" not in known:
        known["writes"] = tuple(dict.fromkeys(_writes(step)))
    return known["writes"]


def _writes(step: Step) -> Iterator[Buffer]:
    if isinstance(step, Kernel | Contraction):
        yield from (s.buffer for s in step.stores)
    elif isinstance(step, RowGroup):
        yield from (s.buffer for kernel in step.kernels for s in kernel.stores)
    elif isinstance(step, Chain):
        for each in step.steps:
            yield from _writes(each)
    elif isinstance(step, Scan | Scatter):
        yield step.buffer
    elif isinstance(step, TopK):
        yield from (step.values, step.places)
    elif isinstance(step, Sort):
        yield from (b for b in (step.sorted, step.places, step.spare) if b is not None)
    elif isinstance(step, LibraryCall):
        yield from step.outputs
    elif isinstance(step, Copy):
        yield step.target
    elif isinstance(step, BranchStep):
        yield from step.outputs
    else:
        yield from (b for c in step.carries for b in (c.result, c.spare) if b is not None)
        yield from step.stacks if isinstance(step, RepeatStep) else (step.flag,)
    if isinstance(step, BranchStep | WhileStep | RepeatStep) and step.scratch is not None:
        yield step.scratch


class Steps:
    """Steps in order, and which of them use a buffer, by their numbers."""

    def __init__(self, steps: Sequence[Step]) -> None:
        self.all = steps

    @lazy
    def readers(self) -> Counter[Buffer]:
        """How many steps read each buffer."""
        return Counter(b for step in self.all for b in reads(step))

    @lazy
    def users(self) -> Counter[Buffer]:
        """How many steps read or write each buffer."""
        return Counter(b for step in self.all for b in {*reads(step), *writes(step)})

    @lazy
    def writers(self) -> dict[Buffer, list[int]]:
        """The steps that write each buffer."""
        found: dict[Buffer, list[int]] = {}
        for number, step in enumerate(self.all):
            for buffer in writes(step):
                found.setdefault(buffer, []).append(number)
        return found

    @lazy
    def spans(self) -> dict[Buffer, tuple[int, int]]:
        """The first and the last step that use each buffer."""
        found: dict[Buffer, tuple[int, int]] = {}
        for number, step in enumerate(self.all):
            for buffer in (*reads(step), *writes(step)):
                first, _ = found.get(buffer, (number, number))
                found[buffer] = first, number
        return found


def stored(step: Kernel | RowGroup | Contraction | Scatter) -> Iterator[Store]:
    """Every store of a step."""
    if isinstance(step, Scatter):
        yield Store(step.buffer, step.index, step.expr)
        return
    for part in step.kernels if isinstance(step, RowGroup) else (step,):
        yield from part.stores


def loaded(step: Kernel | RowGroup | Contraction) -> list[tuple[Buffer, Index]]:
    """Every place that a step reads."""
    stores = list(stored(step))
    roots = [*(s.expr for s in stores), *(e for s in stores for e in s.index.loads)]
    roots += [step.lhs, step.rhs] if isinstance(step, Contraction) else []
    return [(e.buffer, e.index) for e in walk(*roots) if isinstance(e, Load)]


def places(steps: Iterable[Kernel | RowGroup | Contraction]) -> dict[Buffer, list[Index]]:
    """Where steps read and write each buffer."""
    found: dict[Buffer, list[Index]] = {}
    for step in steps:
        for buffer, index in (*loaded(step), *((s.buffer, s.index) for s in stored(step))):
            found.setdefault(buffer, []).append(index)
    return found


# -- steps with other indices ---------------------------------------------------------------------

Loops = TypeVar("Loops", bound=Kernel | RowGroup | Contraction | Scatter)
Move = Callable[[Buffer, Index], tuple[Buffer, Index]]
Table = Mapping[Variable, Index]


def rebind(step: Loops, table: Table, move: Move | None = None) -> Loops:
    """Substitute indices in a step, then map its places; its loops stay."""
    memo: dict[Expr, Expr] = {}
    places = dict(table)

    def leaf(e: Expr) -> Expr | None:
        if move is None or not isinstance(e, Load):
            return None
        buffer, index = move(e.buffer, e.index.substitute(places, expr))
        return e if (buffer, index) == (e.buffer, e.index) else load(buffer, index)

    def expr(e: Expr) -> Expr:
        return substitute(e, places, leaf, memo)

    def place(buffer: Buffer, index: Index) -> tuple[Buffer, Index]:
        index = index.substitute(places, expr)
        return move(buffer, index) if move else (buffer, index)

    def moved(stores: Iterable[Store]) -> tuple[Store, ...]:
        return tuple(Store(*place(s.buffer, s.index), expr(s.expr)) for s in stores)

    if isinstance(step, Kernel):
        return replace(step, stores=moved(step.stores))
    if isinstance(step, RowGroup):
        return replace(
            step, kernels=tuple(replace(k, stores=moved(k.stores)) for k in step.kernels)
        )
    if isinstance(step, Scatter):
        bounds = tuple((i.substitute(places, expr), low, high) for i, low, high in step.bounds)
        buffer, index = place(step.buffer, step.index)
        return replace(step, buffer=buffer, index=index, bounds=bounds, expr=expr(step.expr))
    return replace(step, lhs=expr(step.lhs), rhs=expr(step.rhs), stores=moved(step.stores))
