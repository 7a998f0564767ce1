"""Writes GGUF files, right ones and forged ones, by the document of the format."""

from __future__ import annotations

import struct

import numpy as np

KINDS = {"u8": 0, "i8": 1, "u16": 2, "i16": 3, "u32": 4, "i32": 5, "f32": 6, "bool": 7}
KINDS |= {"text": 8, "list": 9, "u64": 10, "i64": 11, "f64": 12}
FORMS = {"u8": "B", "i8": "b", "u16": "H", "i16": "h", "u32": "I", "i32": "i", "f32": "f"}
FORMS |= {"bool": "?", "u64": "Q", "i64": "q", "f64": "d"}


def text(value: str | bytes) -> bytes:
    data = value if isinstance(value, bytes) else value.encode()
    return struct.pack("<Q", len(data)) + data


def plain(kind: str, value) -> bytes:
    return text(value) if kind == "text" else struct.pack("<" + FORMS[kind], value)


def row(key: str | bytes, kind: str, value) -> bytes:
    """An entry of the metadata; the kind of a list is that of its items, as "u32*"."""
    if not kind.endswith("*"):
        return text(key) + struct.pack("<I", KINDS[kind]) + plain(kind, value)
    item = kind[:-1]
    head = struct.pack("<IIQ", KINDS["list"], KINDS[item], len(value))
    return text(key) + head + b"".join(plain(item, x) for x in value)


def info(name: str | bytes, shape, kind: int, offset: int) -> bytes:
    """What a file says of a tensor; the shape is NumPy's."""
    sizes = struct.pack(f"<{len(shape)}Q", *reversed(shape))
    return text(name) + struct.pack("<I", len(shape)) + sizes + struct.pack("<IQ", kind, offset)


def gguf(rows=(), infos=(), body=b"", *, version=3, alignment=32, counts=None) -> bytes:
    """A file of these parts, right or not."""
    tensors, entries = (len(infos), len(rows)) if counts is None else counts
    head = b"GGUF" + struct.pack("<IQQ", version, tensors, entries) + b"".join([*rows, *infos])
    return head + bytes(-len(head) % alignment) + body


def small_file() -> bytes:
    """Metadata of all kinds, a float32, a bfloat16 and a q4_1 tensor."""
    rows = [
        row("general.architecture", "text", "llama"),
        *(row(f"n.{kind}", kind, 1) for kind in FORMS),
        row("tokens", "text*", ["a", "bc", "é"]),
        row("scores", "f32*", [0.5, -1.0]),
        row("flags", "bool*", [True, False]),
    ]
    dense = np.arange(6, dtype="<f4").tobytes().ljust(32, b"\0")
    halves = np.array([0x3F80, 0xC000], "<u2").tobytes().ljust(32, b"\0")
    blocks = bytes([0, 0x38, 0, 0xBC, *range(16)]) * 2
    infos = [
        info("norm.weight", (2, 3), 0, 0),
        info("half", (2,), 30, 32),
        info("blk.0.weight", (2, 32), 3, 64),
    ]
    return gguf(rows, infos, dense + halves + blocks)
