"""Write a GGUF file anew, with its matrices in blocks of another format.

The metadata are copied byte by byte, but for the note of the format; tensors go through float32.
"""

from __future__ import annotations

import errno
import os
import struct
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import numpy as np

from ..ir.files import check_regular, naming, reaching
from ..ir.ops.blocks import FORMATS
from ..nn.blocks import dequantize_blocks, quantize_blocks
from .contents import Entry
from .gguf_files import ALIGNMENT, BLOCKS, DENSE, MAGIC, USUAL_ALIGNMENT, metadata_bytes, read_gguf
from .sources import FileBytes

TABLES = ("token_embd.weight", "output.weight")  # the head and the embedding keep eight bits
OF_TABLES = "q8_0"
FLOATS = ("float32", "float16", "bfloat16")
FILE_TYPE = "general.file_type"
FILE_TYPES = {  # numbers of llama.cpp for files whose matrices have a format
    "q4_0": 2, "q4_1": 3, "q8_0": 7, "q5_0": 8, "q5_1": 9, "q2_k": 10, "q3_k": 11, "q4_k": 14,
    "q5_k": 16, "q6_k": 18, "iq4_nl": 25, "mxfp4": 38,
}  # fmt: skip


class Written(NamedTuple):
    """A tensor that was written: its formats, its bytes, how far it moved."""

    name: str
    before: str
    after: str
    nbytes: int
    error: float  # the root of the mean square of what changed, as a part of the numbers'


def write_quantized(source: Path, target: Path, format: str) -> Iterator[Written]:
    """Write the GGUF file `source` to `target`, its matrices in blocks of a `format`.

    Yields each tensor as it is written. Vectors, and matrices whose rows are no whole blocks, stay
    as they are; embedding and head get eight bits. The target is there when all were.
    """
    data = FileBytes(source)
    with naming(source):
        found = read_gguf(data)
    entries, step = found.entries, found.metadata.get(ALIGNMENT, USUAL_ALIGNMENT)
    chosen = {name: _chosen(name, entry, format) for name, entry in entries.items()}
    metadata, rows = metadata_bytes(data)
    sizes = [_nbytes(entries[name], chosen[name]) for name in entries]
    offsets = np.cumsum([0, *(-(-size // step) * step for size in sizes)]).tolist()
    head = MAGIC + struct.pack("<IQQ", 3, len(entries), rows) + _noted(metadata, format)
    head += b"".join(map(_info, entries, entries.values(), chosen.values(), offsets))
    partial = Path(f"{target}.partial-{os.getpid()}")
    try:
        with reaching(target, "write"):
            if target.is_dir():
                raise IsADirectoryError(errno.EISDIR, "Is a directory")
            check_regular(target, "write")
        with reaching(target, "write"), open(partial, "wb") as file:
            file.write(head + bytes(-len(head) % step))
            for name, entry in entries.items():
                numbers, error = _numbers(entry, chosen[name])
                file.write(numbers + bytes(-len(numbers) % step))
                before = entry.blocks or entry.type.dtype.name
                yield Written(name, before, chosen[name] or before, len(numbers), error)
            file.flush()
            os.fsync(file.fileno())
        with reaching(target, "write"):
            os.replace(partial, target)
    finally:
        partial.unlink(missing_ok=True)


def _chosen(name: str, entry: Entry, format: str) -> str | None:
    """The format that a tensor gets; None if it stays as it is."""
    shape = entry.numbers.shape
    wanted = OF_TABLES if name in TABLES else format
    if len(shape) != 2 or int(shape[1]) % FORMATS[wanted].size or entry.blocks == wanted:
        return None
    is_float = entry.blocks is not None or entry.type.dtype.name in (
        "float32",
        "float16",
        "bfloat16",
    )
    return wanted if is_float else None


def _numbers(entry: Entry, chosen: str | None) -> tuple[bytes, float]:
    """The bytes of a tensor in its new format, and the error."""
    stored = entry.read()
    if chosen is None:
        return stored.tobytes(), 0.0
    numbers = dequantize_blocks(stored, entry.blocks) if entry.blocks else stored
    numbers = np.asarray(numbers, np.float32)
    made = quantize_blocks(numbers, chosen)
    moved = np.asarray(made.dequantize()) - numbers
    scale = float(np.sqrt(np.mean(numbers**2)))
    return np.asarray(made.data).tobytes(), float(np.sqrt(np.mean(moved**2))) / max(scale, 1e-30)


def _nbytes(entry: Entry, chosen: str | None) -> int:
    if chosen is None:
        return int(entry.type.nbytes)
    layout, (rows, columns) = FORMATS[chosen], map(int, entry.numbers.shape)
    return rows * columns // layout.size * layout.nbytes


def _info(name: str, entry: Entry, chosen: str | None, offset: int) -> bytes:
    """What a file says of a tensor."""
    kind = chosen or entry.blocks
    names, wanted = (DENSE, entry.type.dtype.name) if kind is None else (BLOCKS, kind)
    number = next(key for key, value in names.items() if value == wanted)
    text, shape = name.encode(), [int(n) for n in entry.numbers.shape[::-1]]
    sizes = struct.pack(f"<I{len(shape)}Q", len(shape), *shape)
    return struct.pack("<Q", len(text)) + text + sizes + struct.pack("<IQ", number, offset)


def _noted(metadata: bytes, format: str) -> bytes:
    """The metadata with the number of the format, if they note one."""
    key = struct.pack("<Q", len(FILE_TYPE)) + FILE_TYPE.encode() + struct.pack("<I", 4)
    start = metadata.find(key)
    if start < 0:
        return metadata
    end = start + len(key)
    return metadata[:end] + struct.pack("<I", FILE_TYPES[format]) + metadata[end + 4 :]
