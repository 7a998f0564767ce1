"""Zip archives, read with care, and NumPy's `.npz` files, which are such archives.

Python's `zipfile` believes what an archive says of its sizes; here nothing lies outside of the
file, nothing overlaps, and what is compressed unfolds to no more than the budget.
"""

from __future__ import annotations

import json
import re
import struct
import zlib
from collections.abc import Mapping
from pathlib import Path
from typing import IO, NamedTuple

import numpy as np

from ..ir.errors import AttributeValueError
from ..ir.types import DTYPES, NAMES
from ..numpy.files import known_dtype
from .contents import (
    METADATA,
    ROOM,
    Contents,
    Entry,
    checked_type,
    parse_json,
    refuse,
    shown,
    with_notes,
)
from .sources import Source, array_in, check_whole

END, END64, LOCATOR64 = b"PK\5\6", b"PK\6\6", b"PK\6\7"
CENTRAL, LOCAL = struct.Struct("<4s6H3I5H2I"), struct.Struct("<4s5H3I2H")
MOST_COMMENT, PER_MEMBER = 1 << 16, 600
MOST_HEAD = 1 << 14  # bytes that say what an array is
STORED, DEFLATED, IN_UTF8, ENCRYPTED = 0, 8, 0x800, 1
HEADER = re.compile(
    rb"\{'descr': '([<>|=]?[biufcV]\d{1,2})', 'fortran_order': (True|False), "
    rb"'shape': \(([\d, ]*)\),? *\}\s*"
)


class Member(NamedTuple):
    """A file in an archive: where its bytes are, and how many they become."""

    method: int
    checksum: int
    start: int
    packed: int
    size: int


class Archive:
    """The files in a zip archive by name."""

    def __init__(self, data: Source) -> None:
        self._data = data
        self.budget = len(data) + ROOM
        start, stop = _directory(data)
        if (stop - start) // CENTRAL.size * PER_MEMBER > self.budget:
            refuse("the archive has too many files for its size")
        self.members: dict[str, Member] = {}
        self._sound: set[str] = set()  # the names of files whose checksum was right
        while start < stop:
            start = self._add(start, stop)
        self._check_places()
        if sum(member.size for member in self.members.values()) > self.budget:
            refuse(
                f"what is compressed in the archive is far larger than its {len(data)} bytes",
                "write it without compression: with rlx.save or numpy.savez",
            )

    def read(self, name: str) -> memoryview:
        """The bytes of a file: in place if they are not compressed."""
        member = self.members[name]
        found = self.head(name, member.size + 1)
        if name not in self._sound:
            if len(found) != member.size or zlib.crc32(found) != member.checksum:
                refuse(f"{shown(name)} in the archive is damaged: its checksum differs")
            self._sound.add(name)
        return found

    def head(self, name: str, most: int) -> memoryview:
        """The first bytes of a file, without a look at its checksum."""
        member = self.members[name]
        check_whole(self._data)
        length = min(member.packed, most) if member.method == STORED else member.packed
        found = self._data[member.start : member.start + length]
        if member.method == STORED:
            return found
        try:
            return memoryview(zlib.decompressobj(-zlib.MAX_WBITS).decompress(found, most))
        except zlib.error as error:
            refuse(f"{shown(name)} in the archive does not unpack: {error}")

    def _add(self, place: int, stop: int) -> int:
        """Take up a row of the directory, and give the place of the next."""
        if place + CENTRAL.size > stop:
            refuse("the directory of the archive is cut off")
        row = CENTRAL.unpack(self._data[place : place + CENTRAL.size])
        signature, _, _, flags, method, _, _, checksum, packed, size, n_name, n_extra, n_note = row[
            :13
        ]
        end = place + CENTRAL.size + n_name + n_extra + n_note
        if signature != b"PK\1\2" or end > stop:
            refuse("the directory of the archive is damaged")
        after = place + CENTRAL.size + n_name
        name = bytes(self._data[after - n_name : after]).decode(
            "utf-8" if flags & IN_UTF8 else "cp437", "replace"
        )
        extra = bytes(self._data[after : after + n_extra])
        size, packed, start = _wide(extra, [size, packed, row[-1]])
        if name in self.members:
            refuse(f"the archive has {shown(name)} twice")
        if flags & ENCRYPTED or method not in (STORED, DEFLATED):
            refuse(f"{shown(name)} in the archive is encrypted or compressed in a rare way")
        if start + LOCAL.size > len(self._data):
            refuse(f"{shown(name)} lies outside of the archive")
        local = LOCAL.unpack(self._data[start : start + LOCAL.size])
        start += LOCAL.size + local[-2] + local[-1]
        if local[0] != b"PK\3\4" or start + packed > len(self._data):
            refuse(f"{shown(name)} lies outside of the archive")
        if method == STORED and packed != size:
            refuse(f"{shown(name)} in the archive has two sizes, {packed} and {size}")
        self.members[name] = Member(method, checksum, start, packed, size)
        return end

    def _check_places(self) -> None:
        end = 0
        for member in sorted(self.members.values(), key=lambda m: m.start):
            if member.start < end:
                refuse("files in the archive overlap")
            end = member.start + member.packed


def _directory(data: Source) -> tuple[int, int]:
    """Where the directory of an archive begins and ends."""
    tail_start = max(0, len(data) - MOST_COMMENT - 22)
    tail = bytes(data[tail_start:])
    at = tail.rfind(END)
    if at < 0 or at + 22 > len(tail):
        refuse("this is no zip archive, or it is cut off: it has no directory")
    size, start = struct.unpack("<II", tail[at + 12 : at + 20])
    if 0xFFFFFFFF in (size, start) and tail[max(at - 20, 0) : at][:4] == LOCATOR64:
        (place,) = struct.unpack("<Q", tail[at - 12 : at - 4])
        wide = bytes(data[place : place + 56])
        if len(wide) != 56 or wide[:4] != END64:
            refuse("the directory of the archive is damaged")
        size, start = struct.unpack("<QQ", wide[40:56])
    if start + size > tail_start + at:
        refuse("the directory lies outside of the archive")
    return start, start + size


def _wide(extra: bytes, numbers: list[int]) -> list[int]:
    """The numbers, those of 64 bits from the extra field where they stand if 32 are too few."""
    place = 0
    while place + 4 <= len(extra):
        kind, length = struct.unpack("<HH", extra[place : place + 4])
        if kind == 1:
            words = [extra[i : i + 8] for i in range(place + 4, place + 4 + length, 8)]
            wide = iter([int.from_bytes(word, "little") for word in words if len(word) == 8])
            return [next(wide, n) if n == 0xFFFFFFFF else n for n in numbers]
        place += 4 + length
    return numbers


# -- NumPy's archives -----------------------------------------------------------------------------


def read_npz(data: Source) -> Contents:
    """The contents of the bytes of a `.npz` file."""
    archive = Archive(data)
    entries = {
        name.removesuffix(".npy"): _entry(archive, name)
        for name in archive.members
        if name != f"{METADATA}.npy"
    }
    if len(entries) < len(archive.members) - (f"{METADATA}.npy" in archive.members):
        refuse("the archive has a name twice, with .npy and without")
    metadata = {}
    if f"{METADATA}.npy" in archive.members:
        text = _entry(archive, f"{METADATA}.npy").read().tobytes()
        metadata = parse_json(text, "the metadata", archive.budget)
    if not isinstance(metadata, dict) or not all(isinstance(v, str) for v in metadata.values()):
        refuse("the metadata holds more than texts")
    return with_notes(entries, metadata, archive.budget)


def _entry(archive: Archive, name: str) -> Entry:
    """An array as the head of its file describes it; its numbers are read later."""
    data = archive.head(name, MOST_HEAD)
    n_length = 4 if data[6:7] == b"\2" else 2
    length = int.from_bytes(data[8 : 8 + n_length], "little")
    head = HEADER.fullmatch(bytes(data[8 + n_length : 8 + n_length + length]))
    if data[:6] != b"\x93NUMPY" or data[6:7] not in (b"\1", b"\2") or head is None:
        refuse(f"{shown(name)} in the archive is no array of numbers")
    try:
        written = np.dtype(head[1].decode())
        shape = [int(n) for n in head[3].split(b",") if n.strip()]
    except (TypeError, ValueError):
        refuse(f"{shown(name)} has a dtype or a shape that is none")
    dtype = known_dtype(np.empty(0, written)).dtype.newbyteorder("=")
    if dtype not in NAMES or (written.kind == "V" and written.itemsize != 2):
        refuse(
            f"{shown(name)} has the dtype {written}, which rlx has not",
            f"write it with one of {', '.join(DTYPES)}",
        )
    is_turned = head[2] == b"True"
    meant = checked_type(name, dtype, shape)
    stored = meant.with_shape(meant.shape[::-1]) if is_turned else meant
    start = 8 + n_length + length
    n_bytes = archive.members[name].size - start
    if n_bytes != meant.nbytes:
        refuse(f"{shown(name)} is {meant} of {meant.nbytes} bytes, the archive has {n_bytes}")

    def read() -> np.ndarray:
        found = array_in(archive.read(name), start, stored)
        if written.byteorder == ">":
            found = found.byteswap()
        return np.ascontiguousarray(found.T) if is_turned else found

    return Entry(meant, read)


def write_npz(
    file: Path | IO[bytes], arrays: Mapping[str, np.ndarray], metadata: Mapping[str, str]
) -> None:
    """Write an archive of arrays, and their metadata as one of bytes."""
    from zipfile import ZipFile, ZipInfo

    table = dict(arrays)
    if metadata:
        table[METADATA] = np.frombuffer(json.dumps(dict(metadata)).encode(), "u1")
    with ZipFile(file, "w") as archive:
        for name, array in table.items():
            row = ZipInfo(f"{name}.npy")
            if row.filename != f"{name}.npy":
                raise AttributeValueError(
                    f"save: a .npz file cannot hold the name {name!r}",
                    fix="save a .safetensors file, or use another name",
                )
            with archive.open(row, "w", force_zip64=True) as member:
                np.lib.format.write_array(member, array, allow_pickle=False)
