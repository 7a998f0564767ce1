"""The way into compiled code of symbolic sizes: an entry for each combination of shapes."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from ...ir.bind import bind_sizes
from ...ir.errors import SymbolicSizeError
from ...ir.types import Type
from ..backend import MISS

KEPT = 256  # combinations of shapes with an entry; making one takes some microseconds
Sizes = Mapping[str, int]


def sized_entry(
    types: Sequence[Type], make: Callable[[Sizes], Callable[..., Any]]
) -> Callable[..., Any]:
    """An entry for arguments of these types, whose sizes are found in each call.

    `make(sizes)` gives an entry to the same machine code for certain numbers of the dims. Sizes
    that fit no numbers, or are out of range, are a `MISS`.
    """
    entries: OrderedDict[tuple, Callable[..., Any]] = OrderedDict()
    places = [i for i, type in enumerate(types) if not type.is_static]
    names = [str(i) for i in range(len(types))]

    def entry(*arrays: Any, **keywords: Any) -> Any:
        try:
            key = tuple([arrays[i].shape for i in places])
        except (AttributeError, IndexError, TypeError):
            return MISS
        found = entries.get(key)
        if found is None:
            try:
                shapes = [getattr(a, "shape", ()) for a in arrays[: len(types)]]
                found = make(bind_sizes(types, shapes, names))
            except (SymbolicSizeError, ValueError):
                return MISS
            entries[key] = found
            while len(entries) > KEPT:
                entries.popitem(last=False)
        return found(*arrays, **keywords)

    return entry
