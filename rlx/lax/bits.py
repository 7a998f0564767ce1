"""Numbers read as the bits of others: bitcast_convert_type."""

from __future__ import annotations

from typing import Any

from ..ir.errors import DtypeError, ShapeError
from ..ir.types import as_dtype, is_bool, is_complex
from ..numpy.bits import joined_bits, split_bits
from ..trace.apply import apply, as_tensor
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
                fix="convert it to integers, or to its real and imaginary part",
            )
    if dtype.itemsize == x.dtype.itemsize:
        return apply("bitcast", x, dtype=dtype)
    if dtype.itemsize < x.dtype.itemsize:
        return split_bits(x, dtype)
    count = dtype.itemsize // x.dtype.itemsize
    if x.ndim == 0 or x.shape[-1] != count:
        raise ShapeError(
            f"bitcast_convert_type: {x.type} cannot be read as {dtype.name}",
            fix=f"make the last axis {count} long",
        )
    return joined_bits(x, dtype)
