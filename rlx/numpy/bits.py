"""Bits in the numbers of arrays: packbits, unpackbits."""

from __future__ import annotations

from typing import Any

import numpy as np

from ..ir.builder import user_source
from ..ir.errors import ArgumentError, DtypeError
from ..ir.types import DTYPES
from ..trace.apply import as_tensor
from ..trace.array import Array
from ..trace.promotion import convert
from .creation import zeros
from .elementwise import Tensor
from .manipulation import concatenate, expand_dims, moveaxis, ravel, reshape
from .reductions import sum


def _places_of_bits(order: str) -> np.ndarray:
    if order not in ("big", "little"):
        raise ArgumentError(
            f"there is no order of bits {order!r}",
            where=str(user_source()),
            fix='use "big" (the first is the highest) or "little"',
        )
    powers = np.arange(8, dtype="uint8")
    return powers[::-1] if order == "big" else powers


def packbits(a: Tensor, axis: int | None = None, bitorder: str = "big") -> Any:
    """Eight truths as the bits of a uint8, along an axis; None means all elements."""
    shifts = _places_of_bits(bitorder)
    a = as_tensor(a)
    if a.dtype.kind not in "biu":
        raise DtypeError(
            f"packbits: {a.type} has no truths or integers",
            where=str(user_source()),
            fix="compare first: packbits(x > 0)",
        )
    flat, place = (ravel(a), 0) if axis is None else (a, axis)
    bits = convert(moveaxis(flat, place, -1) != 0, DTYPES["uint8"])
    missing = -bits.shape[-1] % 8
    bits = concatenate([bits, zeros((*bits.shape[:-1], missing), "uint8")], -1)
    groups = reshape(bits, (*bits.shape[:-1], -1, 8)) << Array(shifts.copy())
    return moveaxis(sum(groups, -1, dtype="uint8"), -1, place)


def unpackbits(
    a: Tensor, axis: int | None = None, count: int | None = None, bitorder: str = "big"
) -> Any:
    """The bits of uint8 numbers along an axis, `count` of them; None means of all."""
    shifts = _places_of_bits(bitorder)
    a = as_tensor(a)
    if a.dtype != np.uint8:
        raise ArgumentError(
            f"unpackbits: {a.type} has no bits of uint8",
            where=str(user_source()),
            fix="convert it: x.astype('uint8')",
        )
    flat, place = (ravel(a), 0) if axis is None else (a, axis)
    moved = moveaxis(flat, place, -1)
    bits = (expand_dims(moved, -1) >> Array(shifts.copy())) & Array(np.ones((), "uint8"))
    whole = reshape(bits, (*moved.shape[:-1], -1))
    if count is not None:
        size = whole.shape[-1]
        whole = whole[..., : count if count >= 0 else size + count]
        lack = max(count - size, 0)
        whole = concatenate([whole, zeros((*whole.shape[:-1], lack), "uint8")], -1)
    return moveaxis(whole, -1, place)
