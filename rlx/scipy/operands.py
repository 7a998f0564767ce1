"""What the functions take: numbers of one real dtype."""

from __future__ import annotations

from typing import Any

from ..ir.errors import DtypeError
from ..ir.types import is_complex
from ..trace.apply import as_operand, as_tensor
from ..trace.promotion import convert, result_dtype

Tensor = Any  # an Array, a TracedTensor, a NumPy array or a Python number


def floats(name: str, *operands: Tensor) -> list[Any]:
    """The operands as tensors of one real dtype; `name` is the function for the error."""
    given = [as_operand(x) for x in operands]
    dtype = result_dtype(*given, inexact=True)
    if is_complex(dtype):
        raise DtypeError(
            f"{name}: there is no meaning for {dtype.name}",
            fix="take x.real or x.imag",
        )
    return [as_tensor(convert(x, dtype)) for x in given]
