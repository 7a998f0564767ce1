"""Numbers read as the bits of others: bitcast_convert_type."""

from __future__ import annotations

from typing import Any

import numpy as np

from ..ir.builder import user_source
from ..ir.errors import DtypeError, ShapeError
from ..ir.types import as_dtype, is_bool, is_complex
from ..trace.apply import apply, as_tensor
from ..trace.promotion import convert
from .operands import Tensor


def bitcast_convert_type(operand: Tensor, new_dtype: Any) -> Any:
    """The bits read as another dtype.

    A number of more bits becomes several along a new last axis, the lowest bits first; numbers of
    fewer bits along the last axis become one.

    >>> import numpy as np
    >>> bitcast_convert_type(np.uint32(0x01020304), "uint8").tolist()
    [4, 3, 2, 1]
    """
    x, dtype = as_tensor(operand), as_dtype(new_dtype)
    if x.dtype == dtype:
        return x
    for one, other in ((x.dtype, dtype), (dtype, x.dtype)):
        if is_bool(one) or is_complex(one):
            raise DtypeError(
                f"bitcast_convert_type: {one.name} cannot be read as {other.name}",
                where=str(user_source()),
                fix="convert it to integers, or to its real and imaginary part",
            )
    if dtype.itemsize == x.dtype.itemsize:
        return apply("bitcast", x, dtype=dtype)
    return _parts(x, dtype) if dtype.itemsize < x.dtype.itemsize else _joined(x, dtype)


def _word(dtype: np.dtype) -> np.dtype:
    """The unsigned integer of as many bits."""
    return as_dtype(f"uint{8 * dtype.itemsize}")


def _parts(x: Any, dtype: np.dtype) -> Any:
    """Each number as several, lowest bits first."""
    count, word = x.dtype.itemsize // dtype.itemsize, _word(x.dtype)
    shape = (*x.shape, count)
    bits = apply("bitcast", x, dtype=word)
    bits = apply("broadcast", bits, shape=shape, axes=tuple(range(x.ndim)))
    moved = apply("shift_right_logical", bits, _places(shape, word, dtype))
    return apply("bitcast", convert(moved, _word(dtype)), dtype=dtype)


def _joined(x: Any, dtype: np.dtype) -> Any:
    """Several numbers along the last axis as one."""
    count, word = dtype.itemsize // x.dtype.itemsize, _word(dtype)
    if x.ndim == 0 or x.shape[-1] != count:
        raise ShapeError(
            f"bitcast_convert_type: {x.type} cannot be read as {dtype.name}",
            where=str(user_source()),
            fix=f"make the last axis {count} long",
        )
    bits = convert(apply("bitcast", x, dtype=_word(x.dtype)), word)
    moved = apply("shift_left", bits, _places(x.shape, word, x.dtype))
    return apply("bitcast", apply("reduce_or", moved, axes=(x.ndim - 1,)), dtype=dtype)


def _places(shape: Any, word: np.dtype, part: np.dtype) -> Any:
    """Where the bits of each part start in the word."""
    places = apply("iota", shape=tuple(shape), axis=len(shape) - 1, dtype=word)
    return apply("mul", places, 8 * part.itemsize)
