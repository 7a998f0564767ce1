"""Fewer bits in a number, and more of a product: reduce_precision, mulhi."""

from __future__ import annotations

import ml_dtypes
import numpy as np

from ..errors import AttributeValueError
from ..graph import Value
from ..op import ALIGNED, define
from ..types import Type, as_dtype, is_signed
from .arithmetic import add, mul, sub
from .compare import (
    bit_and,
    bit_not,
    bit_or,
    gt,
    le,
    lt,
    ne,
    select,
    shift_right_arithmetic,
    shift_right_logical,
)
from .constant import like
from .convert import bitcast, convert
from .families import check_kind, check_same

HALF = as_dtype("float16")


@define
def reduce_precision(x: Type, *, exponent_bits: int, mantissa_bits: int) -> Type:
    """The nearest numbers with so many bits, in the same dtype.

    Ties go to the even one.

    What is too great becomes infinite, what is less than the least normal number 0. The
    derivative is that of the identity, rounded alike.
    """
    check_kind(x, ["float"])
    if exponent_bits < 1 or mantissa_bits < 0:
        raise AttributeValueError(
            f"there are no floats of {exponent_bits} exponent and {mantissa_bits} mantissa bits",
            fix="use an exponent_bits of 1 or more and a mantissa_bits of 0 or more",
        )
    return x


def _kept_bits(dtype: np.dtype) -> tuple[int, int]:
    """How many bits the exponent and the mantissa of a dtype have."""
    info = ml_dtypes.finfo(dtype)
    return int(info.bits - 1 - info.nmant), int(info.nmant)


@reduce_precision.reference
def reduce_precision_reference(
    x: np.ndarray, *, exponent_bits: int, mantissa_bits: int
) -> np.ndarray:
    info = ml_dtypes.finfo(x.dtype)
    wide = x.astype(np.float64)
    _, exponent = np.frexp(wide)
    if mantissa_bits < info.nmant:
        # the last kept bit of a normal number, at least that of the least normal one
        place = np.maximum(exponent - 1, info.minexp) - mantissa_bits
        steps = np.ldexp(wide, -place)
        if mantissa_bits == 0:  # the even one of 1 and 2 is that whose exponent has even bits
            is_even = (exponent - info.minexp) % 2 == 0
            steps = np.where(np.abs(steps) == 1.5, np.where(is_even, 1, 2) * np.sign(steps), steps)
        wide = np.ldexp(np.rint(steps), place)
    if exponent_bits < _kept_bits(x.dtype)[0]:
        bias = 2 ** (exponent_bits - 1) - 1
        wide = np.where(np.abs(wide) >= 2.0 ** (bias + 1), np.copysign(np.inf, wide), wide)
        wide = np.where(np.abs(wide) < 2.0 ** (1 - bias), np.copysign(0.0, wide), wide)
    return np.where(np.isnan(x), x, wide.astype(x.dtype))


@reduce_precision.expand
def reduce_precision_expand(x: Value, *, exponent_bits: int, mantissa_bits: int) -> Value:
    bits = 8 * x.dtype.itemsize
    if bits == 8:  # one of these dtypes has no infinity
        e, m = _kept_bits(x.dtype)
        e, m = HALF_BITS[0] if exponent_bits >= e else exponent_bits, min(mantissa_bits, m)
        wide = reduce_precision_expand(convert(x, dtype=HALF), exponent_bits=e, mantissa_bits=m)
        return convert(wide, dtype=x.dtype)
    exponent, mantissa = _kept_bits(x.dtype)
    word = bitcast(x, dtype=f"uint{bits}")
    if mantissa_bits < mantissa:
        word = _rounded(word, mantissa - mantissa_bits)
    if exponent_bits < exponent:
        word = _within(word, exponent, exponent_bits, mantissa)
    return select(ne(x, x), x, bitcast(word, dtype=x.dtype))


HALF_BITS = _kept_bits(HALF)


def _rounded(word: Value, dropped: int) -> Value:
    """The bits with the last ones rounded away: half of their unit is added, less in a tie."""
    last = bit_and(shift_right_logical(word, dropped), 1)
    word = add(word, add(last, (1 << (dropped - 1)) - 1))
    return bit_and(word, bit_not(like(word, (1 << dropped) - 1)))


def _within(word: Value, exponent: int, kept: int, mantissa: int) -> Value:
    """The bits, where the exponent does not fit those of infinity or zero, with the sign."""
    bias, kept_bias = 2 ** (exponent - 1) - 1, 2 ** (kept - 1) - 1
    infinite = (2**exponent - 1) << mantissa
    size = bit_and(word, like(word, infinite))
    sign = bit_and(word, like(word, 1 << (exponent + mantissa)))
    greatest, least = (bias + kept_bias) << mantissa, (bias - kept_bias) << mantissa
    word = select(gt(size, like(word, greatest)), bit_or(sign, like(word, infinite)), word)
    return select(le(size, like(word, least)), sign, word)


reduce_precision.transpose(lambda ct, x, **attrs: [reduce_precision(ct, **attrs)])
reduce_precision.batch(ALIGNED)
reduce_precision.samples(Type(as_dtype("float32"), (2, 3)), exponent_bits=8, mantissa_bits=7)
reduce_precision.samples(
    np.array([1.3, -1e5, 1e-6, np.nan, 65504.0], np.float32),
    exponent_bits=5,
    mantissa_bits=2,
    expect=[1.25, -np.inf, 0.0, np.nan, np.inf],
)


@define
def mulhi(x: Type, y: Type) -> Type:
    """The upper half of the bits of a product of integers."""
    check_same(x, y)
    check_kind(x, ["integer"])
    return x


@mulhi.reference
def mulhi_reference(x: np.ndarray, y: np.ndarray) -> np.ndarray:
    wide = x.astype(object) * y.astype(object)
    return np.asarray(wide >> (8 * x.dtype.itemsize)).astype(x.dtype)


@mulhi.expand
def mulhi_expand(x: Value, y: Value) -> Value:
    bits = 8 * x.dtype.itemsize
    shift = shift_right_arithmetic if is_signed(x.dtype) else shift_right_logical
    if bits < 64:
        wide = "int64" if is_signed(x.dtype) else "uint64"
        product = mul(convert(x, dtype=wide), convert(y, dtype=wide))
        return convert(shift(product, bits), dtype=x.dtype)
    high = _high_word(bitcast(x, dtype="uint64"), bitcast(y, dtype="uint64"))
    if not is_signed(x.dtype):
        return high
    # a negative number counts 2 ** 64 too much as an unsigned one
    zero = like(x, 0)
    result = sub(bitcast(high, dtype=x.dtype), select(lt(x, zero), y, zero))
    return sub(result, select(lt(y, zero), x, zero))


def _high_word(x: Value, y: Value) -> Value:
    """The upper 64 bits of a product of uint64, from the products of their halves."""
    low = like(x, 0xFFFFFFFF)
    x0, x1 = bit_and(x, low), shift_right_logical(x, 32)
    y0, y1 = bit_and(y, low), shift_right_logical(y, 32)
    middle = add(mul(x1, y0), shift_right_logical(mul(x0, y0), 32))
    other = add(mul(x0, y1), bit_and(middle, low))
    carried = add(shift_right_logical(middle, 32), shift_right_logical(other, 32))
    return add(mul(x1, y1), carried)


mulhi.nondifferentiable("integers have no derivative")
mulhi.batch(ALIGNED)


_INTS = Type(as_dtype("int32"), (2, 3))
mulhi.samples(_INTS, _INTS)
mulhi.samples(
    np.array([2**31 - 1, -5, 2**20], np.int32),
    np.array([2**31 - 1, 3, 2**20], np.int32),
    expect=[2**30 - 1, -1, 256],
)
mulhi.samples(
    np.array([-(2**63), 2**62, -1], np.int64),
    np.array([-(2**63), 4, 1], np.int64),
    expect=[2**62, 1, -1],
)
mulhi.samples(
    np.array([2**64 - 1, 2**63], np.uint64),
    np.array([2**64 - 1, 6], np.uint64),
    expect=[2**64 - 2, 3],
)
