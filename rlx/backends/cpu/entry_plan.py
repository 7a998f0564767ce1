"""The plan of an entry, and how machine code reads it; `entry.py` tells its form."""

from __future__ import annotations

from typing import Final, NamedTuple

from .llvm.text import Function

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
