"""Half-size floats, computed in float32 and rounded once at the end."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from ..ir.ops.halves import WIDE, is_half
from .apply import as_operand
from .promotion import convert, result_dtype


def rounded_once(compute: Callable[..., Any], *operands: Any) -> Any:
    """The result of `compute`, of operands in float32 if they are half-size floats.

    Then the result is rounded to the dtype in which they meet.

    >>> rounded_once(lambda x: x * 3 / 3, np.float16(1.001)).dtype
    dtype('float16')
    """
    dtype = result_dtype(*map(as_operand, operands))
    if not is_half(dtype):
        return compute(*operands)
    return convert(compute(*(convert(as_operand(x), WIDE) for x in operands)), dtype)


def wide_dtype(dtype: np.dtype) -> np.dtype | None:
    """The dtype to sum products of half-size floats in; None for others, their own."""
    return WIDE if is_half(dtype) else None
