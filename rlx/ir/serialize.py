"""Serialization of graphs: their text and their constants.

    rlxgraph | version u32 | header length u64 | blob length u64 | checksum 16 | header | blob

Numbers are little endian. The header is JSON: the graph's text, and for each constant its dtype,
shape and place in the blob. The checksum (blake2b) covers all but itself. What is not exactly
such a file is refused with a `FileFormatError`, before anything large is made.
"""

from __future__ import annotations

import hashlib
import json
import math
import struct
import sys
from pathlib import Path
from typing import Any, NoReturn

import numpy as np

from .errors import FileFormatError, RlxError
from .files import read_file, write_file
from .fingerprint import is_portable
from .graph import Graph
from .text import constants, parse, show
from .types import DTYPES
from .verify import verify

MAGIC = b"rlxgraph"
VERSION = 1
ALIGNMENT = 64  # of each constant in the blob
_LENGTHS = struct.Struct("<IQQ")
_CHECKSUM = 16
_PREFIX = len(MAGIC) + _LENGTHS.size + _CHECKSUM
# what a header of unexpected form can lead to
_DAMAGE = (ValueError, TypeError, LookupError, AttributeError, ArithmeticError)


def dumps(graph: Graph) -> bytes:
    """Serialize a graph; it must not hold Python functions (custom derivatives)."""
    if not isinstance(graph, Graph):
        raise FileFormatError(
            f"what is saved is of type {type(graph).__name__}, not a graph",
            fix="save a graph, as rlx.make_graph(f)(x) gives",
        )
    if not is_portable(graph):
        raise FileFormatError(
            f"`{graph.name}` holds a Python function, a derivative or a callback, as no file can",
            fix="differentiate and lower the function first, and leave callbacks out of it",
        )
    table, parts, start = {}, [], 0
    for digest, array in sorted(constants(graph, small=0).items()):
        data = _little_endian(array)
        data += bytes(-len(data) % ALIGNMENT)
        table[digest] = {"dtype": array.dtype.name, "shape": list(array.shape), "start": start}
        parts.append(data)
        start += len(data)
    header = json.dumps({"graph": show(graph, small=0), "constants": table}).encode()
    lengths = _LENGTHS.pack(VERSION, len(header), start)
    body = b"".join([header, *parts])
    return b"".join([MAGIC, lengths, _checksum(lengths, body), body])


def loads(data: bytes) -> Graph:
    """Deserialize and verify a graph."""
    if not isinstance(data, bytes | bytearray | memoryview):
        _refuse(f"a {type(data).__name__} is no graph file, which is bytes")
    data = bytes(data)
    if len(data) < _PREFIX or data[: len(MAGIC)] != MAGIC:
        _refuse(f"this is no graph file of rlx: it begins with {data[: len(MAGIC)]!r}")
    lengths = data[len(MAGIC) : len(MAGIC) + _LENGTHS.size]
    version, header_length, blob_length = _LENGTHS.unpack(lengths)
    if version != VERSION:
        raise FileFormatError(
            f"the file has version {version}, this rlx reads version {VERSION}",
            fix="save the graph again with this version of rlx",
        )
    body = data[_PREFIX:]
    if len(body) != header_length + blob_length:
        _refuse(f"the file has {len(body)} bytes of {header_length + blob_length}")
    if _checksum(lengths, body) != data[_PREFIX - _CHECKSUM : _PREFIX]:
        _refuse("the file was altered: its checksum differs")
    try:
        header = json.loads(body[:header_length])
        table = _read_constants(header["constants"], body[header_length:])
        graph = parse(header["graph"], table)
        verify(graph)
    except FileFormatError:
        raise
    except RlxError as error:
        _refuse(f"the file holds no valid graph: {error.what}", error)
    except (*_DAMAGE, RecursionError, MemoryError) as error:
        _refuse(f"the header of the file is damaged: {error}", error)
    return graph


def save(graph: Graph, path: str | Path) -> None:
    """Write a graph to a file."""
    write_file(path, dumps(graph))


def load(path: str | Path) -> Graph:
    """Read a graph from a file."""
    return read_file(path, loads)


def _refuse(what: str, cause: Exception | None = None) -> NoReturn:
    raise FileFormatError(what, fix="copy the file again, or save the graph anew") from cause


def _checksum(lengths: bytes, body: bytes) -> bytes:
    digest = hashlib.blake2b(MAGIC, digest_size=_CHECKSUM)
    digest.update(lengths)
    digest.update(body)
    return digest.digest()


def _read_constants(table: dict[str, Any], blob: bytes) -> dict[str, np.ndarray]:
    arrays = {}
    for digest, entry in table.items():
        dtype, shape, start = DTYPES[entry["dtype"]], tuple(entry["shape"]), entry["start"]
        if not all(type(n) is int and n >= 0 for n in (*shape, start)):
            _refuse(f"the constant {digest[:32]} has no sizes")
        count = math.prod(shape)
        if start + count * dtype.itemsize > len(blob):
            _refuse(f"the constant {digest[:32]} lies outside of the file")
        array = np.frombuffer(blob, _unswapped(dtype), count, start).reshape(shape)
        arrays[digest] = array.astype(dtype, copy=False)
    return arrays


def _little_endian(array: np.ndarray) -> bytes:
    return array.astype(_unswapped(array.dtype), copy=False).tobytes()


def _unswapped(dtype: np.dtype) -> np.dtype:
    """The little-endian form of a dtype."""
    return dtype if sys.byteorder == "little" else dtype.newbyteorder("<")
