"""Half-size floats computed in float32: what composites do before and after."""

from __future__ import annotations

import numpy as np

from ..graph import Value
from ..types import as_dtype, is_float
from .convert import convert

WIDE = as_dtype("float32")


def is_half(dtype: np.dtype) -> bool:
    """Whether the dtype is a float of 16 or 8 bits."""
    return is_float(dtype) and dtype.itemsize < 4


def widened(x: Value) -> Value:
    """The value in float32 if it is of half-size floats, else itself."""
    return convert(x, dtype=WIDE) if is_half(x.dtype) else x


def narrowed(x: Value, dtype: np.dtype) -> Value:
    """The value in the given dtype."""
    return x if x.dtype == dtype else convert(x, dtype=dtype)
