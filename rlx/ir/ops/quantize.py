"""Numbers in few bits: quantize, dequantize, fake_quantize.

q = round(x / scale) + zero_point, cut to a range, stands for (q - zero_point) * scale. `scale` and
`zero_point` are single floats, or with `axis` one for each place along that axis; zero_point is
rounded. Targets are integers, or 8-bit floats, which round by themselves. A range other than the
dtype's own, such as that of 4 bits, is given by `bounds`, its least and greatest number.
"""

from __future__ import annotations

import functools
from collections.abc import Sequence
from typing import Any

import ml_dtypes
import numpy as np

from ..errors import AttributeValueError, DtypeError, ShapeError
from ..graph import Value
from ..op import define
from ..types import Type, as_dtype, is_float, is_half, is_integer, promote
from .arithmetic import add, div, mul, neg, round, sub
from .compare import bit_and, clamp, ge, le, max, select
from .constant import like
from .convert import WIDE, bitcast, convert, convert_reference, narrowed
from .custom import stop_gradient
from .families import check_axis, check_kind
from .movement import broadcast

Axis = int | None
Bounds = tuple[float, float] | None


def _check(x: Type, scale: Type, zero_point: Type, axis: Axis) -> None:
    check_kind(scale, ["float"])
    if scale.dtype != zero_point.dtype:
        raise DtypeError(
            f"the scale is {scale}, the zero point {zero_point}",
            fix=f"convert one: zero_point.astype({scale.dtype.name!r})",
        )
    if axis is not None:
        check_axis(x, axis)
    shape = () if axis is None else (x.shape[axis],)
    if scale.shape != shape or zero_point.shape != shape:
        raise ShapeError(
            f"the scale is {scale}, the zero point {zero_point}",
            fix=f"give both the shape {shape}",
        )


def _check_target(dtype: np.dtype, bounds: Bounds) -> None:
    if not is_integer(dtype) and not (is_float(dtype) and dtype.itemsize == 1):
        raise DtypeError(
            f"there is no quantizing to {dtype.name}",
            fix="use an integer dtype, float8_e4m3fn or float8_e5m2",
        )
    first, last = whole = _bounds(dtype, None)
    is_range = isinstance(bounds, tuple | list) and all(isinstance(n, int | float) for n in bounds)
    if not (bounds is None or is_range):
        raise AttributeValueError(
            f"the bounds are {bounds!r}", fix="give a number and a greater one"
        )
    if bounds is not None and not (len(bounds) == 2 and first <= bounds[0] < bounds[1] <= last):
        raise AttributeValueError(
            f"the bounds {bounds} are none of {dtype.name}",
            fix=f"pick a number and a greater one, both within {whole}",
        )


def _bounds(dtype: np.dtype, bounds: Bounds) -> tuple[float, float]:
    """The least and the greatest number to give."""
    if bounds is not None:
        return bounds
    info = np.iinfo(dtype) if is_integer(dtype) else ml_dtypes.finfo(dtype)
    return (
        (int(info.min), int(info.max)) if is_integer(dtype) else (float(info.min), float(info.max))
    )


def _wide(x: Any, scale: Any) -> np.dtype:
    """The dtype to compute in."""
    dtype = promote(x.dtype, scale.dtype) if is_float(x.dtype) else scale.dtype
    return WIDE if is_half(dtype) else dtype


def _along(v: Value, x: Value, axis: Axis, dtype: np.dtype) -> Value:
    """The scale or zero point at each element."""
    axes = () if axis is None else (axis,)
    return broadcast(narrowed(v, dtype), shape=x.shape, axes=axes)


def _units(
    x: Value, scale: Value, zero_point: Value, dtype: np.dtype, axis: Axis
) -> tuple[Value, Value, Value]:
    """The numbers in units of the scale; the scale and the zero point at each of them."""
    wide = _wide(x, scale)
    step, offset = (_along(v, x, axis, wide) for v in (scale, zero_point))
    units = div(narrowed(x, wide), step)
    return units, step, round(offset) if is_integer(dtype) else offset


def _cut(units: Value, offset: Value, dtype: np.dtype, bounds: Bounds) -> Value:
    """The rounded numbers in the range, not yet in the dtype."""
    whole = round(units) if is_integer(dtype) else units
    first, last = (like(units, n) for n in _bounds(dtype, bounds))
    return clamp(first, add(whole, offset), last)


def _parts_reference(
    x: np.ndarray, scale: np.ndarray, zero_point: np.ndarray, axis: Axis
) -> list[np.ndarray]:
    wide = _wide(x, scale)
    shape = [-1 if i == axis else 1 for i in np.arange(x.ndim)]
    return [x.astype(wide), *(v.astype(wide).reshape(shape) for v in (scale, zero_point))]


@define
def quantize(
    x: Type,
    scale: Type,
    zero_point: Type,
    *,
    dtype: np.dtype,
    axis: Axis = None,
    bounds: Bounds = None,
) -> Type:
    """Floats as numbers of few bits: round(x / scale) + zero_point, cut to the range.

    Halves are rounded to even. A NaN becomes 0 where the dtype is an integer.
    """
    check_kind(x, ["float"])
    _check(x, scale, zero_point, axis)
    _check_target(dtype, bounds)
    return x.with_dtype(dtype)


@quantize.reference
def quantize_reference(
    x: np.ndarray,
    scale: np.ndarray,
    zero_point: np.ndarray,
    *,
    dtype: np.dtype,
    axis: Axis,
    bounds: Bounds,
) -> np.ndarray:
    x, step, offset = _parts_reference(x, scale, zero_point, axis)
    whole = np.rint(x / step) + np.rint(offset) if is_integer(dtype) else x / step + offset
    return convert_reference(np.clip(whole, *_bounds(dtype, bounds)), dtype=dtype)


@quantize.expand
def quantize_expand(
    x: Value, scale: Value, zero_point: Value, *, dtype: np.dtype, axis: Axis, bounds: Bounds
) -> Value:
    units, _, offset = _units(x, scale, zero_point, dtype, axis)
    return convert(_cut(units, offset, dtype, bounds), dtype=dtype)


def _scheme(dtype: np.dtype, axis: Axis, bounds: Bounds = None) -> str:
    """How numbers are quantized, in words."""
    few = "" if bounds is None else f" from {bounds[0]} to {bounds[1]}"
    return f"{dtype.name}{few}" + ("" if axis is None else f" along axis {axis}")


quantize.scheme(
    lambda x, scale, zero, dtype, axis, bounds: [*[None] * 3, _scheme(dtype, axis, bounds)]
)
quantize.nondifferentiable("the result is constant between steps; train with fake_quantize")
_F32 = as_dtype("float32")
_MATRIX, _LINE, _ONE = Type(_F32, (2, 3)), Type(_F32, (3,)), Type(_F32, ())
_STEP, _ZERO = np.float32(0.5), np.float32(0.0)
_NUMBERS = np.array([-1.25, -0.2, 0.75, 1.3, 90.0, np.nan], np.float32)
quantize.samples(_MATRIX, _ONE, _ONE, dtype="int8", low=0.5)
quantize.samples(_MATRIX, _LINE, _LINE, dtype="uint8", axis=1, bounds=(0, 15), low=0.5)
quantize.samples(
    _NUMBERS, _STEP, _ZERO, dtype="int8", expect=np.array([-2, 0, 2, 3, 127, 0], np.int8)
)
quantize.samples(
    _NUMBERS,
    _STEP,
    np.float32(3.0),
    dtype="uint8",
    bounds=(0, 15),
    expect=np.array([1, 3, 5, 6, 15, 0], np.uint8),
)
quantize.samples(
    np.array([1.1, -1e4, 0.3], np.float32),
    _STEP,
    _ZERO,
    dtype="float8_e4m3fn",
    expect=[2.25, -448.0, 0.625],
)


@define
def dequantize(
    x: Type, scale: Type, zero_point: Type, *, dtype: np.dtype, axis: Axis = None
) -> Type:
    """The floats that numbers of few bits stand for: (x - zero_point) * scale."""
    _check_target(x.dtype, None)
    _check(x, scale, zero_point, axis)
    if not is_float(dtype):
        raise DtypeError(f"the result cannot be {dtype.name}", fix="use a float dtype")
    return x.with_dtype(dtype)


@dequantize.reference
def dequantize_reference(
    x: np.ndarray, scale: np.ndarray, zero_point: np.ndarray, *, dtype: np.dtype, axis: Axis
) -> np.ndarray:
    is_whole = is_integer(x.dtype)
    x, step, offset = _parts_reference(x, scale, zero_point, axis)
    return (x - (np.rint(offset) if is_whole else offset)) * step


@dequantize.expand
def dequantize_expand(
    x: Value, scale: Value, zero_point: Value, *, dtype: np.dtype, axis: Axis
) -> Value:
    wide = _wide(x, scale)
    step, offset = (_along(v, x, axis, wide) for v in (scale, zero_point))
    if is_integer(x.dtype):
        # the derivative of a rounded zero point is that of the zero point
        offset = add(offset, stop_gradient(sub(round(offset), offset)))
    return narrowed(mul(sub(narrowed(x, wide), offset), step), dtype)


dequantize.scheme(lambda x, scale, zero, dtype, axis: [_scheme(x.dtype, axis)])
_COUNTS = Type(as_dtype("int8"), (2, 3))
_ZEROS = np.array([0.7, -1.2, 1.9], "float32")  # finite: of an infinite one nothing is said
dequantize.samples(_COUNTS, _ONE, _ZEROS[0], dtype="float32")
dequantize.samples(_COUNTS, _LINE, _ZEROS, dtype="float16", axis=1)
dequantize.samples(
    np.array([-2, 0, 127], np.int8),
    _STEP,
    np.float32(1.0),
    dtype="float32",
    expect=[-1.5, -0.5, 63.0],
)


@define
def fake_quantize(
    x: Type,
    scale: Type,
    zero_point: Type,
    *,
    dtype: np.dtype,
    axis: Axis = None,
    bounds: Bounds = None,
) -> Type:
    """What is left of floats that are quantized and brought back, to train with.

    The derivative takes rounding for the identity: that in x is 1 within the range and 0 outside.
    That in the scale is (q - zero_point) - x / scale within, and q - zero_point outside; that in
    the zero point is 0 within and -scale outside. From "Learned Step Size Quantization", Esser et
    al., 2020, and "LSQ+", Bhalgat et al., 2020.
    """
    check_kind(x, ["float"])
    _check(x, scale, zero_point, axis)
    _check_target(dtype, bounds)
    return x


@fake_quantize.reference
def fake_quantize_reference(
    x: np.ndarray,
    scale: np.ndarray,
    zero_point: np.ndarray,
    *,
    dtype: np.dtype,
    axis: Axis,
    bounds: Bounds,
) -> np.ndarray:
    wide, step, offset = _parts_reference(x, scale, zero_point, axis)
    first, last = _bounds(dtype, bounds)
    if is_integer(dtype):
        offset = np.rint(offset)
        return (np.clip(np.rint(wide / step) + offset, first, last) - offset) * step
    few = np.clip(wide / step + offset, first, last).astype(dtype)
    return (few.astype(wide.dtype) - offset) * step


@fake_quantize.expand
def fake_quantize_expand(
    x: Value, scale: Value, zero_point: Value, *, dtype: np.dtype, axis: Axis, bounds: Bounds
) -> Value:
    units, step, offset = _units(x, scale, zero_point, dtype, axis)
    cut = _cut(units, offset, dtype, bounds)
    few = cut if is_integer(dtype) else _rounded(cut, dtype)
    return narrowed(mul(sub(few, offset), step), x.dtype)


def _rounded(x: Value, dtype: np.dtype) -> Value:
    """The nearest numbers of an 8-bit float, of numbers within its range.

    The steps between these are powers of two: that of a number's exponent, or the least one.
    """
    info = ml_dtypes.finfo(dtype)
    wide, bits = x.dtype, as_dtype("int32")
    x = convert(x, dtype=WIDE)  # as ml_dtypes does before it rounds
    infinity = like(bitcast(x, dtype=bits), 0x7F800000)  # all bits of the exponent
    power = bitcast(bit_and(bitcast(x, dtype=bits), infinity), dtype=WIDE)
    step = max(mul(power, 2.0**-info.nmant), like(x, float(info.smallest_subnormal)))
    return convert(mul(round(div(x, step)), step), dtype=wide)


fake_quantize.scheme(
    lambda x, scale, zero, dtype, axis, bounds: [*[None] * 3, _scheme(dtype, axis, bounds)]
)


@fake_quantize.jvp
def fake_quantize_jvp(
    primals: Sequence[Value], tangents: Sequence[Value | None], **attrs: Any
) -> tuple[Value, Value]:
    x, scale, zero_point = primals
    dtype, axis = attrs["dtype"], attrs["axis"]
    out = fake_quantize(x, scale, zero_point, **attrs)
    units, step, offset = _units(x, scale, zero_point, dtype, axis)
    whole = add(round(units) if is_integer(dtype) else units, offset)
    first, last = (like(units, n) for n in _bounds(dtype, attrs["bounds"]))
    is_inside = bit_and(ge(whole, first), le(whole, last))
    zero = like(units, 0)
    t_x, t_scale, t_offset = tangents
    terms = []
    if t_x is not None:
        terms.append(select(is_inside, narrowed(t_x, units.dtype), zero))
    if t_scale is not None:
        steps = sub(div(narrowed(out, units.dtype), step), select(is_inside, units, zero))
        terms.append(mul(_along(t_scale, x, axis, units.dtype), steps))
    if t_offset is not None:
        slope = select(is_inside, zero, neg(step))
        terms.append(mul(_along(t_offset, x, axis, units.dtype), slope))
    return out, narrowed(functools.reduce(add, terms), x.dtype)


fake_quantize.samples(_MATRIX, _ONE, _ONE, dtype="int8", low=0.5)
fake_quantize.samples(_MATRIX, _LINE, _LINE, dtype="float8_e5m2", axis=1, low=0.5)
fake_quantize.samples(
    np.array([-9.0, -0.2, 0.75, 1.3, 90.0], np.float32),
    _STEP,
    _ZERO,
    dtype="int8",
    bounds=(-8, 7),
    expect=[-4.0, 0.0, 1.0, 1.5, 3.5],
)
