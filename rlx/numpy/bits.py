"""Bits and parts of numbers: views as other dtypes, packbits, frexp, nextafter."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from ..ir.dims import quotient
from ..ir.errors import ArgumentError, DtypeError, ShapeError
from ..ir.types import DTYPES, Size, as_dtype, is_bool, is_complex, is_integer
from ..trace.apply import apply, apply_like, as_operand, as_tensor
from ..trace.arguments import choice, count_of, members
from ..trace.array import Array
from ..trace.array_arguments import scalar
from ..trace.index.aliasing import is_part
from ..trace.promotion import convert, convert_exactly, fit_operands, pointwise, result_dtype
from ..transforms.eager import eager
from .arithmetic import copysign
from .creation import zeros
from .division import remainder
from .elementwise import Tensor, add, equal, greater, less, maximum, minimum, multiply, subtract
from .logic import isfinite, isnan, logical_and, logical_or, where
from .manipulation import concatenate, expand_dims, moveaxis, ravel, reshape, stack
from .reductions import cumsum, diff, sum

BYTE = DTYPES["uint8"]

# -- views ----------------------------------------------------------------------------------------


def view(x: Tensor, dtype: Any = None) -> Array:
    """Reinterpret the bits as another dtype; the last axis is resized to fit.

    >>> import rlx
    >>> rlx.array([1, 256], "int32").view("uint8").tolist()
    [1, 0, 0, 0, 0, 1, 0, 0]
    """
    x = as_tensor(x)
    if isinstance(dtype, int | tuple):
        raise ArgumentError(
            f"view: {dtype!r} is a shape, no dtype", fix=f"x.reshape({dtype!r}) gives another shape"
        )
    return is_part(x, _viewed(x, x.dtype if dtype is None else as_dtype(dtype)))


def _viewed(x: Any, dtype: np.dtype) -> Array:
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


def split_bits(x: Any, dtype: np.dtype) -> Array:
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


def _starts(words: Any, part: np.dtype) -> Array:
    """Where the bits of each part start in the words."""
    axis = words.ndim - 1
    places = apply_like(words, "iota", shape=tuple(words.shape), axis=axis, dtype=words.dtype)
    return apply("mul", places, 8 * part.itemsize)


# -- single bits ----------------------------------------------------------------------------------


def _places_of_bits(order: str) -> np.ndarray:
    choice("bitorder", order, ("big", "little"))
    powers = np.arange(8, dtype="uint8")
    return powers[::-1] if order == "big" else powers


def packbits(a: Tensor, axis: int | None = None, bitorder: str = "big") -> Array:
    """Pack bools into the bits of uint8 along an axis; None flattens first.

    `bitorder` is "big" if the first bool is the highest bit, else "little".
    """
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
) -> Array:
    """Unpack uint8 into bits along an axis; None flattens first.

    `count` cuts or pads the result. `bitorder` is as for `packbits`.
    """
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


# -- the parts of floating-point numbers, and functions on these parts -----------------------------


@eager
def fmax(x1: Tensor, x2: Tensor) -> Array:
    """Elementwise maximum, ignoring NaNs."""
    return where(isnan(x1), x2, where(isnan(x2), x1, maximum(x1, x2)))


@eager
def fmin(x1: Tensor, x2: Tensor) -> Array:
    """Elementwise minimum, ignoring NaNs."""
    return where(isnan(x1), x2, where(isnan(x2), x1, minimum(x1, x2)))


@eager
def nextafter(x: Tensor, y: Tensor, /) -> Array:
    """The next floating-point number after x toward y."""
    dtype = result_dtype(as_operand(x), as_operand(y), inexact=True)
    x, y = fit_operands("nextafter", dtype, x, y)
    bits = as_dtype(f"int{8 * dtype.itemsize}")
    place = apply("bitcast", x, dtype=bits)
    # away from zero the pattern of bits grows by one; at zero it starts with the sign of y
    is_away = equal(less(x, y), greater(x, 0))
    moved = where(is_away, add(place, 1), subtract(place, 1))
    least = where(less(y, 0), np.asarray(np.iinfo(bits).min + 1, bits), np.asarray(1, bits))
    moved = where(equal(x, 0), least, moved)
    result = apply(
        "bitcast", where(equal(x, y), apply("bitcast", y, dtype=bits), moved), dtype=dtype
    )
    return where(logical_or(isnan(x), isnan(y)), convert(np.nan, dtype), result)


def spacing(x: Tensor, /) -> Array:
    """The distance from x to the adjacent number, away from zero.

    For float16 it is the distance to the next greater number, as in NumPy.
    """
    x = convert_exactly(x, result_dtype(as_operand(x), inexact=True))
    far = convert(math.inf, x.dtype)
    if x.dtype.name == "float16":
        return subtract(nextafter(x, far), x)
    return subtract(nextafter(x, copysign(far, x)), x)


def frexp(x: Tensor, /) -> tuple[Array, Array]:
    """Decompose `x` into a mantissa and an exponent of 2, and return both.

    The absolute value of the mantissa is in [0.5, 1).
    """
    x = convert_exactly(x, result_dtype(as_operand(x), inexact=True))
    is_plain = logical_and(isfinite(x), apply("ne", x, 0))
    size = where(is_plain, apply("abs", x), 1)
    power = add(apply("floor", multiply(apply("log", size), 1 / math.log(2))), 1)
    # the logarithm may be off by one at powers of two
    share = multiply(size, apply("exp2", apply("neg", power)))
    power = where(
        greater(share, 1 - 1e-7), add(power, 1), where(less(share, 0.5), power - 1, power)
    )
    share = multiply(x, apply("exp2", apply("neg", power)))
    return where(is_plain, share, x), where(is_plain, convert(power, as_dtype("int32")), 0)


def unwrap(
    p: Tensor, discont: float | None = None, axis: int = -1, period: float = 2 * math.pi
) -> Array:
    """Unwrap angles `p` along an axis by complements of `period`.

    A jump counts if it is above `discont`, by default half the period.
    """
    period = scalar("unwrap: period", period)
    p = convert_exactly(p, result_dtype(as_operand(p), as_operand(period)))
    steps = diff(p, axis=axis)
    half = period // 2 if is_integer(p.dtype) else period / 2
    short = subtract(remainder(add(steps, half), period), half)
    short = where(logical_and(equal(short, -half), greater(steps, 0)), half, short)
    limit = period / 2 if discont is None else discont
    change = where(less(apply("abs", steps), limit), 0, subtract(short, steps))
    before = (slice(None),) * (axis % p.ndim)
    return p.at[(*before, slice(1, None))].add(cumsum(change, axis))


def piecewise(
    x: Tensor, condlist: Sequence[Tensor], funclist: Sequence[Any], *args: Any, **kw: Any
) -> Array:
    """Evaluate a piecewise function: for each element that of the last true condition.

    `condlist` are bool arrays, and for each `funclist` has a function, called as
    `f(x, *args, **kw)`, or a number. One more than there are conditions is the default; any other
    count is an `ArgumentError`.
    """
    x = as_tensor(x)
    condlist = members("piecewise: condlist", condlist)
    funclist = members("piecewise: funclist", funclist)
    if len(funclist) not in (len(condlist), len(condlist) + 1):
        raise ArgumentError(
            f"piecewise: {len(funclist)} functions for {len(condlist)} conditions",
            fix="give one for each condition, and one more for the rest",
        )
    choices = [f(x, *args, **kw) if isinstance(f, Callable) else f for f in funclist]
    default = choices.pop() if len(choices) > len(condlist) else 0
    result = convert_exactly(default, x.dtype)
    for condition, chosen in zip(condlist, choices, strict=True):
        result = convert(where(condition, chosen, result), x.dtype)
    return result


def bitwise_count(x: Tensor, /) -> Array:
    """The number of one bits in the absolute value."""
    x = as_tensor(x)
    x = convert(x, as_dtype("uint8")) if is_bool(x.dtype) else x
    size = apply("abs", x) if x.dtype.kind == "i" else x
    return convert(pointwise("population_count", size), as_dtype("uint8"))
