"""Conversions: convert, bitcast, parts of complex numbers, half-size floats."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import ml_dtypes
import numpy as np

from ..body import FromParts, Part, Pointwise
from ..errors import DtypeError
from ..graph import OPS, Value
from ..op import ALIGNED, Parts, define, is_linear
from ..types import (
    Type,
    as_dtype,
    is_bool,
    is_complex,
    is_float,
    is_half,
    is_inexact,
    is_integer,
    promote,
)
from .constant import full, like, maker, undone, uniform
from .families import check_kind, check_same

REAL_PART = {"complex64": as_dtype("float32"), "complex128": as_dtype("float64")}
COMPLEX_OF = {part.name: as_dtype(name) for name, part in REAL_PART.items()}


@define
def convert(x: Type, *, dtype: np.dtype) -> Type:
    """The same numbers in another dtype.

    A float becomes an integer by dropping the fraction; NaN becomes 0, what is outside of the
    range the nearest integer in it. Integers wrap around. A complex number loses its imaginary
    part. Any number other than zero is True.
    """
    return x.with_dtype(dtype)


@convert.reference
def convert_reference(x: np.ndarray, *, dtype: np.dtype) -> np.ndarray:
    if is_complex(x.dtype) and not is_complex(dtype) and not is_bool(dtype):
        x = np.real(x)
    if is_float(x.dtype) and is_integer(dtype):
        return _saturate(x.astype(np.float64), np.iinfo(dtype))
    return x.astype(dtype)


def _saturate(x: np.ndarray, info: np.iinfo) -> np.ndarray:
    # float(max) + 1 is a power of two, so it is exact where float(max) is not
    end = float(info.max) if float(info.max) > info.max else float(info.max) + 1.0
    x = np.trunc(x)
    inside = (x >= float(info.min)) & (x < end)
    result = np.where(inside, x, 0.0).astype(info.dtype)
    result = np.where(x >= end, np.array(info.max, info.dtype), result)
    return np.where(x < float(info.min), np.array(info.min, info.dtype), result)


convert.body(Pointwise("convert"))
convert.jvp([lambda t, out, x, *, dtype: convert(t, dtype=dtype) if is_inexact(dtype) else None])


@convert.parts
def convert_parts(x: Value | Parts, *, dtype: np.dtype) -> Value | Parts:
    part = REAL_PART.get(dtype.name, dtype)
    if isinstance(x, Value):
        re = convert(x, dtype=part)
        return Parts(re, like(re, 0))
    if is_complex(dtype):
        return Parts(convert(x.re, dtype=part), convert(x.im, dtype=part))
    if is_bool(dtype):
        return OPS["bit_or"](convert(x.re, dtype=dtype), convert(x.im, dtype=dtype))
    return convert(x.re, dtype=dtype)


convert.transpose(lambda ct, x, *, dtype: [convert(ct, dtype=x.dtype)])
convert.batch(ALIGNED)


@convert.fold
def convert_fold(x: Value, *, dtype: np.dtype) -> Value | None:
    if x.dtype == dtype:
        return x
    number = uniform(x)
    if number is not None:
        (array,) = convert.run([np.asarray(number).astype(x.dtype)], {"dtype": dtype})
        return full(shape=x.shape, value=array.item(), dtype=dtype)
    before = maker(x, "convert")
    if before and _is_one_step(before.args[0].dtype, x.dtype, dtype):
        return convert(before.args[0], dtype=dtype)
    return None


def _is_one_step(first: np.dtype, middle: np.dtype, last: np.dtype) -> bool:
    """Whether the middle of two conversions makes no difference."""
    # integers wrap around, but saturate when they come from a float
    saturates = is_integer(first) and is_inexact(middle) and is_integer(last)
    return holds(middle, first) and (not saturates or holds(last, first))


def holds(large: np.dtype, small: np.dtype) -> bool:
    """Whether each number of the dtype `small` is one of the dtype `large`, exactly."""
    if large == small or is_bool(small):
        return True
    if is_bool(large):
        return False
    if is_complex(large):
        return holds(REAL_PART[large.name], REAL_PART.get(small.name, small))
    if is_complex(small):
        return False
    if is_integer(large):
        return is_integer(small) and _contains(np.iinfo(large), np.iinfo(small))
    into = ml_dtypes.finfo(large)
    if is_integer(small):
        bits = np.iinfo(small).bits - (small.kind == "i")
        return bits <= into.nmant + 1 and bits < into.maxexp
    given = ml_dtypes.finfo(small)
    # the least subnormal lies nmant below the least normal exponent
    has_infinity = not np.isnan(np.array(np.inf).astype(large))
    return (
        given.nmant <= into.nmant
        and given.maxexp <= into.maxexp
        and given.minexp - given.nmant >= into.minexp - into.nmant
        and has_infinity
    )


def _contains(large: np.iinfo, small: np.iinfo) -> bool:
    return large.min <= small.min and small.max <= large.max


convert.samples((2, 3), dtype="float32")
convert.samples((2, 3), dtype="float64")
convert.samples([1.75, -1.75, np.nan, 1e20], dtype="int32", expect=[1, -1, 0, 2147483647])
convert.samples([2.0, -3.0, 300.5], dtype="uint8", expect=[2, 0, 255])
convert.samples([0.0, 0.5], dtype="bool", expect=[False, True])
convert.samples([0j, 1j, 1 + 0j], dtype="bool", expect=[False, True, True])


@define
def bitcast(x: Type, *, dtype: np.dtype) -> Type:
    """The same bits read as another dtype of the same width."""
    if dtype.itemsize != x.dtype.itemsize or is_bool(dtype) or is_bool(x.dtype):
        raise DtypeError(
            f"the bits of {x} are no {dtype.name}",
            fix=f"pick a dtype other than bool of {x.dtype.itemsize} bytes",
        )
    return x.with_dtype(dtype)


bitcast.reference(lambda x, *, dtype: np.ascontiguousarray(x).reshape(x.shape).view(dtype))
bitcast.body(Pointwise("bitcast"))
bitcast.nondifferentiable("bits are not numbers")
bitcast.batch(ALIGNED)


@bitcast.fold
def bitcast_fold(x: Value, *, dtype: np.dtype) -> Value | None:
    if x.dtype == dtype:
        return x
    before = maker(x, "bitcast")
    return bitcast(before.args[0], dtype=dtype) if before else None


bitcast.samples(np.array([1.0, -2.0], np.float32), dtype="uint32", expect=[0x3F800000, 0xC0000000])
bitcast.samples(np.array([0x3F800000], np.uint32), dtype="float32", expect=[1.0])


@define
def real(x: Type) -> Type:
    """The real part of a complex number."""
    check_kind(x, ["complex"])
    return x.with_dtype(REAL_PART[x.dtype.name])


real.reference(np.real)
real.body(Part())
real.parts(lambda x: x.re)
real.transpose(lambda ct, x: [convert(ct, dtype=x.dtype)])
real.batch(ALIGNED)
real.fold(undone("complex"))
real.samples(np.array([1 + 2j, 3 - 4j]), expect=[1.0, 3.0])


@define
def imag(x: Type) -> Type:
    """The imaginary part of a complex number."""
    check_kind(x, ["complex"])
    return x.with_dtype(REAL_PART[x.dtype.name])


imag.reference(np.imag)
imag.body(Part())
imag.parts(lambda x: x.im)


@imag.transpose
def imag_transpose(ct: Value, x: Value) -> list[Value]:
    # cotangents pair without conjugation: Re(z * ct) with z = i*y needs ct = -i
    return [complex(like(ct, 0), -ct)]


imag.batch(ALIGNED)
imag.fold(undone("complex", 1))
imag.samples(np.array([1 + 2j, 3 - 4j]), expect=[2.0, -4.0])


@define
def complex(re: Type, im: Type) -> Type:
    """A complex number from its real and imaginary parts."""
    check_same(re, im)
    if re.dtype.name not in COMPLEX_OF:
        raise DtypeError(
            f"there is no complex dtype with parts of {re.dtype.name}",
            fix="convert both parts to float32 or float64",
        )
    return re.with_dtype(COMPLEX_OF[re.dtype.name])


@complex.reference
def complex_reference(re: np.ndarray, im: np.ndarray) -> np.ndarray:
    result = np.empty(re.shape, COMPLEX_OF[re.dtype.name])
    result.real, result.imag = re, im
    return result


complex.body(FromParts())
complex.parts(Parts)


@complex.transpose
def complex_transpose(ct: Value, re: Value, im: Value) -> list[Value | None]:
    return [
        real(ct) if is_linear(re) else None,
        -imag(ct) if is_linear(im) else None,
    ]


complex.batch(ALIGNED)
complex.samples((2, 3), (2, 3))
complex.samples([1.0, 3.0], [2.0, -4.0], expect=[1 + 2j, 3 - 4j])


@define
def conj(x: Type) -> Type:
    """The complex conjugate."""
    check_kind(x, ["complex"])
    return x


conj.reference(np.conj)
conj.expand(lambda x: complex(real(x), -imag(x)))
conj.transpose(lambda ct, x: [conj(ct)])
conj.batch(ALIGNED)
conj.fold(undone("conj"))
conj.samples(np.array([1 + 2j, 3 - 4j]), expect=[1 - 2j, 3 + 4j])


WIDE = as_dtype("float32")


def widened(x: Any) -> Any:
    """The value or array in float32 if it is of half-size floats, else itself."""
    if not is_half(x.dtype):
        return x
    return convert(x, dtype=WIDE) if isinstance(x, Value) else x.astype(WIDE)


def in_one_dtype(*xs: Value) -> list[Value]:
    """The values in the dtype that holds all."""
    wide = promote(*(x.dtype for x in xs))
    return [narrowed(x, wide) for x in xs]


def in_float32(rule: Callable[..., Any]) -> Callable[..., Any]:
    """A rule that gets half-size floats as float32, and whose result is rounded once.

    `reference` and `expand` may be such rules, and those of a list of `jvp`.
    """

    def wide_rule(*operands: Any, **attrs: Any) -> Any:
        result = rule(*map(widened, operands), **attrs)
        half = next((x.dtype for x in operands if is_half(x.dtype)), result.dtype)
        return (
            narrowed(result, half) if isinstance(result, Value) else result.astype(half, copy=False)
        )

    return wide_rule


def narrowed(x: Value, dtype: np.dtype) -> Value:
    """The value in the given dtype."""
    return x if x.dtype == dtype else convert(x, dtype=dtype)
