"""Rows of arithmetic, comparison, bits, choice, and changes of representation."""

from __future__ import annotations

from collections.abc import Callable

import mlx.core as mx
import numpy as np

from ..graph_table import Row
from .memory import BOOL, COMPLEX, FLOATS, FORMS, INTEGERS, REAL, STORED

UNSIGNED_OF = {1: mx.uint8, 2: mx.uint16, 4: mx.uint32, 8: mx.uint64}
SIGNED_OF = {1: mx.int8, 2: mx.int16, 4: mx.int32, 8: mx.int64}


def is_float(x: mx.array) -> bool:
    """Whether an array holds real floats."""
    return mx.issubdtype(x.dtype, mx.floating)


def scalar(number: complex, x: mx.array) -> mx.array:
    """A number in the dtype of an array."""
    return mx.array(number, x.dtype)


def _is_signed(x: mx.array) -> bool:
    return mx.issubdtype(x.dtype, mx.signedinteger)


def divide(x: mx.array, y: mx.array) -> mx.array:
    """The quotient; of integers rounded toward zero, all bits set where y is 0."""
    if not mx.issubdtype(x.dtype, mx.integer):
        return mx.divide(x, y)
    ones = mx.bitwise_invert(mx.zeros_like(x))
    return mx.where(y == 0, ones, _whole_quotient(x, y))


def _whole_quotient(x: mx.array, y: mx.array) -> mx.array:
    """The quotient of integers rounded toward zero, x where y is 0.

    The processor traps at a division by 0, and at that of the least number by -1.
    """
    if not _is_signed(x):
        return mx.floor_divide(x, mx.where(y == 0, scalar(1, y), y))
    is_alone = mx.logical_or(y == 0, y == -1)
    below = mx.where(is_alone, scalar(1, y), y)
    quotient = mx.floor_divide(x, below)
    # rounded down or toward zero: where a rest has not the sign of x, one too few
    rest = x - quotient * below
    is_low = mx.logical_and(rest != 0, (rest < 0) != (x < 0))
    quotient = quotient + is_low.astype(x.dtype)
    return mx.where(y == -1, mx.negative(x), quotient)


def remainder(x: mx.array, y: mx.array) -> mx.array:
    """The rest of a division rounded toward zero."""
    if not is_float(x):
        return mx.where(y == 0, x, x - _whole_quotient(x, y) * y)
    # the rest of positive numbers is exact, and -0 is that of what is negative
    rest = mx.remainder(mx.abs(x), mx.abs(y))
    rest = mx.where(mx.isinf(y), mx.where(mx.isinf(x), rest, mx.abs(x)), rest)
    return mx.where(is_negative(x), -rest, rest)


def is_negative(x: mx.array) -> mx.array:
    """Whether the sign of floats is set; it is of -0."""
    return x.view(SIGNED_OF[x.itemsize]) < 0


def sign(x: mx.array) -> mx.array:
    """The sign; NaN stays."""
    return mx.where(x != x, x, mx.sign(x)) if is_float(x) else mx.sign(x)


def _by_dtype(of_bools: Callable, of_others: Callable) -> Callable:
    """A function for bools, and one for other dtypes."""
    return lambda *xs: (of_bools if xs[0].dtype == mx.bool_ else of_others)(*xs)


# -- bits ---------------------------------------------------------------------------------------


def _bits(x: mx.array) -> int:
    return 8 * x.itemsize


def as_unsigned(x: mx.array) -> mx.array:
    """The bits as an unsigned number."""
    return x.view(UNSIGNED_OF[x.itemsize])


def _is_out(x: mx.array, count: mx.array) -> mx.array:
    return as_unsigned(count) >= mx.array(_bits(x), UNSIGNED_OF[x.itemsize])


def shift_left(x: mx.array, count: mx.array) -> mx.array:
    """Bits moved up; none is left where the count is not one of 0..bits-1."""
    out = _is_out(x, count)
    moved = mx.left_shift(x, mx.where(out, scalar(0, count), count))
    return mx.where(out, scalar(0, x), moved)


def shift_right_logical(x: mx.array, count: mx.array) -> mx.array:
    """Bits moved down, zeros put in above."""
    out, bits = _is_out(x, count), as_unsigned(x)
    safe = mx.where(out, scalar(0, bits), as_unsigned(count))
    return mx.where(out, scalar(0, bits), mx.right_shift(bits, safe)).view(x.dtype)


def shift_right_arithmetic(x: mx.array, count: mx.array) -> mx.array:
    """Bits moved down, the highest put in above."""
    signed = x.view(SIGNED_OF[x.itemsize])
    count = mx.where(_is_out(x, count), scalar(_bits(x) - 1, count), count)
    return mx.right_shift(signed, count.view(signed.dtype)).view(x.dtype)


def population_count(x: mx.array) -> mx.array:
    """The number of set bits: sums of pairs, of fours, of eights, and of the bytes."""
    bits, width = as_unsigned(x), _bits(x)

    def mask(pattern: int) -> mx.array:
        return scalar(int.from_bytes(bytes([pattern]) * (width // 8), "big"), bits)

    def down(y: mx.array, count: int) -> mx.array:
        return mx.right_shift(y, scalar(count, y))

    bits = bits - mx.bitwise_and(down(bits, 1), mask(0x55))
    bits = mx.bitwise_and(bits, mask(0x33)) + mx.bitwise_and(down(bits, 2), mask(0x33))
    bits = mx.bitwise_and(bits + down(bits, 4), mask(0x0F))
    bits = bits if width == 8 else down(bits * mask(0x01), width - 8)
    return bits.astype(x.dtype)


def clz(x: mx.array) -> mx.array:
    """The number of zero bits above the highest set one."""
    bits, step = as_unsigned(x), 1
    while step < _bits(x):
        bits = mx.bitwise_or(bits, mx.right_shift(bits, scalar(step, bits)))
        step *= 2
    return population_count(mx.bitwise_invert(bits)).astype(x.dtype)


# -- representation: dtypes, bits, parts of complex numbers ----------------------------------------


def convert(x: mx.array, *, dtype: np.dtype) -> mx.array:
    """The same numbers in another dtype; too great ones become the greatest integer."""
    form = FORMS[dtype]
    if x.dtype == mx.complex64 and form != mx.complex64:
        return (x != 0) if form == mx.bool_ else convert(mx.real(x), dtype=dtype)
    if form == mx.bool_:
        return x != scalar(0, x)
    if is_float(x) and mx.issubdtype(form, mx.integer):
        return _saturated(x, form)
    if x.dtype == mx.float64 and form == mx.float16:
        x = _rounded_to_odd(x)
    return x.astype(form)


def _rounded_to_odd(x: mx.array) -> mx.array:
    """Doubles in float32, with an odd last bit if they are not exact.

    So they can be rounded again. MLX goes to float16 by way of float32, and what is rounded to the
    nearest twice can be off. S. Boldo, G. Melquiond: When double rounding is odd (2004).
    """
    near = x.astype(mx.float32)
    wide, bits = near.astype(mx.float64), near.view(mx.int32)
    below = bits - (mx.abs(wide) > mx.abs(x)).astype(mx.int32)
    one = mx.array(1, mx.int32)
    return mx.where(wide == x, bits, mx.bitwise_or(below, one)).view(mx.float32)


def _saturated(x: mx.array, form: mx.Dtype) -> mx.array:
    """Whole parts of floats; NaN becomes 0, what is too great or small the extreme."""
    if x.dtype in (mx.float16, mx.bfloat16):
        x = x.astype(mx.float32)
    info = mx.iinfo(form)
    # 2**bits is exact where the greatest integer is not
    end, least = scalar(float(info.max + 1), x), scalar(float(info.min), x)
    x = mx.trunc(x)
    inside = mx.logical_and(x >= least, x < end)
    result = mx.where(inside, x, scalar(0, x)).astype(form)
    most = mx.bitwise_invert(mx.array(info.min, form))  # MLX takes no number above 2**63
    result = mx.where(x >= end, most, result)
    return mx.where(x < least, mx.array(info.min, form), result)


def make_complex(re: mx.array, im: mx.array) -> mx.array:
    """Complex numbers of their parts; those of float64 are stored as pairs."""
    pairs = mx.stack([re, im], axis=-1)
    return pairs if re.dtype == mx.float64 else mx.squeeze(pairs.view(mx.complex64), -1)


def as_real(x: mx.array) -> mx.array:
    """The parts of complex numbers along a new last axis."""
    if x.dtype == mx.float64:
        return x
    return mx.expand_dims(x, -1).view(mx.float32)


def as_complex(x: mx.array) -> mx.array:
    """Complex numbers of parts that are along the last axis."""
    return x if x.dtype == mx.float64 else mx.squeeze(x.view(mx.complex64), -1)


_PAIRS = frozenset({"complex128", "float64", "complex64", "float32"})
ROWS = {
    "add": Row(mx.add, STORED),
    "sub": Row(mx.subtract, STORED),
    "mul": Row(mx.multiply, STORED),
    "div": Row(divide, INTEGERS | FLOATS),
    "rem": Row(remainder, INTEGERS | FLOATS),
    "neg": Row(mx.negative, INTEGERS | FLOATS | COMPLEX),
    "sign": Row(sign, INTEGERS | FLOATS),
    "abs": Row(mx.abs, INTEGERS | FLOATS),
    "eq": Row(mx.equal, STORED),
    "ne": Row(mx.not_equal, STORED),
    "lt": Row(mx.less, REAL),
    "le": Row(mx.less_equal, REAL),
    "gt": Row(mx.greater, REAL),
    "ge": Row(mx.greater_equal, REAL),
    "max": Row(mx.maximum, INTEGERS | FLOATS),
    "min": Row(mx.minimum, INTEGERS | FLOATS),
    "select": Row(mx.where, STORED),
    "bit_and": Row(mx.bitwise_and, BOOL | INTEGERS),
    "bit_or": Row(mx.bitwise_or, BOOL | INTEGERS),
    "bit_xor": Row(mx.bitwise_xor, BOOL | INTEGERS),
    "bit_not": Row(_by_dtype(mx.logical_not, mx.bitwise_invert), BOOL | INTEGERS),
    "shift_left": Row(shift_left, INTEGERS),
    "shift_right_logical": Row(shift_right_logical, INTEGERS),
    "shift_right_arithmetic": Row(shift_right_arithmetic, INTEGERS),
    "population_count": Row(population_count, INTEGERS),
    "clz": Row(clz, INTEGERS),
    "is_finite": Row(mx.isfinite, BOOL | FLOATS),
    "convert": Row(convert, STORED),
    "bitcast": Row(lambda x, *, dtype: x.view(FORMS[dtype]), INTEGERS | FLOATS | COMPLEX),
    "stop_gradient": Row(lambda x, **attrs: x),
    "checkpoint_name": Row(lambda x, **attrs: x),
    "real": Row(lambda x: as_real(x)[..., 0], _PAIRS),
    "imag": Row(lambda x: as_real(x)[..., 1], _PAIRS),
    "complex": Row(make_complex, _PAIRS),
    "view_as_real": Row(as_real, _PAIRS),
    "view_as_complex": Row(as_complex, _PAIRS),
}
