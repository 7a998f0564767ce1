"""Copy elimination: steps store where a later copy would put their results."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence

from ...ir.record import record, replace
from ..lir.access import Steps, reads, rebind, writes
from ..lir.digits import Digits
from ..lir.expr import Const, Guard, Load, walk
from ..lir.index import Index, Variable, as_index, is_long
from ..lir.program import Buffer, Contraction, Kernel, Step, Store
from .elements import flatten, unflatten
from .merge import walk_over


def forward_copies(steps: Sequence[Step]) -> list[Step]:
    """Eliminate copies of contractions' results: they store at the final place.

    before: contractions storing `b[i*8 + j]` and `b[i*8 + j + 4]`, each for `i < 6, j < 4`, then
    `kernel i < 2, j < 24: c[i*99 + j] = b[i*24 + j]`; after: the contractions store
    `c[(i // 3)*99 + (i % 3)*8 + j]` and so on. The copied array is a temporary, read only there.
    """
    left: list[Step | None] = list(steps)
    used = Steps(steps)
    readers, writers = used.readers, used.writers
    for number, step in enumerate(steps):
        origin = _origin(step)
        if origin is None or readers[origin] != 1:
            continue
        assert isinstance(step, Kernel)
        (target,) = step.stores
        moved = [_moved(left[i], origin, step) for i in writers[origin]]
        first = min(writers[origin])
        is_read = any(target.buffer in reads(s) for s in left[first:number] if s is not None)
        if is_read or not all(moved):
            continue
        for i, new in zip(writers[origin], moved, strict=True):
            left[i] = new
        writers.setdefault(target.buffer, []).extend(writers[origin])
        left[number] = None
    return [step for step in left if step is not None]


def _origin(step: Step) -> Buffer | None:
    """The temporary that a kernel merely copies, or None."""
    if not isinstance(step, Kernel) or len(step.stores) != 1:
        return None
    (store,) = step.stores
    if not isinstance(store.expr, Load) or store.expr.buffer.kind != "temporary":
        return None
    return store.expr.buffer


def _moved(step: Step | None, origin: Buffer, copy: Kernel) -> Contraction | None:
    """A contraction with its stores to `origin` redirected to the target of the copy."""
    if not isinstance(step, Contraction) or not step.is_static:
        return None
    (target,) = copy.stores
    assert isinstance(target.expr, Load), "it is a copy"
    stores = []
    for store in step.stores:
        if store.buffer is not origin:
            stores.append(store)
            continue
        table = walk_over(copy.loops, target.expr, store.index)
        index = target.index.substitute(table) if table is not None else None
        if index is None or not is_even(step, index):
            return None
        stores.append(Store(target.buffer, index, store.expr))
    return replace(step, stores=tuple(stores))


def is_even(step: Contraction, index: Index) -> bool:
    """Whether an index is contiguous in columns and affine in digits of the row."""
    extents = [v.extent for v in (step.row, step.column)]
    if index.stride_of(step.column) != 1 or not index.is_stepped_by(step.column) or 1 in extents:
        return False
    digits = Digits.of(step.row, [index])
    cut = index.substitute({step.row: digits.index})
    return all(cut.is_stepped_by(part) for part in digits.parts)


# -- let steps put their results into the middle of a padded copy ----------------------------------


FARTHEST = 12  # steps from the copy to the last that reads the array: padding takes memory


def forward_pads(steps: Sequence[Step]) -> list[Step]:
    """Eliminate padded copies: steps store into the middle of the padded array.

    before: `kernel i < 6: b[i] = ...`, then `kernel i < 8: c[i] = b[i - 1] where 0 <= i - 1 < 6
    else 0.0`; after: a kernel that sets c[0] and c[7], then `kernel i < 6: c[i + 1] = ...`. What
    else reads b, soon after, reads c.
    """
    left = list(steps)
    number = 0
    while number < len(left):
        pad = _pad_of(left[number])
        changed = _without_copy(left, number, pad) if pad else None
        left = changed or left
        number += 0 if changed else 1
    return left


@record
class _Pad:
    """A copy of `origin` into the middle of `target`."""

    origin: Buffer
    target: Buffer
    low: tuple[int, ...]  # the padding before each axis
    counts: tuple[int, ...]  # the sizes of the origin
    extents: tuple[int, ...]  # the sizes of the target
    value: Const  # of the padding

    def moved(self, index: Index) -> Index:
        """Where an element of the origin goes."""
        place = unflatten(index, self.counts)
        there = [i + low for i, low in zip(place, self.low, strict=True)]
        return flatten(there, self.extents)

    def borders(self) -> Iterator[Kernel]:
        """Kernels that fill the border around the middle."""
        for axis, (low, count, extent) in enumerate(
            zip(self.low, self.counts, self.extents, strict=True)
        ):
            high = extent - low - count
            strips = [(0, low, 1), (low + count, high, 1)]
            if low == high:
                strips = [(0, low, 2)]  # both with one kernel
            for start, width, sides in strips:
                if width:
                    yield self._strip(axis, start, width, Variable(sides))

    def _strip(self, axis: int, start: int, width: int, side: Variable) -> Kernel:
        along = Variable(width)
        axes = [Variable(n) if i != axis else along for i, n in enumerate(self.extents)]
        place = [as_index(v) for v in axes]
        place[axis] = place[axis] + start + side * (self.low[axis] + self.counts[axis])
        store = Store(self.target, flatten(place, self.extents), self.value)
        return Kernel(tuple(v for v in (side, *axes) if is_long(v)), (store,))


def _pad_of(step: Step) -> _Pad | None:
    """The padded copy of a temporary that a kernel is, or None."""
    if not isinstance(step, Kernel) or len(step.stores) != 1:
        return None
    (store,) = step.stores
    e = store.expr
    if not isinstance(e, Guard) or e.steps or not isinstance(e.outside, Const):
        return None
    extents = {v: v.extent for v in step.loops if isinstance(v.extent, int)}
    if not isinstance(e.inside, Load) or len(extents) < len(step.loops):
        return None
    place = flatten([as_index(v) for v in extents], list(extents.values()))
    if e.inside.buffer.kind != "temporary" or store.index != place:
        return None
    spans = {v: (0, n) for v, n in extents.items()}
    for index, low, high in e.bounds:
        variable = next((v for v in step.loops if index - v == Index((), index.constant)), None)
        shift = index.constant
        if variable is None or not isinstance(shift, int):
            return None
        if not isinstance(low, int) or not isinstance(high, int):
            return None
        first = max(low - shift, 0)
        spans[variable] = first, min(high - shift, extents[variable]) - first
    low, counts = zip(*spans.values(), strict=True)
    pad = _Pad(e.inside.buffer, store.buffer, low, counts, tuple(extents.values()), e.outside)
    place = flatten([v - first for v, first in zip(extents, low, strict=True)], counts)
    sizes = e.inside.buffer.count, store.buffer.count
    is_whole = e.inside.index == place and sizes == (math.prod(counts), math.prod(pad.extents))
    return pad if is_whole else None


def _without_copy(steps: Sequence[Step], number: int, pad: _Pad) -> list[Step] | None:
    """The steps with the padded array for the copied one, or None.

    None stands for steps of which one cannot use the padded array.
    """
    using = [
        i for i, s in enumerate(steps) if pad.origin in {*reads(s), *writes(s)} and i != number
    ]
    writing = [i for i in using if pad.origin in writes(steps[i])]
    if not writing or using[-1] > number + FARTHEST or writing[-1] > number:
        return None
    if any(pad.target in {*reads(s), *writes(s)} for s in steps[:number]):
        return None
    if any(pad.target in writes(s) for s in steps[number + 1 : using[-1] + 1]):
        return None  # what is written there later, as by a scatter, is no padded copy

    def move(buffer: Buffer, index: Index) -> tuple[Buffer, Index]:
        return (pad.target, pad.moved(index)) if buffer is pad.origin else (buffer, index)

    changed = list(steps)
    for i in using:
        step = steps[i]
        if not isinstance(step, Kernel | Contraction) or not _is_static(step):
            return None
        changed[i] = rebind(step, {}, move)
        if not _is_good(changed[i], pad.target):
            return None
    del changed[number]
    changed[writing[0] : writing[0]] = pad.borders()
    return changed


def _is_static(step: Kernel | Contraction) -> bool:
    if isinstance(step, Contraction):
        return step.is_static
    return all(isinstance(v.extent, int) for v in step.loops)


def _is_good(step: Step, target: Buffer) -> bool:
    """Whether a step reads and writes a buffer as regularly as its loops need it."""
    assert isinstance(step, Kernel | Contraction), "no other step is changed"
    stored = [s.index for s in step.stores if s.buffer is target]
    loaded = [
        e.index
        for e in walk(*(s.expr for s in step.stores))
        if isinstance(e, Load) and e.buffer is target
    ]
    if isinstance(step, Kernel):
        return all(index.is_affine for index in (*stored, *loaded))
    is_read = any(load.buffer is target for load in step.rhs.loads)
    is_stepped = all(index.is_stepped_by(step.column) for index in loaded)
    return not is_read and is_stepped and all(is_even(step, index) for index in stored)
