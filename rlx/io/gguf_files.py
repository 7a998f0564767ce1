"""The format GGUF of llama.cpp: typed metadata, then tensors.

Most tensors are in blocks of few bits.
https://github.com/ggml-org/ggml/blob/master/docs/gguf.md, versions 2 and 3, little-endian. Every
count and length is compared with the bytes that are left before anything is made of it.
"""

from __future__ import annotations

import struct
from typing import Any

import numpy as np

from ..ir.ops.blocks import FORMATS
from ..ir.record import record
from ..ir.types import DTYPES, Type
from .contents import ROOM, Contents, Entry, checked_type, refuse, shown
from .sources import Source, array_in

MAGIC, LENGTH = b"GGUF", struct.Struct("<Q")
VERSIONS = (2, 3)
DENSE = {
    0: "float32",
    1: "float16",
    24: "int8",
    25: "int16",
    26: "int32",
    27: "int64",
    28: "float64",
    30: "bfloat16",
}
BLOCKS = {
    2: "q4_0",
    3: "q4_1",
    6: "q5_0",
    7: "q5_1",
    8: "q8_0",
    10: "q2_k",
    11: "q3_k",
    12: "q4_k",
    13: "q5_k",
    14: "q6_k",
    20: "iq4_nl",
    39: "mxfp4",
}
NUMBERS = ("<u1", "<i1", "<u2", "<i2", "<u4", "<i4", "<f4", "?", None, None, "<u8", "<i8", "<f8")
BOOL, TEXT, LIST = 7, 8, 9  # kinds of values; the others are those of NUMBERS
MOST_AXES, MOST_NAME, MOST_KEY, MOST_ALIGNMENT = 4, 1024, 65535, 1 << 20
READ_AT_ONCE = 1 << 20
MANY = 1000  # texts, for which the bytes that were read are copied
LEAST_ROW, LEAST_TENSOR = 13, 28  # bytes that an entry of the metadata and a tensor take
PER_ROW, PER_TEXT, PER_LETTER = 512, 88, 4  # bytes in memory at most, as measured
ALIGNMENT, USUAL_ALIGNMENT = "general.alignment", 32


class _Cursor:
    """Where a reader is in the bytes of a file, and how many bytes of memory it may still take."""

    def __init__(self, data: Source, budget: int) -> None:
        self.data, self.budget, self.place = data, budget, len(MAGIC)
        self._part, self._start = memoryview(b""), 0  # the bytes that were read last

    def take(self, count: int, what: str) -> memoryview:
        """The next bytes."""
        first = self.place - self._start
        if first + count > len(self._part):
            left = len(self.data) - self.place
            if count > left:
                refuse(f"{what} has {count} bytes, the file {left} more: it is cut off or damaged")
            self._part = self.data[self.place : self.place + max(count, READ_AT_ONCE)]
            self._start, first = self.place, 0
        self.place += count
        return self._part[first : first + count]

    def number(self, form: str, what: str) -> int:
        """The next integer."""
        (found,) = struct.unpack(form, self.take(struct.calcsize(form), what))
        return found

    def count(self, what: str, least: int) -> int:
        """The next count, of things that take so many bytes at least."""
        found = self.number("<Q", what)
        if found * least > len(self.data) - self.place:
            refuse(f"{what} is {found}, more than {len(self.data) - self.place} bytes can hold")
        return found

    def text(self, what: str, most: int | None = None) -> str:
        """The next text, of so many bytes at most."""
        found = self.texts(1, what)[0]
        if most is not None and len(found) > most:
            refuse(f"{what} has {len(found)} letters, more than {most}")
        return found

    def texts(self, count: int, what: str) -> list[str]:
        """The next texts."""
        before, found = self.place, list[str]()
        self.spend(PER_TEXT * count, what)
        while len(found) < count:
            if count > MANY:
                found += self._whole_texts(count - len(found), what)
            if len(found) < count:
                (length,) = LENGTH.unpack(self.take(LENGTH.size, what))
                found.append(_decoded(bytes(self.take(length, what)), what))
        self.spend(PER_LETTER * (self.place - before), what)
        return found

    def _whole_texts(self, most: int, what: str) -> list[str]:
        """The next texts, so many at most, that are whole in the part that was read last.

        A vocabulary has 10^5 of them, so no text costs a call that it does not need.
        """
        found: list[str] = []
        part, at = bytes(self._part), self.place - self._start
        read, end = LENGTH.unpack_from, len(part) - LENGTH.size
        while at <= end and len(found) < most:
            stop = at + LENGTH.size + read(part, at)[0]
            if stop > len(part):
                break
            found.append(_decoded(part[at + LENGTH.size : stop], what))
            at = stop
        self.place = self._start + at
        return found

    def spend(self, nbytes: int, what: str) -> None:
        """Refuse what takes more memory than is allowed."""
        self.budget -= nbytes
        if self.budget < 0:
            refuse(f"{what} takes more memory than a file of this size may")


def _decoded(text: bytes, what: str) -> str:
    try:
        return text.decode()
    except UnicodeDecodeError:
        refuse(f"{what} is no UTF-8 text")


def read_gguf(data: Source) -> Contents:
    """The contents of the bytes of a file; blocks of few bits stay as they are."""
    magic = bytes(data[:4])
    if magic != MAGIC:
        refuse(f"this is no GGUF file: it begins with {magic!r}")
    budget = len(data) + ROOM
    cursor = _Cursor(data, budget)
    version = cursor.number("<I", "the version")
    if version not in VERSIONS:
        other = "big-endian" if version >> 16 else f"of version {version}"
        refuse(
            f"the GGUF file is {other}", "convert it with llama.cpp's gguf_convert_endian or newer"
        )
    tensors = cursor.count("the number of tensors", LEAST_TENSOR)
    rows = cursor.count("the number of entries of the metadata", LEAST_ROW)
    metadata = _metadata(cursor, rows)
    parts = metadata.get("split.count", 1)
    if type(parts) is not int or parts > 1:
        refuse(
            "the file is one of several parts of a model",
            "join them: llama-gguf-split --merge first-part.gguf whole.gguf",
        )
    alignment = metadata.get(ALIGNMENT, USUAL_ALIGNMENT)
    if (
        type(alignment) is not int
        or not 0 < alignment <= MOST_ALIGNMENT
        or alignment & alignment - 1
    ):
        refuse(f"{ALIGNMENT} is {shown(str(alignment))}, no power of two up to {MOST_ALIGNMENT}")
    found = [_tensor(cursor) for _ in range(tensors)]
    start = -(-cursor.place // alignment) * alignment
    return Contents(_entries(data, found, start, alignment), metadata, budget)


def metadata_bytes(data: Source) -> tuple[bytes, int]:
    """The bytes of the metadata of a file, and how many entries they are."""
    cursor = _Cursor(data, len(data) + ROOM)
    cursor.number("<I", "the version")
    cursor.count("the number of tensors", LEAST_TENSOR)
    rows = cursor.count("the number of entries of the metadata", LEAST_ROW)
    start = cursor.place
    _metadata(cursor, rows)
    return bytes(data[start : cursor.place]), rows


# -- metadata --------------------------------------------------------------------------------------


def _metadata(cursor: _Cursor, rows: int) -> dict[str, Any]:
    found: dict[str, Any] = {}
    for i in range(rows):
        cursor.spend(PER_ROW, "the metadata")
        key = cursor.text(f"the key of entry {i}", MOST_KEY)
        if key in found:
            refuse(f"the metadata has {shown(key)} twice")
        found[key] = _value(cursor, cursor.number("<I", "a kind of value"), shown(key))
    return found


def _value(cursor: _Cursor, kind: int, what: str) -> Any:
    """A number, a bool, a text; a list of texts; an array of the others."""
    if kind == TEXT:
        return cursor.text(what)
    if kind == LIST:
        return _list(cursor, what)
    return _numbers(cursor, kind, 1, what)[0].item()


def _list(cursor: _Cursor, what: str) -> Any:
    kind = cursor.number("<I", f"the kind of {what}")
    if kind == LIST:
        refuse(f"{what} is a list of lists")
    if kind == TEXT:
        return cursor.texts(cursor.count(f"the length of {what}", 8), what)
    return _numbers(cursor, kind, cursor.count(f"the length of {what}", 1), what)


def _numbers(cursor: _Cursor, kind: int, count: int, what: str) -> np.ndarray:
    if kind >= len(NUMBERS) or NUMBERS[kind] is None:
        refuse(f"{what} is of the unknown kind {kind}")
    dtype = np.dtype(NUMBERS[kind])
    bytes_ = cursor.take(count * dtype.itemsize, what)
    if kind == BOOL and (np.frombuffer(bytes_, np.uint8) > 1).any():
        refuse(f"{what} holds bools other than 0 and 1")
    cursor.spend(count * dtype.itemsize, what)
    return np.frombuffer(bytes_, dtype).copy()


# -- tensors ---------------------------------------------------------------------------------------


@record
class _Tensor:
    """A tensor as the file describes it."""

    name: str
    type: Type  # of its numbers, or of the bytes of its blocks
    offset: int  # from the first tensor
    blocks: str | None


def _tensor(cursor: _Cursor) -> _Tensor:
    name = cursor.text("the name of a tensor", MOST_NAME)
    cursor.spend(PER_ROW, "the list of tensors")
    axes = cursor.number("<I", f"the number of axes of {shown(name)}")
    if axes > MOST_AXES:
        refuse(f"{shown(name)} has {axes} axes, more than {MOST_AXES}")
    shape = [cursor.number("<Q", f"a size of {shown(name)}") for _ in range(axes)][::-1]
    kind = cursor.number("<I", f"the type of {shown(name)}")
    offset = cursor.number("<Q", f"the offset of {shown(name)}")
    if kind in DENSE:
        return _Tensor(name, checked_type(name, DTYPES[DENSE[kind]], shape), offset, None)
    if kind not in BLOCKS:
        known = ", ".join([*DENSE.values(), *FORMATS])
        refuse(
            f"{shown(name)} has the type {kind}, which rlx has not", f"write it as one of {known}"
        )
    layout = FORMATS[BLOCKS[kind]]
    checked_type(name, DTYPES["uint8"], shape)
    if not shape or shape[-1] % layout.size:
        refuse(f"{shown(name)} has rows that are no whole blocks of {BLOCKS[kind]}")
    shape[-1] = shape[-1] // layout.size * layout.nbytes
    return _Tensor(name, checked_type(name, DTYPES["uint8"], shape), offset, BLOCKS[kind])


def _entries(data: Source, tensors: list[_Tensor], start: int, alignment: int) -> dict[str, Entry]:
    """The tensors by name, if they lie in the file one after another."""
    entries: dict[str, Entry] = {}
    end = start
    for tensor in sorted(tensors, key=lambda t: t.offset):
        name, first = shown(tensor.name), start + tensor.offset
        if tensor.name in entries:
            refuse(f"the file has {name} twice")
        if tensor.offset % alignment:
            refuse(f"{name} begins at byte {tensor.offset}, no multiple of {alignment}")
        if first < end:
            refuse(f"{name} begins at byte {first}, the tensor before it ends at {end}")
        end = first + tensor.type.nbytes
        if end > len(data):
            refuse(f"{name} ends at byte {end}, the file at {len(data)}: it is cut off or damaged")
        entries[tensor.name] = _entry(data, first, tensor)
    return {tensor.name: entries[tensor.name] for tensor in tensors}


def _entry(data: Source, first: int, tensor: _Tensor) -> Entry:
    return Entry(tensor.type, lambda: array_in(data, first, tensor.type), blocks=tensor.blocks)
