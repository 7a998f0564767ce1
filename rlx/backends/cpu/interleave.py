"""Vectors whose lanes lie apart in memory: neighbors of each other fill the gaps.

Elements r apart are loaded together with those between them, and stored together with the vectors
that fill the gaps, so that memory is used in whole lines.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from ...ir.dims import Size
from ...lower.lir.expr import Load
from ...lower.lir.index import Index, Variable
from ...lower.lir.program import Store
from .llvm.text import Function, Vector

WIDEST = 16  # vectors that are put together at most


def step_of(index: Index, along: Variable) -> int:
    """How far apart neighboring lanes are; 0 where nobody knows."""
    stride = index.stride_of(along) if index.is_stepped_by(along) else 0
    return stride if isinstance(stride, int) else 0


def start_of_group(place: Load | Store, step: int) -> Index | None:
    """Where the group of `step` numbers begins in which one lies.

    It is None unless all groups begin at a multiple of `step` and lie in the buffer.
    """
    index, count = place.index, place.buffer.count
    if not all(isinstance(n, int) for n in (count, index.constant, *(c for _, c in index.terms))):
        return None
    if count % step or any(c % step for _, c in index.terms):
        return None
    return index - index.constant % step


@dataclass(frozen=True)
class Pairs:
    """Neighbors in memory of which each lane takes one.

    They begin at `start`; `which` is the first or the second of each, `is_backwards` tells whether
    the last pair goes to lane 0. Under a mask only the first is read, of the lanes in it.
    """

    start: Index
    which: int
    is_backwards: bool
    mask: str | None = None

    def load(self, f: Function, vector: Vector, address: str, align: int) -> str:
        """Load a vector, with `start` at the address."""
        both = Vector(vector.dtype, 2 * vector.lanes)
        if self.mask is None:
            raw = f.emit(f"load {both.text}, ptr {address}, align {align}")
        else:
            raw = self._load_masked(f, both, address, align)
        places = range(self.which, 2 * vector.lanes, 2)
        return _shuffled(f, both, raw, "poison", places[::-1] if self.is_backwards else places)

    def _load_masked(self, f: Function, both: Vector, address: str, align: int) -> str:
        lanes, bits = both.lanes // 2, Vector("bool", both.lanes // 2)
        places = [place for i in range(lanes) for place in (i, lanes)]
        mask = _shuffled(f, bits, str(self.mask), "zeroinitializer", places)
        kinds = f"ptr, {Vector('bool', both.lanes).text}, {both.text}"
        name = f"@llvm.masked.load.{both.mangled}.p0"
        f.declarations.add(f"declare {both.text} {name}({kinds})")
        return f.emit(
            f"call {both.text} {name}(ptr align {align} {address}, "
            f"{Vector('bool', both.lanes).text} {mask}, {both.text} zeroinitializer)"
        )


def pairs_of(load: Load, stride: Size | None, lanes: int, mask: str | None) -> Pairs | None:
    """The pairs that lanes two numbers apart are taken from, if it is so."""
    if stride not in (2, -2):
        return None
    if mask is not None:
        return Pairs(load.index, 0, False, mask) if stride == 2 else None
    start = start_of_group(load, 2)
    if start is None:
        return None
    which = 0 if start == load.index else 1
    return Pairs(start if stride == 2 else start - 2 * (lanes - 1), which, stride == -2)


def backwards(f: Function, vector: Vector, x: str) -> str:
    """The lanes in reverse order."""
    return _shuffled(f, vector, x, "poison", range(vector.lanes - 1, -1, -1))


def grouped(stores: Sequence[Store], along: Variable) -> list[list[Store]]:
    """The stores, those together that fill whole lines of memory; the others alone."""
    groups: dict[tuple, list[Store]] = {}
    for store in stores:
        step = step_of(store.index, along)
        size = abs(step)
        is_power = (1 < size <= WIDEST and not size & (size - 1)) or step == -1
        start = start_of_group(store, size) if is_power else None
        key = (store,) if start is None else (store.buffer, size, start, step)
        groups.setdefault(key, []).append(store)
    found: list[list[Store]] = []
    for key, group in groups.items():
        places = {store.index.constant for store in group}
        if len(key) > 1 and len(places) == len(group) == key[1]:
            found.append(sorted(group, key=lambda s: s.index.constant))  # type: ignore[arg-type]
        else:
            found += [[store] for store in group]
    return found


def interleaved(f: Function, vector: Vector, parts: Sequence[str]) -> list[str]:
    """The first lanes of all parts, then the second ones, and so on: as many vectors."""
    if len(parts) == 1:
        return list(parts)
    lanes, half = vector.lanes, vector.lanes // 2
    pairs = zip(
        interleaved(f, vector, parts[::2]), interleaved(f, vector, parts[1::2]), strict=True
    )
    result = []
    for first, second in pairs:
        for start in (0, half):
            places = [place for i in range(start, start + half) for place in (i, lanes + i)]
            result.append(_shuffled(f, vector, first, second, places))
    return result


def _shuffled(f: Function, vector: Vector, x: str, y: str, places: Sequence[int]) -> str:
    order = ", ".join(f"i32 {place}" for place in places)
    return f.emit(
        f"shufflevector {vector.text} {x}, {vector.text} {y}, <{len(places)} x i32> <{order}>"
    )
