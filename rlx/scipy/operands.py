"""What functions take: numbers of one real dtype; and a logarithm of several."""

from __future__ import annotations

import math

from .. import numpy as rnp
from ..ir.errors import DtypeError
from ..ir.types import is_complex
from ..trace.apply import as_operand, as_tensor
from ..trace.array import Array, ArrayLike
from ..trace.promotion import convert, result_dtype

Tensor = ArrayLike


def floats(name: str, *operands: Tensor) -> list[Array]:
    """The operands as tensors of one real dtype; `name` is the function for the error."""
    given = [as_operand(x) for x in operands]
    dtype = result_dtype(*given, inexact=True)
    if is_complex(dtype):
        raise DtypeError(
            f"{name}: there is no meaning for {dtype.name}",
            fix="take x.real or x.imag",
        )
    return [as_tensor(convert(x, dtype)) for x in given]


LOG_TWO = math.log(2.0)


def log1mexp(x: Tensor) -> Array:
    """log(1 - exp(-x)) for `x` >= 0, accurate for small and large `x`."""
    (x,) = floats("log1mexp", x)
    is_small = x < LOG_TWO
    # what is not chosen must not spoil the derivative
    small, large = rnp.where(is_small, x, LOG_TWO), rnp.where(is_small, LOG_TWO, x)
    return rnp.where(is_small, rnp.log(-rnp.expm1(-small)), rnp.log1p(-rnp.exp(-large)))
