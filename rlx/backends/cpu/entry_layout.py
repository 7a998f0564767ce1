"""Where objects keep what machine code reads: slots, dtypes, shapes."""

from __future__ import annotations

import ctypes
import math
from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np


@dataclass(frozen=True)
class Spec:
    """The dtype and shape of one argument or result."""

    dtype: np.dtype
    shape: tuple[int, ...]

    @property
    def nbytes(self) -> int:
        """The bytes of its data."""
        return math.prod(self.shape) * self.dtype.itemsize


@dataclass(frozen=True)
class ArrayLayout:
    """Where instances of `cls` keep their ndarray, and what fills their other slots."""

    cls: type
    data_offset: int
    fill: tuple[tuple[int, object], ...] = ()


def array_layout(
    cls: type, data: str = "_data", fill: Mapping[str, object] | None = None
) -> ArrayLayout:
    """Find the slots of `cls`: `data` holds the ndarray.

    The others hold the objects of `fill`, or None.
    """
    offsets = slot_offsets(cls)
    given = dict(fill or {})
    rest = tuple((at, given.pop(name, None)) for name, at in offsets.items() if name != data)
    assert not given, f"{cls.__name__} has no slots {sorted(given)}"
    return ArrayLayout(cls, offsets[data], rest)


def slot_offsets(cls: type) -> dict[str, int]:
    """The byte offset of every slot.

    It is found by looking for a marker in an instance's memory.
    """
    assert not cls.__dictoffset__, f"{cls.__name__} needs __slots__ in all its bases"
    member = type(_Sample.__dict__["slot"])
    names = [
        name
        for part in cls.__mro__
        for name, value in vars(part).items()
        if isinstance(value, member) and not name.startswith("__")
    ]
    instance, offsets = object.__new__(cls), {}
    for name in names:
        descriptor = next(vars(part)[name] for part in cls.__mro__ if name in vars(part))
        marker = object()
        descriptor.__set__(instance, marker)
        words = range(object.__basicsize__, cls.__basicsize__, 8)
        place = next(at for at in words if word(instance, at) == id(marker))
        descriptor.__delete__(instance)
        if place not in offsets.values():  # a subclass may name a slot of its base anew
            offsets[name] = place
    return offsets


class _Sample:
    __slots__ = ("slot",)


def word(thing: object, offset: int) -> int:
    """The 64 bits in the memory of an object."""
    return ctypes.c_uint64.from_address(id(thing) + offset).value
