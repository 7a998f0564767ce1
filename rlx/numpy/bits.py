"""Bits in the numbers of arrays: views as other dtypes, packbits, unpackbits."""

from __future__ import annotations

from typing import Any

import numpy as np

from ..ir.dims import quotient
from ..ir.errors import ArgumentError, DtypeError, ShapeError
from ..ir.types import DTYPES, Size, as_dtype, is_bool, is_complex
from ..trace.apply import apply, apply_like, as_tensor
from ..trace.arguments import choice, count_of
from ..trace.array import Array
from ..trace.ownership import is_part
from ..trace.promotion import convert
from .creation import zeros
from .elementwise import Tensor
from .manipulation import concatenate, expand_dims, moveaxis, ravel, reshape, stack
from .reductions import sum

BYTE = DTYPES["uint8"]

# -- views ----------------------------------------------------------------------------------------


def view(x: Tensor, dtype: Any = None) -> Any:
    """The bits read as another dtype; where it is wider the last axis shrinks.

    >>> import rlx
    >>> rlx.array([1, 256], "int32").view("uint8").tolist()
    [1, 0, 0, 0, 0, 1, 0, 0]
    """
    x = as_tensor(x)
    return is_part(x, _viewed(x, x.dtype if dtype is None else as_dtype(dtype)))


def _viewed(x: Any, dtype: np.dtype) -> Any:
    if x.dtype == dtype:
        return x
    size = _viewed_size(x, dtype)
    if not x.ndim:
        return reshape(_viewed(reshape(x, (1,)), dtype), ())
    if is_bool(x.dtype):
        return _viewed(convert(x, BYTE), dtype)
    if is_bool(dtype):
        return _viewed(x, BYTE) != 0
    if is_complex(x.dtype):
        halves = stack([apply("real", x), apply("imag", x)], -1)
        return _viewed(reshape(halves, (*x.shape[:-1], 2 * x.shape[-1])), dtype)
    if is_complex(dtype):
        parts = _viewed(x, as_dtype(f"float{4 * dtype.itemsize}"))
        halves = reshape(parts, (*x.shape[:-1], size, 2))
        return apply("complex", halves[..., 0], halves[..., 1])
    if x.dtype.itemsize < dtype.itemsize:
        return joined_bits(reshape(x, (*x.shape[:-1], size, dtype.itemsize // x.itemsize)), dtype)
    if x.dtype.itemsize > dtype.itemsize:
        return reshape(split_bits(x, dtype), (*x.shape[:-1], size))
    return apply("bitcast", x, dtype=dtype)


def _viewed_size(x: Any, dtype: np.dtype) -> Size:
    """The size of the last axis of a view."""
    given, wanted = x.dtype.itemsize, dtype.itemsize
    size = quotient((x.shape[-1] if x.ndim else 1) * given, wanted)
    if size is None or (not x.ndim and given != wanted):
        raise ShapeError(
            f"view: the last axis of {x.type} does not hold whole numbers of {dtype.name}",
            fix=f"view it as a dtype of {given} bytes, or give it a last axis of a multiple of "
            f"{max(wanted // given, 1)}",
        )
    return size


def split_bits(x: Any, dtype: np.dtype) -> Any:
    """Each number as several of fewer bits along a new last axis, lowest bits first."""
    count, word = x.dtype.itemsize // dtype.itemsize, _word(x.dtype)
    shape = (*x.shape, count)
    bits = apply("bitcast", x, dtype=word)
    bits = apply("broadcast", bits, shape=shape, axes=tuple(range(x.ndim)))
    moved = apply("shift_right_logical", bits, _starts(bits, dtype))
    return apply("bitcast", convert(moved, _word(dtype)), dtype=dtype)


def joined_bits(x: Any, dtype: np.dtype) -> Any:
    """The numbers along the last axis as one of more bits, lowest bits first."""
    bits = convert(apply("bitcast", x, dtype=_word(x.dtype)), _word(dtype))
    moved = apply("shift_left", bits, _starts(bits, x.dtype))
    return apply("bitcast", apply("reduce_or", moved, axes=(x.ndim - 1,)), dtype=dtype)


def _word(dtype: np.dtype) -> np.dtype:
    """The unsigned integer of as many bits."""
    return as_dtype(f"uint{8 * dtype.itemsize}")


def _starts(words: Any, part: np.dtype) -> Any:
    """Where the bits of each part start in the words."""
    axis = words.ndim - 1
    places = apply_like(words, "iota", shape=tuple(words.shape), axis=axis, dtype=words.dtype)
    return apply("mul", places, 8 * part.itemsize)


# -- single bits ----------------------------------------------------------------------------------


def _places_of_bits(order: str) -> np.ndarray:
    choice("bitorder", order, ("big", "little"))
    powers = np.arange(8, dtype="uint8")
    return powers[::-1] if order == "big" else powers


def packbits(a: Tensor, axis: int | None = None, bitorder: str = "big") -> Any:
    """Eight truths as the bits of a uint8, along an axis; None means all elements."""
    shifts = _places_of_bits(bitorder)
    a = as_tensor(a)
    if a.dtype.kind not in "biu":
        raise DtypeError(
            f"packbits: {a.type} has no truths or integers",
            fix="compare first: packbits(x > 0)",
        )
    flat, place = (ravel(a), 0) if axis is None else (a, axis)
    bits = convert(moveaxis(flat, place, -1) != 0, BYTE)
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
            fix="convert it: x.astype('uint8')",
        )
    flat, place = (ravel(a), 0) if axis is None else (a, axis)
    moved = moveaxis(flat, place, -1)
    bits = (expand_dims(moved, -1) >> Array(shifts.copy())) & Array(np.ones((), "uint8"))
    whole = reshape(bits, (*moved.shape[:-1], -1))
    if count is not None:
        size, count = whole.shape[-1], count_of("unpackbits: count", count, -(2**31))
        whole = whole[..., : count if count >= 0 else size + count]
        lack = max(count - size, 0)
        whole = concatenate([whole, zeros((*whole.shape[:-1], lack), "uint8")], -1)
    return moveaxis(whole, -1, place)
