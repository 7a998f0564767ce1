"""Files as `torch.save` writes them, made without PyTorch, for tests of their reader."""

from __future__ import annotations

import io
import struct
import zipfile
from collections.abc import Mapping
from typing import Any

import numpy as np

CLASSES = {
    "float32": "FloatStorage",
    "float64": "DoubleStorage",
    "int64": "LongStorage",
    "bfloat16": "BFloat16Storage",
    "bool": "BoolStorage",
}
MAGIC = b"\x80\x02\x8a\x0al\xfc\x9cF\xf9 j\xa8P\x19."  # of files before PyTorch 1.6


def text(x: str) -> bytes:
    """BINUNICODE."""
    return b"X" + struct.pack("<I", len(x.encode())) + x.encode()


def number(x: int) -> bytes:
    """BININT."""
    return b"J" + struct.pack("<i", x)


def numbers(xs: tuple[int, ...]) -> bytes:
    """A tuple of numbers."""
    return b"(" + b"".join(map(number, xs)) + b"t"


def name(module: str, last: str) -> bytes:
    """GLOBAL."""
    return f"c{module}\n{last}\n".encode()


def tensor(array: np.ndarray, key: str, *, is_legacy: bool = False) -> bytes:
    """The call that makes a tensor of a storage, whose strides are those of the array."""
    cls = CLASSES[array.dtype.name]
    storage = b"(" + text("storage") + name("torch", cls) + text(key) + text("cpu")
    storage += number(array.size) + (b"N" if is_legacy else b"") + b"tQ"
    strides = tuple(step // array.itemsize for step in array.strides)
    hooks = name("collections", "OrderedDict") + b")R"
    parts = [storage, number(0), numbers(array.shape), numbers(strides), b"\x89", hooks]
    return name("torch._utils", "_rebuild_tensor_v2") + b"(" + b"".join(parts) + b"tR"


def state_dict(table: Mapping[str, Any], *, is_legacy: bool = False) -> bytes:
    """The pickle of an OrderedDict of tensors, numbers and nested dicts."""
    keys = iter(range(len(table)))

    def written(x: Any) -> bytes:
        if isinstance(x, np.ndarray):
            return tensor(x, str(next(keys)), is_legacy=is_legacy)
        if isinstance(x, float):
            return b"G" + struct.pack(">d", x)
        return number(x)

    rows = b"".join(text(key) + written(x) for key, x in table.items())
    return name("collections", "OrderedDict") + b")R(" + rows + b"u"


def archive(files: Mapping[str, bytes]) -> bytes:
    """A zip archive, without compression."""
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w") as made:
        for each, data in files.items():
            made.writestr(zipfile.ZipInfo(each), data)
    return buffer.getvalue()


def torch_files(table: Mapping[str, Any]) -> dict[str, bytes]:
    """The files in an archive of `torch.save`."""
    arrays = [x for x in table.values() if isinstance(x, np.ndarray)]
    storages = {f"state/data/{i}": x.tobytes("A") for i, x in enumerate(arrays)}
    main = {"state/data.pkl": b"\x80\x02" + state_dict(table) + b"."}
    return {**main, "state/byteorder": b"little", **storages}


def torch_file(table: Mapping[str, Any]) -> bytes:
    """The bytes of a `.pt` file."""
    return archive(torch_files(table))


def legacy_file(table: Mapping[str, Any]) -> bytes:
    """The bytes of a `.pt` file as PyTorch wrote it before 1.6."""
    arrays = [x for x in table.values() if isinstance(x, np.ndarray)]
    keys = b"\x80\x02](" + b"".join(text(str(i)) for i in range(len(arrays))) + b"e."
    parts = [MAGIC, b"\x80\x02M\xe9\x03.", b"\x80\x02}."]  # magic number, version, machine
    parts += [b"\x80\x02", state_dict(table, is_legacy=True), b".", keys]
    return b"".join(parts + [struct.pack("<q", x.size) + x.tobytes("A") for x in arrays])
