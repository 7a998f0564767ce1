"""Layouts of Python objects and of plans of entries, as machine code reads them.

`entry.py` tells the form of a plan.
"""

from __future__ import annotations

import ctypes
import math
from collections.abc import Mapping
from typing import Any, Final, NamedTuple

import numpy as np

from ....ir.record import record
from ..llvm.text import Function

# Byte offsets inside CPython's and NumPy's objects; `entry.py` tries them before use.
HEAD: Final = object.__basicsize__
TYPE: Final = HEAD - 8
DATA, RANK, DIMENSIONS, DTYPE, FLAGS, MEM_HANDLER = (HEAD + at for at in (0, 8, 16, 40, 48, 72))
BYTES_HEAD: Final = bytes.__basicsize__ - 1
TUPLE_HEAD: Final = tuple.__basicsize__

C_CONTIGUOUS, OWNS_DATA, BEHAVED = 0x001, 0x004, 0x101  # NumPy's flags; behaved: and ALIGNED
WRITEABLE: Final = 0x400
RELEASE_GIL, TAKE_OUTPUTS, FILL_OUTPUTS = 1, 2, 4  # flags of a plan
NUMBER_TYPES: Final = {"float": "float32", "int": "int32", "bool": "bool"}


class Header(NamedTuple):
    """The first words of a plan."""

    inputs: int
    outputs: int
    constants: int
    fills: int
    main: int
    flags: int
    arena: int
    array_type: int
    data_offset: int
    data_slot: int
    on_error: int


class Ufunc(NamedTuple):
    """The words behind the header in the plan of a loop of NumPy.

    They are the dtypes of operands and of the result with their sizes, what the loop is given
    besides, and the number of elements up to which it is run.
    """

    dtype: Any
    made: Any
    itemsize: Any
    made_itemsize: Any
    extra: Any
    most: Any


def at(f: Function, pointer: str, offset: int | str) -> str:
    """The place some bytes after a pointer."""
    return f.offset(pointer, "i8", str(offset))


def word(f: Function, pointer: str, index: int, kind: str = "i64") -> str:
    """Load one of the words after a pointer."""
    return f.emit(f"load {kind}, ptr {at(f, pointer, 8 * index)}")


def header(f: Function, name: str) -> str:
    """Load a field of the header of `%plan`."""
    kind = "ptr" if name in ("main", "array_type", "data_slot", "on_error") else "i64"
    return word(f, "%plan", Header._fields.index(name), kind)


def branch(f: Function, condition: str, otherwise: str, hint: str = "next") -> None:
    """Go on if `condition` holds, else jump to the block `otherwise`."""
    following = f.label(hint)
    f.do(f"br i1 {condition}, label %{following}, label %{otherwise}")
    f.start_block(following)


def flag(f: Function, wanted: int) -> str:
    """Whether a plan has one of some flags."""
    flags = f.emit(f"and i64 {header(f, 'flags')}, {wanted}")
    return f.emit(f"icmp ne i64 {flags}, 0")


@record
class Spec:
    """The dtype and shape of one argument or result."""

    dtype: np.dtype
    shape: tuple[int, ...]

    @property
    def nbytes(self) -> int:
        """The bytes of its data."""
        return math.prod(self.shape) * self.dtype.itemsize


@record
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
    """The byte offset of every slot, found by markers in an instance's memory."""
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
        place = next(at for at in words if word_in(instance, at) == id(marker))
        descriptor.__delete__(instance)
        if place not in offsets.values():  # a subclass may name a slot of its base anew
            offsets[name] = place
    return offsets


class _Sample:
    __slots__ = ("slot",)


def word_in(thing: object, offset: int) -> int:
    """The 64 bits in the memory of an object."""
    return ctypes.c_uint64.from_address(id(thing) + offset).value
