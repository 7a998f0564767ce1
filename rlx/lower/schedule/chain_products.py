"""Chains: fuse products that pass matrices to each other under common loops."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Sequence
from typing import TypeAlias, TypeVar

from ...ir.dims import Size
from ...ir.record import field, record, replace
from ...ir.types import Type
from ..lir.access import Steps, loaded, places, reads, rebind, stored, writes
from ..lir.index import Index, Variable, as_index, is_long
from ..lir.program import Buffer, Chain, Contraction, Kernel, RowGroup, Step
from .loops import reductions
from .rows import is_same_block

Inner: TypeAlias = Kernel | RowGroup | Contraction
Link = TypeVar("Link", bound=Inner)
LARGEST_BLOCK = 1 << 20  # bytes: more than this does not stay in the cache
LONGEST = 16  # steps
LEAST_ROUNDS = 4  # whatever the number of threads, for a product's rows order its sums
LINE = 64


def chain_products(steps: Sequence[Step], threads: int) -> list[Step]:
    """Fuse products and the kernels between them into chains of common outer loops.

    before: `contraction i < 12, j < 128, k < 128: ... b4[i*16384 + j*128 + k]`, rows that read b4
    and write b8, and a contraction over i < 12 that reads b8; after: `chain i < 12` of all three,
    in which b4 and b8 are no larger than what one round of the loop needs.
    """
    users = Steps(steps).users
    found: list[Step | _Links] = []
    at = 0
    while at < len(steps):
        links = _longest(steps[at : at + LONGEST])
        at += len(links.before) + len(links.steps) if links else 1
        last = found[-1] if found else None
        both = last.joined(links) if links and isinstance(last, _Links) else None
        if both:
            found[-1] = both
        else:
            found.append(links or steps[at - 1])
    chained: list[Step] = []
    for each in found:
        is_chain = isinstance(each, _Links)
        chained += [*each.before, each.chain(users, threads)] if is_chain else [each]
    return chained


def _longest(steps: Sequence[Step]) -> _Links | None:
    """The chain with the most outer loops that begins with the first step."""
    first = steps[0]
    if not isinstance(first, Contraction) or not _is_static(first):
        return None
    index = first.stores[0].index
    batch = sorted((v for v in first.batch if is_long(v)), key=index.stride_of, reverse=True)
    for count in range(len(batch), 0, -1):
        links = _Links(tuple(batch[:count]))
        for step in steps:
            if not links.add(step) and not links.skip(step):
                break
        links.trim()
        if links.pays():
            return links
    return None


@record(frozen=False)
class _Links:
    """A chain in the making: its steps, and other steps that move before it."""

    loops: tuple[Variable, ...]
    steps: list[Inner] = field(default_factory=list)
    before: list[Step] = field(default_factory=list)
    is_link: list[bool] = field(default_factory=list)  # for each step added or skipped, in order

    def add(self, step: Step) -> bool:
        """Add a step to the chain if its dependences allow it."""
        if not isinstance(step, Kernel | RowGroup | Contraction) or not _is_static(step):
            return False
        written: dict[Buffer, list[Index]] = {}
        for link in self.steps:
            for store in stored(link):
                written.setdefault(store.buffer, []).append(store.index)
        inner = self._inner(step, written)
        if inner is None or {b for link in self.steps for b in reads(link)} & set(writes(inner)):
            return False
        used = [*loaded(inner), *((s.buffer, s.index) for s in stored(inner))]
        for buffer, index in used:
            if not all(is_same_block(w, index, self.loops) for w in written.get(buffer, ())):
                return False
        self.steps.append(inner)
        self.is_link.append(True)
        return True

    def skip(self, step: Step) -> bool:
        """Move a step before the chain if neither depends on the other."""
        used = {b for link in self.steps for b in (*reads(link), *writes(link))}
        made = {b for link in self.steps for b in writes(link)}
        if not isinstance(step, Kernel | RowGroup) or used & set(writes(step)):
            return False
        if made & set(reads(step)):
            return False
        self.before.append(step)
        self.is_link.append(False)
        return True

    def _inner(self, step: Link, written: dict[Buffer, list[Index]]) -> Link | None:
        """The step without its outer loops, which are matched to the chain's by stride."""
        if not written:
            return _without(step, self.loops)
        shared = ((i, written[b][0]) for b, i in loaded(step) if b in written)
        read, wrote = next(shared, (None, Index()))
        if read is None:
            return None
        for loop in self.loops:
            stride = wrote.stride_of(loop)
            found = next((v for v in _outer(step) if _has_steps(v, read, loop, stride)), None)
            if found is None:
                return None
            rest = Variable(found.extent // loop.extent)
            table = {found: loop * rest.extent + rest if is_long(rest) else as_index(loop)}
            step, read = rebind(_without(step, [found], rest), table), read.substitute(table)
        return step

    def trim(self) -> None:
        """Drop steps after the last product."""
        while self.is_link and not (self.is_link[-1] and isinstance(self.steps[-1], Contraction)):
            (self.steps if self.is_link.pop() else self.before).pop()

    def pays(self) -> bool:
        """Whether a chain pays: its matrices stay in cache, and threads are kept busy."""
        if sum(isinstance(step, Contraction) for step in self.steps) < 2:
            return False
        count = math.prod(v.extent for v in self.loops)
        passed = {b for s in self.steps for b in writes(s)} & {
            b for s in self.steps for b in reads(s)
        }
        return count >= LEAST_ROUNDS and sum(b.nbytes for b in passed) <= LARGEST_BLOCK * count

    def joined(self, other: _Links) -> _Links | None:
        """Fuse two independent chains that read a matrix in common."""
        if other.before or [v.extent for v in self.loops] != [v.extent for v in other.loops]:
            return None
        table = dict(zip(other.loops, map(as_index, self.loops), strict=True))
        both = _Links(self.loops, [*self.steps, *(rebind(s, table) for s in other.steps)])
        first, second = (places(s) for s in (self.steps, both.steps[len(self.steps) :]))
        made = {b for step in both.steps for b in writes(step)}
        is_shared = False
        for buffer in first.keys() & second.keys():
            strides = {_strides(i, self.loops) for i in (*first[buffer], *second[buffer])}
            if buffer in made:
                both_places = (*first[buffer], *second[buffer])
                if len(strides) > 1 or not all(_tells(i, self.loops) for i in both_places):
                    return None
            is_shared |= buffer not in made and len(strides) == 1 and any(*strides)
        both.before = self.before
        return both if is_shared else None

    def chain(self, users: Counter[Buffer], threads: int) -> Chain:
        """Make the step, in which each worker has memory of its own for temporaries."""
        count = math.prod(v.extent for v in self.loops)
        worker = Variable(min(threads, count))
        own = self._own(users, worker)

        def move(buffer: Buffer, index: Index) -> tuple[Buffer, Index]:
            if buffer not in own:
                return buffer, index
            block = own[buffer].type.shape[1]
            return own[buffer], index.without(self.loops) + worker * block

        steps = tuple(rebind(step, {}, move) for step in self.steps)
        return Chain(worker, self.loops, steps)

    def _own(self, users: Counter[Buffer], worker: Variable) -> dict[Buffer, Buffer]:
        """Plan the memory of one round for each worker; temporaries share it."""
        within = Steps(self.steps)
        rooms: list[list[Buffer]] = []
        given: set[Buffer] = set()
        for number, step in enumerate(self.steps):
            for buffer in writes(step):
                if (
                    buffer in given
                    or buffer.kind != "temporary"
                    or users[buffer] > within.users[buffer]
                ):
                    continue
                given.add(buffer)
                free = (
                    r
                    for r in rooms
                    if within.spans[r[-1]][1] < number and r[0].number_dtype == buffer.number_dtype
                )
                room = next(free, None)
                if room is None:
                    rooms.append([buffer])
                else:
                    room.append(buffer)
        used = places(self.steps)
        own: dict[Buffer, Buffer] = {}
        for room in rooms:
            size = 1 + max(i.without(self.loops).high for b in room for i in used[b])
            dtype = room[0].number_dtype
            numbers = LINE // math.gcd(LINE, dtype.itemsize)
            type = Type(dtype, (worker.extent, -(-size // numbers) * numbers))
            own.update(dict.fromkeys(room, Buffer(room[0].name, type, "temporary")))
        return own


def _is_static(step: Inner) -> bool:
    if isinstance(step, Contraction):
        return step.is_static
    kernels = step.kernels if isinstance(step, RowGroup) else (step,)
    loops = [*step.loops, *(v for k in kernels for v in k.loops)]
    loops += [v for r in reductions(kernels) for v in r.loops]
    return all(isinstance(v.extent, int) for v in loops)


def _outer(step: Inner) -> tuple[Variable, ...]:
    """The outer loops of a step."""
    if isinstance(step, Contraction):
        return (*step.batch, step.row, step.column)
    return step.loops


def _has_steps(variable: Variable, index: Index, loop: Variable, stride: Size) -> bool:
    """Whether a loop of this stride is all of a variable or a slower part of it."""
    if variable.extent % loop.extent or not index.is_stepped_by(variable):
        return False
    return index.stride_of(variable) * (variable.extent // loop.extent) == stride


def _without(step: Link, variables: Sequence[Variable], rest: Variable | None = None) -> Link:
    """The step without some of its loops; of a split one the `rest` stays."""
    left = () if rest is None or not is_long(rest) else (rest,)

    def kept(loops: Sequence[Variable]) -> tuple[Variable, ...]:
        return tuple(w for v in loops for w in (left if v in variables else (v,)))

    if not isinstance(step, Contraction):
        return replace(step, loops=kept(step.loops))
    row, column = (rest or Variable(1) if v in variables else v for v in (step.row, step.column))
    return replace(step, batch=kept(step.batch), row=row, column=column)


def _strides(index: Index, loops: Sequence[Variable]) -> tuple[Size, ...]:
    return tuple(map(index.stride_of, loops))


def _tells(index: Index, loops: Sequence[Variable]) -> bool:
    """Whether an index tells the round, because each loop is a digit of it."""
    for loop in loops:
        stride = index.stride_of(loop)
        if not index.is_affine or stride < 1:
            return False
        whole = stride * loop.extent
        lower = tuple((v, c) for v, c in index.terms if v is not loop and c % whole)
        rest = Index(lower, index.constant % whole)
        if rest.low < 0 or rest.high >= stride:
            return False
    return True


# -- let small products that do not need each other run at the same time ---------------------------


MOST = 8  # products at a time
FARTHEST = 16  # steps to look back
LARGEST = 1 << 23  # multiplications: such a product keeps the threads busy alone


def join_products(steps: Sequence[Step]) -> list[Step]:
    """Group small independent products, as those of one operand, to run at once.

    before: `contraction: b3 = x @ q`, a kernel that reads b3, `contraction: b4 = x @ k`; after:
    `contraction: b3 = x @ q`, `contraction: b4 = x @ k` that `joins` it, and the kernel.
    """
    groups: list[list[Step]] = []  # the first of each and what joins it
    for step in steps:
        group = _group_for(step, groups) if isinstance(step, Contraction) else None
        if group is None:
            groups.append([step])
        else:
            group.append(replace(step, joins=True))  # type: ignore[type-var]
    return [step for group in groups for step in group]


def _group_for(step: Contraction, groups: Sequence[list[Step]]) -> list[Step] | None:
    """The group of products that a later one may join."""
    if not _is_small(step):
        return None
    needed, made = set(reads(step)), set(writes(step))
    for group in reversed(groups[-FARTHEST:]):
        if _meets(group, needed, made):
            return None
        if isinstance(group[0], Contraction) and _is_small(group[0]) and len(group) < MOST:
            return group
    return None


def _is_small(step: Contraction) -> bool:
    variables = (*step.batch, step.row, step.column, step.depth)
    return step.is_static and math.prod(v.extent for v in variables) <= LARGEST


def _meets(steps: Sequence[Step], needed: set[Buffer], made: set[Buffer]) -> bool:
    """Whether steps and another one depend on each other."""
    return any({*needed, *made} & set(writes(s)) or made & set(reads(s)) for s in steps)
