"""An entry for each combination of shapes, where sizes are symbolic."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from ..ir.bind import bind_sizes
from ..ir.errors import SymbolicSizeError
from ..ir.types import Type
from .backend import MISS

KEPT = 256  # combinations of shapes with an entry; making one takes some microseconds
Sizes = Mapping[str, int]


def sized_entry(
    types: Sequence[Type], make: Callable[[Sizes], Callable[..., Any]]
) -> Callable[..., Any]:
    """An entry for arguments of these types, whose sizes are found in each call.

    `make(sizes)` gives an entry to the same machine code for certain numbers of the dims. Sizes
    that fit no numbers, or are out of range, are a `MISS`.
    """
    entries: dict[tuple, Callable[..., Any]] = {}
    names = [str(i) for i in range(len(types))]
    recent: Callable[..., Any] = lambda *arrays: MISS  # noqa: E731

    def entry(*arrays: Any, **keywords: Any) -> Any:
        nonlocal recent
        if keywords:
            return MISS
        result = recent(*arrays)  # a miss costs less than looking at the shapes
        if result is not MISS:
            return result
        shapes = tuple([getattr(array, "shape", None) for array in arrays[: len(types)]])
        if len(shapes) < len(types) or not all(map(_has_rank, shapes, types)):
            return MISS
        found = entries.get(shapes)
        if found is None:
            try:
                sizes = bind_sizes(types, shapes, names)  # type: ignore[arg-type]
            except SymbolicSizeError:
                return MISS
            found = entries[shapes] = make(sizes)
            for old in list(entries)[:-KEPT]:
                entries.pop(old, None)  # another thread may have done so
        recent = found  # other threads set it to theirs
        return found(*arrays)

    return entry


def _has_rank(shape: Any, type: Type) -> bool:
    return isinstance(shape, tuple) and len(shape) == type.rank
