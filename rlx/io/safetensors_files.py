"""The format safetensors: a header of JSON that names arrays, then their bytes.

The library `safetensors` writes the files. They are read here, since its reader takes the last of
two arrays with one name without a word, and bools of other bytes than 0 and 1; it has no bound for
the memory of a header, knows no 8-bit floats for NumPy, and copies what is mapped.
https://github.com/huggingface/safetensors#format
"""

from __future__ import annotations

import os
import re
import struct
from collections.abc import Mapping
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from ..ir.errors import ArgumentError
from ..ir.types import DTYPES
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
from .sources import Source, array_in

FIELDS = {"dtype", "shape", "data_offsets"}
DTYPE_NAMES = {
    "BOOL": "bool",
    "I8": "int8",
    "I16": "int16",
    "I32": "int32",
    "I64": "int64",
    "U8": "uint8",
    "U16": "uint16",
    "U32": "uint32",
    "U64": "uint64",
    "F8_E4M3": "float8_e4m3fn",
    "F8_E5M2": "float8_e5m2",
    "F16": "float16",
    "BF16": "bfloat16",
    "F32": "float32",
    "F64": "float64",
    "C64": "complex64",
}


def read_safetensors(data: Source) -> Contents:
    """The contents of the bytes of a file."""
    if len(data) < 8:
        refuse(f"the file has {len(data)} bytes, too few for a safetensors file")
    (length,) = struct.unpack("<Q", data[:8])
    if data[8:9] != b"{" or length > len(data) - 8:
        refuse(*_what_else(bytes(data[:9]), length, len(data)))
    budget = len(data) + ROOM
    header = parse_json(bytes(data[8 : 8 + length]), "the header", budget)
    if not isinstance(header, dict):
        refuse("the header is no JSON object")
    metadata = header.pop(METADATA, {})
    if not isinstance(metadata, dict) or not all(isinstance(v, str) for v in metadata.values()):
        refuse("the metadata in the header holds more than texts")
    body = 8 + length
    spans: list[tuple[int, int, str]] = []
    entries = {name: _entry(name, row, data, body, spans) for name, row in header.items()}
    end = 0
    for start, stop, name in sorted(spans):
        if start != end:
            refuse(f"{shown(name)} begins at byte {start}, the array before it ends at {end}")
        end = stop
    if end != len(data) - body:
        refuse(f"the file has {len(data) - body} bytes of arrays, its header says {end}")
    return with_notes(entries, metadata, budget)


def _what_else(start: bytes, length: int, size: int) -> tuple[str, ...]:
    """What is wrong with a file whose header does not begin or end where it should."""
    if start[:4] == b"PK\3\4":
        fix = "name it .npz if NumPy wrote it, .pt if PyTorch did; rlx.io.load_torch reads that"
        return "this is a zip archive, not a safetensors file", fix
    if start[:1] == b"\x80":
        fix = "if PyTorch wrote it, use rlx.io.load_torch; else write it anew with rlx.save"
        return "this is a pickle, which rlx does not run, not a safetensors file", fix
    if start[8:] != b"{":
        return (f"this is no safetensors file: it begins with {start!r}",)
    return (f"the header has {length} bytes, the file {size}: it is cut off or damaged",)


def _entry(
    name: str, row: Any, data: Source, body: int, spans: list[tuple[int, int, str]]
) -> Entry:
    """An array as the header describes it; notes where it lies, from the start of the body on."""
    if not isinstance(row, dict) or row.keys() != FIELDS:
        refuse(f"{shown(name)} has no dtype, shape and data_offsets")
    dtype, offsets = row["dtype"], row["data_offsets"]
    if not isinstance(dtype, str) or dtype not in DTYPE_NAMES:
        refuse(
            f"{shown(name)} has the dtype {shown(str(dtype))}, which rlx has not",
            f"write it with one of {', '.join(DTYPE_NAMES)}",
        )
    type_ = checked_type(name, DTYPES[DTYPE_NAMES[dtype]], row["shape"])
    if not isinstance(offsets, list) or list(map(type, offsets)) != [int, int]:
        refuse(f"{shown(name)} has no two data_offsets")
    start, stop = offsets
    if not 0 <= start <= stop <= len(data) - body:
        refuse(f"{shown(name)} lies outside of the file, at bytes {start} to {stop}"[:300])
    if stop - start != type_.nbytes:
        refuse(f"{shown(name)} is {type_} of {type_.nbytes} bytes, the file has {stop - start}")
    spans.append((start, stop, name))
    return Entry(type_, partial(array_in, data, body + start, type_))


# -- writing --------------------------------------------------------------------------------------


def safetensors_bytes(arrays: Mapping[str, np.ndarray], metadata: Mapping[str, str]) -> bytes:
    """The bytes of a file."""
    return bytes(_library().serialize(_described(arrays), dict(metadata) or None))


def write_safetensors(
    path: Path, arrays: Mapping[str, np.ndarray], metadata: Mapping[str, str]
) -> None:
    """Write a file."""
    library = _library()
    try:
        library.serialize_file(_described(arrays), path, dict(metadata) or None)
    except library.SafetensorError as error:  # a full disk, in the library's words
        number = re.search(r"os error (\d+)", str(error))
        if number is None:
            raise OSError(str(error)) from None
        raise OSError(int(number[1]), os.strerror(int(number[1]))) from None


def _described(arrays: Mapping[str, np.ndarray]) -> dict[str, Any]:
    spec = _library().TensorSpec
    return {
        name: spec(dtype=x.dtype.name, shape=x.shape, data_ptr=x.ctypes.data, data_len=x.nbytes)
        for name, x in arrays.items()
    }


def _library() -> Any:
    try:
        import safetensors
    except ImportError:
        raise ArgumentError(
            "the library safetensors, which writes the files, is not installed",
            fix='pip install "rlx[io]", or write a .npz file',
        ) from None
    return safetensors
