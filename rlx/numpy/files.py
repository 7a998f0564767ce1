"""Arrays from bytes, texts and files, and into files, in NumPy's formats."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

import numpy as np

from ..ir.builder import user_source
from ..ir.errors import FileFormatError
from ..ir.files import reaching
from ..ir.types import as_dtype
from ..trace.apply import as_tensor
from ..trace.array import new_array
from ..trace.host import to_numpy

NAME = "a NumPy file of numbers (.npy or .npz)"


def frombuffer(buffer: Any, dtype: Any = float, count: int = -1, offset: int = 0) -> Any:
    """The numbers that lie in memory, copied."""
    return new_array(np.frombuffer(buffer, as_dtype(dtype), count, offset).copy())


def fromiter(iterable: Iterable[Any], dtype: Any, count: int = -1) -> Any:
    """The numbers an iterator gives."""
    return new_array(np.fromiter(iterable, as_dtype(dtype), count))


def fromstring(string: str, dtype: Any = float, count: int = -1, *, sep: str) -> Any:
    """The numbers in a text, with `sep` between them."""
    return new_array(np.fromstring(string, as_dtype(dtype), count, sep=sep))


def fromfile(file: Any, dtype: Any = float, count: int = -1, sep: str = "", offset: int = 0) -> Any:
    """The numbers in a file, as bytes or as text with `sep` between them."""
    return new_array(np.fromfile(file, as_dtype(dtype), count, sep, offset))


def save(file: Any, arr: Any) -> None:
    """Write an array to a `.npy` file."""
    with reaching(file, "write"):
        np.save(file, as_tensor(arr).host(), allow_pickle=False)


def savez(file: Any, *args: Any, **named: Any) -> None:
    """Write arrays to a `.npz` file, under their names or as arr_0, arr_1 ..."""
    table = {f"arr_{i}": x for i, x in enumerate(args)} | named
    arrays = {name: as_tensor(x).host() for name, x in table.items()}
    with reaching(file, "write"):
        np.savez(file, allow_pickle=False, **arrays)


def load(file: Any) -> Any:
    """Read what `save` or `savez` wrote: an array, or a dict of arrays.

    No Python objects are read, so that a file cannot run code.
    """
    from zipfile import BadZipFile  # 3 ms to import, and wanted here alone

    try:
        with reaching(file, "read"):
            found = np.load(file, allow_pickle=False)
        if isinstance(found, Mapping):
            return {name: new_array(to_numpy(_known_dtype(found[name]))) for name in found}
        return new_array(to_numpy(_known_dtype(found)))
    except (ValueError, EOFError, KeyError, BadZipFile) as error:
        raise FileFormatError(
            f"this is not {NAME}: {error}",
            where=str(user_source()),
            fix="write it with rlx.numpy.save or savez",
        ) from None


def _known_dtype(array: np.ndarray) -> np.ndarray:
    """NumPy's files call bfloat16 two bytes without a meaning."""
    return array.view(as_dtype("bfloat16")) if array.dtype.str.endswith("V2") else array
