"""How numbers lie in a device's memory.

Its words have 32 bits, or 64 where the device has such numbers. Smaller numbers take a word each,
so that no two threads ever write to one word: booleans are 0 or 1, small integers their value,
small floats their bits. A complex number is its two parts. Where the device has numbers of 16 bits
float16 takes no more than these.
"""

from __future__ import annotations

import numpy as np

from ...ir.record import record
from ...ir.types import NAMES, is_float

HALF = np.dtype(np.uint16)
WORDS = {
    "bool": np.dtype(np.uint32),
    "int8": np.dtype(np.int32),
    "int16": np.dtype(np.int32),
    "int32": np.dtype(np.int32),
    "int64": np.dtype(np.int64),
    "uint8": np.dtype(np.uint32),
    "uint16": np.dtype(np.uint32),
    "uint32": np.dtype(np.uint32),
    "uint64": np.dtype(np.uint64),
    "float8_e4m3fn": np.dtype(np.uint32),
    "float8_e5m2": np.dtype(np.uint32),
    "float16": np.dtype(np.uint32),
    "bfloat16": np.dtype(np.uint32),
    "float32": np.dtype(np.float32),
    "float64": np.dtype(np.float64),
    "complex64": np.dtype(np.complex64),
    "complex128": np.dtype(np.complex128),
}
"""The dtype of what lies in memory for a number of each dtype."""


@record
class Layout:
    """How numbers lie on one device; float16 takes two bytes if it `has_halves`."""

    has_halves: bool = False

    def word(self, dtype: np.dtype) -> np.dtype:
        """The dtype of what lies in memory for a number.

        >>> Layout().word(np.dtype(np.int8)), Layout().word(np.dtype(np.float16))
        (dtype('int32'), dtype('uint32'))
        """
        name = NAMES[dtype]
        return HALF if self.has_halves and name == "float16" else WORDS[name]

    def words(self, array: np.ndarray) -> np.ndarray:
        """Numbers as they lie in memory, in a row."""
        array = np.ascontiguousarray(array).reshape(-1)
        return _bits(array).astype(self.word(array.dtype), copy=False)

    def numbers(self, raw: np.ndarray, dtype: np.dtype) -> np.ndarray:
        """Numbers of a dtype from how they lie in memory."""
        words = raw.view(self.word(dtype))
        if not _is_small_float(dtype):
            return words.astype(dtype, copy=False)
        return words.astype(f"u{dtype.itemsize}", copy=False).view(dtype)


def _bits(array: np.ndarray) -> np.ndarray:
    """Small floats as integers of their size; the others as they are."""
    return array.view(f"u{array.itemsize}") if _is_small_float(array.dtype) else array


def _is_small_float(dtype: np.dtype) -> bool:
    return is_float(dtype) and dtype.itemsize < 4
