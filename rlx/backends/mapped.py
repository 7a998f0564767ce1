"""Arrays in the disk cache: files that all processes of a user map, read-only.

A file has a line about its arrays, with a checksum of its own, and then the arrays, each at a
multiple of 64 bytes. It is written aside and renamed when all of it is on the disk. The line has
the sum of each array's words, which costs as much as reading them: a damaged file is found, too.
The system keeps one copy in memory, whoever reads it.
"""

from __future__ import annotations

import hashlib
import json
import math
import mmap
import os
import struct
from collections.abc import Sequence
from contextlib import suppress

import numpy as np

from ..ir.types import as_dtype
from .bound_memory import ALIGNMENT, part_of, shared_out
from .disk import SUFFIX, DiskCache, hashed, open_entry, strangers

MAGIC = b"rlxarra2"
HEAD = struct.Struct("<8s16sQ")  # magic, checksum, bytes of the line


def content_key(code: Sequence[bytes], arrays: Sequence[np.ndarray]) -> str:
    """A key of what some code makes of arrays, by the bytes of both."""
    every = [np.frombuffer(x, np.uint8) for x in code] + [np.ascontiguousarray(x) for x in arrays]
    digests: dict[tuple[int, ...], bytes] = {}

    def digest(number: int, *part: int) -> None:
        digests[number, *part] = hashlib.sha256(part_of(every[number], *part).data).digest()

    shared_out(digest, [x.nbytes for x in every])
    return hashed("arrays", sorted(digests.items()), [(x.dtype.name, x.shape) for x in arrays])


def map_arrays(disk: DiskCache, key: str) -> list[np.ndarray] | None:
    """The read-only arrays of a key, if there is a file of them that is whole.

    Another one is removed: what is written after it does not take its name.
    """
    path = disk.root / f"{key}{SUFFIX}"
    try:
        with open_entry(path) as file:
            memory = mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ)
            is_ours = not strangers(os.fstat(file.fileno()))
            made = _parsed(memory, key) if is_ours else None
    except OSError:
        return None
    except ValueError:  # an empty file cannot be mapped
        made = None
    if made is None:
        disk.remove(key)
        return None
    with suppress(OSError):
        os.utime(path)
    return made


def write_arrays(disk: DiskCache, key: str, arrays: Sequence[np.ndarray]) -> bool:
    """Write a file of dense arrays; gives whether that is done.

    The first process that has one names it, for all that write it at the same time to map.
    """
    steps = [-(-x.nbytes // ALIGNMENT) * ALIGNMENT for x in arrays]
    line = json.dumps([[x.dtype.name, list(x.shape), _sum(x)] for x in arrays]).encode()
    head = HEAD.pack(MAGIC, _checksum(key, line), len(line)) + line
    parts: list[bytes | np.ndarray] = [head + bytes(-len(head) % ALIGNMENT)]
    for x, step in zip(arrays, steps, strict=True):
        parts += [_bytes(x), bytes(step - x.nbytes)]
    return disk.put_parts(key, parts, replaces=False)


def _parsed(memory: mmap.mmap, key: str) -> list[np.ndarray] | None:
    """The arrays in the memory of a file; None if it is not whole."""
    if len(memory) < HEAD.size:
        return None
    magic, checksum, length = HEAD.unpack_from(memory)
    line = memory[HEAD.size : HEAD.size + min(length, len(memory))]
    if magic != MAGIC or checksum != _checksum(key, line):
        return None
    start, made = HEAD.size + length, []
    for name, shape, total in json.loads(line):
        start += -start % ALIGNMENT
        dtype, count = as_dtype(name), math.prod(shape)
        if start + count * dtype.itemsize > len(memory):
            return None
        flat = np.frombuffer(memory, dtype, count, start) if count else np.empty(0, dtype)
        if _sum(flat) != total:
            return None
        made.append(flat.reshape(shape))
        start += flat.nbytes
    return made if len(memory) == start + -start % ALIGNMENT else None


def _bytes(x: np.ndarray) -> np.ndarray:
    return np.ascontiguousarray(x).reshape(-1).view(np.uint8)


def _sum(x: np.ndarray) -> int:
    """The sum of an array's words of 8 bytes, modulo 2^64, and of those that are left."""
    flat = _bytes(x)
    words, rest = np.split(flat, [flat.size // 8 * 8])
    return (int(words.view("<u8").sum(dtype="u8")) + int.from_bytes(rest, "little")) % 2**64


def _checksum(key: str, line: bytes) -> bytes:
    return hashlib.blake2b(key.encode() + line, digest_size=16).digest()
