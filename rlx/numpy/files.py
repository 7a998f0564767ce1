"""Arrays from bytes, texts and files, and into files, in NumPy's formats."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Mapping
from typing import Any

import numpy as np

from ..ir.errors import FileFormatError
from ..ir.files import reaching
from ..ir.types import as_dtype
from ..trace.apply import as_tensor
from ..trace.arguments import count_of, members, wrong
from ..trace.array import Array, new_array
from ..trace.host import check_supported, to_numpy

NAME = "a NumPy file of numbers (.npy or .npz)"


def frombuffer(buffer: Any, dtype: Any = float, count: int = -1, offset: int = 0) -> Array:
    """A 1-d array from a copy of the bytes of `buffer`.

    It has `count` elements, -1 for all, from byte `offset` on.
    """
    try:
        bytes_ = memoryview(buffer)
    except TypeError:
        raise wrong("frombuffer: buffer", buffer, "bytes", "pass bytes or an array") from None
    count, offset = count_of("frombuffer: count", count, -1), count_of("frombuffer: offset", offset)
    return _read("frombuffer", np.frombuffer, bytes_, as_dtype(dtype), count, offset)


def fromiter(iterable: Iterable[Any], dtype: Any, count: int = -1) -> Array:
    """A 1-d array from the first `count` items of `iterable`, -1 for all."""
    count, numbers = count_of("fromiter: count", count, -1), members("fromiter: iterable", iterable)
    if isinstance(iterable, np.ndarray):
        check_supported(iterable.dtype, iterable)
    return _read("fromiter", np.fromiter, numbers, as_dtype(dtype), count)


def fromstring(string: str, dtype: Any = float, count: int = -1, *, sep: str) -> Array:
    """A 1-d array from numbers in a text, `string`, separated by `sep`.

    It has `count` elements, -1 for all.
    """
    _check_text("fromstring: string", string)
    _check_text("fromstring: sep", sep)
    count = count_of("fromstring: count", count, -1)
    return _read("fromstring", np.fromstring, string, as_dtype(dtype), count, sep=sep)


def fromfile(file: Any, dtype: Any = float, count: int = -1, sep: str = "", offset: int = 0) -> Any:
    """A 1-d array from a binary file, or a text file of numbers separated by `sep`.

    `file` is a path or an open file. It has `count` elements, -1 for all, from byte `offset` on.
    """
    _check_file("fromfile: file", file)
    _check_text("fromfile: sep", sep)
    count, offset = count_of("fromfile: count", count, -1), count_of("fromfile: offset", offset)
    with reaching(file, "read"):
        return _read("fromfile", np.fromfile, file, as_dtype(dtype), count, sep, offset)


def _read(name: str, read: Callable[..., np.ndarray], *args: Any, **keywords: Any) -> Array:
    """The array that a function of NumPy makes of what is there, or an error of rlx."""
    try:
        return new_array(np.array(read(*args, **keywords)))
    except (ValueError, TypeError, BufferError) as error:
        raise FileFormatError(
            f"{name}: {error}",
            fix="give as many numbers as are asked for, in the form of the dtype",
        ) from None


def _check_text(what: str, given: Any) -> None:
    if not isinstance(given, str):
        raise wrong(what, given, "a text", 'pass a text, such as ","')


def _check_file(what: str, given: Any) -> None:
    is_open = hasattr(given, "read") or hasattr(given, "write")
    if not (isinstance(given, str | os.PathLike) or is_open):
        raise wrong(what, given, "a file", "pass a path, or a file that is open for bytes")


def save(file: Any, arr: Any) -> None:
    """Write an array to a `.npy` file; `file` is a path or an open file."""
    _check_file("save: file", file)
    with reaching(file, "write"):
        np.save(file, as_tensor(arr).host(), allow_pickle=False)


def savez(file: Any, *args: Any, **named: Any) -> None:
    """Write arrays to a `.npz` file, under their names or as arr_0, arr_1 ...

    `file` is a path or an open file; `args` have no names, `named` have.
    """
    table = {f"arr_{i}": x for i, x in enumerate(args)} | named
    arrays = {name: as_tensor(x).host() for name, x in table.items()}
    _check_file("savez: file", file)
    with reaching(file, "write"):
        np.savez(file, allow_pickle=False, **arrays)


def load(file: Any) -> Any:
    """Load an array from a `.npy` file, or a dict of arrays from a `.npz` file.

    Returns that. `file` is a path or an open file. Pickled objects are refused, so that a file
    cannot run code: they raise `FileFormatError`.
    """
    _check_file("load: file", file)
    from zipfile import BadZipFile  # 3 ms to import, and wanted here alone

    try:
        with reaching(file, "read"):
            found = np.load(file, allow_pickle=False)
        if isinstance(found, Mapping):
            return {name: new_array(to_numpy(known_dtype(found[name]))) for name in found}
        return new_array(to_numpy(known_dtype(found)))
    except (ValueError, EOFError, KeyError, BadZipFile) as error:
        raise FileFormatError(
            f"this is not {NAME}: {error}",
            fix="write it with rlx.numpy.save or savez",
        ) from None


def known_dtype(array: np.ndarray) -> np.ndarray:
    """NumPy's files call bfloat16 two bytes without a meaning."""
    return array.view(as_dtype("bfloat16")) if array.dtype.str.endswith("V2") else array
